"""The episode store: bytes that check themselves, keys that hold what matters, writers that don't get in each other's way."""

import errno
import json
import multiprocessing
import os
import re
import resource
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import test_forks
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from pipeline.cli import cir
from pipeline.config.models import AgentSection, Alteration, Harness, RecoveryTexts
from pipeline.config.scopes import CONCERNS, concerns
from pipeline.environment import Translation
from pipeline.errors import BadInput
from pipeline.harness import keys, play
from pipeline.harness.conditions import CONDITIONS, condition, condition_identity
from pipeline.harness.operators import OPERATORS, operator, operator_digest
from pipeline.harness.player import Settings, Unit
from pipeline.records.tables import read_rows, write_rows
from pipeline.runtime.notes import noted
from pipeline.runtime.workers import WorkerDied
from pipeline.store import episodes, listing
from pipeline.store.entry import Damaged, decode, encode, key_of
from pipeline.store.episodes import EpisodeStore

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(), JSON, max_size=5)
ROW = {"task": "f/t", "excluded": None, "success": True, "steps": [{"index": 0, "output": "look\u2603"}]}


def entries(folder):
    return sorted(folder.glob("episodes/*/*.episode"))


def translation(sha="1" * 64, **libraries):
    return Translation(
        sha, "move", "a task.", {"textworld": "1", **libraries}, {}, {}, (), (), "{}", (), b""
    ).to_bytes()


# --- bytes -------------------------------------------------------------------------------------------------------------


@given(OBJECTS, OBJECTS)
def test_an_entry_reads_back_as_it_was_written(inputs, row):
    entry = decode(encode(inputs, row), key_of(inputs))
    assert (entry.inputs, entry.row) == (inputs, row)


@given(OBJECTS, OBJECTS, OBJECTS)
def test_keys_are_equal_where_inputs_are(first, second, row):
    assert (key_of(first) == key_of(second)) == (first == second)
    if first != second:
        with pytest.raises(Damaged, match="another key"):
            decode(encode(first, row), key_of(second))


def test_no_single_flipped_bit_and_no_cut_passes():
    inputs = {"game": "1"}
    whole, key = encode(inputs, ROW), key_of(inputs)
    for place in range(len(whole)):
        torn = bytearray(whole)
        torn[place] ^= 1 << (place % 8)
        with pytest.raises(Damaged):
            decode(bytes(torn), key)
        with pytest.raises(Damaged):
            decode(whole[:place], key)
    with pytest.raises(Damaged):
        decode(whole + b"x", key)
    assert decode(whole, key).row == ROW


