"""Every key of a study is changed in turn: a dry run plans the jobs that config/scopes.py says, none missing, none extra.

No stage runs here: the study's files are empty and Snakemake is told (`--touch`) that they are up to date, since a dry run
looks at params and at what the files are called, never into them.
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from checkout import checkout

from pipeline.config.document import keys, reruns
from pipeline.config.load import merge
from pipeline.config.scopes import BY_CONDITION_AND_OPERATOR, concerns

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
BASE = {
    "study": "walk",
    "games": {"generate": {"splits": {"train": 12, "valid_seen": 8}}},
    "cohorts": {
        "main": {"role": "fit", "split": "train", "size": 4},
        "evaluation": {"role": "evaluate", "split": "valid_seen", "size": 2},
    },
    "protocol": {
        "conditions": ["clean", "stale-1", "stale-2"],
        "delays": [0, 1],
        "operators": ["none", "refresh", "replan-only"],
    },
    "router": {"operator": "refresh", "delays": [0, 1], "conditions": ["clean", "stale-1"]},
}
# Another valid value of each key, under a cohort's name where the key is a cohort's.
OTHER = {
    "store": "elsewhere",
    "games.generate.seed": 2,
    "games.generate.splits": {"train": 13},
    "games.generate.task_types": ["pick_and_place_simple"],
    "games.generate.verb": "put",
    "cohorts.main.role": None,  # a role can't be changed alone: exactly one cohort fits, one evaluates
    "cohorts.main.split": "valid_seen",
    "cohorts.main.size": 5,
    "cohorts.main.seed": 1,
    "cohorts.main.reserve": 0.7,
    "cohorts.main.task_types": ["pick_and_place_simple"],
    "agent.kind": "openai",
    "agent.parameters": {"revisit": False},
    "harness.turns": 30,
    "harness.actions": 40,
    "harness.thought_reply": "Go on.",
    "harness.unparseable_reply": "What?",
    "harness.admissible_in_prompt": True,
    "harness.recovery_counts_action": False,
    "harness.recovery_counts_turn": True,
    "protocol.conditions": ["clean", "stale-1", "stale-2", "missing"],
    "protocol.delays": [0, 1, 2],
    "protocol.operators": ["none", "refresh", "replan-only", "content-ablated"],
    "protocol.alteration.fraction": 0.3,
    "protocol.alteration.length": 2,
    "protocol.alteration.first_observation": False,
    "protocol.alteration.missing_text": "Nothing came.",
    "protocol.texts.look_line": "look around",
    "protocol.texts.withheld_text": "[no text]",
    "protocol.texts.replan_line": "think: once more",
    "protocol.texts.replan_text": "Think again.",
    "statistics.resamples": 500,
    "statistics.seed": 1,
    "statistics.null_alterations": "exclude",
    "router.operator": "replan-only",
    "router.operators": ["replan-only"],
    "router.delays": [1],
    "router.population": "complete",
    "router.conditions": ["clean", "stale-2"],
    "router.C": 0.2,
    "router.lambda": 3.0,
    "router.epsilon": 0.1,
    "router.confidence": 0.9,
    "router.folds": 3,
    "router.seed": 1,
    "router.gamma_quantiles": 9,
}
# Keys whose other value needs a second one beside it: in the study that is up to date, so only the key itself changes.
BESIDE = {"agent.kind": {"agent": {"parameters": {"model": "some-model", "base_url": "http://localhost:1/v1"}}}}
# Keys that also choose which jobs there are.
TARGETS = ("agent.kind", "protocol.conditions", "protocol.delays", "protocol.operators")
# What a stage of config/scopes.py is called among the rules.
RULES = {"generate": "games", "index": "games", "translate": "translations"}


class Job(NamedTuple):
    """A planned job: its rule, files, and why Snakemake would run it."""

    rule: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    reason: str


def dry_run(folder, *overlays, force=False):
    """Jobs of a dry run; `force`: all of them."""
    command = [str(BIN / "snakemake"), "--profile", "profiles/local", "--dry-run", "--quiet", "host"]
    command += ["--forceall"] * force + ["--configfile", "base.yaml", *map(str, overlays)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=_environment(folder), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    jobs = []
    for block in re.split(r"^(?:local)?rule (?=\w+:$)", done.stdout + done.stderr, flags=re.MULTILINE)[1:]:
        parts = dict(re.findall(r"^    (input|output|reason): (.*)$", block, re.MULTILINE))
        files = {name: tuple(parts.get(name, "").split(", ")) for name in ("input", "output")}
        jobs.append(Job(block.split(":")[0], files["input"], files["output"], parts.get("reason", "")))
    return [job for job in jobs if job.rule != "all"]


def _environment(folder):
    """The package is the checkout's own, so that a test may edit it."""
    return os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": str(folder)}


def closure(jobs, start):
    """Outputs of the jobs in `start`, given by first output, and of all that follow from them."""
    makes = {output: job.outputs[0] for job in jobs for output in job.outputs}
    after = {}
    for job in jobs:
        for name in job.inputs:
            if name in makes:
                after.setdefault(makes[name], set()).add(job.outputs[0])
    found, waiting = set(), list(start)
    while waiting:
        if (one := waiting.pop()) not in found:
            found.add(one)
            waiting.extend(after.get(one, ()))
    return found


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """The study, up to date without having run, and all its jobs."""
    return up_to_date(tmp_path_factory.mktemp("walk"), BASE)


