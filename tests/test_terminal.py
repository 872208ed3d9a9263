"""cir status, show and doctor, on a tiny finished study and on what a running or broken one leaves behind."""

import base64
import http.server
import io
import json
import os
import re
import shutil
import subprocess
import threading
import time
from collections import Counter
from contextlib import redirect_stdout
from importlib.metadata import version
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import study
import yaml
from click.testing import CliRunner

from pipeline.cli import cir
from pipeline.config.load import load_study, parse_study
from pipeline.errors import BadInput, CheckFailed
from pipeline.records.printing import visible
from pipeline.terminal import doctor
from pipeline.terminal.episodes import Episode, find
from pipeline.terminal.plan import planned
from pipeline.terminal.status import covered, status, study_of
from pipeline.terminal.transcript import print_episode

ROOT = Path(__file__).resolve().parents[1]
HOSTILE = "\x1b[2J\x1b]0;owned\x07[red]bold[/red]\x9b31m\r\u202eevil\b"


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    return study.shared(tmp_path_factory)


@pytest.fixture
def copied(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "demo")
    return tmp_path / "demo"


def results(folder):
    return folder / "results/demo"


def rows(path):
    return pq.ParquetFile(path).read().to_pylist()


def invoked(*arguments):
    return CliRunner().invoke(cir, [str(argument) for argument in arguments])


# --- status


@pytest.mark.slow
@pytest.mark.parametrize("config", ["config/demo.yaml", "config/test.yaml", "config/large.yaml"])
def test_the_plan_is_snakemakes(config, tmp_path):
    """Job by job: the rules' outputs, logs and benchmarks of a dry run from nothing are those that status looks for."""
    study.checkout(tmp_path)
    command = ["snakemake", "--profile", "profiles/local", "--dry-run", "--configfile", config, "--quiet", "host"]
    env = study.environment(ALFWORLD_DATA=str(tmp_path))
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    text = done.stdout + done.stderr
    assert done.returncode == 0, text
    parsed = load_study(tmp_path / config)
    place = f"results/{parsed.study}/"
    found = Counter()
    for block in re.split(r"\n(?=(?:local)?rule )", text)[1:]:
        rule = re.match(r"(?:local)?rule (\w+):", block)[1]
        if rule == "all":
            continue
        outputs = re.search(r"output: (.*)", block)[1].split(", ")
        log, benchmark = re.search(r"log: (.*)", block), re.search(r"benchmark: (.*)", block)
        found[rule, outputs[0].removeprefix(place), log[1].removeprefix(place)] += 1
        if benchmark:
            job = next(job for job in planned(parsed) if job.output == outputs[0].removeprefix(place))
            assert benchmark[1].removeprefix(place) == job.benchmark
    assert Counter((job.rule, job.output, job.log) for job in planned(parsed)) == found


@pytest.mark.slow
def test_a_finished_study_is_done(finished):
    folder = results(finished)
    now = status(folder, study_of(folder, None))
    assert now["jobs"]["done"] == sum(now["jobs"].values()) == len(planned(study_of(folder, None)))
    counted = sum(len(rows(path)) for kind in ("trajectories", "forks") for path in folder.glob(f"{kind}/**/*.parquet"))
    assert now["episodes"] == {"done": counted, "planned": counted, "left": 0}
    assert now["seconds_left"] == 0
    assert now["episodes_per_minute"] > 0
    settled = Counter(row["excluded"] for row in rows(folder / "games/cohorts.parquet") if row["excluded"])
    assert {row["reason"]: row["count"] for row in now["exclusions"] if row["what"] == "task"} == settled


