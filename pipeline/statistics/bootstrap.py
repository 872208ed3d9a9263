"""Percentile bootstrap over clusters (tasks or task folders), by resampling and exactly (protocol.md section 4).

The unit that is drawn is a cluster; everything that belongs to it moves together. A cluster is summed up by two whole
numbers: the sum of its values (such as rescues minus harms) and its size (such as its number of episodes). The statistic
of a resample is the sum of sums over the sum of sizes.

Clusters with equal (sum, size) can't be told apart, so a resample is drawn as the multinomial number of times each
distinct pair turns up. That is the same distribution as drawing clusters one by one, needs memory for
resamples x distinct pairs only, and does not depend on the order of the rows.
"""

from collections.abc import Sequence

import numpy as np

LEVEL = 0.95
# Cells of one block of multinomial counts: 4 million int64 are 32 MB.
_BLOCK_CELLS = 4_000_000
# Cells of the exact distribution of (sum, size): 8 million complex numbers are 128 MB.
_EXACT_CELLS = 8_000_000


def cluster_totals(clusters: Sequence[str], values: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Sum and size of each cluster, in the clusters' sorted order.

    `clusters[i]` names the cluster of `values[i]`. Returns two int64 arrays, one entry a cluster.
    """
    names, place = np.unique(np.asarray(clusters, dtype=object).astype(str), return_inverse=True)
    sums = np.zeros(len(names), dtype=np.int64)
    np.add.at(sums, place, np.asarray(values, dtype=np.int64))
    return sums, np.bincount(place, minlength=len(names)).astype(np.int64)


def resampled_means(
    sums: np.ndarray, sizes: np.ndarray, resamples: int = 10_000, rng: np.random.Generator | None = None
) -> np.ndarray:
    """Mean of each bootstrap resample of the clusters.

    `sums` and `sizes` are int arrays of one entry a cluster, sizes at least 1. Returns a float array of `resamples`
    means in drawn order, on the scale of the values. Raises ValueError without clusters or with an empty one.
    """
    pairs = np.column_stack([np.asarray(sums, dtype=np.int64), np.asarray(sizes, dtype=np.int64)])
    totals = resampled_totals(pairs, resamples, np.random.default_rng(0) if rng is None else rng)
    return totals[:, 0] / totals[:, 1]


def resampled_totals(rows: np.ndarray, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Column totals of each bootstrap resample of the clusters.

    `rows` is clusters x columns; the last column is the clusters' sizes, at least 1. Returns resamples x columns in drawn
    order. Columns of one call are resampled together. Raises ValueError without clusters or with an empty one.
    """
    if len(rows) == 0 or rows[:, -1].min() < 1:
        raise ValueError("the bootstrap needs at least one cluster, and at least one value in each")
    distinct, multiplicity = (part[::-1] for part in np.unique(rows, axis=0, return_counts=True))
    totals = np.empty((resamples, rows.shape[1]), dtype=rows.dtype)
    block = max(1, _BLOCK_CELLS // len(distinct))
    for start in range(0, resamples, block):
        count = min(block, resamples - start)
        totals[start : start + count] = rng.multinomial(len(rows), multiplicity / len(rows), size=count) @ distinct
    return totals


def percentile_interval(
    sums: np.ndarray, sizes: np.ndarray, resamples: int = 10_000, seed: int = 0, level: float = LEVEL
) -> tuple[float, float]:
    """Percentile interval of the mean (linear interpolation between order statistics), on the scale of the values."""
    means = resampled_means(sums, sizes, resamples, np.random.default_rng(seed))
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], method="linear")
    return float(low), float(high)


