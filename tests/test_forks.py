"""Forks on the real engine: prefixes are rebuilt and checked, what can't be played is counted by name, kills lose nothing."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from pipeline.cli import cir
from pipeline.config.load import parse_study
from pipeline.config.scopes import settings
from pipeline.errors import BadInput
from pipeline.records.tables import read_rows, write_rows

SIZES = {"main": 6, "held": 2}
STUDY = {
    "study": "forks",
    "games": {"generate": {"seed": 3, "splits": {"train": 9, "valid_seen": 3}}},
    "cohorts": {
        "main": {"role": "fit", "split": "train", "size": SIZES["main"], "reserve": 0.5},
        "held": {"role": "evaluate", "split": "valid_seen", "size": SIZES["held"], "reserve": 0.5},
    },
    # Tasks that end within a few actions can't have stale-2; a small study must not depend on luck.
    "protocol": {"conditions": ["clean", "stale-1", "missing"]},
    "router": {"conditions": ["clean", "stale-1"]},
}


def call(*arguments):
    result = CliRunner().invoke(cir, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def keys(stage, **changes):
    return settings(parse_study(STUDY | changes, "test"), stage)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Games, translations, factual runs, settled cohorts and one stale-1 trunk."""
    root = tmp_path_factory.mktemp("world")
    call(
        "games", "generate", "--settings", keys("generate"), "--out", root / "games", "--index", root / "games.parquet"
    )
    call(
        "cohorts",
        "draw",
        "--games",
        root / "games.parquet",
        "--settings",
        keys("draw"),
        "--out",
        root / "candidates.parquet",
    )
    call("games", "translate", root / "games.parquet", "--only", root / "candidates.parquet", "--root", root / "games",
         "--out", root / "translations.parquet")  # fmt: skip
    for cohort in SIZES:
        call("factual", "--cohort", cohort, "--candidates", root / "candidates.parquet", "--translations", root / "translations.parquet",
             "--settings", keys("factual"), "--out", root / f"cohort={cohort}" / "factual.parquet")  # fmt: skip
    call("cohorts", "settle", "--candidates", root / "candidates.parquet", "--trajectories", root, "--settings", keys("settle"),
         "--out", root / "cohorts.parquet")  # fmt: skip
    call("trunk", "--cohort", "main", "--condition", "stale-1", "--cohorts", root / "cohorts.parquet",
         "--factual", root / "cohort=main" / "factual.parquet", "--translations", root / "translations.parquet",
         "--settings", keys("trunk"), "--out", root / "trunk.parquet")  # fmt: skip
    return root


def fork(world, out, *more, delay=1, operator="refresh", trunk="trunk.parquet", settings=None):
    call("fork", "--delay", delay, "--operator", operator, "--trunk", world / trunk, "--translations", world / "translations.parquet",
         "--settings", settings or keys("fork"), "--store", f"{out}.store", "--out", out, *more)  # fmt: skip
    return read_rows(out, "forks")


def test_cohorts_are_settled_on_real_runs(world):
    rows = read_rows(world / "cohorts.parquet", "cohorts")
    assert {name: sum(row["feasible"] for row in rows if row["cohort"] == name) for name in SIZES} == SIZES
    factual = {row["task"]: row for row in read_rows(world / "cohort=main/factual.parquet", "trajectories")}
    for row in rows:
        if row["cohort"] == "main":
            assert row["factual_actions"] == factual[row["task"]]["actions"]


def test_a_trunk_shows_the_reply_before_and_changes_nothing_else_until_k(world):
    factual = {row["task"]: row for row in read_rows(world / "cohort=main/factual.parquet", "trajectories")}
    for trunk in read_rows(world / "trunk.parquet", "trajectories"):
        acts = [step for step in trunk["steps"] if step["kind"] == "act"]
        k = trunk["altered_at"]
        before = acts[k - 2]["observation_true"] if k > 1 else trunk["steps"][0]["observation_true"]
        assert acts[k - 1]["observation_shown"] in before
        assert "Your task is to" not in acts[k - 1]["observation_shown"]
        index = acts[k - 1]["index"]
        original = factual[trunk["task"]]["steps"]
        assert trunk["steps"][:index] == original[:index]
        assert trunk["steps"][index]["state_hash"] == original[index]["state_hash"]
        # One-shot: every other reply is the true one.
        assert all(step["observation_shown"] == step["observation_true"] for i, step in enumerate(acts) if i != k - 1)