@pytest.mark.slow
def test_a_study_under_way_shows_what_runs_failed_and_is_missing(copied):
    """A run in progress is laid out as Snakemake and the journal leave it: a lock, a mark, whole lines, no output."""
    folder = results(copied)
    parsed = study_of(folder, None)
    forks = sorted(folder.glob("forks/**/part.parquet"))
    running, crashed, _, killed = forks[:4]
    sizes = [len(rows(path)) for path in forks[:4]]
    for path in forks[:4]:
        path.unlink()
    state = copied / ".snakemake"
    coded = base64.urlsafe_b64encode(str(running.relative_to(copied)).encode()).decode()
    # As Snakemake does with names longer than a file's may be.
    mark = state / "incomplete" / f"@{coded[:60]}" / coded[60:]
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
    (state / "locks").mkdir(exist_ok=True)
    (state / "locks/0.output.lock").touch()
    journal = running.with_name(f".{running.name}.journal")
    journal.write_text('{"key": "x"}\n{"unit": "a", "row": {}}\n{"unit": "b", "row": {}}\n{"unit": "torn')
    logs = {path: folder / "logs/fork" / "/".join(p.split("=")[1] for p in path.parts[-5:-1]) for path in forks[:4]}
    logs = {path: log.with_name(f"{log.name}.log") for path, log in logs.items()}
    later = time.time() + 60
    logs[crashed].write_text("cir: out of memory\n")
    os.utime(logs[crashed], (later, later))
    logs[killed].unlink()
    now = status(folder, parsed)
    assert now["jobs"] == {"done": len(planned(parsed)) - 4, "running": 1, "failed": 1, "missing": 2}
    assert now["failed"] == [{"rule": "fork", "log": str(logs[crashed])}]
    assert now["episodes"]["left"] == sum(sizes) - 2
    assert now["seconds_left"] > 0
    (state / "locks/0.output.lock").unlink()
    assert status(folder, parsed)["jobs"]["running"] == 0, "a mark without a lock is of a run that was killed"
    printed = invoked("status", folder)
    assert "failed: fork" in printed.output
    assert max(map(len, printed.output.splitlines())) <= 80


def test_a_study_of_nothing_is_all_missing(tmp_path):
    folder = tmp_path / "results/demo"
    folder.mkdir(parents=True)
    parsed = load_study(ROOT / "config/demo.yaml")
    now = status(folder, study_of(folder, parsed))
    assert now["jobs"]["missing"] == sum(now["jobs"].values())
    assert now["episodes"]["planned"] == 104 + 63 + (80 + 48) * 4 * (1 + 4 * 4)
    assert now["episodes_per_minute"] is None
    assert now["seconds_left"] is None
    with pytest.raises(BadInput, match=r"cir status .*demo --study config/demo.yaml"):
        study_of(folder, None)
    with pytest.raises(BadInput, match="is the study demo"):
        study_of(tmp_path / "results/other", parsed)


def test_time_of_jobs_side_by_side_counts_once_and_pauses_not_at_all():
    assert covered([]) == 0
    assert covered([(0, 10), (2, 5), (5, 12), (100, 101)]) == 13


@pytest.mark.slow
def test_watch_ends_when_all_is_done(finished):
    result = invoked("status", results(finished), "--watch", 1, "--format", "json")
    assert result.exit_code == 0
    assert json.loads(result.output)["study"] == "demo"


# --- show


def step(index, output, shown, true=None, kind="act", rejection=None):
    action = output if kind in ("act", "recover") else None
    return {
        "index": index,
        "kind": kind,
        "output": output,
        "action": action,
        "observation_true": shown if true is None else true,
        "observation_shown": shown,
        "state_hash": "",
        "transcript_hash": "",
        "rejection": rejection,
    }


def trunk(steps, **more):
    row = {"task": "f/t", "condition": "stale-1", "success": False, "exit": "turn-limit", "turns": 3, "actions": 3}
    return row | {"altered_at": 2, "excluded": None, "steps": steps} | more


STEPS = [
    step(0, None, "a room", kind="reset"),
    step(1, "go to desk 1", "at desk 1"),
    step(2, "open drawer 1", "old text", true="true text"),
    step(3, "look", "same"),
    step(4, "go left", "left"),
    step(5, "go on", "on"),
]
BRANCH = {"operator": "refresh", "delay": 0, "fork_action": 2, "carried_forward": False, "excluded": None}
BRANCH |= {"success": True, "exit": "success", "turns": 3, "actions": 4}


def printed(episode):
    out = io.StringIO()
    with redirect_stdout(out):
        print_episode(episode)
    return out.getvalue()


def test_the_altered_reply_is_marked_with_both_texts_and_no_other_is():
    text = printed(Episode("main", trunk(STEPS)))
    assert text.count("ALTERED") == 1
    assert "true:  true text" in text
    assert "shown: old text" in text
    assert text.index("open drawer 1") < text.index("ALTERED") < text.index("true text") < text.index("go left")
    assert "ALTERED" not in printed(Episode("main", trunk(STEPS, altered_at=None)))
    assert printed(Episode("main", trunk(STEPS), altered_length=2)).count("ALTERED") == 2


