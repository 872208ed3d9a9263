"""The value of a policy from a log without pairs: a table of logged moments, read and checked, and its AIPW estimates.

Unlike pairs, a log knows one outcome an episode: that of whatever the logging policy did (docs/value.md).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import BadInput, CheckFailed
from pipeline.evaluation.lookup import SHOWN
from pipeline.records.tables import read_table
from pipeline.router.model import Router
from pipeline.statistics.aipw import Log, episode_values, estimate, estimated_propensities, folds_of

COLUMNS = ("task", "condition", "delay", "live", "action", "y")
UNITS = {
    "success_rate": "percent of episodes",
    "success_ci95": "percent, influence-function interval, tasks (folders where the log has them) moving together",
    "gain_pp": "percentage points over never",
    "ci95_pp": "percentage points, the same kind of interval",
    "followed_rate": "percent of episodes whose logged actions are the policy's at every live moment",
    "largest_weight": "largest inverse propensity of an action that is the policy's",
}
Row = dict[str, Any]


@dataclass(frozen=True)
class LoggedTable:
    """A log as arrays, and where its rows stand in them: `places[i]` is (episode, moment) of `rows[i]`."""

    log: Log
    rows: list[Row]
    places: list[tuple[int, int]]
    names: list[str]
    delays: list[int]


def read_log(path: str | Path, extra: Sequence[str] = ()) -> LoggedTable:
    """A log table: one row per (task, condition, delay) that an episode reached. `extra` are further columns to read.

    Columns: task, condition, delay, live (the episode was still going), action (1: recovered there, 0: left alone; where not
    live it may be null), y (outcome of the episode, 0 to 1, the same in all its rows), features x_*; folder and propensity
    (of action 1, inside (0, 1)) may be there. An episode has no live row after its action 1. Raises BadInput naming the
    columns that are missing, or the first row that breaks one of these.
    """
    table = read_table(path, required=[*COLUMNS, *extra])
    names = [name for name in table.column_names if name.startswith("x_")]
    optional = [name for name in ("folder", "propensity") if name in table.column_names]
    rows = table.select(list(dict.fromkeys([*COLUMNS, *optional, *extra, *names]))).to_pylist()
    if not rows:
        raise BadInput(f"{path}: holds no rows")
    _refuse(path, rows, lambda row: any(row[name] is None for name in COLUMNS if name != "action"), "a null")
    rows.sort(key=lambda row: (row["task"], row["condition"], row["delay"]))
    counted = Counter((row["task"], row["condition"], row["delay"]) for row in rows)
    _refuse(path, rows, lambda row: counted[row["task"], row["condition"], row["delay"]] > 1, "stands twice")
    _refuse(path, rows, lambda row: row["live"] not in (0, 1), "live must be true or false")
    _refuse(path, rows, lambda row: row["live"] and row["action"] not in (0, 1), "action must be 0 or 1 where live")
    _refuse(path, rows, lambda row: not row["live"] and row["action"], "action 1, but the episode had ended")
    _refuse(path, rows, lambda row: not (_finite(row["y"]) and 0 <= row["y"] <= 1), "y must be a share from 0 to 1")
    if "propensity" in optional:
        _refuse(
            path,
            rows,
            lambda row: row["live"] and not (_finite(row["propensity"]) and 0 < row["propensity"] < 1),
            "propensity must lie inside (0, 1) where live: where the log never, or always, recovers, no value is identified",
        )
    for name in names:
        _refuse(
            path,
            rows,
            lambda row, name=name: row["live"] and not _finite(row[name]),
            f"{name} is missing or not finite",
        )
    return _arrays(path, rows, names, "propensity" in optional, "folder" in optional)


def _arrays(path: str | Path, rows: list[Row], names: list[str], given: bool, folders: bool) -> LoggedTable:
    delays = sorted({row["delay"] for row in rows})
    keys = sorted({(row["task"], row["condition"]) for row in rows})
    number = {key: place for place, key in enumerate(keys)}
    moment = {delay: place for place, delay in enumerate(delays)}
    places = [(number[row["task"], row["condition"]], moment[row["delay"]]) for row in rows]
    shape = len(keys), len(delays)
    live, action = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=int)
    features, propensity = np.zeros((*shape, len(names))), np.full(shape, 0.5)
    y, cluster = np.full(len(keys), np.nan), [""] * len(keys)
    for row, place in zip(rows, places, strict=True):
        episode = place[0]
        if row["live"]:
            if action[episode].any():
                raise BadInput(f"{path}: {_named(row)} is live, but the episode was recovered before; at most once")
            live[place], action[place] = True, int(row["action"])
            features[place] = [float(row[name]) for name in names]
            propensity[place] = row["propensity"] if given else 0.5
        if not np.isnan(y[episode]) and y[episode] != row["y"]:
            raise BadInput(f"{path}: {_named(row)}: y differs from the same episode's at another delay")
        y[episode] = row["y"]
        cluster[episode] = row["folder"] if folders else row["task"]
    return LoggedTable(
        Log(live, action, features, y, propensity if given else None, cluster), rows, places, names, delays
    )


def router_policies(table: LoggedTable, router: Router, path: str | Path) -> dict[str, np.ndarray]:
    """What the router and its comparators do at every moment (episodes, moments), by name.

    Raises BadInput where the log lacks a feature or a candidate delay, CheckFailed where a task or folder was fitted on.
    """
    if missing := [name for name in router.names if name not in table.names]:
        raise BadInput(f"{path}: lacks the feature(s) {', '.join(missing)} that the router was fitted with")
    if absent := [delay for delay in router.delays if delay not in table.delays]:
        raise BadInput(f"{path}: has no row at the router's candidate delay(s) {', '.join(map(str, absent))}")
    shared = {row["task"] for row in table.rows} & router.fit_tasks
    shared |= {str(row.get("folder")) for row in table.rows} & router.fit_folders
    if shared:
        raise CheckFailed(
            f"{path}: {len(shared)} task(s) or folder(s) of the log were fitted on, the first: "
            f"{', '.join(sorted(shared)[:SHOWN])}; a policy's value needs other tasks"
        )
    rules = router.policies()
    policies = {name: np.zeros(table.log.live.shape, dtype=int) for name in rules}
    for row, place in zip(table.rows, table.places, strict=True):
        if row["live"] and row["delay"] in router.delays:
            found = router.signals(row)
            for name, rule in rules.items():
                policies[name][place] = rule is not None and all(rule.passed(found.p_err, 1 - found.p_0, found.u))
    return policies


def column_policy(table: LoggedTable, column: str, path: str | Path) -> np.ndarray:
    """A policy that stands in the log: 1 where it would recover. Raises BadInput for another value at a live moment."""
    _refuse(
        path, table.rows, lambda row: row["live"] and row[column] not in (0, 1), f"{column} must be 0 or 1 where live"
    )
    policy = np.zeros(table.log.live.shape, dtype=int)
    for row, place in zip(table.rows, table.places, strict=True):
        policy[place] = int(row[column] or 0) if row["live"] else 0
    return policy


def values(log: Log, policies: Mapping[str, np.ndarray], folds: int, seed: int) -> list[Row]:
    """One row a policy, after what was logged and `never`: value, gain over never, their intervals, overlap with the log.

    Raises BadInput for fewer clusters than folds.
    """
    try:
        fold = folds_of(log.cluster, folds, seed)
    except ValueError as error:
        raise BadInput(f"--folds {folds}: {error}; lower --folds or log more tasks") from error
    propensity = estimated_propensities(log, fold) if log.propensity is None else log.propensity
    never = np.zeros(log.live.shape, dtype=int)
    without = episode_values(log, never, propensity, fold)
    rows = [_row("logged", log.y, without, log, log.action, propensity)]
    for name, policy in {"never": never, **policies}.items():
        rows.append(_row(name, episode_values(log, policy, propensity, fold), without, log, policy, propensity))
    return rows


def _row(
    name: str, found: np.ndarray, without: np.ndarray, log: Log, policy: np.ndarray, propensity: np.ndarray
) -> Row:
    success, gain = (asdict(estimate(100 * what, log.cluster)) for what in (found, found - without))
    follows = (policy == log.action) & log.live
    chance = np.where(log.action == 1, propensity, 1 - propensity)
    return {
        "policy": name,
        "episodes": len(log.y),
        "clusters": len(set(log.cluster)),
        "success_rate": success["value"],
        "success_ci95": [success["low"], success["high"]],
        "gain_pp": gain["value"],
        "ci95_pp": [gain["low"], gain["high"]],
        "followed_rate": 100 * float(np.mean((follows | ~log.live).all(axis=1))),
        "largest_weight": float((1 / chance[follows]).max()) if follows.any() else None,
    }


def _refuse(path: str | Path, rows: Sequence[Row], wrong: Callable[[Row], Any], what: str) -> None:
    if bad := [row for row in rows if wrong(row)]:
        raise BadInput(f"{path}: {_named(bad[0])}: {what} ({len(bad)} such row(s))")


def _named(row: Mapping[str, Any]) -> str:
    return f"task {row['task']}, condition {row['condition']}, delay {row['delay']}"


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and bool(np.isfinite(value))
