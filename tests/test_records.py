import json
import os
import stat
import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import BadInput
from pipeline.records.canonical import canonical_json, digest
from pipeline.records.episodes import Step, is_live, step_of_action
from pipeline.records.files import read_json, replacing, write_bytes
from pipeline.records.schemas import SCHEMAS, decisions_schema
from pipeline.records.tables import read_rows, read_table, write_rows

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
CANDIDATE = {"cohort": "c", "role": "fit", "rank": 0, "task": "f/t", "folder": "f", "task_type": "x", "sha256": "0"}


@given(JSON)
def test_canonical_json_reads_back_and_ignores_key_order(value):
    text = canonical_json(value)
    assert json.loads(text) == value
    if isinstance(value, dict):
        assert canonical_json(dict(reversed(value.items()))) == text


def test_canonical_json_refuses_nan():
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(float("nan"))


def test_digest_is_the_same_under_another_hash_seed():
    code = "from pipeline.records.canonical import digest; print(digest({'b': 1, 'a': [1, {'z': 2, 'y': 3}]}))"
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("0", "1", "77")
    }
    assert seen == {digest({"a": [1, {"y": 3, "z": 2}], "b": 1})}


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path):
    path = tmp_path / "a.txt"
    write_bytes(path, b"old")
    with pytest.raises(RuntimeError), replacing(path) as beside:
        beside.write_bytes(b"half")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert [item.name for item in tmp_path.iterdir()] == ["a.txt"]


def test_written_files_follow_the_umask(tmp_path):
    write_bytes(tmp_path / "a", b"")
    current = os.umask(0)
    os.umask(current)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666 & ~current


def test_a_full_disk_is_a_clear_error_and_nothing_is_lost(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    write_rows(path, [CANDIDATE], "candidates")
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BadInput, match=r"a\.parquet: cannot be written \(No space left on device\)"):
        write_rows(path, [CANDIDATE | {"rank": 1}], "candidates")
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["a.parquet"]


def test_a_folder_that_is_a_file_is_a_clear_error(tmp_path):
    (tmp_path / "results").write_text("in the way")
    with pytest.raises(BadInput, match="cannot be written"):
        write_bytes(tmp_path / "results" / "a", b"")


def test_tables_round_trip_with_the_same_bytes(tmp_path):
    rows = [CANDIDATE | {"rank": rank, "task": f"f/t{rank}"} for rank in range(100)]
    for name in ("a", "b"):
        write_rows(tmp_path / name, rows, "candidates")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert read_rows(tmp_path / "a", "candidates") == rows


def test_hive_folders_add_no_columns(tmp_path):
    path = tmp_path / "cohort=main" / "condition=clean" / "a.parquet"
    write_rows(path, [CANDIDATE], "candidates")
    assert read_table(path).column_names == SCHEMAS["candidates"].names


def test_writing_refuses_missing_columns_and_nulls(tmp_path):
    with pytest.raises(ValueError, match="lacks the columns"):
        write_rows(tmp_path / "a", [{"cohort": "c"}], "candidates")
    with pytest.raises(ValueError, match="must not be null"):
        write_rows(tmp_path / "a", [CANDIDATE | {"folder": None}], "candidates")


def test_reading_names_file_and_column(tmp_path):
    with pytest.raises(BadInput, match="no such file"):
        read_table(tmp_path / "nowhere.parquet")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 torn")
    with pytest.raises(BadInput, match=r"torn\.parquet: is no readable Parquet"):
        read_table(tmp_path / "torn.parquet")
    write_rows(tmp_path / "a.parquet", [CANDIDATE], "candidates")
    with pytest.raises(BadInput, match=r"a\.parquet: lacks the column\(s\) .*split"):
        read_rows(tmp_path / "a.parquet", "games")


def test_every_column_says_what_it_means():
    for schema in [*SCHEMAS.values(), decisions_schema(["x_a"])]:
        for field in schema:
            assert field.metadata[b"meaning"], field.name


def test_schemas_hold_the_columns_of_the_contracts():
    promised = {
        "games": "task folder split task_type path sha256 verb walkthrough_actions",
        "cohorts": "cohort role task folder task_type feasible excluded",
        "trajectories": "task condition success exit turns actions altered_at steps transcript_hash prompt_tokens completion_tokens",
        "forks": "task condition success exit turns actions altered_at steps fork_action state_hash transcript_hash "
        "intervened carried_forward",
        "pairs": "cohort task folder task_type factual_success condition delay operator y0 ym cell intervened null_alteration "
        "fork_action state_hash transcript_hash",
        "exclusions": "cohort task condition delay operator reason",
        "effects": "n effect_pp ci_low_pp ci_high_pp mcnemar_p holm_p aa_flip_rate",
        "oof": "task condition delay fold p_err p_0 p_1 s_R s_H u",
    }
    for name, columns in promised.items():
        assert set(columns.split()) <= set(SCHEMAS[name].names), name
    steps = SCHEMAS["trajectories"].field("steps").type.value_type
    assert {"index", "kind", "output", "action", "observation_true", "observation_shown", "state_hash"} <= {
        f.name for f in steps
    }
    assert set("cohort task folder condition delay live factual_success y0 ym".split()) <= set(
        decisions_schema([]).names
    )
    assert not any(pa.types.is_timestamp(field.type) for schema in SCHEMAS.values() for field in schema)


def test_read_json_names_the_file(tmp_path):
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(BadInput, match=r"a\.json: is no valid JSON"):
        read_json(tmp_path / "a.json")


def _steps(kinds):
    return [Step(i, kind, "", None, None, None, "", "") for i, kind in enumerate(kinds)]


def test_actions_are_counted_by_act_steps_only():
    steps = _steps(["reset", "think", "act", "unparseable", "act", "recover", "act"])
    assert [step_of_action(steps, n) for n in (1, 2, 3, 4)] == [2, 4, 6, None]
    # Live: something came after. The last action ended the episode.
    assert [is_live(steps, n) for n in (1, 2, 3, 4)] == [True, True, False, False]
