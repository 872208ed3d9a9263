"""Held-out episodes with their recorded branches, and what each policy gets on them (protocol.md section 3, [D]).

A policy's branch is looked up among the forks, which is exact under deterministic replay. An episode that ended before a
delay keeps its trunk's outcome there: its pair is not intervened on and has ym = y0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.errors import BadInput, CheckFailed
from pipeline.records.schemas import SCHEMAS, SPENT
from pipeline.records.tables import check_kinds, read_table
from pipeline.router.joint import CHOICE, VIEWS
from pipeline.router.model import Router, grouped
from pipeline.router.policy import Candidate, DecisionEpisode, Thresholds
from pipeline.router.training import read_decisions

SHOWN = 20
_PAIRS = ("task", "folder", "condition", "delay", "operator", "y0", "ym", "intervened")
Key = tuple[str, str]
Branches = Mapping[int, tuple[int, bool]]
# Units by kind (turns, actions, prompt_tokens, completion_tokens), as far as a pair tells them.
Units = Mapping[str, float]
KINDS = tuple(field.name.removesuffix("_0") for field in SPENT if field.name.endswith("_0"))


@dataclass(frozen=True, slots=True)
class HeldOut:
    """One evaluable (task, condition): outcome without recovery, and by delay (outcome, intervened on) of the branches.

    `branches` are the router's operator's, `further` those of the other operators it chooses among; `moments` are the
    candidates with the published signals, `views` with every kind of signals (pipeline.router.joint). `extra` holds, by
    operator and delay, what the branch spent more than the trunk.
    """

    task: str
    condition: str
    folder: str
    y0: int
    branches: Branches
    moments: DecisionEpisode
    views: Mapping[str, DecisionEpisode] = field(default_factory=dict)
    further: Mapping[str, Branches] = field(default_factory=dict)
    extra: Mapping[str, Mapping[int, Units]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a policy gets on one episode; `delay` and `operator` say where it intervened and how, None where it did not.

    `extra` is what it spent more than the episode without recovery did (a kind that is missing is not known). Of a policy
    that draws, `y`, `intervened` and `extra` are expectations over its draws.
    """

    task: str
    condition: str
    folder: str
    y0: int
    y: float
    intervened: float
    delay: int | None = None
    operator: str | None = None
    extra: Units = field(default_factory=dict)


@dataclass(frozen=True)
class HeldOutSet:
    """Evaluable episodes, the delays their branches cover, how many episodes and tasks were planned, who was left out.

    `not_measured`: operators that the router chooses among and the pairs don't hold.
    """

    episodes: list[HeldOut]
    delays: list[int]
    planned_tasks: int
    planned_episodes: int
    left_out: list[Key]
    not_measured: list[str] = field(default_factory=list)


def held_out(router: Router, decisions: str | Path, pairs: str | Path, cohort: str | None = None) -> HeldOutSet:
    """Read, check and join the held-out tables.

    An episode is evaluable if every delay of the pairs has a branch and every candidate delay a decision row; the others
    are left out for all policies alike. Raises CheckFailed where a task or folder was fitted on, where the two tables
    contradict each other, or where nothing is evaluable; BadInput for missing columns, features or delays.
    """
    rows, names = read_decisions(decisions, cohort)
    if missing := [name for name in router.names if name not in names]:
        raise BadInput(f"{decisions}: lacks the feature(s) {', '.join(missing)} that the router was fitted with")
    branches = _branches(router.operator, pairs, rows)
    if not branches:
        raise BadInput(f"{pairs}: holds no pair of operator {router.operator} for the cohort(s) of {decisions}")
    _disjoint(router, rows, branches, decisions)
    delays = sorted({delay for row in branches.values() for delay in row})
    have = {row["delay"] for row in rows}
    for path, known in ((decisions, have), (pairs, set(delays))):
        if absent := [delay for delay in router.delays if delay not in known]:
            raise BadInput(f"{path}: has no row at the router's candidate delay(s) {', '.join(map(str, absent))}")
    asked = [row for row in rows if row["delay"] in router.delays]
    _agree(asked, branches, decisions, pairs)
    further, not_measured = _further(router, pairs, rows, branches)
    views = _views(router, asked, branches, further, not not_measured)
    moments = views["cir"]
    counted: dict[Key, int] = {}
    for row in asked:
        counted[row["task"], row["condition"]] = counted.get((row["task"], row["condition"]), 0) + 1
    tasks = sorted({key[0] for key in (*branches, *moments)})
    planned = [(task, condition) for task in tasks for condition in sorted({key[1] for key in (*branches, *moments)})]
    evaluable = [
        key
        for key in planned
        if len(branches.get(key, {})) == len(delays)
        and counted.get(key, 0) == len(router.delays)
        and all(delay in theirs.get(key, {}) for theirs in further.values() for delay in router.delays)
    ]
    if not evaluable:
        raise CheckFailed(f"{decisions}, {pairs}: no episode has both a branch at every delay and every decision row")
    found = [
        HeldOut(
            *key,
            folder=next(iter(branches[key].values()))["folder"],
            y0=int(next(iter(branches[key].values()))["y0"]),
            branches=_outcomes(branches[key]),
            moments=moments[key],
            views={name: view[key] for name, view in views.items()},
            further={name: _outcomes(theirs[key]) for name, theirs in further.items()},
            extra={
                name: {delay: _extra(row) for delay, row in theirs[key].items()}
                for name, theirs in {router.operator: branches, **further}.items()
            },
        )
        for key in evaluable
    ]
    left_out = sorted(set(planned) - set(evaluable))
    return HeldOutSet(found, delays, len(tasks), len(planned), left_out, not_measured)


