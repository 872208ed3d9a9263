"""router/decisions.parquet: one row per (task, condition, candidate delay), features from the prefix only."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.errors import BadInput, CheckFailed
from pipeline.records.episodes import is_live, steps_of
from pipeline.records.tables import read_rows
from pipeline.router.features import FEATURES, features
from pipeline.router.prefix import prefix_at
from pipeline.router.training import OTHER

_PAIR_COLUMNS = (
    "cohort", "task", "folder", "condition", "delay", "operator", "y0", "ym", "factual_success", "intervened", "fork_action",
)  # fmt: skip


def decision_rows(
    pairs: str | Path,
    trajectories: str | Path,
    cohorts: Sequence[str],
    conditions: Sequence[str],
    delays: Sequence[int],
    operator: str,
    turn_budget: int,
    action_budget: int,
    others: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Rows of the decisions table for the given cohorts, sorted by (cohort, task, condition, delay).

    `ym` is the outcome of `operator`, a column ym_<name> that of each further one, null where it has no branch. A
    candidate moment is not `live` where the trunk had ended; its features are null. Raises BadInput where the pairs hold
    nothing that was asked for, CheckFailed where a trunk is missing or contradicts its pair.
    """
    asked = [
        row
        for row in read_rows(pairs, "pairs", _PAIR_COLUMNS)
        if row["cohort"] in cohorts
        and row["condition"] in conditions
        and row["delay"] in delays
        and row["operator"] in (operator, *others)
    ]
    if absent := [name for name in others if name not in {row["operator"] for row in asked}]:
        raise BadInput(f"{pairs}: holds no pair of operator {', '.join(absent)}")
    wanted = [row for row in asked if row["operator"] == operator]
    beside = {(*_moment(row), row["operator"]): row for row in asked}
    for name, values in (("cohort", cohorts), ("condition", conditions), ("delay", delays)):
        if absent := [value for value in values if value not in {row[name] for row in wanted}]:
            raise BadInput(f"{pairs}: holds no pair of operator {operator} with {name} {', '.join(map(str, absent))}")
    wanted.sort(key=lambda row: (row["cohort"], row["condition"], row["task"], row["delay"]))
    rows: list[dict[str, Any]] = []
    for cohort in sorted(cohorts):
        for condition in sorted(conditions):
            path = Path(trajectories, f"cohort={cohort}", f"condition={condition}", "trunk.parquet")
            trunks = {row["task"]: row["steps"] for row in read_rows(path, "trajectories", ["task", "steps"])}
            mine = [row for row in wanted if (row["cohort"], row["condition"]) == (cohort, condition)]
            for pair in mine:
                further = {name: beside.get((*_moment(pair), name)) for name in others}
                rows.append(_row(pair, further, trunks, path, turn_budget, action_budget))
    return sorted(rows, key=lambda row: (row["cohort"], row["task"], row["condition"], row["delay"]))


def _moment(pair: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(pair[name] for name in ("cohort", "task", "condition", "delay"))


def _row(
    pair: Mapping[str, Any],
    further: Mapping[str, Mapping[str, Any] | None],
    trunks: Mapping[str, Any],
    path: Path,
    turn_budget: int,
    action_budget: int,
) -> dict[str, Any]:
    place = f"{path}: {pair['task']}"
    if pair["task"] not in trunks:
        raise CheckFailed(f"{place}: no trunk, but a pair; run the trunk and pairs stages again")
    steps = steps_of(trunks[pair["task"]])
    live = is_live(steps, pair["fork_action"])
    if pair["intervened"] != live:
        raise CheckFailed(
            f"{place}: at action {pair['fork_action']} the trunk had {'not ' if live else ''}ended, but its branch was "
            f"{'not ' if live else ''}recovered; run the fork and pairs stages again"
        )
    for name, other in further.items():
        if other is not None and (other["intervened"], other["y0"]) != (pair["intervened"], pair["y0"]):
            raise CheckFailed(
                f"{place}: {name} and {pair['operator']} differ in y0 or intervened at action {pair['fork_action']}; "
                "both branches leave one trunk: run the pairs stage again"
            )
    values: dict[str, float | None] = dict.fromkeys(FEATURES)
    if live:
        values |= features(prefix_at(steps, pair["fork_action"], turn_budget, action_budget))
    names = ("cohort", "task", "folder", "condition", "delay", "factual_success", "y0", "ym")
    outcomes = {OTHER + name: None if other is None else other["ym"] for name, other in further.items()}
    return {name: pair[name] for name in names} | {"live": live} | outcomes | values
