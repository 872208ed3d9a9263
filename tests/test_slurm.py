"""
The study under a real Slurm (tests/slurm/up.sh: two nodes of eight H200): the local run's bytes, GPUs asked for and got,
and the runbook's steps when jobs or Snakemake die. The commands are those of docs/slurm.md.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import yaml
from test_workflow import checkout, hashes

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
SLURM = ROOT / "tests/slurm"
DAEMONS = ("munged", "slurmctld", "slurmd", "slurmdbd", "mariadbd", "sbatch")
# The profile is made for jobs of hours; a test's last seconds.
# Two cores are shared by all jobs.
THREADS = ("--set-threads", *(f"{rule}=1" for rule in ("games", "translations", "factual", "trunk", "fork", "live")))
QUICK = ("--seconds-between-status-checks=2", "--slurm-init-seconds-before-status-checks=1", "--latency-wait=20")
STUDY = ("config/test.yaml", "tests/slurm/study.yaml")
ORPHANS = """squeue -h -u "$(id -un)" -o '%i %j' | awk '$2 ~ /^cir_/ {print $1}'"""
STARTED = []  # every Snakemake of these tests; none may outlive them
AGENT_STAGES = {"factual", "trunk", "fork", "live"}


def profile(name):
    return yaml.safe_load((ROOT / "profiles" / name / "config.yaml").read_text())


def differing(first, second, path=()):
    """Key paths at which two profiles differ."""
    if not (isinstance(first, dict) and isinstance(second, dict)):
        return set() if first == second else {".".join(path)}
    return {d for key in first.keys() | second.keys() for d in differing(first.get(key), second.get(key), (*path, key))}


def test_the_profile_without_accounting_differs_in_accounting_only():
    accounts = {"default-resources.slurm_account"} | {f"set-resources.{s}.slurm_account" for s in AGENT_STAGES}
    assert differing(profile("slurm"), profile("slurm-no-accounting")) == accounts | {
        "slurm-status-command",
        "slurm-no-account",
    }


def test_the_profile_without_gpus_asks_for_none_and_differs_in_nothing_else():
    keys = ("slurm_partition", "gres", "mem_mb")
    assert differing(profile("slurm"), profile("slurm-cpu")) == {
        f"set-resources.{s}.{k}" for s in AGENT_STAGES for k in keys
    }
    assert "gpu" not in yaml.safe_dump(profile("slurm-cpu"))


@pytest.fixture(scope="module")
def cluster():
    """Environment variables that point at the cluster; it is taken down whatever happens."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    missing = [name for name in DAEMONS if shutil.which(name, path=path) is None]
    if missing:
        pytest.skip(f"no Slurm here (missing: {', '.join(missing)}); tests/slurm/install.sh installs it as root")
    if os.geteuid():
        pytest.skip("GPU device files are made with mknod, which needs root")
    # Short, since the path of a Unix socket holds 107 characters.
    base = os.environ.get("SLURM_TEST_BASE") or tempfile.mkdtemp(prefix="slurm-", dir="/tmp")
    env = os.environ | {"BASE": base, "PATH": path}
    try:
        subprocess.run([SLURM / "up.sh"], env=env, check=True, timeout=120)
        yield env | {"SLURM_CONF": f"{base}/etc/slurm.conf", "PATH": f"{base}/bin:{BIN}:{path}"}
    finally:
        for process in STARTED:
            process.kill()
            process.wait()
        subprocess.run([SLURM / "down.sh"], env=env, check=False, timeout=120)


def shell(command, env, folder=None):
    return subprocess.run(command, shell=True, env=env, cwd=folder, check=True, capture_output=True, text=True).stdout


def start(folder, env, *arguments, profile="slurm"):
    """Snakemake in the background; its talk goes to folder/log."""
    with (folder / "log").open("a") as log:
        process = subprocess.Popen(
            [BIN / "snakemake", "--profile", f"profiles/{profile}", *(QUICK if profile != "local" else ()), *arguments],
            cwd=folder,
            env=env,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    STARTED.append(process)
    return process


def finish(process, folder, seconds):
    try:
        code = process.wait(seconds)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
    assert code == 0, (folder / "log").read_text()


def wait_until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.5)


def accounted(env, *fields):
    """Slurm's own rows on this cluster's jobs, oldest first; a job's rule is its comment's."""
    text = shell(f"sacct -X -n -P -D -S now-1hours -o {','.join(fields)}", env)
    return [dict(zip(fields, line.split("|"), strict=True)) for line in text.splitlines()]


def faults(tmp_path):
    shutil.copytree(ROOT / "profiles", tmp_path / "profiles")
    return tmp_path


@pytest.fixture(scope="module")
def failing(cluster, tmp_path_factory):
    """Jobs with too little memory and time, in the background from the first: a time limit takes a minute to strike."""
    folder = faults(tmp_path_factory.mktemp("faults"))
    process = start(
        folder,
        cluster,
        "--snakefile",
        str(SLURM / "faults.smk"),
        "--set-resources",
        "hungry:mem_mb=700*attempt**2",
        "hungry:runtime=5",
        "slow:runtime=attempt",
    )
    yield folder, process
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        process.wait(60)