def play(
    episodes: Sequence[HeldOut], choice: Thresholds | int | None, operator: str | None = None, view: str = "cir"
) -> list[Outcome]:
    """Outcomes of a policy: thresholds on the signals of a view, always at a delay (int), or never (None).

    `operator` is the router's, recorded with the interventions; without one their costs aren't known.
    """
    outcomes = []
    for episode in episodes:
        branches, applied, delay = episode.branches, operator, choice if isinstance(choice, int) else None
        if isinstance(choice, Thresholds):
            chosen = choice.choose(episode.moments if view == "cir" else episode.views[view])
            if chosen is not None:
                delay = chosen.delay
                if chosen.operator in episode.further:
                    branches, applied = episode.further[chosen.operator], chosen.operator
        y, intervened = (episode.y0, False) if delay is None else branches[delay]
        where = (delay, applied, episode.extra.get(applied, {}).get(delay, {})) if intervened else (None, None)
        outcomes.append(Outcome(episode.task, episode.condition, episode.folder, episode.y0, y, intervened, *where))
    return outcomes


def _views(
    router: Router,
    rows: Sequence[Mapping[str, Any]],
    branches: Mapping[Key, Mapping[int, Mapping[str, Any]]],
    further: Mapping[str, Mapping[Key, Mapping[int, Mapping[str, Any]]]],
    choosable: bool,
) -> dict[str, dict[Key, DecisionEpisode]]:
    """Candidates of every episode with the signals of each view that some policy of the router tests."""
    names = {
        "cir",
        *(view for name, view in VIEWS.items() if name in router.extensions and (name != CHOICE or choosable)),
    }
    views = {}
    for name in sorted(names):
        candidates: list[Candidate | None] = []
        for row in rows:
            if not row["live"]:
                candidates.append(None)
                continue
            here, key = router.moment(name, row), (row["task"], row["condition"])
            pair = further.get(here.operator, branches).get(key, {}).get(row["delay"])
            gain = int(pair["ym"]) - int(pair["y0"]) if pair else 0
            candidates.append(Candidate(row["delay"], here.p_err, here.need, here.u, gain, here.operator))
        views[name] = {(e.task, e.condition): e for e in grouped(rows, candidates, router.delays)}
    return views


def _further(
    router: Router,
    pairs: str | Path,
    rows: Sequence[Mapping[str, Any]],
    branches: Mapping[Key, Mapping[int, Mapping[str, Any]]],
) -> tuple[dict[str, dict[Key, dict[int, dict[str, Any]]]], list[str]]:
    """Branches of the other operators that the router chooses among, and the operators that were not measured.

    Raises CheckFailed where an operator's pair contradicts the router's operator's about the trunk they share.
    """
    if CHOICE not in router.extensions:
        return {}, []
    others = [name for name in router.joint if name != router.operator]
    found = {name: _branches(name, pairs, rows) for name in others}
    if absent := [name for name in others if not found[name]]:
        return {}, absent
    for name, theirs in found.items():
        for key, by_delay in theirs.items():
            for delay, row in by_delay.items():
                main = branches.get(key, {}).get(delay)
                if main and any(main[what] != row[what] for what in ("y0", "intervened")):
                    raise CheckFailed(
                        f"{pairs}: {' '.join(key)}, delay {delay}: {name} and {router.operator} differ in y0 or "
                        "intervened; both branches leave one trunk"
                    )
    return found, []


