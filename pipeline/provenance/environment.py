"""What a command runs on: Python, packages, the checkout, the machine and its GPUs."""

import platform
import re
import shutil
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from pipeline.provenance.code import ROOT

DISTRIBUTION = "cir-pipeline"
CODE = ("pipeline", "rules", "Snakefile")
_NAME = re.compile(r"^[A-Za-z0-9._-]+")
_GPUS = Path("/proc/driver/nvidia/gpus")
SECONDS = 20


@cache
def software() -> dict[str, Any]:
    """Fields of a record's `environment`."""
    commit, dirty, why = checkout(ROOT)
    return {
        "python": platform.python_version(),
        "packages": packages(),
        "commit": commit,
        "dirty": dirty,
        "no_commit": why,
    }


def packages() -> dict[str, str]:
    """Installed versions of what the project declares, extras left out; empty where the project is not installed."""
    try:
        declared = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return {}
    found = {}
    for requirement in declared:
        name = _NAME.match(requirement)
        if name and "extra ==" not in requirement:
            try:
                found[name[0]] = metadata.version(name[0])
            except metadata.PackageNotFoundError:
                found[name[0]] = "not installed"
    return dict(sorted(found.items()))


def checkout(root: Path) -> tuple[str | None, bool | None, str | None]:
    """Commit of the checkout at `root`, whether workflow or code differ from it, and the reason where there is none."""
    if not (root / ".git").exists():
        return None, None, "the code is not in a checkout"
    if shutil.which("git") is None:
        return None, None, "git is not installed"
    try:
        commit = _git(root, "rev-parse", "HEAD").strip()
        changed = _git(root, "status", "--porcelain", "--", *CODE)
    except (subprocess.SubprocessError, OSError) as error:
        said = getattr(error, "stderr", "") or error
        return None, None, f"git can't tell: {' '.join(str(said).split())}"
    return commit, bool(changed.strip()), None


def _git(root: Path, *arguments: str) -> str:
    # Without optional locks: jobs ask at the same time, and none of them may be in another's way.
    command = ["git", "--no-optional-locks", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS).stdout


@cache
def gpus() -> tuple[str, ...] | None:
    """Models of the machine's NVIDIA GPUs: as the driver tells, else as nvidia-smi does; None where there is neither."""
    try:
        told = [(gpu / "information").read_text() for gpu in sorted(_GPUS.iterdir())]
    except OSError:
        told = []
    if models := [
        line.partition(":")[2].strip() for text in told for line in text.splitlines() if line.startswith("Model:")
    ]:
        return tuple(models)
    if shutil.which("nvidia-smi") is None:
        return None
    try:
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
            capture_output=True, text=True, check=True, timeout=SECONDS,
        )  # fmt: skip
    except (subprocess.SubprocessError, OSError):
        return None
    return tuple(line.strip() for line in done.stdout.splitlines() if line.strip()) or None