@pytest.mark.parametrize("operator", ["none", "refresh", "content-ablated", "replan-only"])
def test_branches_continue_the_trunk_from_the_fork(world, tmp_path, operator):
    trunks = {row["task"]: row for row in read_rows(world / "trunk.parquet", "trajectories")}
    rows = fork(world, tmp_path / "part.parquet", operator=operator)
    assert [row["task"] for row in rows] == sorted(trunks)
    for row in rows:
        trunk = trunks[row["task"]]
        assert row["fork_action"] == trunk["altered_at"] + 1
        assert row["excluded"] is None
        if row["carried_forward"]:
            assert (row["success"], row["intervened"], row["steps"]) == (trunk["success"], False, [])
            continue
        first = row["steps"][0]["index"]
        assert trunk["steps"][first - 1]["state_hash"] == row["state_hash"]
        assert trunk["steps"][first - 1]["transcript_hash"] == row["transcript_hash"]
        assert row["intervened"] == (operator != "none")
        if operator == "none":
            assert row["steps"] == trunk["steps"][first:]
    assert not all(row["carried_forward"] for row in rows)


def test_a_late_fork_carries_finished_tasks_forward(world, tmp_path):
    rows = fork(world, tmp_path / "part.parquet", delay=40)
    trunks = {row["task"]: row for row in read_rows(world / "trunk.parquet", "trajectories")}
    done = [row for row in rows if row["carried_forward"]]
    assert done
    assert all(row["success"] == trunks[row["task"]]["success"] and not row["intervened"] for row in done)


def test_worker_count_and_hash_seed_do_not_matter(world, tmp_path):
    fork(world, tmp_path / "a.parquet")
    fork(world, tmp_path / "b.parquet", "--threads", 2)
    command = [sys.executable, "-m", "pipeline.cli", "fork", "--delay", "1", "--operator", "refresh", "--trunk", world / "trunk.parquet",
               "--translations", world / "translations.parquet", "--settings", keys("fork"), "--out", tmp_path / "c.parquet"]  # fmt: skip
    subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": "99"}, check=True)
    assert len({(tmp_path / f"{name}.parquet").read_bytes() for name in "abc"}) == 1


@pytest.mark.parametrize(
    ("column", "reason"), [("state_hash", "state-mismatch"), ("transcript_hash", "transcript-mismatch")]
)
def test_a_prefix_that_does_not_come_back_is_excluded_by_name(world, tmp_path, column, reason):
    trunks = read_rows(world / "trunk.parquet", "trajectories")
    victim = next(row for row in trunks if sum(step["kind"] == "act" for step in row["steps"]) > row["altered_at"] + 1)
    act = [step for step in victim["steps"] if step["kind"] == "act"][victim["altered_at"]]
    act[column] = "0" * 64
    write_rows(tmp_path / "trunk.parquet", trunks, "trajectories")
    rows = {row["task"]: row for row in fork(world, tmp_path / "part.parquet", trunk=tmp_path / "trunk.parquet")}
    assert rows.pop(victim["task"])["excluded"] == reason
    assert all(row["excluded"] is None for row in rows.values())


@pytest.mark.parametrize("operator", ["refresh", None], ids=["branch", "trunk"])
def test_a_prefix_that_ends_too_early_is_a_mismatch(world, operator):
    """The environment wins before the prefix is over, as it never did in the origin: excluded by name, the job goes on."""
    from pipeline.harness.play import parse_settings
    from pipeline.harness.player import Player, Unit

    won = next(row for row in read_rows(world / "cohort=main/factual.parquet", "trajectories") if row["success"])
    games = {row["task"]: row["translation"] for row in read_rows(world / "translations.parquet", "translations")}
    prefix = tuple(step["output"] for step in won["steps"][1:])
    for outputs in (prefix, (*prefix, "look")):
        unit = Unit(won["task"], games[won["task"]], outputs, k=1, operator=operator)
        row = Player(parse_settings(keys("fork"))).play(unit)
        # A trunk may end with its prefix, where k is the last action; a branch is forked from one that went on.
        expected = None if operator is None and outputs == prefix else "state-mismatch"
        assert row["excluded"] == expected
        assert not row.get("intervened")


