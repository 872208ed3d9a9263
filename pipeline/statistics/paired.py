"""Tests for paired binary outcomes: exact McNemar, sign-flip on task sums, Holm, a bound on a rate (protocol.md section 4)."""

from collections.abc import Sequence
from math import comb

import numpy as np


def mcnemar_exact(rescues: int, harms: int) -> float:
    """Exact two-sided McNemar p: a two-sided binomial test of `rescues` in `rescues + harms` at one half.

    The distribution is symmetric, so the p is twice the smaller tail, at most 1. Without discordant pairs it is 1.
    """
    discordant = rescues + harms
    tail = sum(comb(discordant, count) for count in range(min(rescues, harms) + 1))
    return min(1.0, 2 * tail / 2**discordant)


def sign_flip_exact(sums: Sequence[int]) -> float:
    """Exact two-sided sign-flip p for the hypothesis that each task's sum is as likely positive as negative.

    `sums` holds one whole number a task (for instance successes gained less successes lost over its episodes). The
    distribution of the total under all 2^n sign patterns comes by dynamic programming over whole totals; the p is the
    share of patterns whose total is at least as far from zero as the observed one. With sums in {-1, 0, 1} it equals
    the exact McNemar p.
    """
    values = np.abs(np.asarray(sums, dtype=np.int64))
    observed = abs(int(np.sum(np.asarray(sums, dtype=np.int64))))
    # Distribution of (total + sum of |values|) / 2, that is of the sum of the values whose sign is positive.
    reach = int(values.sum())
    share = np.zeros(reach + 1)
    share[0] = 1.0
    filled = 0
    for value in values[values > 0]:
        share[: filled + value + 1] *= 0.5
        share[value : filled + value + 1] += share[: filled + 1].copy()
        filled += int(value)
    totals = 2 * np.arange(reach + 1) - reach
    return min(1.0, float(share[np.abs(totals) >= observed].sum()))


def sign_flip_monte_carlo(sums: Sequence[int], resamples: int = 10_000, seed: int = 0) -> float:
    """Two-sided sign-flip p by Monte Carlo, (b + 1) / (B + 1), where b of B random patterns are as far from zero.

    Tasks with the same absolute sum are drawn together: how many of m keep a positive sign is binomial.
    """
    values = np.asarray(sums, dtype=np.int64)
    rng = np.random.default_rng(seed)
    totals = np.zeros(resamples, dtype=np.int64)
    sizes, multiplicity = np.unique(np.abs(values[values != 0]), return_counts=True)
    for size, count in zip(sizes, multiplicity, strict=True):
        totals += size * (2 * rng.binomial(count, 0.5, size=resamples) - count)
    extreme = int(np.count_nonzero(np.abs(totals) >= abs(int(values.sum()))))
    return (extreme + 1) / (resamples + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p values, in the order given; each is at least its own p and at most 1."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted, running = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = running
    return adjusted


def rate_upper_bound(events: int, trials: int, confidence: float = 0.95) -> float:
    """One-sided exact (Clopper-Pearson) upper bound of a rate; 0 events in 75 trials give 3.9%.

    Raises ValueError without trials.
    """
    if trials < 1 or not 0 <= events <= trials:
        raise ValueError(f"{events} events in {trials} trials: no rate can be bounded")
    if events == trials:
        return 1.0
    from scipy.stats import beta

    return float(beta.ppf(confidence, events + 1, trials - events))
