"""Whether the files of a page come from one run: a page must not mix the tables of two studies."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.errors import CheckFailed

Row = Mapping[str, Any]


def one_run(tables: Mapping[str, Sequence[Row]], paths: Mapping[str, Path]) -> None:
    """Check that cohorts are drawn from these games, and pairs and exclusions from these cohorts. Raises CheckFailed."""
    games = {row["task"] for row in tables["games"]}
    candidates = {(row["cohort"], row["task"]) for row in tables["cohorts"]}
    feasible = {(row["cohort"], row["task"]) for row in tables["cohorts"] if row["feasible"]}
    for name, wanted, of in (
        ("cohorts", {row["task"] for row in tables["cohorts"]} - games, "games"),
        ("pairs", {(row["cohort"], row["task"]) for row in tables["pairs"]} - feasible, "cohorts"),
        ("exclusions", {(row["cohort"], row["task"]) for row in tables["exclusions"]} - candidates, "cohorts"),
    ):
        if wanted:
            first = min(wanted)
            raise CheckFailed(
                f"{paths[name]}: {first if isinstance(first, str) else ' '.join(first)} and {len(wanted) - 1} more are not "
                f"in {paths[of]}; make the page from the tables of one run"
            )


def made_from(record: Row, name: str, digests: Mapping[str, str], paths: Mapping[str, Path]) -> None:
    """Check the digests of its inputs that a file (`paths[name]`) carries, as far as it does. Raises CheckFailed."""
    recorded = record.get("inputs")
    for other, sha256 in (recorded if isinstance(recorded, Mapping) else {}).items():
        if other in digests and sha256 != digests[other]:
            raise CheckFailed(
                f"{paths[name]}: was made from another {other} file than {paths[other]}; run the stage that writes it again"
            )
