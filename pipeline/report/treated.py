"""When the router intervenes, and what it saw: on held-out tasks as frozen, on fit tasks by its out-of-fold predictions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.router.model import Router, Signals

Row = Mapping[str, Any]
Key = tuple[str, str, str]
SIGNALS = ("p_err", "p_0", "p_1", "u")


@dataclass(frozen=True)
class Treated:
    """By (cohort, task, condition): the signals at the moments asked about (delay first), and the delay of the intervention.

    `fired` is None where the router leaves the episode alone.
    """

    moments: Sequence[tuple[int, Signals]]
    fired: int | None


def treated(router: Router, decisions: Iterable[Row], oof: Iterable[Row]) -> dict[Key, Treated]:
    """Every episode with decision rows that the router has an honest answer for.

    `decisions` are rows of router/decisions.parquet of all cohorts, `oof` those of router/oof.parquet. A task the router
    was fitted on is answered by the predictions of the fold that held it out; where there are none it is left out.
    """
    predicted = {
        (row["task"], row["condition"], row["delay"]): Signals(*(row[name] for name in Signals.__slots__))
        for row in oof
    }
    found: dict[Key, list[tuple[int, Signals]]] = {}
    for row in decisions:
        if not row["live"] or row["delay"] not in router.delays:
            continue
        if row["task"] in router.fit_tasks:
            signals = predicted.get((row["task"], row["condition"], row["delay"]))
        else:
            signals = router.signals(row)
        if signals is not None:
            found.setdefault((row["cohort"], row["task"], row["condition"]), []).append((row["delay"], signals))
    order = {delay: place for place, delay in enumerate(router.delays)}
    return {
        key: Treated(moments := sorted(some, key=lambda one: order[one[0]]), _first(router, moments))
        for key, some in sorted(found.items())
    }


def _first(router: Router, moments: Sequence[tuple[int, Signals]]) -> int | None:
    if router.thresholds is None:
        return None
    for delay, signals in moments:
        if all(router.thresholds.passed(signals.p_err, 1 - signals.p_0, signals.u)):
            return delay
    return None