def _flip(path):
    data = bytearray(path.read_bytes())
    data[-3] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize(
    "damage",
    [
        _flip,
        lambda path: path.write_bytes(path.read_bytes()[:-5]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(encode({"game": "another"}, ROW)),
        lambda path: path.write_bytes(b"PAR1"),
    ],
    ids=["flipped", "cut", "empty", "foreign", "other file"],
)
def test_a_damaged_entry_is_set_aside_named_and_made_again(tmp_path, capsys, damage):
    store, inputs = EpisodeStore(tmp_path), {"game": "1"}
    store.put(inputs, ROW)
    [path] = entries(tmp_path)
    whole = path.read_bytes()
    damage(path)
    torn = path.read_bytes()
    assert store.get(inputs) is None
    assert path.name in capsys.readouterr().err
    [aside] = (tmp_path / "damaged").iterdir()
    assert aside.read_bytes() == torn
    assert not path.exists()
    assert store.put(inputs, ROW) == (key_of(inputs), ROW)
    assert path.read_bytes() == whole
    # The same through a writer that never read it.
    damage(path)
    assert store.put(inputs, ROW) == (key_of(inputs), ROW)
    assert path.read_bytes() == whole
    assert not list(tmp_path.rglob("*.part"))


def test_an_entry_that_was_mended_meanwhile_is_not_thrown_away(tmp_path, capsys, monkeypatch):
    """A job reads a damaged entry; before it moves that aside another job has put a good one in its place."""
    store, inputs = EpisodeStore(tmp_path), {"game": "1"}
    store.put(inputs, ROW)
    [path] = entries(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(b"")
    real = episodes.decode

    def mending(data, key):
        try:
            return real(data, key)
        except Damaged:
            path.write_bytes(whole)
            raise

    monkeypatch.setattr(episodes, "decode", mending)
    assert store.get(inputs) == (key_of(inputs), ROW)
    assert path.read_bytes() == whole
    assert capsys.readouterr().err == ""
    assert not list((tmp_path / "damaged").iterdir())


# --- keys --------------------------------------------------------------------------------------------------------------

UNIT = Unit("f/t", translation(), ("look", "go"), "stale-1", 2, "refresh", 1, "s" * 64, "t" * 64, "o" * 64)
SETTINGS = Settings(AgentSection(), Harness())


def key(unit=UNIT, settings=SETTINGS, agent="a" * 64):
    return key_of(json.loads(json.dumps(keys.inputs_of(unit, settings, agent))))


@pytest.mark.parametrize(
    "changes",
    [
        {"translation": translation("2" * 64)},
        {"translation": translation(textworld="2")},
        {"prefix": ("look", "go north")},
        {"prefix": ("look", "go", "")},
        {"condition": "stale-2"},
        {"condition": "missing"},
        {"condition": "clean"},
        {"k": 3},
        {"operator": "replan-only"},
        {"operator": "none"},
        {"operator": None, "delay": None},
        {"delay": 2},
        {"expected_state": "x" * 64},
        {"expected_transcript": "x" * 64},
        {"expected_transcript": None},
        {"origin": None},
        {"origin": "x" * 64},
        {"k": None, "condition": "clean"},
    ],
    ids=str,
)
def test_what_determines_a_unit_changes_its_key(changes):
    assert key(replace(UNIT, **changes)) != key()


@pytest.mark.parametrize(
    ("unit", "settings", "same"),
    [
        ({"task": "another/name"}, {}, True),
        ({}, {"alteration": Alteration(length=2)}, False),
        ({}, {"alteration": Alteration(fraction=0.5, first_observation=False, missing_text="?")}, True),
        ({"condition": "clean"}, {"alteration": Alteration(length=2)}, True),
        ({"condition": "missing"}, {"alteration": Alteration(missing_text="?")}, False),
        ({"condition": "missing"}, {"alteration": Alteration(fraction=0.5, first_observation=False)}, True),
        ({}, {"texts": RecoveryTexts(look_line="look around")}, False),
        ({}, {"texts": RecoveryTexts(replan_line="hm", replan_text="?", withheld_text="?")}, True),
        ({"operator": "replan-only"}, {"texts": RecoveryTexts(replan_text="?")}, False),
        ({"operator": "replan-only"}, {"texts": RecoveryTexts(look_line="?", withheld_text="?")}, True),
        ({"operator": "content-ablated"}, {"texts": RecoveryTexts(withheld_text="?")}, False),
    ],
)
def test_settings_change_the_keys_of_those_they_matter_to(unit, settings, same):
    mine = replace(UNIT, **{name: value for name, value in unit.items() if name != "task"})
    assert (key(replace(UNIT, **unit), replace(SETTINGS, **settings)) == key(mine)) == same


def test_agent_code_and_engine_are_in_the_key(monkeypatch):
    before = key()
    assert key(agent="b" * 64) != before
    monkeypatch.setattr(keys, "engine", lambda: "another")
    assert key() != before
    monkeypatch.undo()
    monkeypatch.setattr(keys, "player_code", lambda: "another")
    assert key() != before


def test_jobs_are_told_just_what_their_condition_or_operator_depends_on():
    """The declared scopes against what really changes: for every known operator and condition and every key."""
    texts, alteration = RecoveryTexts(), Alteration()
    for name in OPERATORS:
        assert any(re.fullmatch(pattern, name) for pattern in CONCERNS["protocol.texts"])
        for text in RecoveryTexts.model_fields:
            other = texts.model_copy(update={text: "something else"})
            changed = operator_digest(operator(name, texts)) != operator_digest(operator(name, other))
            assert changed == concerns("protocol.texts", name, text), (name, text)
    assert len(CONDITIONS) == len(CONCERNS["protocol.alteration"])
    for name in ("clean", "stale-1", "stale-12", "missing"):
        for field, value in {"fraction": 0.5, "length": 2, "first_observation": False, "missing_text": "?"}.items():
            other = replace(SETTINGS, alteration=alteration.model_copy(update={field: value}))
            changed = key(replace(UNIT, condition=name)) != key(replace(UNIT, condition=name), other)
            assert changed == concerns("protocol.alteration", name, field), (name, field)
    assert concerns("protocol.texts", "an operator of tomorrow", "look_line")


def test_a_conditions_code_is_in_its_identity():
    made = [condition(name, Alteration()) for name in ("clean", "stale-1", "missing")]
    assert len({condition_identity(one)["code"] for one in made}) == 3
    assert condition_identity(made[1])["settings"] == {"name": "stale-1", "lag": 1}


# --- playing with a store ----------------------------------------------------------------------------------------------


class Agentless:
    """`run_units` without processes: plays by a function, counts what it was asked."""

    def __init__(self, work):
        self.work, self.asked = work, []

    def __call__(self, units, work, setup, arguments, workers):
        for unit in units:
            self.asked.append(unit.task)
            yield unit, self.work(unit)


def run(monkeypatch, store, tasks, work=lambda unit: ROW | {"task": unit.task}):
    fake = Agentless(work)
    monkeypatch.setattr(play, "run_units", fake)
    units = [Unit(task, translation(f"{number:064x}")) for number, task in enumerate(tasks)]
    return play.play_all(units, SETTINGS, "a" * 64, 1, EpisodeStore(store), "test"), fake.asked


def test_only_what_is_missing_is_played(monkeypatch, tmp_path, capsys):
    rows, asked = run(monkeypatch, tmp_path, "ab")
    assert asked == ["a", "b"]
    more, asked = run(monkeypatch, tmp_path, "abcd")
    assert asked == ["c", "d"]
    assert noted()["store"] == {"found": 2, "generated": 2}
    assert {task: more[task] for task in "ab"} == rows
    assert capsys.readouterr().err.splitlines() == [
        "store: 0 episodes found, 2 generated", "store: 2 episodes found, 2 generated"]  # fmt: skip
    assert {path.stem for path in entries(tmp_path)} == {row["episode_key"] for row in more.values()}


def test_the_same_game_under_another_name_is_found(monkeypatch, tmp_path):
    run(monkeypatch, tmp_path, "ab")
    rows, asked = run(monkeypatch, tmp_path, "xy")
    assert not asked
    assert [rows[task]["task"] for task in "xy"] == ["x", "y"]


def test_infrastructure_is_tried_again_at_the_end_and_never_stored(monkeypatch, tmp_path):
    broken = {"b": 1, "c": 9}

    def work(unit):
        broken[unit.task] = broken.get(unit.task, 0) - 1
        return ROW | {"task": unit.task, "excluded": "infrastructure" if broken[unit.task] >= 0 else None}

    rows, asked = run(monkeypatch, tmp_path, "abcd", work)
    assert asked == ["a", "b", "c", "d", "b", "c"]
    assert {task: row["excluded"] for task, row in rows.items()} == {
        "a": None,
        "b": None,
        "c": "infrastructure",
        "d": None,
    }
    assert rows["c"]["episode_key"] is None
    assert len(entries(tmp_path)) == 3
    _, asked = run(monkeypatch, tmp_path, "abcd")
    assert asked == ["c"]


def test_a_mismatch_and_a_dead_worker_leave_no_entry(monkeypatch, tmp_path):
    def work(unit):
        return WorkerDied() if unit.task == "a" else ROW | {"task": unit.task, "excluded": "state-mismatch"}

    rows, asked = run(monkeypatch, tmp_path, "ab", work)
    assert asked == ["a", "b"]
    assert list(rows) == ["b"]
    assert not entries(tmp_path)


def test_two_writers_end_with_the_episode_of_the_first(tmp_path):
    """An agent may answer in two ways; studies that share a store must not hold two episodes of one key."""
    first, second = EpisodeStore(tmp_path), EpisodeStore(tmp_path)
    assert first.put({"game": "1"}, ROW | {"turns": 1})[1]["turns"] == 1
    assert second.put({"game": "1"}, ROW | {"turns": 2})[1]["turns"] == 1
    assert first.get({"game": "1"})[1]["turns"] == 1
    assert not list(tmp_path.rglob("*.part"))


def _put_many(folder, number, start, out):
    start.wait()
    store = EpisodeStore(folder)
    out.put([store.put({"game": n}, ROW | {"writer": number, "text": "x" * 5000})[1]["writer"] for n in range(60)])


def test_many_processes_write_one_store_at_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    start, out = context.Event(), context.Queue()
    writers = [context.Process(target=_put_many, args=(tmp_path, n, start, out)) for n in range(4)]
    for writer in writers:
        writer.start()
    start.set()
    seen = [out.get(timeout=60) for _ in writers]
    for writer in writers:
        writer.join()
    assert all(one == seen[0] for one in seen)
    store = EpisodeStore(tmp_path)
    assert [store.get({"game": n})[1]["writer"] for n in range(60)] == seen[0]
    assert len(entries(tmp_path)) == 60
    assert not list(tmp_path.rglob("*.part"))


def test_without_hard_links_entries_are_renamed(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EOPNOTSUPP, "no links here")

    monkeypatch.setattr(episodes.os, "link", refuse)
    store = EpisodeStore(tmp_path)
    store.put({"game": "1"}, ROW)
    assert store.get({"game": "1"})[1] == ROW
    assert not list(tmp_path.rglob("*.part"))


def test_a_disk_that_fills_up_is_one_message_and_what_was_stored_stays(monkeypatch, tmp_path):
    real, calls = os.link, []

    def full(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(*arguments)

    monkeypatch.setattr(episodes.os, "link", full)
    with pytest.raises(BadInput, match=r"\.episode: cannot be written \(No space left on device\)"):
        run(monkeypatch, tmp_path, "abcd")
    assert len(entries(tmp_path)) == 2
    assert not list(tmp_path.rglob("*.part"))
    monkeypatch.setattr(episodes.os, "link", real)
    rows, asked = run(monkeypatch, tmp_path, "abcd")
    assert asked == ["c", "d"]
    assert len(rows) == 4


def test_nothing_is_played_for_a_store_that_cannot_be_written(monkeypatch, tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "episodes").write_text("in the way")
    asked = []
    with pytest.raises(BadInput, match=r"store"):
        run(monkeypatch, tmp_path / "store", "ab", asked.append)
    assert not asked


def test_what_a_read_only_store_holds_is_found(monkeypatch, tmp_path):
    run(monkeypatch, tmp_path, "ab")
    for path in entries(tmp_path):
        os.utime(path, (0, 0))

    def refuse(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for name in ("open", "link", "utime", "replace", "mkdir", "unlink"):
        monkeypatch.setattr(episodes.os, name, refuse)
    rows, asked = run(monkeypatch, tmp_path, "ab")
    assert (sorted(rows), asked) == (["a", "b"], [])
    with pytest.raises(BadInput, match="Read-only file system"):
        run(monkeypatch, tmp_path, "abc")


def test_a_slow_agents_episodes_are_all_on_the_disk(monkeypatch, tmp_path):
    synced, clock = [], iter(range(10, 10_000, 2))
    monkeypatch.setattr(episodes.os, "fsync", synced.append)
    monkeypatch.setattr(episodes.time, "monotonic", lambda: next(clock))
    store = EpisodeStore(tmp_path)
    for number in range(3):
        store.put({"game": number}, ROW)
    assert len(synced) == 3


# --- real jobs ---------------------------------------------------------------------------------------------------------

world = test_forks.world


def command(world, out, store, *more):
    arguments = ["fork", "--delay", "1", "--operator", "refresh", "--trunk", world / "trunk.parquet", "--translations",
                 world / "translations.parquet", "--settings", test_forks.keys("fork"), "--store", store, "--out", out, *more]  # fmt: skip
    return [sys.executable, "-m", "pipeline.cli", *map(str, arguments)]


def test_two_studies_write_one_store_at_once(world, tmp_path):
    store = tmp_path / "store"
    jobs = [
        subprocess.Popen(command(world, tmp_path / f"{name}.parquet", store), stderr=subprocess.PIPE, text=True)
        for name in "ab"
    ]
    said = [job.communicate()[1] for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], said
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    rows = read_rows(tmp_path / "a.parquet", "forks")
    played = {row["episode_key"] for row in rows} - {None}
    assert {path.stem for path in entries(store)} == played
    generated = sum(int(line.split()[-2]) for text in said for line in text.splitlines() if line.startswith("store: "))
    assert generated >= len(played) > 0


def test_another_study_generates_nothing_that_is_there(world, tmp_path):
    """Another name, cohort, statistics, router and output; then more tasks: only these are played."""
    candidates = read_rows(world / "candidates.parquet", "candidates")
    renamed = [row | {"cohort": "theirs", "role": "measure"} for row in candidates if row["cohort"] == "main"]
    store = tmp_path / "store"

    def factual(rows, out, cohort, **changes):
        write_rows(tmp_path / "candidates.parquet", rows, "candidates")
        done = test_forks.call("factual", "--cohort", cohort, "--candidates", tmp_path / "candidates.parquet", "--translations",
                               world / "translations.parquet", "--settings", test_forks.keys("factual", **changes),
                               "--store", store, "--out", out)  # fmt: skip
        return [line for line in done.stderr.splitlines() if line.startswith("store: ")]

    few = len(renamed) - 3
    assert factual(renamed[:few], tmp_path / "few.parquet", "theirs") == [f"store: 0 episodes found, {few} generated"]
    mine = [row for row in candidates if row["cohort"] == "main"]
    said = factual(mine, tmp_path / "mine.parquet", "main", study="other", statistics={"seed": 9})
    assert said == [f"store: {few} episodes found, 3 generated"]
    said = factual(renamed, tmp_path / "theirs.parquet", "theirs")
    assert said == [f"store: {len(renamed)} episodes found, 0 generated"]
    assert (tmp_path / "mine.parquet").read_bytes() == (tmp_path / "theirs.parquet").read_bytes()


def test_damaged_entries_of_a_finished_job_are_named_and_played_again(world, tmp_path):
    store, out = tmp_path / "store", tmp_path / "part.parquet"
    assert subprocess.run(command(world, out, store), capture_output=True, check=False).returncode == 0
    table, whole = out.read_bytes(), {path: path.read_bytes() for path in entries(store)}
    torn, cut, *rest = whole
    _flip(torn)
    cut.write_bytes(whole[cut][:100])
    out.unlink()
    done = subprocess.run(command(world, out, store), capture_output=True, text=True, check=False)
    assert f"store: {len(rest)} episodes found, 2 generated" in done.stderr
    assert all(
        f"{path.name} does not have the checksum that it names; set aside" in done.stderr for path in (torn, cut)
    )
    assert out.read_bytes() == table
    assert {path: path.read_bytes() for path in entries(store)} == whole


def test_a_branch_names_its_episode_and_a_carried_one_none(world, tmp_path):
    rows = [row for delay in (1, 40) for row in test_forks.fork(world, tmp_path / "part.parquet", delay=delay)]
    assert {row["carried_forward"] for row in rows} == {True, False}
    trunks = {row["task"]: row for row in read_rows(world / "trunk.parquet", "trajectories")}
    for row in rows:
        assert (row["episode_key"] is None) == row["carried_forward"]
        if row["episode_key"]:
            path = EpisodeStore(tmp_path / "part.parquet.store").path(row["episode_key"])
            entry = decode(path.read_bytes(), row["episode_key"])
            assert entry.inputs["origin"] == trunks[row["task"]]["episode_key"]
            assert entry.row["steps"] == row["steps"]


def test_trunks_that_name_no_episode_can_be_forked(world, tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(pq.read_table(world / "trunk.parquet").drop_columns(["episode_key"]), tmp_path / "trunk.parquet")
    rows = test_forks.fork(world, tmp_path / "part.parquet", trunk=tmp_path / "trunk.parquet")
    with_keys = test_forks.fork(world, tmp_path / "other.parquet")
    assert [row | {"episode_key": None} for row in rows] == [row | {"episode_key": None} for row in with_keys]


def test_a_full_disk_ends_a_job_with_one_message_and_it_goes_on_later(world, tmp_path):
    """A limit on the size of files stands for the disk that takes no more: the kernel refuses, as it would then."""
    store = tmp_path / "store"
    job = command(world, tmp_path / "part.parquet", store)

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    done = subprocess.run(job, capture_output=True, text=True, preexec_fn=limit, check=False)
    assert done.returncode == 2
    assert "cannot be written (File too large)" in done.stderr
    assert "Traceback" not in done.stderr
    assert not entries(store)
    assert not list(store.rglob("*.part"))
    assert subprocess.run(job, capture_output=True, text=True, check=False).returncode == 0


# --- cir store ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def shared(tmp_path):
    """A store with ten episodes of which two studies name four each, two of them both."""
    store = EpisodeStore(tmp_path / "results" / "store")
    found = [
        store.put({"game": n}, ROW | {"condition": "clean", "exit": "success", "turns": n, "actions": n})[0]
        for n in range(10)
    ]
    for name, own in (("one", found[:4]), ("two", found[2:6])):
        rows = [dict.fromkeys(columns(), None) | BLANK | {"task": k, "episode_key": k} for k in own]
        rows.append(rows[0] | {"task": "carried", "episode_key": None})
        write_rows(tmp_path / "results" / name / "trajectories" / "cohort=a" / "factual.parquet", rows, "trajectories")
    for path in entries(store.folder):
        os.utime(path, (time.time() - 7200, time.time() - 7200))
    return store, found


BLANK = {"condition": "clean", "agent": "a", "success": True, "exit": "success", "turns": 1, "actions": 1, "steps": [],
         "transcript_hash": ""}  # fmt: skip


def columns():
    from pipeline.records.schemas import SCHEMAS

    return SCHEMAS["trajectories"].names


def invoke(*arguments):
    result = CliRunner().invoke(cir, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_status_counts_entries_and_each_studys(shared, tmp_path):
    store, found = shared
    store.path(found[0]).unlink()
    (store.folder / "episodes" / "aa").mkdir(exist_ok=True)
    (store.folder / "episodes" / "aa" / ".x.part").write_bytes(b"")
    store.path(found[9]).write_bytes(b"")
    assert store.get({"game": 9}) is None
    told = json.loads(
        invoke("store", "status", "--store", store.folder, "--results", tmp_path / "results", "--format", "json").stdout
    )
    assert {name: told[name] for name in ("entries", "unreferenced", "damaged", "parts")} == {
        "entries": 8, "unreferenced": 3, "damaged": 1, "parts": 1}  # fmt: skip
    assert told["bytes"] == sum(path.stat().st_size for path in entries(store.folder))
    assert [(row["episodes"], row["shared"], row["missing"]) for row in told["studies"]] == [(4, 2, 1), (4, 2, 0)]


def test_verify_names_the_damaged_and_changes_nothing(shared, tmp_path):
    from pipeline.errors import CheckFailed

    store, found = shared
    assert invoke("store", "verify", "--store", store.folder).exit_code == 0
    _flip(store.path(found[3]))
    before = [path.read_bytes() for path in entries(store.folder)]
    with pytest.raises(CheckFailed, match=rf"1 of 10 entries are damaged:\n.*{found[3]}") as caught:
        invoke("store", "verify", "--store", store.folder)
    assert found[4] not in str(caught.value)
    assert [path.read_bytes() for path in entries(store.folder)] == before


def test_show_prints_an_episode(shared):
    store, found = shared
    told = json.loads(invoke("store", "show", found[7], "--store", store.folder, "--format", "json").stdout)
    assert (told["key"], told["inputs"], told["episode"]["turns"]) == (found[7], {"game": 7}, 7)
    with pytest.raises(BadInput, match="no entry"):
        invoke("store", "show", "0" * 64, "--store", store.folder)
    with pytest.raises(BadInput, match="hex digits"):
        invoke("store", "show", "../../etc", "--store", store.folder)


def test_a_real_episode_reads_as_a_transcript(world, tmp_path):
    rows = test_forks.fork(world, tmp_path / "part.parquet")
    row = next(row for row in rows if row["episode_key"])
    told = invoke("store", "show", row["episode_key"][:12], "--store", tmp_path / "part.parquet.store").stdout
    assert row["task"] in told
    assert all(step["output"] in told for step in row["steps"])


def collected(store, results, *more):
    invoke("store", "collect", "--store", store.folder, "--results", results, *more)
    return {path.stem for path in entries(store.folder)}


def test_collect_removes_what_no_table_names_once_it_is_old(shared, tmp_path):
    store, found = shared
    results = tmp_path / "results"
    part = store.folder / "episodes" / ".old.part"
    part.write_bytes(b"x")
    os.utime(part, (0, 0))
    (store.folder / "episodes" / ".new.part").write_bytes(b"x")
    assert collected(store, results) == set(found)
    assert not part.exists()
    assert collected(store, results, "--older-than", 1, "--dry-run") == set(found)
    # A hit marks an entry young.
    assert store.get({"game": 9})
    assert collected(store, results, "--older-than", 1) == {*found[:6], found[9]}
    assert (store.folder / "episodes" / ".new.part").exists()
    assert collected(store, results / "one", "--older-than", 0) == set(found[:4])


def test_listing_and_collecting_open_no_entry_and_list_each_folder_once(shared, tmp_path, monkeypatch):
    """What makes 10^6 entries a matter of seconds: names and one stat each, nothing quadratic, nothing read."""
    store, found = shared
    for number in range(2000):
        path = store.path(key_of({"empty": number}))
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
        os.utime(path, (0, 0))
    listed, real = [], os.scandir
    monkeypatch.setattr(listing.os, "scandir", lambda folder: listed.append(str(folder)) or real(folder))
    monkeypatch.setattr(episodes, "decode", None)
    invoke("store", "collect", "--store", store.folder, "--results", tmp_path / "results")
    mine = [folder for folder in listed if folder.startswith(str(store.folder / "episodes"))]
    assert len(mine) == len(set(mine)) <= 257
    assert {path.stem for path in entries(store.folder)} == set(found)


def test_collect_refuses_where_it_cannot_know(shared, tmp_path):
    store, found = shared
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="holds no trajectories or forks table"):
        collected(store, tmp_path / "empty", "--older-than", 0)
    with pytest.raises(BadInput, match="no such folder"):
        collected(store, tmp_path / "nowhere", "--older-than", 0)
    (tmp_path / "results" / "one" / "forks").mkdir()
    (tmp_path / "results" / "one" / "forks" / "part.parquet").write_bytes(b"PAR1 torn")
    with pytest.raises(BadInput, match=r"forks/part\.parquet: is no readable Parquet"):
        collected(store, tmp_path / "results", "--older-than", 0)
    assert {path.stem for path in entries(store.folder)} == set(found)