def exact_distribution(sums: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Exact bootstrap distribution of the total of n clusters of equal size.

    `sums` holds one whole number a cluster. A resample's total is the sum of n independent draws from them, so its
    distribution is the n-fold convolution of their frequencies, made by repeated squaring. Returns the attainable
    totals (int64, ascending, without gaps) and their probabilities (float64, summing to 1 within rounding).
    """
    values = np.asarray(sums, dtype=np.int64)
    if len(values) == 0:
        raise ValueError("the bootstrap needs at least one cluster")
    lowest = int(values.min())
    power = np.bincount(values - lowest) / len(values)
    result, remaining = np.ones(1), len(values)
    while remaining:
        if remaining & 1:
            result = np.convolve(result, power)
        remaining >>= 1
        if remaining:
            power = np.convolve(power, power)
    return np.arange(len(result), dtype=np.int64) + lowest * len(values), result


def exact_interval(sums: Sequence[int], size: int = 1, level: float = LEVEL) -> tuple[float, float]:
    """Percentile interval that Monte Carlo resampling converges to, for clusters that all hold `size` values.

    The q-quantile is the smallest total whose cumulative probability reaches q.
    """
    totals, probabilities = exact_distribution(sums)
    low, high = _ends(totals, probabilities, level)
    scale = len(sums) * size
    return low / scale, high / scale


def exact_ratio_distribution(sums: Sequence[int], sizes: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Exact bootstrap distribution of the mean, for clusters of any sizes.

    A resample's (sum, size) is the sum of n independent draws of the clusters' pairs, so its distribution is the n-fold
    convolution of their frequencies over a plane, made as the n-th power of their Fourier transform (rounding about
    1e-15 a cell). Returns the attainable means (float64, ascending, distinct) and their probabilities. Raises
    ValueError without clusters, with an empty one, and where the plane would exceed memory for desktops.
    """
    values, weights = np.asarray(sums, dtype=np.int64), np.asarray(sizes, dtype=np.int64)
    if len(values) == 0 or weights.min() < 1:
        raise ValueError("the bootstrap needs at least one cluster, and at least one value in each")
    count, lowest, smallest = len(values), int(values.min()), int(weights.min())
    # Sizes that are all multiples of 48, say, leave 47 of 48 columns of the plane empty.
    step, stride = (max(1, int(np.gcd.reduce(part))) for part in (values - lowest, weights - smallest))
    across, along = (values - lowest) // step, (weights - smallest) // stride
    shape = (count * int(across.max()) + 1, count * int(along.max()) + 1)
    if shape[0] * shape[1] > _EXACT_CELLS:
        raise ValueError(f"the exact distribution has {shape[0] * shape[1]:,} cells, at most {_EXACT_CELLS:,} are made")
    plane = np.zeros(shape)
    np.add.at(plane, (across, along), 1 / count)
    probabilities = np.fft.irfft2(np.fft.rfft2(plane) ** count, s=shape)
    # Rounding leaves cells of about 1e-17 where nothing can fall; they must not become ends of an interval.
    reached, over = np.nonzero(probabilities > 1e-15)
    means = (step * reached + lowest * count) / (stride * over + smallest * count)
    distinct, place = np.unique(means, return_inverse=True)
    return distinct, np.bincount(place, weights=probabilities[reached, over])


def exact_ratio_interval(sums: Sequence[int], sizes: Sequence[int], level: float = LEVEL) -> tuple[float, float]:
    """Percentile interval that Monte Carlo resampling converges to, for clusters of any sizes. Raises ValueError."""
    return _ends(*exact_ratio_distribution(sums, sizes), level)


def _ends(values: np.ndarray, probabilities: np.ndarray, level: float) -> tuple[float, float]:
    """Smallest and largest value with more than (1 - level) / 2 of the distribution at or beyond them."""
    cumulative = np.cumsum(probabilities)
    # The tail is summed from above for the upper end, so that rounding is as small there as at the lower end.
    upper_tail = np.cumsum(probabilities[::-1])[::-1]
    low = values[np.searchsorted(cumulative, (1 - level) / 2, side="left")]
    high = values[np.flatnonzero(upper_tail > (1 - level) / 2)[-1]]
    return float(low), float(high)
