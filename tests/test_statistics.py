"""Intervals and tests against the published figures, scipy and brute force (protocol.md section 4)."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pipeline.statistics.bootstrap import (
    cluster_totals,
    exact_distribution,
    exact_interval,
    exact_ratio_distribution,
    exact_ratio_interval,
    percentile_interval,
    resampled_means,
)
from pipeline.statistics.independent import difference_interval, wilson_interval
from pipeline.statistics.paired import (
    holm,
    mcnemar_exact,
    rate_upper_bound,
    sign_flip_exact,
    sign_flip_monte_carlo,
)

TASK_SUMS = st.lists(st.integers(-4, 4), min_size=1, max_size=9)


def outcomes(n: int, rescues: int, harms: int) -> np.ndarray:
    return np.array([1] * rescues + [-1] * harms + [0] * (n - rescues - harms))


PUBLISHED = [
    (outcomes(93, 0, 6), 1, (-11.83, -2.15)),
    (outcomes(106, 2, 6), 1, (-9.43, 0.94)),
    (outcomes(106, 17, 10), 1, (-2.83, 16.04)),
    (outcomes(67, 10, 1), 1, (4.48, 22.39)),
    # 11 rescues, 2 harms in 300 episodes of 75 tasks: nine tasks +1, one +2, two -1.
    (np.array([1] * 9 + [2] + [-1] * 2 + [0] * 63), 4, (0.67, 5.67)),
]


@pytest.mark.parametrize(("sums", "size", "expected"), PUBLISHED)
def test_published_intervals(sums, size, expected):
    resampled = percentile_interval(sums, np.full(len(sums), size))
    exact = exact_interval(sums, size)
    assert tuple(round(100 * end, 2) for end in resampled) == expected
    assert tuple(round(100 * end, 2) for end in exact) == expected


def test_published_p_values():
    assert sign_flip_exact(PUBLISHED[-1][0]) == pytest.approx(0.0332, abs=5e-5)
    assert sign_flip_monte_carlo(PUBLISHED[-1][0]) == pytest.approx(0.0332, abs=0.006)
    assert round(mcnemar_exact(17, 10), 2) == 0.25
    assert rate_upper_bound(0, 75) == pytest.approx(0.039, abs=5e-4)
    assert rate_upper_bound(0, 149) <= 0.02 < rate_upper_bound(0, 148)


@pytest.mark.parametrize(("sums", "size", "expected"), PUBLISHED)
def test_resampling_converges_to_the_exact_distribution(sums, size, expected):
    totals, probabilities = exact_distribution(sums)
    means = resampled_means(sums, np.full(len(sums), size), 20_000, np.random.default_rng(5))
    drawn = np.bincount((means * size * len(sums)).round().astype(int) - totals[0], minlength=len(totals)) / 20_000
    assert probabilities.sum() == pytest.approx(1, abs=1e-12)
    assert np.abs(np.cumsum(drawn) - np.cumsum(probabilities)).max() < 0.015


def test_bootstrap_agrees_with_scipy():
    sums, sizes = np.array([3, 0, -1, 2, 0, 0, 1, -2, 4, 1]), np.array([4, 4, 2, 4, 3, 4, 4, 4, 4, 1])
    ours = percentile_interval(sums, sizes, 20_000)
    theirs = stats.bootstrap(
        (sums, sizes), lambda s, n, axis=-1: s.sum(axis) / n.sum(axis), paired=True, n_resamples=20_000,
        method="percentile", rng=np.random.default_rng(1),
    ).confidence_interval  # fmt: skip
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.02)


@given(TASK_SUMS)
@settings(max_examples=40, deadline=None)
def test_exact_distribution_is_the_enumerated_one(sums):
    sums = sums[:5]
    totals, probabilities = exact_distribution(sums)
    counted = np.zeros(len(totals))
    for draw in product(sums, repeat=len(sums)):
        counted[sum(draw) - totals[0]] += 1
    assert probabilities == pytest.approx(counted / len(sums) ** len(sums), abs=1e-12)


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(1, 4)), min_size=1, max_size=5))
@settings(max_examples=40, deadline=None)
def test_exact_distribution_of_unequal_clusters_is_the_enumerated_one(clusters):
    sums, sizes = zip(*clusters, strict=True)
    means, probabilities = exact_ratio_distribution(sums, sizes)
    counted = {}
    for draw in product(clusters, repeat=len(clusters)):
        mean = sum(one for one, _ in draw) / sum(size for _, size in draw)
        counted[mean] = counted.get(mean, 0) + 1
    assert dict(zip(means.tolist(), probabilities.tolist(), strict=True)) == pytest.approx(
        {mean: count / len(clusters) ** len(clusters) for mean, count in counted.items()}, abs=1e-12
    )


def test_resampling_unequal_clusters_converges_to_their_exact_interval():
    rng = np.random.default_rng(7)
    sizes = rng.integers(1, 6, size=60)
    sums = rng.integers(-sizes, sizes + 1)
    exact = exact_ratio_interval(sums, sizes)
    assert percentile_interval(sums, sizes, 200_000) == pytest.approx(exact, abs=0.005)
    # Sizes in steps of four are the same question.
    assert exact_ratio_interval(sums * 4, sizes * 4) == pytest.approx(exact)


@pytest.mark.parametrize(("sums", "size", "expected"), PUBLISHED)
def test_both_exact_intervals_agree_for_equal_clusters(sums, size, expected):
    assert exact_ratio_interval(sums, np.full(len(sums), size)) == pytest.approx(exact_interval(sums, size), abs=1e-15)


def test_an_exact_distribution_beyond_memory_is_refused():
    with pytest.raises(ValueError, match="cells"):
        exact_ratio_distribution(np.arange(3_000), np.arange(3_000) + 1)


@given(TASK_SUMS)
@settings(max_examples=60, deadline=None)
def test_sign_flip_is_the_enumerated_one(sums):
    extreme = sum(
        abs(sum(sign * value for sign, value in zip(signs, sums, strict=True))) >= abs(sum(sums))
        for signs in product((-1, 1), repeat=len(sums))
    )
    assert sign_flip_exact(sums) == pytest.approx(extreme / 2 ** len(sums), abs=1e-12)
    assert sign_flip_exact([-value for value in sums]) == sign_flip_exact(sums)


def test_sign_flip_agrees_with_scipy():
    sums = np.array([2, 1, 1, -1, 0, 3, 1, -2, 1, 1])
    theirs = stats.permutation_test(
        (sums,), np.sum, permutation_type="samples", vectorized=False, n_resamples=np.inf, alternative="two-sided"
    )
    assert sign_flip_exact(sums) == pytest.approx(theirs.pvalue, abs=1e-12)
    assert sign_flip_monte_carlo(sums, 40_000) == pytest.approx(theirs.pvalue, abs=0.01)


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_the_binomial_test_and_the_sign_flip_of_unit_sums(rescues, harms):
    p = mcnemar_exact(rescues, harms)
    if rescues + harms:
        assert p == pytest.approx(stats.binomtest(rescues, rescues + harms).pvalue, abs=1e-12)
    assert sign_flip_exact([1] * rescues + [-1] * harms + [0] * 3) == pytest.approx(p, abs=1e-12)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_monotone_and_never_below_the_raw_p(p_values):
    adjusted = holm(p_values)
    assert all(raw <= new <= 1 for raw, new in zip(p_values, adjusted, strict=True))
    order = np.argsort(p_values, kind="stable")
    assert np.all(np.diff(np.array(adjusted)[order]) >= 0)
    assert adjusted[order[0]] == min(1.0, len(p_values) * p_values[order[0]])


def test_holm_of_a_worked_example():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_the_order_of_rows_changes_nothing_and_the_seed_does():
    sums, sizes = cluster_totals(list("abcabd"), [1, 0, -1, 1, 1, 0])
    assert (sums.tolist(), sizes.tolist()) == ([2, 1, -1, 0], [2, 2, 1, 1])
    forward = resampled_means(sums, sizes, 500, np.random.default_rng(3))
    backward = resampled_means(sums[::-1], sizes[::-1], 500, np.random.default_rng(3))
    assert np.array_equal(forward, backward)
    assert not np.array_equal(forward, resampled_means(sums, sizes, 500, np.random.default_rng(4)))


def test_many_distinct_clusters_stay_within_memory_and_in_range():
    sums = np.arange(3_000)
    low, high = percentile_interval(sums, np.ones(3_000, dtype=int), 2_000)
    assert sums.min() < low < sums.mean() < high < sums.max()


def test_no_clusters_is_refused():
    with pytest.raises(ValueError, match="at least one cluster"):
        percentile_interval(np.array([]), np.array([]))
    with pytest.raises(ValueError, match="no rate"):
        rate_upper_bound(0, 0)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((56, 70), (48, 80), (0.0524, 0.3339)),
        ((9, 10), (3, 10), (0.1705, 0.8090)),
        ((10, 10), (0, 20), (0.6791, 1.0)),
        ((0, 10), (0, 20), (-0.1611, 0.2775)),
    ],
)
def test_the_difference_of_two_shares_is_newcombes(first, second, expected):
    """Table II of Newcombe (1998), method 10."""
    ends = difference_interval(
        first[0] / first[1], wilson_interval(*first), second[0] / second[1], wilson_interval(*second)
    )
    assert ends == pytest.approx(expected, abs=5e-5)
    mirrored = difference_interval(
        second[0] / second[1], wilson_interval(*second), first[0] / first[1], wilson_interval(*first)
    )
    assert mirrored == pytest.approx((-ends[1], -ends[0]))


def test_wilsons_interval_is_scipys():
    for events, trials in ((0, 1), (3, 3), (7, 40), (93, 106)):
        theirs = stats.binomtest(events, trials).proportion_ci(method="wilson")
        assert wilson_interval(events, trials) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    with pytest.raises(ValueError, match="no share"):
        wilson_interval(2, 1)


def test_the_difference_of_two_effects_is_near_the_bootstrap_of_both_samples_together():
    """The published effect of stale-2 against another study's: both samples drawn anew, 200,000 times."""
    one, other = [1] * 17 + [-1] * 10 + [0] * 79, [1] * 20 + [-1] * 4 + [0] * 96
    means = [np.mean(one), np.mean(other)]
    ends = difference_interval(means[0], exact_interval(one), means[1], exact_interval(other))
    rng = np.random.default_rng(0)
    drawn = [
        rng.multinomial(len(v), [v.count(1) / len(v), v.count(-1) / len(v), v.count(0) / len(v)], size=200_000)
        for v in (one, other)
    ]
    difference = np.subtract(*((d[:, 0] - d[:, 1]) / d.sum(axis=1) for d in drawn))
    assert ends == pytest.approx(np.quantile(difference, [0.025, 0.975]), abs=0.006)


@pytest.mark.slow
def test_the_interval_of_a_difference_covers_within_two_points_of_its_nominal_rate():
    """2,000 pairs of independent studies of 93 and 120 tasks, with true effects of 12 and 2 points."""
    rng = np.random.default_rng(3)
    truth, hits = (0.16 - 0.04) - (0.05 - 0.03), 0

    def study(rescue, harm, tasks):
        r, h, rest = rng.multinomial(tasks, [rescue, harm, 1 - rescue - harm])
        return (r - h) / tasks, exact_interval([1] * r + [-1] * h + [0] * rest)

    for _ in range(2000):
        low, high = difference_interval(*study(0.16, 0.04, 93), *study(0.05, 0.03, 120))
        hits += low <= truth <= high
    print(hits / 2000)
    assert 0.93 <= hits / 2000 <= 0.97
