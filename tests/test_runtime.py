"""Workers that die, jobs that are killed: what was finished stays, what was lost is named."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from pipeline.runtime.journal import Journal
from pipeline.runtime.progress import tracked
from pipeline.runtime.workers import WorkerDied, run_units


def setup(offset, marks=None):
    global OFFSET, MARKS
    OFFSET, MARKS = offset, marks


def work(unit):
    return unit + OFFSET


def work_or_die(unit):
    if unit == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return unit + OFFSET


def work_or_die_once(unit):
    mark = os.path.join(MARKS, str(unit))
    if unit == 3 and not os.path.exists(mark):
        open(mark, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return unit + OFFSET


def work_or_raise(unit):
    if unit == 3:
        raise ZeroDivisionError(unit)
    return unit


@pytest.mark.parametrize("workers", [1, 2])
def test_results_do_not_depend_on_the_number_of_workers(workers):
    assert dict(run_units(range(7), work, setup, (10,), workers)) == {n: n + 10 for n in range(7)}


def test_no_units_need_no_workers():
    assert list(run_units([], work, setup, (10,), 1)) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_a_unit_that_kills_its_worker_is_named_and_the_others_finish(workers, capsys):
    results = dict(run_units(range(7), work_or_die, setup, (10,), workers))
    assert isinstance(results.pop(3), WorkerDied)
    assert results == {n: n + 10 for n in range(7) if n != 3}
    assert "died twice on 3" in capsys.readouterr().err


def test_a_worker_killed_from_outside_costs_no_unit(tmp_path):
    assert dict(run_units(range(7), work_or_die_once, setup, (10, str(tmp_path)), 2)) == {n: n + 10 for n in range(7)}


def test_a_unit_that_was_not_handed_out_when_a_worker_died_is_still_played(tmp_path):
    """The worker dies while the consumer is busy with the result before: the next hand-out meets a broken pool."""
    results = {}
    for unit, result in run_units(range(7), work_or_die_once, setup, (10, str(tmp_path)), 1):
        results[unit] = result
        time.sleep(0.3)
    assert results == {n: n + 10 for n in range(7)}


def test_a_fault_of_ours_propagates():
    with pytest.raises(ZeroDivisionError):
        list(run_units(range(7), work_or_raise, setup, (10,), 2))


def test_the_journal_keeps_finished_units_until_the_output_is_there(tmp_path):
    out = tmp_path / "part.parquet"
    with pytest.raises(KeyboardInterrupt), Journal(out, "key") as journal:
        journal.add("a", {"x": 1})
        raise KeyboardInterrupt
    with Journal(out, "key") as journal:
        assert journal.rows == {"a": {"x": 1}}
        journal.add("b", {"x": None})
    assert not list(tmp_path.iterdir())


def test_a_journal_of_another_key_is_not_used(tmp_path):
    out = tmp_path / "part.parquet"
    first = Journal(out, "key")
    first.add("a", {"x": 1})
    first.close()
    second = Journal(out, "other")
    assert second.rows == {}
    second.close()


def test_a_torn_line_is_dropped_wherever_it_was_torn(tmp_path):
    out = tmp_path / "part.parquet"
    journal = Journal(out, "key")
    for unit in "abc":
        journal.add(unit, {"x": unit * 3})
    journal.close()
    whole = journal.path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == 10]
    for cut in range(len(whole) + 1):
        journal.path.write_bytes(whole[:cut])
        again = Journal(out, "key")
        # Line 0 is the header; each further whole line is one unit.
        assert len(again.rows) == max(0, sum(end <= cut for end in ends) - 1)
        again.add("d", {})
        again.close()
        final = Journal(out, "key")
        assert "d" in final.rows
        final.close()


def test_a_killed_process_loses_no_finished_unit(tmp_path):
    script = textwrap.dedent("""
        import sys, time
        from pipeline.runtime.journal import Journal
        with Journal(sys.argv[1], "key") as journal:
            for n in range(1000):
                journal.add(str(n), {"n": n})
                print(n, flush=True)
                time.sleep(0.005)
    """)
    out = tmp_path / "part.parquet"
    process = subprocess.Popen([sys.executable, "-c", script, str(out)], stdout=subprocess.PIPE, text=True)
    said = [int(process.stdout.readline()) for _ in range(20)]
    process.kill()
    said += [int(line) for line in process.stdout.read().split()]
    process.wait()
    journal = Journal(out, "key")
    assert set(said) <= {int(unit) for unit in journal.rows}
    journal.close()


def test_progress_passes_items_through_and_is_silent_on_short_work(capsys):
    assert list(tracked(iter([1, 2]), 2, "work")) == [1, 2]
    assert capsys.readouterr().err == ""


def test_progress_in_a_log_tells_how_long_it_takes(capsys, monkeypatch):
    clock = iter(range(0, 10_000, 40))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    list(tracked(iter(range(3)), 4, "forks", done=1))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "forks: 2 of 4, about 80 s left"


@pytest.mark.slow
def test_progress_in_a_terminal_is_a_bar_with_the_time_left(tmp_path):
    """A real pseudo-terminal on stderr: a bar after two seconds of work, nothing before, and stdout untouched."""
    script = (
        "import sys, time; from pipeline.runtime.progress import tracked\n"
        "for item in tracked(range(6), 6, 'forks'): time.sleep(float(sys.argv[1])); print(item)"
    )
    said = {}
    for pause in ("0.01", "0.6"):
        outer, inner = os.openpty()
        command = [sys.executable, "-c", script, pause]
        environment = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=inner, text=True, env=environment)
        os.close(inner)
        read = b""
        # The terminal's other end raises EIO once the last writer is gone.
        with contextlib.suppress(OSError):
            while part := os.read(outer, 65_536):
                read += part
        os.close(outer)
        assert process.communicate()[0].split() == list("012345")
        said[pause] = read.decode()
    assert "forks" not in said["0.01"]
    assert "forks" in said["0.6"]
    assert "5/6" in said["0.6"]
    assert re.search(r"0:00:0\d", said["0.6"])
