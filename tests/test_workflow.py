"""The whole workflow on the smallest study: every stage, twice from nothing, and what a changed key re-runs."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from checkout import checkout

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
STUDY = "config/test.yaml"
CHECKED = ("*.parquet", "summary.json", "router.json")


def snakemake(folder, *arguments, configs=(STUDY,), check=True, **env):
    command = [str(BIN / "snakemake"), "--profile", "profiles/local", *arguments, "--configfile", *configs]
    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"} | env
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def hashes(results):
    return {
        str(path.relative_to(results)): hashlib.sha256(path.read_bytes()).hexdigest()
        for pattern in CHECKED
        for path in sorted(results.rglob(pattern))
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = checkout(tmp_path_factory.mktemp("study"))
    snakemake(folder)
    return folder


def planned(folder, *configs):
    """Jobs of a dry run by rule."""
    output = snakemake(folder, "--dry-run", "--quiet", "host", configs=configs or (STUDY,))
    counts = re.findall(r"^(\w+)\s+(\d+)$", output.stdout + output.stderr, re.MULTILINE)
    return {rule: int(count) for rule, count in counts if rule not in ("total", "job", "count")}


def table(folder, path):
    return pq.ParquetFile(folder / "results/test" / path).read().to_pylist()


@pytest.mark.slow
def test_every_artifact_of_the_contracts_is_there(finished):
    study = yaml.safe_load((ROOT / STUDY).read_text())
    sizes = {name: cohort["size"] for name, cohort in study["cohorts"].items()}
    pairs, exclusions = table(finished, "outcomes/pairs.parquet"), table(finished, "outcomes/exclusions.parquet")
    units = Counter(row["cohort"] for row in pairs) + Counter(row["cohort"] for row in exclusions if row["operator"])
    assert units == {name: size * 4 * 4 * 4 for name, size in sizes.items()}
    assert len(table(finished, "outcomes/effects.parquet")) == 2 * 2 * 4 * 4 * 4
    router = json.loads((finished / "results/test/router/router.json").read_text())
    assert set(router["thresholds"]) == {"alpha", "beta", "gamma"}
    policies = [
        p["policy"] for p in json.loads((finished / "results/test/evaluation/summary.json").read_text())["policies"]
    ]
    assert set(policies) >= {
        "never",
        "always-0",
        "always-1",
        "always-2",
        "always-4",
        "sequential-anomaly",
        "rate-matched-anomaly",
        "cir",
    }
    page = (finished / "results/test/report/index.html").read_text()
    assert f"The page holds all {len(pairs):,} branches of the study" in page
    assert (finished / "results/test/report/figures/router-risk-gain.svg").is_file()


@pytest.mark.slow
def test_snakemake_packs_the_page_and_its_figures_with_their_captions(finished):
    snakemake(finished, "--report", "study.zip")
    with zipfile.ZipFile(finished / "study.zip") as packed:
        names = {Path(name).name for name in packed.namelist()}
    drawings = {path.name for path in (finished / "results/test/report/figures").glob("*.svg")}
    assert {"index.html", *drawings} <= names


@pytest.mark.slow
def test_without_an_operator_a_branch_is_its_trunk(finished):
    """The A/A arm of a deterministic agent: rebuilt from a replayed prefix, it ends as the trunk did, transcript and all."""
    root = finished / "results/test"
    checked = 0
    for part in sorted(root.glob("forks/cohort=*/condition=*/delay=*/operator=none/part.parquet")):
        cohort, condition = part.parts[-5:-3]
        trunks = {
            row["task"]: row
            for row in pq.ParquetFile(root / "trajectories" / cohort / condition / "trunk.parquet").read().to_pylist()
        }
        for row in pq.ParquetFile(part).read().to_pylist():
            trunk = trunks[row["task"]]
            assert row["final_transcript_hash"] == trunk["transcript_hash"]
            assert (row["success"], row["exit"], row["turns"], row["actions"]) == tuple(
                trunk[c] for c in ("success", "exit", "turns", "actions")
            )
            assert row["steps"] == trunk["steps"][len(trunk["steps"]) - len(row["steps"]) :]
            checked += bool(row["steps"])
    assert checked > 100


@pytest.mark.slow
def test_the_clean_trunk_is_the_factual_run(finished):
    root = finished / "results/test/trajectories"
    for cohort in ("main", "evaluation"):
        factual = {
            row["task"]: row for row in pq.ParquetFile(root / f"cohort={cohort}/factual.parquet").read().to_pylist()
        }
        for row in pq.ParquetFile(root / f"cohort={cohort}/condition=clean/trunk.parquet").read().to_pylist():
            assert row["transcript_hash"] == factual[row["task"]]["transcript_hash"]


@pytest.mark.slow
def test_operators_differ_only_in_what_they_show(finished):
    """refresh and content-ablated leave the environment in the same state; replan-only doesn't touch it."""
    root = finished / "results/test/forks"
    for folder in sorted(root.glob("cohort=main/condition=stale-2/delay=*")):
        rows = {
            name: {
                row["task"]: row
                for row in pq.ParquetFile(folder / f"operator={name}" / "part.parquet").read().to_pylist()
            }
            for name in ("none", "refresh", "content-ablated", "replan-only")
        }
        for task, refresh in rows["refresh"].items():
            if not refresh["intervened"]:
                continue
            first = {name: rows[name][task]["steps"][0] for name in ("refresh", "content-ablated", "replan-only")}
            assert {step["kind"] for step in first.values()} == {"recover"}
            assert first["refresh"]["state_hash"] == first["content-ablated"]["state_hash"]
            assert first["refresh"]["observation_true"] == first["content-ablated"]["observation_true"]
            assert first["content-ablated"]["observation_shown"] == "[observation withheld]"
            assert first["replan-only"]["observation_true"] is None
            assert first["replan-only"]["state_hash"] == rows["none"][task]["state_hash"]