@pytest.mark.slow
@pytest.mark.slurm
def test_the_study_has_the_local_runs_bytes_and_its_gpu_jobs_a_gpu(cluster, failing, tmp_path_factory):
    local, remote = (checkout(tmp_path_factory.mktemp(name)) for name in ("local", "remote"))
    for folder in (local, remote):
        shutil.copytree(SLURM, folder / "tests/slurm")
    begin = time.monotonic()
    submitted = start(remote, cluster, *THREADS, "--configfile", *STUDY)
    # Meanwhile, since a Slurm run is mostly waiting.
    finish(start(local, cluster, "--cores=1", "--configfile", *STUDY, profile="local"), local, 600)
    finish(submitted, remote, 600)
    print(f"\nthe study took {time.monotonic() - begin:.0f} s under Slurm")
    first, second = hashes(local / "results/slurm"), hashes(remote / "results/slurm")
    assert first == second
    assert len(first) >= 25

    logs = (remote / ".snakemake/slurm_logs").glob("rule_*/**/*.log")
    rules = {log.stem: next(p for p in log.parts if p.startswith("rule_"))[5:] for log in logs}
    rows = {
        row["JobID"]: row for row in accounted(cluster, "JobID", "JobName", "Account", "AllocTRES", "Elapsed", "State")
    }
    assert set(rules.values()) > AGENT_STAGES
    for job, rule in rules.items():
        row = rows[job]
        assert row["JobName"].startswith("cir_")
        assert row["Account"] == "cir"
        assert ("gres/gpu:h200=1" in row["AllocTRES"].split(",")) == (rule in AGENT_STAGES), (rule, row)


@pytest.mark.slow
@pytest.mark.slurm
def test_a_job_killed_for_memory_or_time_is_tried_again_with_more(cluster, failing):
    folder, process = failing
    finish(process, folder, 200)
    rows = accounted(cluster, "JobID", "State", "ReqMem", "TimelimitRaw")

    def attempts(rule):
        jobs = {log.stem for log in folder.glob(f".snakemake/slurm_logs/rule_{rule}/**/*.log")}
        return sorted((row for row in rows if row["JobID"] in jobs), key=lambda row: int(row["JobID"]))

    hungry, slow = attempts("hungry"), attempts("slow")
    # Without cgroups Slurm's accounting kills the step that is over its memory; the job then counts as failed.
    assert [row["State"] for row in hungry] == ["FAILED", "COMPLETED"]
    step = shell(f"sacct -n -P -j {hungry[0]['JobID']}.0 -o State,ExitCode,MaxRSS", cluster).strip().split("|")
    assert step[:2] == ["CANCELLED by 0", "0:9"]
    assert int(step[2].removesuffix("K")) > 700 * 1024
    assert [row["ReqMem"] for row in hungry] == ["700M", "2800M"]
    assert [row["State"] for row in slow] == ["TIMEOUT", "COMPLETED"]
    assert [row["TimelimitRaw"] for row in slow] == ["1", "2"]


@pytest.mark.slow
@pytest.mark.slurm
def test_cancelled_interrupted_and_killed_runs_go_on_by_the_runbook(cluster, tmp_path):
    folder = faults(tmp_path)
    names = ("a", "b")
    arguments = ("--snakefile", str(SLURM / "faults.smk"), *(f"waiting/{name}.txt" for name in names))

    def ours():
        return shell(ORPHANS, cluster).split()

    def started(times):
        return all(
            (folder / "started" / n).exists() and len((folder / "started" / n).read_text().split()) >= times
            for n in names
        )

    # One job is cancelled from outside, then Snakemake is interrupted: it takes its other job with it.
    process = start(folder, cluster, *arguments)
    wait_until(lambda: started(1), 60, "both jobs run")
    shell(f"scancel {ours()[0]}", cluster)
    wait_until(lambda: len(ours()) == 1, 30, "the cancelled job is gone")
    process.send_signal(signal.SIGINT)
    process.wait(60)
    assert process.returncode != 0
    wait_until(lambda: not ours(), 30, "the interrupted run's jobs are gone")
    assert not list(folder.glob("waiting/*.txt"))

    # Killed without a chance to clean up: the jobs live on, and a new run is refused until the runbook's two steps.
    process = start(folder, cluster, *arguments)
    wait_until(lambda: started(2), 60, "both jobs run again")
    process.kill()
    process.wait(10)
    assert len(ours()) == 2
    refused = start(folder, cluster, *arguments)
    assert refused.wait(60) != 0
    assert "cannot be locked" in (folder / "log").read_text()
    shell(f"{ORPHANS} | xargs -r scancel", cluster)
    wait_until(lambda: not ours(), 30, "the orphans are gone")
    (folder / "go").touch()
    unlock = start(folder, cluster, *arguments, "--unlock")
    finish(unlock, folder, 60)
    finish(start(folder, cluster, *arguments), folder, 100)
    assert [(folder / f"waiting/{name}.txt").read_text() for name in names] == ["done\n", "done\n"]
