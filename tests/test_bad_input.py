"""A careless or hostile user: every wrong call, table, file or stream ends with one message and its exit code."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import pipeline.runtime.journal as journal_module
from pipeline.cli import cir
from pipeline.environment.safety import read_game
from pipeline.errors import BadInput
from pipeline.games.index import index_root
from pipeline.records.files import read_json
from pipeline.records.schemas import SCHEMAS
from pipeline.records.tables import check_kinds, read_checked, read_rows, write_rows
from pipeline.runtime.journal import Journal

PLAYED = ("factual", "trunk", "fork")
CANDIDATE = {
    "cohort": "main",
    "role": "fit",
    "rank": 0,
    "task": "f/t",
    "folder": "f",
    "task_type": "pick_and_place_simple",
    "sha256": "0" * 64,
}
EPISODE = {
    "task": "f/t",
    "condition": "clean",
    "agent": "a" * 64,
    "success": True,
    "exit": "success",
    "turns": 3,
    "actions": 3,
    "altered_at": None,
    "steps": [],
    "transcript_hash": "0" * 64,
    "prompt_tokens": None,
    "completion_tokens": None,
    "excluded": None,
}
SETTLED = {
    **{name: CANDIDATE[name] for name in ("cohort", "role", "task", "folder", "task_type")},
    "feasible": True,
    "excluded": None,
    "factual_success": True,
    "factual_actions": 3,
    "altered_at": 1,
}
HARNESS = {"agent": {"kind": "scripted"}, "harness": {}}


def refused(*arguments, code=2):
    """The message of a call that must end with `code` and without a traceback."""
    result = CliRunner().invoke(cir, [str(argument) for argument in arguments])
    assert isinstance(result.exception, BadInput | SystemExit), result.exception
    assert (result.exit_code if isinstance(result.exception, SystemExit) else result.exception.exit_code) == code
    return str(result.exception) if isinstance(result.exception, BadInput) else result.stderr


@pytest.fixture
def tables(tmp_path):
    """One row of each table that the playing stages read."""
    write_rows(tmp_path / "candidates.parquet", [CANDIDATE], "candidates")
    write_rows(tmp_path / "cohorts.parquet", [SETTLED], "cohorts")
    write_rows(tmp_path / "factual.parquet", [EPISODE], "trajectories")
    row = {"task": "f/t", "sha256": "0" * 64, "translation": b"none"}
    write_rows(tmp_path / "translations.parquet", [row], "translations")
    return tmp_path


def call(stage, folder, settings, **changed):
    """The arguments of a playing stage on `tables`."""
    options = {
        "factual": {"cohort": "main", "candidates": folder / "candidates.parquet"},
        "trunk": {
            "cohort": "main",
            "condition": "clean",
            "cohorts": folder / "cohorts.parquet",
            "factual": folder / "factual.parquet",
        },
        "fork": {"delay": 0, "operator": "refresh", "trunk": folder / "factual.parquet"},
    }[stage]
    options |= {"translations": folder / "translations.parquet", "settings": settings, "out": folder / "out.parquet"}
    return [stage, *(part for name, value in (options | changed).items() for part in (f"--{name}", value))]


# --- settings and options


@pytest.mark.parametrize("stage", PLAYED)
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("", "no valid JSON"),
        ("[" * 100_000, "no valid JSON"),
        ("[]", "is a JSON list, expected an object"),
        ("null", "expected an object"),
        ("{}", "lacks the key agent"),
        ('{"agent": 1}', "--settings: agent: "),
        ('{"agent": {"kind": "nobody"}, "harness": {}}', "no such agent: 'nobody'"),
        ('{"agent": {"parameters": {"zz": 1}}, "harness": {}}', "has no such parameter"),
        ('{"agent": {}, "harness": {"turns": -1}}', "harness.turns"),
    ],
)
def test_garbage_for_settings_is_said_once_and_no_worker_starts(tables, stage, settings, message):
    assert message in refused(*call(stage, tables, settings))
    assert not (tables / "out.parquet").exists()


@pytest.mark.parametrize("action", ["draw", "settle"])
@pytest.mark.parametrize(
    ("settings", "message"),
    [("x", "no valid JSON"), ("{}", "cohorts"), ('{"cohorts": []}', "cohorts"), ('{"cohorts": {"a": {}}}', "a.role")],
)
def test_cohorts_need_their_settings(tables, action, settings, message):
    place = {"draw": ["--games", tables / "games.parquet"]}.get(
        action, ["--candidates", tables / "candidates.parquet", "--trajectories", tables]
    )
    write_rows(tables / "games.parquet", [], "games")
    assert message in refused("cohorts", action, *place, "--settings", settings, "--out", tables / "out.parquet")


@pytest.mark.parametrize(
    ("key", "value"),
    [("C", "x"), ("C", -1), ("lambda", float("nan")), ("epsilon", 9), ("folds", 0), ("seed", -1), ("delays", 5)],
)
def test_a_flags_value_out_of_the_settings_is_checked_as_the_configs(tmp_path, key, value):
    from pipeline.config.flags import flag_or_key

    with pytest.raises(BadInput, match=f"--settings: router.{key}"):
        flag_or_key(None, json.dumps({"router": {key: value}}), f"router.{key}", f"--{key}", 1)


@pytest.mark.parametrize(
    "arguments",
    [
        "factual --threads 0",
        "fork --threads -1",
        "trunk --threads 100000",
        "effects p --resamples 10000000000",
        "effects p --seed -1",
        "contrast p --condition a --versus b --delay 99999999999999999999",
        "fit d --out r --C nan",
        "fit d --out r --C inf",
        "fit d --out r --lambda nan",
        "fit d --out r --epsilon nan",
        "fit d --out r --seed 4294967296",
        "fit d --out r --gamma-quantiles 100000000",
        "games generate --out g --split train=1 --threads 0",
    ],
)
def test_a_number_outside_its_range_ends_the_call(arguments):
    assert "Invalid value for" in refused(*arguments.split())


def test_a_delay_too_large_for_a_table_is_named():
    from pipeline.config.flags import listed_delays

    for text in ("9" * 12, "9" * 5000):
        with pytest.raises(BadInput, match="--delays: expected whole numbers"):
            listed_delays(text, "--delays")


def test_docs_are_made_in_the_projects_folder_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "run this in the project's own folder" in refused("config", "docs")


# --- the wrong table, or a damaged one


def test_a_cohort_nobody_drew_is_named(tables):
    assert "no task of cohort 'x'; it has main" in refused(*call("factual", tables, json.dumps(HARNESS), cohort="x"))
    assert "no task of cohort 'x'; it has main" in refused(*call("trunk", tables, json.dumps(HARNESS), cohort="x"))


def test_swapped_tables_are_named(tables):
    keys = json.dumps(HARNESS)
    assert "is a factual run; expected trunks" in refused(*call("fork", tables, keys))
    write_rows(tables / "factual.parquet", [EPISODE | {"task": "other/t"}], "trajectories")
    assert "has no factual run of 1 task(s), the first: f/t" in refused(*call("trunk", tables, keys))
    write_rows(tables / "factual.parquet", [], "trajectories")
    assert "holds no row; expected the trunks" in refused(*call("fork", tables, keys))


def test_a_damaged_translation_is_named_by_its_task(tables):
    assert "f/t: no translation of this version" in refused(*call("factual", tables, json.dumps(HARNESS)))


def test_unknown_conditions_and_operators_end_before_any_worker(tables):
    keys = json.dumps(HARNESS)
    assert "no such condition: 'stale'" in refused(*call("trunk", tables, keys, condition="stale"))
    assert "no such operator: 'refrsh'; did you mean refresh?" in refused(
        *call("fork", tables, keys, operator="refrsh")
    )


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("rank", ["first"], "column rank is string, expected int64"),
        ("task", pa.array([None], pa.string()), "column task is null in 1 of 1 rows"),
        ("task", [b"f"], "column task is binary, expected string"),
    ],
)
def test_a_column_of_the_wrong_kind_is_named(tables, column, values, message):
    path = tables / "candidates.parquet"
    table = read_checked(path, "candidates")
    pq.write_table(table.set_column(table.column_names.index(column), column, pa.array(values)), path)
    with pytest.raises(BadInput, match=message):
        read_rows(path, "candidates")


def test_a_row_that_stands_twice_is_named(tables):
    write_rows(tables / "candidates.parquet", [CANDIDATE, CANDIDATE], "candidates")
    with pytest.raises(BadInput, match="main f/t stands 2 times"):
        read_rows(tables / "candidates.parquet", "candidates")


def test_a_foreign_table_may_use_its_own_number_types_but_not_text_for_a_flag():
    table = pa.table({"task": pa.array(["t"]).dictionary_encode(), "factual_success": [1], "delay": [1.0]})
    check_kinds("p", table, SCHEMAS["pairs"], filled=["task"])
    with pytest.raises(BadInput, match="p: column factual_success is string, expected bool"):
        check_kinds("p", pa.table({"factual_success": ["no"]}), SCHEMAS["pairs"])
    with pytest.raises(BadInput, match="p: column task is empty in 1 of 2 rows"):
        check_kinds("p", pa.table({"task": ["t", None]}), SCHEMAS["pairs"], filled=["task"])


def test_json_nested_too_deep_is_named(tmp_path):
    (tmp_path / "a.json").write_text("[" * 100_000)
    with pytest.raises(BadInput, match=r"a\.json: is no valid JSON"):
        read_json(tmp_path / "a.json")


# --- game files that are no files


def _game(root):
    place = root / "json_2.1.1" / "train" / "pick_and_place_simple-Mug-None-Shelf-1" / "trial_1"
    place.mkdir(parents=True)
    (place / "traj_data.json").write_text('{"task_type": "pick_and_place_simple"}')
    return place / "game.tw-pddl"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_a_pipe_a_folder_or_a_device_is_no_game(tmp_path, make):
    game = _game(tmp_path)
    make(game)
    with pytest.raises(BadInput, match=r"game\.tw-pddl: is no plain file"):
        index_root(tmp_path)
    with pytest.raises(BadInput, match=r"game\.tw-pddl: is no plain file"):
        read_game(game)


def test_a_folder_whose_name_is_no_text_is_named(tmp_path):
    game = _game(tmp_path)
    os.mkdir(os.fsencode(game.parents[1]) + b"/\xff\xfe")
    with pytest.raises(BadInput, match="the name holds characters that are no text"):
        index_root(tmp_path)


# --- disks, streams, signals


def test_a_journal_on_a_full_disk_says_so_and_keeps_what_it_has(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "part.parquet", "key")
    journal.add("a", {"x": 1})

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal_module, "FSYNC_SECONDS", -1.0)
    monkeypatch.setattr(journal_module.os, "fsync", full)
    with pytest.raises(BadInput, match=r"part\.parquet\.journal: cannot be written \(No space left"):
        journal.add("b", {"x": 2})
    monkeypatch.undo()
    again = Journal(tmp_path / "part.parquet", "key")
    assert again.rows["a"] == {"x": 1}
    again.close()


def test_a_journal_that_cannot_be_made_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be written"):
        Journal(tmp_path / "file" / "part.parquet", "key")


def cir_process(*arguments, **more):
    command = [sys.executable, "-m", "pipeline.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output="stdout" not in more, text=True, check=False, **more)


def _pairs(path):
    rows = [
        {"task": f"t{n}", "y0": n % 2, "ym": 1, "cohort": "a", "factual_success": 1, "condition": "clean", "delay": 0, "operator": "refresh"}
        for n in range(8)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_stdout_is_one_message(tmp_path):
    with open("/dev/full", "w") as full:
        ran = cir_process("effects", _pairs(tmp_path / "p.parquet"), stdout=full, stderr=subprocess.PIPE)
    assert ran.returncode == 2
    assert ran.stderr.startswith("cir: standard output: cannot be written (No space left")
    assert "Traceback" not in ran.stderr


def test_closed_streams_do_not_mix_into_the_output(tmp_path):
    out = tmp_path / "e.parquet"
    arguments = [sys.executable, "-m", "pipeline.cli", "effects", _pairs(tmp_path / "p.parquet"), "--out", out]
    line = " ".join(map(str, arguments))
    assert subprocess.run(["bash", "-c", f"{line} <&- >&- 2>&-"], check=False).returncode == 0
    assert len(read_rows(out)) == 2


def test_what_is_printed_is_utf_8_in_any_locale(tmp_path):
    plain = {**os.environ, "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    path = _pairs(tmp_path / "p.parquet")
    ran = cir_process("effects", path, env=plain, encoding="utf-8")
    assert ran.returncode == 0, ran.stderr
    assert "a · complete" in ran.stdout


def test_reading_a_table_never_ends_in_an_abort(tmp_path):
    """Arrow's threads must not hold Python's buffers when the process ends (exit 134, one call in ten when busy)."""
    from pipeline.records import tables as module

    path = tmp_path / "candidates.parquet"
    write_rows(path, [CANDIDATE], "candidates")
    opened = []

    class Watched(pq.ParquetFile):
        def __init__(self, source, *more):
            opened.append(source)
            super().__init__(source, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.pq, "ParquetFile", Watched)
        read_rows(path, "candidates")
    assert [type(source) for source in opened] == [pa.OSFile]


JOB = """
import os, sys, time
from pipeline.runtime.workers import run_units
def setup(): print(os.getpid(), flush=True)
def work(unit): time.sleep(60)
if __name__ == "__main__":
    for _ in run_units([1, 2, 3], work, setup, (), 2): pass
"""


@pytest.mark.parametrize("how", ["kill", "interrupt"])
def test_workers_end_silently_with_their_job(tmp_path, how):
    (tmp_path / "job.py").write_text(JOB)
    process = subprocess.Popen([sys.executable, tmp_path / "job.py"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))  # fmt: skip
    workers = [int(process.stdout.readline()) for _ in range(2)]
    if how == "kill":
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=20)[1]
    ends = time.monotonic() + 20
    while time.monotonic() < ends and any(_alive(worker) for worker in workers):
        time.sleep(0.05)
    assert not any(_alive(worker) for worker in workers)
    assert said.count("Traceback") <= (how == "interrupt")  # the job's own; `cir` turns it into one line


def _alive(number):
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
