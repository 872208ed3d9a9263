"""Find an episode in a study's results: the factual run of a task, or a trunk with one of its branches."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import BadInput
from pipeline.records.episodes import step_of_action, steps_of
from pipeline.records.tables import read_rows


@dataclass(frozen=True)
class Episode:
    """A run to show: its cohort, the row of its trajectories table, and of a branch the row of its forks table."""

    cohort: str
    row: dict[str, Any]
    branch: dict[str, Any] | None = None
    altered_length: int = 1

    @property
    def fork_index(self) -> int | None:
        """Position in the trunk's steps of the first one after the fork; None without a branch or after the end."""
        if self.branch is None:
            return None
        position = step_of_action(steps_of(self.row["steps"]), self.branch["fork_action"])
        return None if position is None else position + 1

    def altered(self, position: int) -> bool:
        """Whether the reply of the trunk's step at that position was altered."""
        return self._covered(self.row["steps"][: position + 1])

    def altered_in_branch(self, position: int) -> bool:
        """The same of the branch's step at that position: an alteration of several replies can reach over the fork."""
        assert self.branch is not None
        return self._covered([*self.row["steps"][: self.fork_index], *self.branch["steps"][: position + 1]])

    def _covered(self, steps: Sequence[dict[str, Any]]) -> bool:
        """Whether the last step is one of the agent's actions whose reply is altered; a recovery's look is none."""
        first = self.row["altered_at"]
        number = sum(step["kind"] == "act" for step in steps)
        return first is not None and steps[-1]["kind"] == "act" and first <= number < first + self.altered_length

    def part_at(self) -> int | None:
        """How many turns trunk and branch take alike after the fork, the recovery left out; None: they never part.

        A turn is alike when the agent wrote the same and was shown the same.
        """
        assert self.branch is not None
        start = self.fork_index or len(self.row["steps"])
        trunk = [(step["output"], step["observation_shown"]) for step in self.row["steps"][start:]]
        branch = [(s["output"], s["observation_shown"]) for s in self.branch["steps"] if s["kind"] != "recover"]
        same = 0
        while same < min(len(trunk), len(branch)) and trunk[same] == branch[same]:
            same += 1
        return None if same == len(trunk) == len(branch) else same


def find(
    results: Path,
    task: str,
    cohort: str | None = None,
    condition: str | None = None,
    delay: int | None = None,
    operator: str | None = None,
) -> Episode:
    """The episode of a task (or a part of its name that only one task has).

    Without a condition it is the factual run; with delay and operator the trunk comes with that branch. Raises BadInput
    naming what exists: tasks of nearly that name, cohorts, conditions, delays, operators.
    """
    if (delay is None) != (operator is None):
        raise BadInput("--delay and --operator choose one branch: give both, or neither for the trunk alone")
    if delay is not None and condition is None:
        raise BadInput("--condition: a branch leaves the trunk of a condition; name it, such as --condition stale-2")
    root = results / "trajectories"
    if not root.is_dir():
        raise BadInput(f"{root}: no such folder; expected a study's results, such as results/demo")
    found = {}
    for name in _values(root, "cohort", cohort):
        path = root / f"cohort={name}"
        if condition is not None:
            _values(path, "condition", condition)
            path = path / f"condition={condition}" / "trunk.parquet"
        else:
            path = path / "factual.parquet"
        for one in read_rows(path, columns=["task"]):
            found.setdefault(one["task"], (name, path))
    chosen = _named(task, sorted(found))
    name, path = found[chosen]
    row = _row(path, chosen)
    branch = None
    if delay is not None and operator is not None:
        forks = results / "forks" / f"cohort={name}" / f"condition={condition}"
        _values(forks, "delay", str(delay))
        _values(forks / f"delay={delay}", "operator", operator)
        branch = _row(forks / f"delay={delay}" / f"operator={operator}" / "part.parquet", chosen)
    return Episode(name, row, branch, _altered_length(results))


def _values(folder: Path, key: str, wanted: str | None) -> list[str]:
    """Names of the folders `key=…`, or only the wanted one. Raises BadInput naming those that are there."""
    have = sorted(path.name.removeprefix(f"{key}=") for path in folder.glob(f"{key}=*"))
    if wanted is None and have:
        return have
    if wanted in have:
        return [wanted]
    there = ", ".join(have) or "none yet"
    raise BadInput(f"--{key} {wanted or ''}: not in {folder}; there are {there}".replace(" :", ":"))


def _named(task: str, tasks: Sequence[str]) -> str:
    if task in tasks:
        return task
    parts = [name for name in tasks if task.lower() in name.lower()]
    if len(parts) == 1:
        return parts[0]
    if parts:
        shown = "\n".join(f"  {name}" for name in parts[:10])
        more = f"\n  and {len(parts) - 10} more" if len(parts) > 10 else ""
        raise BadInput(f"{task}: {len(parts)} tasks have that in their name; say more of it:\n{shown}{more}")
    folders = {name.split("/")[0]: name for name in tasks}
    folders |= {name: name for name in tasks}
    near = list(dict.fromkeys(folders[one] for one in difflib.get_close_matches(task, folders, n=5, cutoff=0.3)))
    near = near or list(tasks[:5])
    shown = "\n".join(f"  {name}" for name in near)
    raise BadInput(f"{task}: no task of that name was played; the nearest of {len(tasks)}:\n{shown}")


def _row(path: Path, task: str) -> dict[str, Any]:
    for row in read_rows(path):
        if row["task"] == task:
            return row
    raise BadInput(f"{path}: holds no row of {task}; run its stage again")


def _altered_length(results: Path) -> int:
    """Consecutive altered replies, from the study's record; 1, the protocol's, where it isn't written yet."""
    from pipeline.records.files import read_json

    path = results / "study.json"
    return int(read_json(path)["protocol"]["alteration"]["length"]) if path.is_file() else 1
