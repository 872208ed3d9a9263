"""A tiny finished study, made once by the real workflow, for tests that run commands on results.

It lies in a folder that looks like a checkout after `make demo`: the project's own files, and results/demo made from a
config/demo.yaml that is cut to a few tasks. Documented commands therefore run there word for word.
"""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import checkout as workflow
import yaml

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
TINY = {
    "games": {"generate": {"splits": {"train": 14, "valid_seen": 13}}},
    "cohorts": {
        "main": {"role": "fit", "split": "train", "size": 7, "reserve": 0.5},
        "evaluation": {"role": "evaluate", "split": "valid_seen", "size": 6, "reserve": 0.8},
    },
    "protocol": {
        "conditions": ["clean", "stale-2"],
        "delays": [1, 2, 4],
        "operators": ["none", "refresh", "replan-only"],
    },
    "statistics": {"resamples": 200},
}


def environment(**more: str) -> dict[str, str]:
    """The tests' own interpreter first, a plain terminal of 80 columns."""
    return os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "COLUMNS": "80"} | more


def checkout(folder: Path) -> Path:
    """The workflow with the documents that speak of it."""
    return workflow.checkout(folder, "workflow", "docs", "README.md")


def make(folder: Path) -> Path:
    """The study in `folder`, made where it isn't there yet; test processes wait for the one that makes it."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "finished").exists():
            checkout(folder)
            demo = yaml.safe_load((folder / "config/demo.yaml").read_text())
            (folder / "config/demo.yaml").write_text(yaml.safe_dump({**demo, **TINY}, sort_keys=False))
            done = subprocess.run(
                ["snakemake", "--profile", "profiles/local", "--configfile", "config/demo.yaml"],
                cwd=folder,
                capture_output=True,
                text=True,
                env=environment(),
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            (folder / "finished").touch()
    return folder


def shared(tmp_path_factory) -> Path:
    """The study of this test session: made by whichever process comes first, the same for all of them."""
    base = tmp_path_factory.getbasetemp()
    # A process of pytest-xdist has a folder of its own inside the session's.
    return make((base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "cir-tiny-study" / "demo")
