"""What a policy's gain costs against never on the same episodes: in all, for each net rescue, and along a price."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from pipeline.config.models import RecoveryTexts
from pipeline.evaluation.lookup import KINDS, Outcome
from pipeline.evaluation.paired import total
from pipeline.harness.operators import OPERATORS, operator
from pipeline.statistics.bootstrap import LEVEL, resampled_totals

INTERVENTION, LOOK = "intervention", "look"
# Names of the units: turns are counted in `turn`, and so on.
UNITS = (INTERVENTION, LOOK, *(kind.removesuffix("s") for kind in KINDS))
# Price of a unit, in successes: at 0.1 ten interventions must bring one net rescue to pay.
PRICES = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
# Tokens are priced by the thousand.
THOUSAND = ("prompt_token", "completion_token")
COST_UNITS = {
    "interventions_per_net_rescue": "interventions over rescues less harms; null where that is not positive",
    "looks_per_net_rescue": "the same for looks",
    "costs": "units that the policy used more than never on the same episodes (negative: fewer), by unit: total, "
    "per_episode with its interval over tasks, per_net_rescue (total over rescues less harms, null where that is not "
    "positive); all null where the pairs don't tell, as with tokens of an agent that counts none",
    "cost_unit": "intervention; look: environment action that an operator takes itself; turn and action: of whole "
    "episodes, branch less trunk; prompt_token and completion_token: of the model calls after the fork, branch less trunk",
}


def looks_of(name: str | None) -> int | None:
    """Environment actions that one application of an operator takes; None for an operator that is not known here."""
    if name is None:
        return 0
    return int(operator(name, RecoveryTexts()).action is not None) if name in OPERATORS else None


def looks(outcomes: Sequence[Outcome]) -> float | None:
    """Environment actions that a policy's interventions took in all; None where an operator's are not known."""
    each = used(outcomes, LOOK)
    return None if each is None else total(each)


def used(outcomes: Sequence[Outcome], unit: str) -> list[float] | None:
    """Units a policy used in each episode more than never did, which is none where it did not intervene.

    None where an episode's are not known.
    """
    if unit == INTERVENTION:
        each: list[float | None] = [outcome.intervened for outcome in outcomes]
    elif unit == LOOK:
        known = [looks_of(outcome.operator) for outcome in outcomes]
        each = [None if n is None else o.intervened * n for o, n in zip(outcomes, known, strict=True)]
    else:
        each = [outcome.extra.get(f"{unit}s") if outcome.intervened else 0 for outcome in outcomes]
    return None if None in each else [count for count in each if count is not None]


def told(played: Mapping[str, Sequence[Outcome]]) -> set[str]:
    """Units that some intervention of some policy has a count of. Without one, that never uses none says nothing."""
    kinds = {
        kind for outcomes in played.values() for outcome in outcomes if outcome.intervened for kind in outcome.extra
    }
    return {INTERVENTION, LOOK, *(kind.removesuffix("s") for kind in kinds)}


def per_net_rescue(units: float | None, net: float) -> float | None:
    """Units for each net rescue; None where nothing was gained or the units are not known."""
    return units / net if units is not None and net > 0 else None


def prices(unit: str) -> tuple[float, ...]:
    """The stated grid of c, in successes for one unit."""
    return tuple(price / 1000 for price in PRICES) if unit in THOUSAND else PRICES


def costs(played: Mapping[str, Sequence[Outcome]], resamples: int, seed: int) -> list[dict[str, Any]]:
    """What each policy used more than never, by unit, with the interval of its mean over tasks."""
    rows, known = [], told(played)
    for (policy, outcomes), unit in product(played.items(), UNITS):
        each = used(outcomes, unit) if unit in known else None
        if each is None:
            rows.append(
                {"policy": policy, "unit": unit} | dict.fromkeys(("total", "per_episode", "ci95", "per_net_rescue"))
            )
            continue
        spent, net = total(each), total([outcome.y - outcome.y0 for outcome in outcomes])
        totals = _resampled(outcomes, each, resamples, seed)
        figures = {"total": spent, "per_episode": spent / len(each), "ci95": _ends(totals[:, 1] / totals[:, 2])}
        rows.append({"policy": policy, "unit": unit} | figures | {"per_net_rescue": per_net_rescue(spent, net)})
    return rows


def cost_curve(played: Mapping[str, Sequence[Outcome]], resamples: int, seed: int) -> list[dict[str, Any]]:
    """Value (gain less the price of the units used) by policy, unit and price, with its interval over tasks.

    One set of resamples serves all prices of a unit, so a curve's ends don't jump. Units that are not known have no rows.
    """
    rows, known = [], told(played)
    for (policy, outcomes), unit in product(played.items(), UNITS):
        each = used(outcomes, unit) if unit in known else None
        if each is None:
            continue
        gain, spent = total([outcome.y - outcome.y0 for outcome in outcomes]), total(each)
        totals = _resampled(outcomes, each, resamples, seed)
        for price in prices(unit):
            value = 100 * (gain - price * spent) / len(each)
            ends = _ends(100 * (totals[:, 0] - price * totals[:, 1]) / totals[:, 2])
            rows.append({"policy": policy, "unit": unit, "c": price, "value_pp": value, "ci95_pp": ends})
    return rows


def _resampled(outcomes: Sequence[Outcome], each: Sequence[float], resamples: int, seed: int) -> np.ndarray:
    """Gain, units and episodes of each resample of the tasks: resamples x 3."""
    sums: dict[str, list[float]] = {}
    for outcome, count in zip(outcomes, each, strict=True):
        task = sums.setdefault(outcome.task, [0, 0, 0])
        for place, more in enumerate((outcome.y - outcome.y0, count, 1)):
            task[place] += more
    # Expectations are rounded, so that tasks alike but for the noise of floating sums stay alike.
    rows = np.round(np.array([sums[task] for task in sorted(sums)], dtype=float), 9)
    return resampled_totals(rows, resamples, np.random.default_rng(seed))


def _ends(values: np.ndarray) -> list[float]:
    return [float(end) for end in np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="linear")]
