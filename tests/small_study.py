"""One small finished study, run by the workflow, for the tests of audit, trace and crate."""

import os
import subprocess
import sys
from pathlib import Path

from checkout import checkout

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
CONFIG = """study: small
games:
  generate: {seed: 7, splits: {train: 14, valid_seen: 10}}
cohorts:
  main: {role: fit, split: train, size: 6, reserve: 1.0}
  evaluation: {role: evaluate, split: valid_seen, size: 4, reserve: 1.0}
protocol:
  conditions: [clean, stale-2]
  delays: [1, 2]
  operators: [none, refresh]
router: {delays: [1, 2], folds: 2}
statistics: {resamples: 200}
"""


def run(folder: Path, *arguments: str, **env: str) -> Path:
    """Run the study in a fresh copy of what a clone holds; returns results/small."""
    checkout(folder)
    (folder / "small.yaml").write_text(CONFIG)
    command = [str(BIN / "snakemake"), "--profile", "profiles/local", *arguments, "--configfile", "small.yaml"]
    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"} | env
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "results/small"


def cir(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess:
    """A `cir` command as a user runs it."""
    command = [sys.executable, "-m", "pipeline.cli", *arguments]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, env=env)
