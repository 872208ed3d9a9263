"""Records of jobs: what is observed, how a record is sealed, and that any changed byte of one is found."""

import json
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_study import ROOT, cir

from pipeline.config.load import load_study
from pipeline.errors import BadInput, CheckFailed
from pipeline.provenance.environment import checkout
from pipeline.provenance.record import parsed, rendered, schema_text, sealed
from pipeline.provenance.recording import Names, seeds
from pipeline.records.canonical import bytes_sha256
from pipeline.records.files import read_json, write_json, write_text
from pipeline.records.ledger import Ledger, note_read, note_root, note_written, observed
from pipeline.records.tables import read_rows, write_rows

VALUES = {
    "format": 1,
    "job": {"name": "fork/main/clean/1/none", "command": "fork", "params": {"delay": 1, "name": "ä", "share": 0.25}},
    "inputs": [{"path": "a.parquet", "sha256": "0" * 64, "bytes": 3}],
    "outputs": [],
    "code": {"function": "m:f", "digest": "1" * 64, "apart": []},
    "environment": {"python": "3.11", "packages": {"a": "1"}, "commit": None, "dirty": None, "no_commit": "none"},
    "agent": None,
    "seeds": {"a.seed": 3},
    "run": {"host": "h", "gpus": None, "started": "2026-01-01T00:00:00+00:00", "seconds": 1.5, "params": {"threads": 2},
            "places": {"study": "/x"}, "notes": {}},
}  # fmt: skip
CONTENT = rendered(sealed(VALUES))


def test_a_record_is_read_back_as_it_was_written():
    assert rendered(parsed(CONTENT, "r.json")) == CONTENT
    assert json.loads(CONTENT)["job"] == VALUES["job"]


@given(at=st.integers(0, len(CONTENT) - 1), bit=st.integers(0, 7))
def test_any_flipped_bit_of_a_record_is_found(at, bit):
    damaged = bytearray(CONTENT)
    damaged[at] ^= 1 << bit
    with pytest.raises(BadInput, match=r"r\.json"):
        parsed(bytes(damaged), "r.json")


@given(at=st.integers(0, len(CONTENT) - 1), length=st.integers(1, 40))
def test_a_cut_or_doubled_part_of_a_record_is_found(at, length):
    for damaged in (CONTENT[:at] + CONTENT[at + length :], CONTENT[: at + length] + CONTENT[at:]):
        if damaged != CONTENT:
            with pytest.raises(BadInput):
                parsed(damaged, "r.json")


def test_run_is_no_part_of_the_digest_of_the_rest():
    other = sealed(VALUES | {"run": VALUES["run"] | {"host": "another", "seconds": 9.0}})
    first = sealed(VALUES)
    assert (other.digest == first.digest, other.run_digest == first.run_digest) == (True, False)


def test_the_schema_is_the_one_that_is_published():
    assert (ROOT / "docs/record.schema.json").read_text() == schema_text()


def test_what_is_read_and_written_is_seen_and_own_outputs_are_no_inputs(tmp_path):
    write_json(tmp_path / "in.json", {"a": 1})
    with observed() as ledger:
        read_json(tmp_path / "in.json")
        write_rows(tmp_path / "out.parquet", [{"task": "t", "sha256": "s", "translation": b""}], "translations")
        read_rows(tmp_path / "out.parquet", "translations")
        write_text(tmp_path / "gone.txt", "x")
        (tmp_path / "gone.txt").unlink()
        inputs, outputs = ledger.inputs(), ledger.outputs()
    assert list(inputs) == [str(tmp_path / "in.json")]
    assert inputs[str(tmp_path / "in.json")].sha256 == bytes_sha256((tmp_path / "in.json").read_bytes())
    assert list(outputs) == [str(tmp_path / "out.parquet")]
    assert outputs[str(tmp_path / "out.parquet")].bytes == (tmp_path / "out.parquet").stat().st_size


def test_without_a_ledger_nothing_is_kept(tmp_path):
    note_read(tmp_path / "is not even there")
    note_written("x")
    note_root("games", "y")
    with observed() as ledger:
        pass
    assert (ledger.reads, ledger.writes, ledger.roots) == ({}, set(), {})


def test_an_input_that_changes_while_it_is_read_ends_the_job(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("one")
    with observed():
        note_read(path)
        note_read(path)
        path.write_text("two!")
        with pytest.raises(CheckFailed, match="has changed"):
            note_read(path)


def test_names_hold_on_any_machine(tmp_path):
    base = tmp_path / "results/demo"
    names = Names(str(base / "provenance/fork/a/b.json"), Ledger(roots={"games": "/data/alfworld"}))
    assert names.job == "fork/a/b"
    assert names.of(str(base / "outcomes/pairs.parquet")) == "outcomes/pairs.parquet"
    assert names.of(str(tmp_path / "results/games/12/x")) == "../games/12/x"
    assert names.of("/data/alfworld/json_2.1.1/train/g") == "games:json_2.1.1/train/g"
    assert names.of("/data/alfworld") == "games:"
    inside = Names(str(base / "provenance/games.json"), Ledger(roots={"games": str(tmp_path / "results/games/12")}))
    assert inside.of(str(tmp_path / "results/games/12/x")) == "../games/12/x"


def test_seeds_are_found_wherever_they_stand():
    assert seeds({"seed": 1, "settings": {"router": {"seed": 2, "C": 0.1}, "cohorts": {"a": {"seed": 0}}}}) == {
        "seed": 1, "settings.router.seed": 2, "settings.cohorts.a.seed": 0,
    }  # fmt: skip


def test_a_checkout_says_its_commit_and_whether_the_code_differs(tmp_path):
    assert checkout(tmp_path)[0] is None

    def git(*arguments):
        subprocess.run(
            ["git", "-c", "user.name=x", "-c", "user.email=x@x", *arguments],
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )

    git("init")
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline/a.py").write_text("A = 1\n")
    git("add", ".")
    git("commit", "-m", "one")
    commit, dirty, why = checkout(tmp_path)
    assert (len(commit), dirty, why) == (40, False, None)
    (tmp_path / "notes.txt").write_text("beside the code")
    assert checkout(tmp_path)[1] is False
    (tmp_path / "pipeline/b.py").write_text("B = 1\n")
    assert checkout(tmp_path)[1] is True


def test_a_recorded_command_leaves_its_record_and_a_failed_one_none(tmp_path):
    study = load_study(ROOT / "config/demo.yaml").model_dump_json(by_alias=True)
    record = tmp_path / "r/provenance/study.json"
    done = cir("--record", str(record), "config", "record", "--study", study, "--out", str(tmp_path / "r/study.json"))
    assert done.returncode == 0, done.stderr
    values = parsed(record.read_bytes(), record)
    assert values.job.name == "study"
    assert values.job.command == "config record"
    assert values.job.params["study"]["study"] == "demo"
    assert [file.path for file in values.outputs] == ["study.json"]
    assert values.seeds["study.router.seed"] == 0
    failed = tmp_path / "r/provenance/other.json"
    done = cir("--record", str(failed), "config", "record", "--study", "{}", "--out", str(tmp_path / "x.json"))
    assert done.returncode == 2
    assert not failed.exists()


def test_a_wrong_call_under_record_is_a_users_mistake(tmp_path):
    done = cir("--record", str(tmp_path / "r.json"), "fork", "--nonsense")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "--nonsense" in done.stderr


def test_a_data_file_of_the_package_is_code_and_no_input():
    with observed() as ledger:
        read_json(ROOT / "pipeline/outcomes/published.json")
    assert ledger.inputs() == {}
