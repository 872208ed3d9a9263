"""A copy of what a clone holds and the workflow needs: its own results folder and .snakemake."""

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORKFLOW = ("Snakefile", "rules", "config", "profiles", "envs", "report")


def checkout(folder: Path, *more: str) -> Path:
    """Copy the workflow, and files or folders by name besides, into a folder that exists."""
    for name in (*WORKFLOW, *more):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    return folder
