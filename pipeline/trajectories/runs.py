"""Units of factual runs and trunks, and their rows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline.errors import BadInput
from pipeline.harness.player import Unit
from pipeline.records.episodes import step_of_action, steps_of


def translations_of(tasks: Sequence[str], rows: Sequence[Mapping[str, Any]], source: str) -> dict[str, bytes]:
    """Translation of each task. Raises BadInput naming the tasks that `source` lacks."""
    known = {row["task"]: row["translation"] for row in rows}
    if missing := sorted(set(tasks) - set(known)):
        raise BadInput(
            f"{source}: has no translation of {', '.join(missing[:5])}; run `cir games translate` on these games"
        )
    return {task: known[task] for task in tasks}


def of_cohort(rows: Sequence[Mapping[str, Any]], cohort: str, source: str) -> list[Mapping[str, Any]]:
    """The rows of a cohort. Raises BadInput naming the cohorts that `source` has where there is none of that name."""
    if not (mine := [row for row in rows if row["cohort"] == cohort]):
        have = ", ".join(sorted({row["cohort"] for row in rows})) or "no row at all"
        raise BadInput(f"{source}: holds no task of cohort {cohort!r}; it has {have}")
    return mine


def played_all(tasks: Iterable[str], episodes: Mapping[str, Any], source: str) -> None:
    """Check that `source` holds an episode of each task. Raises BadInput naming the first that it lacks."""
    if missing := sorted(set(tasks) - set(episodes)):
        raise BadInput(
            f"{source}: has no factual run of {len(missing)} task(s), the first: {missing[0]}; "
            "it belongs to another cohort or draw: run `cir factual` on these candidates"
        )


def factual_units(tasks: Sequence[str], translations: Mapping[str, bytes]) -> list[Unit]:
    """One unaltered run a task."""
    return [Unit(task, translations[task]) for task in sorted(tasks)]


def trunk_units(
    cohort: Sequence[Mapping[str, Any]],
    factual: Mapping[str, Mapping[str, Any]],
    condition: str,
    translations: Mapping[str, bytes],
) -> list[Unit]:
    """One trunk a feasible task: the factual prefix up to action k, whose reply is shown as the condition has it.

    The environment's state at k must be the factual run's. The transcript's hash can't be compared, it differs on purpose.
    """
    units = []
    for row in sorted(cohort, key=lambda row: row["task"]):
        steps = steps_of(factual[row["task"]]["steps"])
        position = step_of_action(steps, row["altered_at"])
        if position is None:
            raise BadInput(
                f"{row['task']}: its factual run has no action {row['altered_at']}; settle the cohorts again"
            )
        units.append(
            Unit(
                task=row["task"],
                translation=translations[row["task"]],
                prefix=tuple(step.output for step in steps[1 : position + 1]),
                condition=condition,
                k=row["altered_at"],
                expected_state=steps[position].state_hash,
                origin=factual[row["task"]]["episode_key"],
            )
        )
    return units


def same_agent(rows: Sequence[Mapping[str, Any]], agent: str, source: str) -> None:
    """Check that recorded episodes are those of the agent at hand. Raises BadInput: a branch of another agent pairs nothing."""
    if others := sorted({row["task"] for row in rows if row["agent"] != agent}):
        raise BadInput(
            f"{source}: {len(others)} episodes were played by another agent or harness than the config's (first: {others[0]}); "
            "parameters, budgets or code have changed since: run that stage again"
        )


def lost_episode(task: str, condition: str, k: int | None, agent: str) -> dict[str, Any]:
    """Row of an episode whose worker died: no outcome, counted by name (contracts.md, exit taxonomy)."""
    return {
        "task": task,
        "condition": condition,
        "agent": agent,
        "success": False,
        "exit": "infrastructure",
        "turns": 0,
        "actions": 0,
        "altered_at": k,
        "steps": [],
        "transcript_hash": "",
        "prompt_tokens": None,
        "completion_tokens": None,
        "excluded": "infrastructure",
        "episode_key": None,
    }
