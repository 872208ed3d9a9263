"""How many tasks a study needs: exact power of McNemar's test, and clean tasks that certify a harm rate (protocol.md 4).

With n tasks, rescue rate r and harm rate h, the discordant tasks D are Binomial(n, r + h) and the rescues among them
Binomial(D, r / (r + h)): a trinomial, which is summed, not simulated.
"""

from functools import lru_cache

import numpy as np
from scipy.stats import binom

from pipeline.statistics.paired import rate_upper_bound

LARGEST = 1_000_000
# Power is not quite monotone in n, since the test is discrete; this many larger n must keep it too.
_AHEAD = 64
# Discordant counts rarer than this in either tail are left out of the sum.
_NEGLIGIBLE = 1e-13


def mcnemar_power(tasks: int, rescue: float, harm: float, alpha: float = 0.05) -> float:
    """Probability that the exact two-sided McNemar p of `tasks` tasks is at most `alpha`.

    `rescue` and `harm` are shares of all tasks. Both directions count: with equal rates it is the test's true size.
    Raises ValueError for rates below 0 or above 1 together, an alpha outside (0, 1), or fewer than one task.
    """
    _check(rescue, harm, alpha)
    if tasks < 1:
        raise ValueError(f"{tasks} tasks: a study needs at least one")
    share = min(1.0, rescue + harm)
    if share == 0:
        return 0.0
    first, last = (int(end) for end in binom.ppf([_NEGLIGIBLE, 1 - _NEGLIGIBLE], tasks, share))
    discordant = np.arange(max(0, first), last + 1)
    rejected = _rejected(discordant, rescue / (rescue + harm), alpha)
    return float(np.dot(binom.pmf(discordant, tasks, share), rejected))


def tasks_needed(rescue: float, harm: float, power: float = 0.8, alpha: float = 0.05) -> int | None:
    """Fewest tasks that give at least `power`, and keep it for the next 64 larger studies too.

    None where a million tasks don't (equal rates, or nearly). Raises ValueError as `mcnemar_power` does, and for a power
    outside (0, 1).
    """
    _check(rescue, harm, alpha)
    if not 0 < power < 1:
        raise ValueError(f"power {power}: expected between 0 and 1")
    if rescue == harm:
        return None
    reach = lru_cache(maxsize=None)(lambda tasks: mcnemar_power(tasks, rescue, harm, alpha))
    enough = 1
    while reach(enough) < power:
        if enough >= LARGEST:
            return None
        enough = min(2 * enough, LARGEST)
    short = enough // 2
    while enough - short > 1:
        middle = (short + enough) // 2
        short, enough = (middle, enough) if reach(middle) < power else (short, middle)
    # The bisection finds one crossing; step over dips behind it, and back over plateaus before it.
    ahead = [tasks for tasks in range(enough, enough + _AHEAD + 1) if reach(tasks) < power]
    while ahead:
        enough = ahead[-1] + 1
        ahead = [tasks for tasks in range(enough, enough + _AHEAD + 1) if reach(tasks) < power]
    return enough


def clean_tasks_needed(epsilon: float, confidence: float = 0.95, harms: int = 0) -> int | None:
    """Fewest clean tasks with which `harms` harms still bound the harm rate by `epsilon` (one-sided, exact).

    149 for 2% at 95% without a harm. None where a million don't suffice. Raises ValueError for shares outside (0, 1) or
    a negative count.
    """
    if not (0 < epsilon < 1 and 0 < confidence < 1 and harms >= 0):
        raise ValueError(f"epsilon {epsilon}, confidence {confidence}, {harms} harms: expected shares and a count")
    if harms >= LARGEST or rate_upper_bound(harms, LARGEST, confidence) > epsilon:
        return None
    short, enough = harms, LARGEST
    while enough - short > 1:
        middle = (short + enough) // 2
        short, enough = (short, middle) if rate_upper_bound(harms, middle, confidence) <= epsilon else (middle, enough)
    return enough


def _rejected(discordant: np.ndarray, share: float, alpha: float) -> np.ndarray:
    """Of each number of discordant tasks: the probability that the test rejects, where `share` of them are rescues."""
    tail = binom.ppf(alpha / 2, discordant, 0.5)
    # ppf gives the first count whose tail reaches alpha / 2; the test rejects up to the last that doesn't exceed it.
    over = binom.cdf(tail, discordant, 0.5) > alpha / 2 * (1 + 1e-12)
    most = np.where(over, tail - 1, tail)
    chance = binom.cdf(most, discordant, share) + binom.sf(discordant - most - 1, discordant, share)
    return np.where(most < 0, 0.0, chance)


def _check(rescue: float, harm: float, alpha: float) -> None:
    if not (rescue >= 0 and harm >= 0 and rescue + harm <= 1 + 1e-12):
        raise ValueError(f"rescue rate {rescue} and harm rate {harm}: expected shares of all tasks, together at most 1")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha {alpha}: expected between 0 and 1")