def _outcomes(by_delay: Mapping[int, Mapping[str, Any]]) -> dict[int, tuple[int, bool]]:
    return {delay: (int(row["ym"]), bool(row["intervened"])) for delay, row in by_delay.items()}


def _extra(row: Mapping[str, Any]) -> dict[str, int]:
    """What a branch spent more than its trunk, by kind, as far as the pair tells."""
    known = [kind for kind in KINDS if row.get(f"{kind}_0") is not None and row.get(f"{kind}_m") is not None]
    return {kind: int(row[f"{kind}_m"]) - int(row[f"{kind}_0"]) for kind in known}


def _branches(
    operator: str, pairs: str | Path, rows: Sequence[Mapping[str, Any]]
) -> dict[Key, dict[int, dict[str, Any]]]:
    """An operator's pairs by (task, condition) and delay, of the cohorts that the decision rows belong to."""
    cohorts = {row["cohort"] for row in rows if "cohort" in row}
    table = read_table(pairs, required=_PAIRS)
    spent = [column.name for column in SPENT]
    names = [name for name in (*_PAIRS, "cohort", *spent) if name in table.column_names]
    check_kinds(pairs, table.select([name for name in names if name in spent]), SCHEMAS["pairs"])
    mine = [row for row in table.select(names).to_pylist() if row["operator"] == operator]
    if cohorts and "cohort" in names:
        mine = [row for row in mine if row["cohort"] in cohorts]
    branches: dict[Key, dict[int, dict[str, Any]]] = {}
    for row in mine:
        by_delay = branches.setdefault((row["task"], row["condition"]), {})
        place = f"{pairs}: {row['task']}, {row['condition']}, delay {row['delay']}"
        if row["delay"] in by_delay:
            raise BadInput(f"{place} stands twice")
        if row["y0"] not in (0, 1) or row["ym"] not in (0, 1):
            raise BadInput(f"{place}: y0 and ym must be true or false, found {row['y0']!r} and {row['ym']!r}")
        if not row["intervened"] and row["y0"] != row["ym"]:
            raise CheckFailed(f"{place} was not intervened on, yet its outcome differs from its trunk's")
        if by_delay and next(iter(by_delay.values()))["y0"] != row["y0"]:
            raise CheckFailed(f"{place}: y0 differs from the same episode's at another delay; a trunk has one outcome")
        for name in ("turns_0", "actions_0"):
            if by_delay and next(iter(by_delay.values())).get(name) != row.get(name):
                raise CheckFailed(f"{place}: {name} differs from the same episode's at another delay; it has one trunk")
        by_delay[row["delay"]] = row
    return branches


def _disjoint(
    router: Router,
    rows: Sequence[Mapping[str, Any]],
    branches: Mapping[Key, Mapping[int, Mapping[str, Any]]],
    path: str | Path,
) -> None:
    folders = {row["folder"] for row in rows} | {row["folder"] for by in branches.values() for row in by.values()}
    tasks = {row["task"] for row in rows} | {task for task, _ in branches}
    for label, shared in (("task", tasks & router.fit_tasks), ("task folder", folders & router.fit_folders)):
        if shared:
            names = ", ".join(sorted(shared)[:SHOWN])
            raise CheckFailed(
                f"{path}: {len(shared)} {label}(s) of the held-out rows were fitted on, the first: {names}; "
                "evaluate on other tasks, or choose them with --cohort"
            )


def _agree(
    rows: Sequence[Mapping[str, Any]],
    branches: Mapping[Key, Mapping[int, Mapping[str, Any]]],
    decisions: str | Path,
    pairs: str | Path,
) -> None:
    for row in rows:
        pair = branches.get((row["task"], row["condition"]), {}).get(row["delay"])
        if pair is None:
            continue
        for mine, theirs in (("y0", "y0"), ("ym", "ym"), ("live", "intervened")):
            if bool(row[mine]) != bool(pair[theirs]):
                raise CheckFailed(
                    f"{decisions}: {row['task']}, {row['condition']}, delay {row['delay']}: {mine} is {bool(row[mine])}, but "
                    f"{theirs} is {bool(pair[theirs])} in {pairs}; make the decisions again from these pairs"
                )
