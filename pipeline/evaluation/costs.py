"""What a policy's gain costs: interventions and looks, for each net rescue and along a price."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.config.models import RecoveryTexts
from pipeline.evaluation.lookup import Outcome
from pipeline.evaluation.paired import interval_pp, total
from pipeline.harness.operators import OPERATORS, operator

# Price of a unit, in successes: at 0.1 ten interventions must bring one net rescue to pay.
PRICES = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
COST_UNITS = {
    "interventions_per_net_rescue": "interventions over rescues less harms; null where that is not positive",
    "looks_per_net_rescue": "the same for looks",
    "costs_not_available": "turns and tokens: pairs hold outcomes only, what a branch used stands in the forks tables",
}


def looks_of(name: str | None) -> int | None:
    """Environment actions that one application of an operator takes; None for an operator that is not known here."""
    if name is None:
        return 0
    return int(operator(name, RecoveryTexts()).action is not None) if name in OPERATORS else None


def looks(outcomes: Sequence[Outcome]) -> float | None:
    """Environment actions that a policy's interventions took in all; None where an operator's are not known."""
    each = [looks_of(outcome.operator) for outcome in outcomes]
    if None in each:
        return None
    return total([outcome.intervened * count for outcome, count in zip(outcomes, each, strict=True)])


def per_net_rescue(units: float | None, net: float) -> float | None:
    """Units for each net rescue; None where nothing was gained or the units are not known."""
    return units / net if units is not None and net > 0 else None


def cost_curve(played: Mapping[str, Sequence[Outcome]], resamples: int, seed: int) -> list[dict[str, Any]]:
    """Value (gain less the price of the units used) by policy, unit and price, with its interval over tasks."""
    rows = []
    for policy, outcomes in played.items():
        tasks = [outcome.task for outcome in outcomes]
        used: dict[str, Sequence[float]] = {"intervention": [outcome.intervened for outcome in outcomes]}
        if looks(outcomes) is not None:
            used["look"] = [outcome.intervened * (looks_of(outcome.operator) or 0) for outcome in outcomes]
        for unit, units in used.items():
            for price in PRICES:
                values = [
                    float(outcome.y - outcome.y0 - price * count)
                    for outcome, count in zip(outcomes, units, strict=True)
                ]
                low, high, *_ = interval_pp(tasks, values, resamples, seed)
                value = 100 * total(values) / len(values)
                rows.append({"policy": policy, "unit": unit, "c": price, "value_pp": value, "ci95_pp": [low, high]})
    return rows
