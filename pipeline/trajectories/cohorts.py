"""Cohorts: disjoint draws of candidates, and which of them are feasible once their factual runs are known."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from pipeline.config.models import Alteration, Cohort
from pipeline.errors import BadInput
from pipeline.harness.conditions import condition

ROLE_ORDER = ("evaluate", "fit", "measure")


def draw(games: Sequence[Mapping[str, Any]], cohorts: Mapping[str, Cohort]) -> list[dict[str, Any]]:
    """Candidates of every cohort: rows of the candidates table, sorted by cohort and rank.

    Cohorts share no game and no task folder (protocol.md section 2, [D]). Evaluation draws first, since its split is
    the smaller one; then fit, then measure, each in the config's order. A game's place in the queue depends on seed,
    cohort and task only, so a larger size or reserve appends candidates and changes none. Raises BadInput where a
    cohort can't be filled.
    """
    owner: dict[str, str] = {}
    rows: list[dict[str, Any]] = []
    for name, cohort in sorted(cohorts.items(), key=lambda item: ROLE_ORDER.index(item[1].role)):
        pool = [game for game in games if game["split"] == cohort.split]
        if cohort.task_types is not None:
            pool = [game for game in pool if game["task_type"] in cohort.task_types]
        free = [game for game in pool if owner.get(game["folder"], name) == name]
        if len(free) < cohort.size:
            raise BadInput(
                f"cohorts.{name}.size: {cohort.size} tasks are wanted, split {cohort.split} has {len(pool)} games of the task types, "
                f"of which {len(pool) - len(free)} stand in folders of other cohorts; lower the size or add games"
            )
        queue = sorted(free, key=lambda game: _place(cohort.seed, name, game["task"]))
        for rank, game in enumerate(queue[: math.ceil(cohort.size * (1 + cohort.reserve))]):
            owner[game["folder"]] = name
            columns = {column: game[column] for column in ("task", "folder", "task_type", "sha256")}
            rows.append({"cohort": name, "role": cohort.role, "rank": rank, **columns})
    return sorted(rows, key=lambda row: (row["cohort"], row["rank"]))


def _place(seed: int, cohort: str, task: str) -> str:
    return hashlib.sha256(f"{seed}/{cohort}/{task}".encode()).hexdigest()


def altered_action(actions: int, fraction: float) -> int | None:
    """k = max(1, ceil(fraction * L)) for L environment actions, or None where there were none (protocol.md section 1, [D]).

    The fraction is taken as it is written: as a float, 0.28 of 25 would be a trifle over 7 and k be 8.
    """
    return max(1, math.ceil(Fraction(str(fraction)) * actions)) if actions else None


def settle(
    candidates: Sequence[Mapping[str, Any]],
    factual: Mapping[tuple[str, str], Mapping[str, Any]],
    sizes: Mapping[str, int],
    conditions: Sequence[str],
    alteration: Alteration,
) -> list[dict[str, Any]]:
    """Rows of the cohorts table: every candidate, with the reason where it is not in its cohort.

    `factual` holds the factual episode of (cohort, task). Each cohort takes its first `sizes[cohort]` feasible candidates
    in rank order. Raises BadInput where too few are feasible.
    """
    made = {name: condition(name, alteration) for name in conditions}
    rows, taken = [], dict.fromkeys(sizes, 0)
    for candidate in sorted(candidates, key=lambda row: (row["cohort"], row["rank"])):
        name = candidate["cohort"]
        episode = factual[name, candidate["task"]]
        finished = episode["excluded"] is None
        k = altered_action(episode["actions"], alteration.fraction) if finished else None
        reason = _infeasible(episode, k, made)
        if reason is None and taken[name] >= sizes[name]:
            reason = "beyond the cohort's size"
        taken[name] += reason is None
        rows.append(
            {column: candidate[column] for column in ("cohort", "role", "task", "folder", "task_type")}
            | {
                "feasible": reason is None,
                "excluded": reason,
                "factual_success": episode["success"] if finished else None,
                "factual_actions": episode["actions"] if finished else None,
                "altered_at": k,
            }
        )
    for name, size in sizes.items():
        if taken[name] < size:
            lost = next(
                (f"{row['task']}: {row['excluded']}" for row in rows if row["cohort"] == name and row["excluded"]), ""
            )
            raise BadInput(
                f"cohorts.{name}.size: {size} tasks are wanted, but only {taken[name]} of "
                f"{sum(row['cohort'] == name for row in rows)} candidates are feasible; raise cohorts.{name}.reserve or lower the size"
                + (f" (the first that is not, {lost})" if lost else "")
            )
    return sorted(rows, key=lambda row: (row["cohort"], row["task"]))


def _infeasible(episode: Mapping[str, Any], k: int | None, conditions: Mapping[str, Any]) -> str | None:
    """Why a task is not prefix-feasible, or None."""
    if episode["excluded"] is not None:
        return f"factual run: {episode['excluded']}"
    if k is None:
        return "factual run has no environment action"
    return next((reason for made in conditions.values() if (reason := made.infeasible(k))), None)
