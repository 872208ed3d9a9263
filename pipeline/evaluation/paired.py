"""Two outcomes an episode compared: interval over tasks, sign-flip, McNemar; and every two policies so compared."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import fsum
from typing import Any

from pipeline.evaluation.lookup import Outcome
from pipeline.statistics.bootstrap import cluster_totals, percentile_interval
from pipeline.statistics.paired import mcnemar_exact, sign_flip_exact, sign_flip_monte_carlo

# Expectations are counted in parts of this size, since clusters are summed in whole numbers.
PARTS = 10**9


def total(values: Sequence[float]) -> float:
    """Sum of counts: whole where all are, else (expectations) without the noise of floating sums."""
    values = list(values)
    return sum(values) if all(isinstance(value, int) for value in values) else round(fsum(values), 9)


def interval_pp(
    clusters: Sequence[str], values: Sequence[float], resamples: int, seed: int
) -> tuple[float, float, list[int], int]:
    """Bootstrap interval of the mean in percent, the clusters' sums in whole parts, and how many parts make 1."""
    parts = 1 if all(isinstance(value, int) for value in values) else PARTS
    sums, sizes = cluster_totals(clusters, [round(value * parts) for value in values])
    low, high = percentile_interval(sums, sizes, resamples, seed)
    return 100 * low / parts, 100 * high / parts, sums.tolist(), parts


def paired_figures(
    episodes: Sequence[Outcome], first: Sequence[float], second: Sequence[float], resamples: int, seed: int
) -> dict[str, Any]:
    """`first` less `second`, one value an episode; whole where neither is an expectation.

    `better` counts the episodes with 1 against 0, `worse` those with 0 against 1; of an expectation they are expected.
    The tests are of outcomes that happened: an expectation has none (null). Its many small differences of one sign would
    give a small p whatever their size.
    """
    change = [a - b for a, b in zip(first, second, strict=True)]
    low, high, sums, parts = interval_pp([episode.task for episode in episodes], change, resamples, seed)
    folder_low, folder_high, *_ = interval_pp([episode.folder for episode in episodes], change, resamples, seed)
    better = total([a * (1 - b) for a, b in zip(first, second, strict=True)])
    worse = total([b * (1 - a) for a, b in zip(first, second, strict=True)])
    return {
        "tasks": len(sums),
        "episodes": len(change),
        "mean_pp": 100 * total(change) / len(change),
        "ci95_pp": [low, high],
        "ci95_folder_pp": [folder_low, folder_high],
        "better": better,
        "worse": worse,
        "sign_flip_p": sign_flip_exact(sums) if parts == 1 else None,
        "sign_flip_p_mc": sign_flip_monte_carlo(sums, resamples, seed) if parts == 1 else None,
        "mcnemar_p": mcnemar_exact(better, worse) if parts == 1 else None,
    }


def differences(played: Mapping[str, Sequence[Outcome]], resamples: int, seed: int) -> list[dict[str, Any]]:
    """Every two policies but never, the later of the table less the earlier, on the same episodes."""
    rows = []
    for versus, policy in combinations([name for name in played if name != "never"], 2):
        mine, theirs = ([outcome.y for outcome in played[name]] for name in (policy, versus))
        compared = paired_figures(played[policy], mine, theirs, resamples, seed)
        difference = {"policy": policy, "versus": versus, "difference_pp": compared.pop("mean_pp")}
        rows.append(difference | compared)
    return rows