def test_a_trunk_without_an_outcome_has_branches_without_one(world, tmp_path):
    trunks = read_rows(world / "trunk.parquet", "trajectories")
    trunks[0] |= {"excluded": "infrastructure", "exit": "infrastructure", "steps": [], "success": False}
    write_rows(tmp_path / "trunk.parquet", trunks, "trajectories")
    rows = fork(world, tmp_path / "part.parquet", trunk=tmp_path / "trunk.parquet")
    assert [row["excluded"] for row in rows] == ["trunk: infrastructure"] + [None] * (len(rows) - 1)


@pytest.mark.parametrize(
    "change", [{"agent": {"parameters": {"revisit": False}}}, {"harness": {"turns": 48}}], ids=["agent", "harness"]
)
def test_trunks_of_another_agent_or_harness_are_refused(world, tmp_path, change):
    with pytest.raises(BadInput, match="played by another agent or harness"):
        fork(world, tmp_path / "part.parquet", settings=keys("fork", **change))


def test_a_missing_translation_is_named(world, tmp_path):
    rows = read_rows(world / "translations.parquet", "translations")
    candidates = read_rows(world / "candidates.parquet", "candidates")
    cohort = next(row["cohort"] for row in candidates if row["task"] == rows[0]["task"])
    write_rows(tmp_path / "translations.parquet", rows[1:], "translations")
    with pytest.raises(BadInput, match=rf"translations\.parquet: has no translation of {rows[0]['task']}"):
        call("factual", "--cohort", cohort, "--candidates", world / "candidates.parquet", "--translations",
             tmp_path / "translations.parquet", "--settings", keys("factual"), "--out", tmp_path / "a.parquet")  # fmt: skip


@pytest.mark.slow
def test_a_killed_job_goes_on_where_it_was(world, tmp_path):
    """SIGKILL the whole process group at several moments; the resumed output equals an uninterrupted one."""
    whole = tmp_path / "whole.parquet"
    units = sum(not row["carried_forward"] for row in fork(world, whole))
    store = tmp_path / "store"
    command = [sys.executable, "-m", "pipeline.cli", "fork", "--delay", "1", "--operator", "refresh", "--trunk", world / "trunk.parquet",
               "--translations", world / "translations.parquet", "--settings", keys("fork"), "--store", store,
               "--out", tmp_path / "part.parquet"]  # fmt: skip
    command = [str(part) for part in command]

    def entries():
        return sorted(store.glob("episodes/*/*.episode"))

    seen, kills = {}, 0
    for wanted in (1, 2, 3):
        process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None and len(entries()) < wanted:
            time.sleep(0.002)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
        for path in entries():
            written = seen.setdefault(path, path.stat().st_ino)
            assert written == path.stat().st_ino, "a finished episode was written again"
    left = units - len(seen)
    assert kills, "no kill came in time"
    assert 0 < left < units, "no kill came in time"
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"store: {len(seen)} episodes found, {left} generated" in done.stderr
    assert len(entries()) == units
    assert (tmp_path / "part.parquet").read_bytes() == whole.read_bytes()


def test_a_worker_that_dies_leaves_a_counted_exclusion(world, tmp_path, monkeypatch):
    """The engine's C library crashes on one game: its unit is counted as infrastructure, the others are played."""
    from pipeline.harness import play
    from pipeline.runtime.workers import WorkerDied

    trunks = read_rows(world / "trunk.parquet", "trajectories")
    original = play.run_units

    def crashing(units, *rest):
        for number, (unit, row) in enumerate(original(units, *rest)):
            yield unit, WorkerDied() if number == 0 else row

    monkeypatch.setattr(play, "run_units", crashing)
    rows = fork(world, tmp_path / "part.parquet")
    lost = [row for row in rows if row["excluded"] == "infrastructure"]
    assert [(row["exit"], row["success"]) for row in lost] == [("infrastructure", False)]
    assert len(rows) == len(trunks)
    assert Path(tmp_path / "part.parquet").exists()