def test_trunk_and_branch_part_where_a_turn_differs_first():
    recover = step(3, "look", "a room", kind="recover")
    branch = BRANCH | {"steps": [recover, step(4, "look", "same"), step(5, "go right", "right")]}
    episode = Episode("main", trunk(STEPS), branch)
    assert episode.fork_index == 3
    assert episode.part_at() == 1
    text = printed(episode)
    assert "part after 1 equal turn" in text
    marked = [line for line in text.splitlines() if line.count(">>>") == 2]
    assert len(marked) == 1
    assert "go left" in marked[0]
    assert "go right" in marked[0]
    alike = BRANCH | {"steps": [recover, *STEPS[3:]]}
    assert Episode("main", trunk(STEPS), alike).part_at() is None
    shorter = BRANCH | {"steps": [recover, *STEPS[3:5]]}
    assert Episode("main", trunk(STEPS), shorter).part_at() == 2
    assert "(had ended)" in printed(Episode("main", trunk(STEPS), shorter))


def test_an_alteration_that_reaches_over_the_fork_is_marked_on_both_sides():
    """Replies 2 and 3 are altered, the fork is after 2: each side's next action is the third, the recovery's look is none."""
    thought = step(4, "think", "OK.", kind="think")
    branch = BRANCH | {"steps": [step(3, "look", "room", kind="recover"), thought, *STEPS[4:]]}
    episode = Episode("main", trunk(STEPS), branch, altered_length=2)
    assert [episode.altered(place) for place in range(len(STEPS))] == [False, False, True, True, False, False]
    assert [episode.altered_in_branch(place) for place in range(4)] == [False, False, True, False]
    assert printed(episode).count("ALTERED") == 3


def test_a_branch_that_was_not_played_says_so():
    carried = BRANCH | {"steps": [], "carried_forward": True, "fork_action": 9}
    assert "its outcome is carried forward" in printed(Episode("main", trunk(STEPS), carried))


def test_a_hostile_transcript_is_text():
    steps = [step(0, None, HOSTILE, kind="reset"), step(1, f"think {HOSTILE}", HOSTILE), *STEPS[2:]]
    branch = BRANCH | {"steps": [step(3, HOSTILE, HOSTILE, kind="recover")], "operator": HOSTILE}
    for episode in (Episode("main", trunk(steps)), Episode("main", trunk(steps, task=HOSTILE), branch)):
        text = printed(episode)
        assert not {
            mark for mark in text if (mark < " " and mark != "\n") or "\x7f" <= mark <= "\x9f" or mark == "\u202e"
        }
        # Written out and not read as markup; a narrow column may break the line.
        assert "[red]bold[/red]" in text.replace("\n", "")
        assert r"\x1b[2J\x1b]0;owned\x07" in text.replace("\n", "")


def test_visible_keeps_what_people_read():
    assert visible("Zürich\n\t„ok“ – 日本 🙂 é") == "Zürich\n\t„ok“ – 日本 🙂 é"
    assert visible("\x00\x1b\x7f\x85\u200b\u2028\ud800") == r"\x00\x1b\x7f\x85\u200b\u2028\ud800"


@pytest.mark.slow
def test_show_finds_episodes_by_a_part_of_the_name(finished):
    folder = results(finished)
    path = folder / "forks/cohort=main/condition=stale-2/delay=1/operator=refresh/part.parquet"
    task = next(row["task"] for row in rows(path) if row["steps"])
    part = task.split("/")[1].lower()
    found = find(folder, part, condition="stale-2", delay=1, operator="refresh")
    assert (found.cohort, found.row["task"], found.branch["operator"]) == ("main", task, "refresh")
    # The trunk's steps up to the fork and the branch's are one episode, numbered through.
    assert [s["index"] for s in found.row["steps"][: found.fork_index]] == list(
        range(found.branch["steps"][0]["index"])
    )
    shown = invoked("show", part, "--results", folder, "--condition", "stale-2", "--delay", 1, "--operator", "refresh")
    assert shown.exit_code == 0
    assert max(map(len, shown.output.splitlines())) <= 80
    assert "\x1b" not in shown.output
    data = json.loads(invoked("show", task, "--results", folder, "--format", "json").output)
    assert data["trajectory"]["task"] == task
    assert data["branch"] is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pick_too_obj"], "the nearest of"),
        (["trial"], "tasks have that in their name"),
        (["trial", "--condition", "stale-9"], "there are clean, stale-2"),
        (["trial", "--cohort", "mian"], "there are evaluation, main"),
        (["trial", "--delay", "1"], "give both"),
        (["trial", "--delay", "1", "--operator", "refresh"], "--condition"),
        (
            ["SprayBottle-None-Cabinet", "--condition", "clean", "--delay", "7", "--operator", "refresh"],
            "there are 1, 2, 4",
        ),
        (
            ["SprayBottle-None-Cabinet", "--condition", "clean", "--delay", "1", "--operator", "hope"],
            "there are none, refresh",
        ),
    ],
)
def test_show_says_what_there_is(finished, arguments, message):
    result = invoked("show", *arguments, "--results", results(finished))
    assert isinstance(result.exception, BadInput)
    assert message in str(result.exception)