def up_to_date(folder, base):
    """A checkout in which every file of the study stands, empty, and Snakemake takes it for finished; and all its jobs."""
    checkout(folder, "pipeline")
    (folder / "base.yaml").write_text(yaml.safe_dump(base))
    jobs = dry_run(folder, force=True)
    for path in (Path(folder, output) for job in jobs for output in job.outputs):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch() if path.suffix else path.mkdir()
    command = [str(BIN / "snakemake"), "--profile", "profiles/local", "--touch", "--forceall", "--configfile"]
    subprocess.run([*command, "base.yaml"], cwd=folder, capture_output=True, env=_environment(folder), check=True)
    assert dry_run(folder) == []
    return folder, jobs


def overlay(key, value):
    *parents, last = key.split(".")
    nested = {last: value}
    for parent in reversed(parents):
        nested = {parent: nested}
    return nested


def expected(key, before, after):
    """First outputs of the jobs that the table says, of jobs that are new, of the study's record, and what follows."""
    rules = {RULES.get(stage, stage) for stage in reruns(key)} | ({"study"} if key != "store" else set())
    known = {job.outputs[0] for job in before}
    start = {
        job.outputs[0] for job in after if (job.rule in rules and matters(key, job)) or job.outputs[0] not in known
    }
    return closure(after, start)


def matters(key, job):
    """Whether a key matters to the condition and the operator of a trunk's or fork's job."""
    section, _, last = key.rpartition(".")
    told = {"protocol.alteration": "condition", "protocol.texts": "operator"}.get(section)
    if told is None or job.rule not in BY_CONDITION_AND_OPERATOR:
        return True
    name = re.search(rf"/{told}=([^/]+)/", job.outputs[0])
    return name is None or concerns(section, name[1], last)


def walk(key):
    return "cohorts.<name>" + key.removeprefix("cohorts.main") if key.startswith("cohorts.") else key


def test_another_value_is_known_for_every_key_that_has_one():
    fixed = {path for path, field in keys() if (field.json_schema_extra or {}).get("fixed")}
    assert {walk(key) for key in OTHER} == {path for path, _ in keys()} - fixed - {
        "study",
        "games.source",
        "games.root",
    }


@pytest.mark.slow
def test_each_key_re_runs_the_jobs_that_the_table_says(walked, tmp_path):
    folder, before = walked

    def check(key):
        path = tmp_path / f"{key}.yaml"
        path.write_text(yaml.safe_dump(merge(BESIDE.get(key, {}), overlay(key, OTHER[key]))))
        planned = dry_run(folder, path)
        whole = dry_run(folder, path, force=True) if key in TARGETS else before
        wanted, found = expected(walk(key), before, whole), {job.outputs[0] for job in planned}
        return key, sorted(wanted - found), sorted(found - wanted)

    wrong = []
    with ThreadPoolExecutor(2) as pool:
        for key, missing, extra in pool.map(check, [key for key, value in OTHER.items() if value is not None]):
            if missing or extra:
                wrong.append(
                    f"{key}: not planned {missing[:3]} ({len(missing)}); planned besides {extra[:3]} ({len(extra)})"
                )
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_another_folder_of_official_games_is_indexed_anew(tmp_path):
    """games.root, which means something for official games only; what it holds decides whether an episode is played again."""
    base = BASE | {"games": {"source": "alfworld", "root": "one"}}
    folder, before = up_to_date(tmp_path, base)
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(overlay("games.root", "two")))
    planned = {job.outputs[0] for job in dry_run(folder, "other.yaml")}
    assert planned == expected("games.root", before, before)


def edited(folder, module, add):
    """Jobs of a dry run with a line added to one module, or to all."""
    paths = sorted((folder / "pipeline").rglob("*.py")) if module is None else [folder / module]
    before = {path: path.read_text() for path in paths}
    try:
        for path, text in before.items():
            path.write_text(text + add)
        return dry_run(folder)
    finally:
        for path, text in before.items():
            path.write_text(text)


@pytest.mark.slow
def test_a_comment_in_every_module_re_runs_nothing(walked):
    assert edited(walked[0], None, "\n# a remark that changes nothing\n") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "yes", "no"),
    [
        ("pipeline/router/features.py", {"features", "fit", "evaluate", "report"}, {"fork", "pairs", "effects"}),
        ("pipeline/outcomes/effects.py", {"effects", "report"}, {"fork", "features", "fit", "evaluate"}),
        ("pipeline/harness/session.py", {"factual", "trunk", "fork", "pairs", "report"}, {"games", "draw"}),
        ("pipeline/report/wording.py", {"report"}, {"fork", "effects", "fit", "evaluate"}),
    ],
    ids=["a feature", "effects", "the episode loop", "the report's words"],
)
def test_changed_code_re_runs_its_stage_and_what_follows(walked, module, yes, no):
    rules = {job.rule for job in edited(walked[0], module, "\nPROBE = 1\n")}
    assert yes <= rules
    assert not no & rules