@pytest.mark.slow
def test_from_nothing_again_it_gives_the_same_bytes(finished, tmp_path):
    again = checkout(tmp_path)
    snakemake(again, "--cores", "1", PYTHONHASHSEED="12345")
    first, second = hashes(finished / "results/test"), hashes(again / "results/test")
    assert first == second
    assert len(first) > 100


@pytest.mark.slow
def test_a_finished_study_has_nothing_to_do_wherever_it_is_copied(finished, tmp_path):
    assert planned(finished) == {}
    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    assert planned(copy) == {}


def adopt(folder, study=STUDY):
    """What `make adopt` does."""
    name = yaml.safe_load((folder / study).read_text())["study"]
    done = subprocess.run(
        [str(BIN / "cir"), "audit", f"results/{name}", "--study", study],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    snakemake(folder, "--touch", "--forceall", configs=(study,))


@pytest.mark.slow
def test_a_fresh_checkout_with_new_times_takes_the_results_over(finished, tmp_path):
    """Audited and touched, nothing runs again and every later change is seen; without, a change would go unnoticed."""
    fresh = checkout(tmp_path)
    shutil.copytree(finished / "results", fresh / "results")
    before = hashes(fresh / "results/test")
    for number, path in enumerate(sorted(fresh.rglob("*"), key=lambda path: path.name)):
        os.utime(path, (10**9 + number, 10**9 + number))
    adopt(fresh)
    assert hashes(fresh / "results/test") == before
    assert planned(fresh) == {}
    (fresh / "overlay.yaml").write_text(yaml.safe_dump({"harness": {"turns": 40}}))
    assert planned(fresh, STUDY, "overlay.yaml")["fork"] == 2 * 64


@pytest.mark.slow
def test_a_renamed_study_re_runs_nothing(finished, tmp_path):
    fresh = checkout(tmp_path)
    shutil.copytree(finished / "results", fresh / "results")
    (fresh / "results/test").rename(fresh / "results/renamed")
    text = (fresh / STUDY).read_text()
    assert "study: test\n" in text
    (fresh / "renamed.yaml").write_text(text.replace("study: test\n", "study: renamed\n"))
    adopt(fresh, "renamed.yaml")
    assert planned(fresh, "renamed.yaml") == {}


@pytest.mark.slow
def test_results_of_another_config_are_not_taken_over(finished):
    (finished / "other.yaml").write_text(
        yaml.safe_dump(yaml.safe_load((finished / STUDY).read_text()) | {"harness": {"turns": 40}})
    )
    done = subprocess.run(
        [str(BIN / "cir"), "audit", "results/test", "--study", "other.yaml"],
        cwd=finished, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "harness.turns was 49, planned 40" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overlay", "expected"),
    [
        ({"router": {"lambda": 3.0}}, {"fit": 1, "evaluate": 1, "report": 1}),
        ({"statistics": {"seed": 1}}, {"effects": 1, "evaluate": 1, "report": 1}),
        ({"protocol": {"delays": [0, 1, 2, 4, 3]}}, {"fork": 2 * 4 * 4}),
        ({"agent": {"parameters": {"revisit": False}}}, {"factual": 2, "trunk": 8, "fork": 2 * 64}),
        # Texts re-run the jobs of those operators and conditions that show them.
        ({"protocol": {"texts": {"replan_text": "Think."}}}, {"trunk": 0, "fork": 2 * 4 * 4}),
        ({"protocol": {"texts": {"look_line": "look around"}}}, {"trunk": 0, "fork": 2 * 4 * 4 * 2}),
        ({"protocol": {"alteration": {"missing_text": "?"}}}, {"settle": 0, "trunk": 2, "fork": 2 * 4 * 4}),
    ],
    ids=["lambda", "seed", "delay", "agent", "replan", "look", "missing"],
)
def test_a_changed_key_re_runs_what_depends_on_it(finished, overlay, expected, tmp_path):
    path = tmp_path / "overlay.yaml"
    path.write_text(yaml.safe_dump(overlay))
    jobs = planned(finished, STUDY, str(path))
    assert {rule: jobs.get(rule, 0) for rule in expected} == expected
    early = {"games", "draw", "translations"}
    assert not early & set(jobs)
    if "fork" not in expected:
        assert not {"factual", "settle", "trunk", "fork", "pairs"} & set(jobs)


@pytest.mark.slow
def test_another_store_re_runs_nothing(finished, tmp_path):
    path = tmp_path / "overlay.yaml"
    path.write_text(yaml.safe_dump({"store": "elsewhere/store"}))
    assert planned(finished, STUDY, str(path)) == {}


@pytest.mark.slow
def test_another_study_in_the_same_store_generates_no_episode(finished, tmp_path):
    """The same tasks under another name, with fewer conditions, delays and operators: every job finds what it needs."""
    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    entries = {path.name: path.stat().st_ino for path in copy.rglob("*.episode")}
    protocol = {"conditions": ["clean", "stale-2"], "delays": [1], "operators": ["none", "refresh"]}
    overlay = {"study": "theirs", "protocol": protocol, "router": {"delays": [1]}}
    (copy / "overlay.yaml").write_text(yaml.safe_dump(overlay))
    snakemake(copy, "results/theirs/outcomes/pairs.parquet", configs=(STUDY, "overlay.yaml"))
    said = [
        line
        for log in (copy / "results/theirs/logs").rglob("*.log")
        for line in log.read_text().splitlines()
        if line.startswith("store: ")
    ]
    assert len(said) == 2 + 4 + 8
    assert all(line.endswith("found, 0 generated") for line in said)
    assert {path.name: path.stat().st_ino for path in copy.rglob("*.episode")} == entries
    for part in sorted((copy / "results/theirs/forks").rglob("*.parquet")):
        assert part.read_bytes() == (copy / "results/test" / part.relative_to(copy / "results/theirs")).read_bytes()


@pytest.mark.slow
def test_a_study_of_more_games_makes_only_those(finished, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    overlay = {"study": "more", "games": {"generate": {"splits": {"train": 32, "valid_seen": 15}}}}
    (copy / "overlay.yaml").write_text(yaml.safe_dump(overlay))
    snakemake(copy, "results/more/games/games.parquet", configs=(STUDY, "overlay.yaml"))
    assert "games: 3 made, 44 kept" in (copy / "results/more/logs/games.log").read_text()
    assert len(list((copy / "results/games").iterdir())) == 1


@pytest.mark.slow
def test_what_the_store_holds_is_what_the_tables_name(finished):
    done = subprocess.run([str(BIN / "cir"), "store", "status", "--format", "json"], cwd=finished, capture_output=True,
                          text=True, check=True, env={k: v for k, v in os.environ.items() if k != "CIR_STORE"})  # fmt: skip
    told = json.loads(done.stdout)
    assert told["entries"] > 1000
    assert (told["unreferenced"], told["damaged"], told["parts"]) == (0, 0, 0)
    assert [(row["study"], row["missing"]) for row in told["studies"]] == [("results/test", 0)]
    assert told["studies"][0]["episodes"] == told["entries"]


@pytest.mark.slow
def test_a_wrong_config_ends_before_any_job(finished, tmp_path):
    path = tmp_path / "overlay.yaml"
    path.write_text("protocol: {delais: [1]}\n")
    done = snakemake(finished, configs=(STUDY, str(path)), check=False)
    assert done.returncode != 0
    assert "protocol.delais: no such key; did you mean delays?" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.slow
def test_without_a_config_snakemake_says_how(finished):
    done = subprocess.run(
        [str(BIN / "snakemake"), "--profile", "profiles/local"],
        cwd=finished,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "--configfile" in done.stdout + done.stderr