# --- doctor


def test_the_engine_is_tried_for_real():
    found = {check.name: check for check in doctor.engine()}
    assert {check.level for check in found.values()} == {"ok"}
    assert set(found) == {"engine", "domain", "grammar"}


def test_what_raises_is_a_finding_and_the_rest_goes_on():
    def broken():
        yield doctor.Check("one", "ok", "fine")
        raise RuntimeError("no planner")

    found = doctor._guarded("engine", broken)
    assert [(check.name, check.level) for check in found] == [("one", "ok"), ("engine", "problem")]
    assert "no planner" in found[1].found


def test_versions_are_compared_with_the_pins():
    right = ("click", version("click"))
    assert [check.level for check in doctor.packages([right])] == ["ok"]
    found = list(doctor.packages([right, ("click", "0.1"), ("no-such-package-here", "1.0")]))
    assert [check.level for check in found] == ["warning", "problem"]
    assert [doctor.python(version_).level for version_ in ((3, 11), (3, 10), (3, 12))] == ["ok", "problem", "problem"]
    assert len(doctor._pins()) > 10


def test_a_study_of_official_games_needs_them(tmp_path):
    assert [check.level for check in doctor.games(None, needed=False)] == ["ok"]
    assert [check.level for check in doctor.games(None, needed=True)] == ["problem"]
    assert [check.level for check in doctor.games(str(tmp_path), needed=True)] == ["problem"]
    (tmp_path / "json_2.1.1/train").mkdir(parents=True)
    for root in (tmp_path, tmp_path / "json_2.1.1"):
        assert [check.level for check in doctor.games(str(root), needed=True)] == ["ok"]


def test_space_and_folders(tmp_path, monkeypatch):
    assert doctor.writable(tmp_path / "not/yet").level == "ok"
    (tmp_path / "file").write_text("")
    found = doctor.writable(tmp_path / "file", "store")
    assert (found.name, found.level) == ("store", "problem")
    for free, level in ((5e8, "problem"), (5e9, "warning"), (5e10, "ok")):
        usage = shutil._ntuple_diskusage(0, 0, int(free))
        monkeypatch.setattr(doctor.shutil, "disk_usage", lambda place, usage=usage: usage)
        assert doctor.space(tmp_path / "not/yet").level == level


def test_slurm_and_gpu_are_asked_where_they_are(tmp_path, monkeypatch):
    assert doctor.slurm(lambda name: None).level == "ok"
    assert doctor.slurm(lambda name: None if name == "sinfo" else f"/bin/{name}").level == "warning"
    assert doctor.gpu(lambda name: None).level == "ok"
    for name, text in (("sinfo", "echo slurm 24.11"), ("nvidia-smi", "echo no driver >&2; exit 9")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert doctor.slurm(lambda name: name) == doctor.Check("slurm", "ok", "slurm 24.11")
    found = doctor.gpu(lambda name: name)
    assert (found.level, found.found) == ("warning", "no driver")


class Models(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        data = json.dumps({"object": "list", "data": [{"id": "known", "object": "model"}]}).encode()
        self.send_response(200 if self.path == "/v1/models" else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments):
        pass


def test_the_agents_server_is_asked_for_its_models():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Models)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    values = yaml.safe_load((ROOT / "config/demo.yaml").read_text())
    address = f"http://127.0.0.1:{server.server_port}/v1"

    def found(model, url=address):
        values["agent"] = {"kind": "openai", "parameters": {"model": model, "base_url": url}}
        return next(doctor.server(parse_study(values, "study")))

    try:
        assert found("known").level == "ok"
        assert (found("other").level, "serves known, not other" in found("other").found) == ("problem", True)
    finally:
        server.shutdown()
        server.server_close()
    gone = found("known")
    assert gone.level == "problem"
    assert "base_url" in gone.todo


def test_a_problem_ends_with_1_after_everything_was_said(monkeypatch, tmp_path):
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    (tmp_path / "study.yaml").write_text(
        yaml.safe_dump(yaml.safe_load((ROOT / "config/demo.yaml").read_text()) | {"games": {"source": "alfworld"}})
    )
    result = invoked("doctor", "--study", tmp_path / "study.yaml", "--format", "json")
    assert isinstance(result.exception, CheckFailed)
    found = {check["name"]: check for check in json.loads(result.stdout)}
    assert found["games"]["level"] == "problem"
    assert "alfworld-download" in found["games"]["todo"]
    assert found["disk"]
