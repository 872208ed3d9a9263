"""Exhaustive search of the policy's thresholds under the limit of clean harm (protocol.md section 3, [R] and [D]).

For a fixed gamma, candidate j of an episode passes on the orthant {alpha <= p_err_j, beta <= need_j}, and the policy acts
at it on that orthant less the union of the earlier candidates' orthants. A union of orthants is a staircase, and its
indicator is a sum of orthants with signs: one for each corner, minus one for each meeting of neighbouring steps. So each
count (net gain, clean harms, interventions) over the whole alpha x beta grid is the two-way suffix sum of a few weights
placed at grid points: time proportional to the grid, not to grid x episodes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pipeline.router.policy import DecisionEpisode, PolicyCounts, Thresholds, harm_limit
from pipeline.runtime.progress import tracked

# Rows of the alpha axis are worked off in blocks of at most this many grid cells: three int32 arrays of 16 MB.
_BLOCK_CELLS = 4_000_000


@dataclass(frozen=True, slots=True)
class Found:
    """The best feasible thresholds and what they do on the episodes they were chosen on."""

    thresholds: Thresholds
    counts: PolicyCounts


def grid_values(values: Sequence[float]) -> list[float]:
    """Every out-of-fold value, 0 and 1, ascending."""
    return sorted({0.0, 1.0, *map(float, values)})


def gamma_values(values: Sequence[float], quantiles: int) -> list[float]:
    """0 and the given number of evenly spaced inner quantiles of the out-of-fold u (19: 5%, …, 95%), ascending."""
    inner = np.quantile(np.asarray(values), np.arange(1, quantiles + 1) / (quantiles + 1)) if len(values) else []
    return sorted({0.0, *map(float, inner)})


def search(
    episodes: Sequence[DecisionEpisode],
    alphas: Sequence[float],
    betas: Sequence[float],
    gammas: Sequence[float],
    epsilon: float,
) -> Found | None:
    """The triple with the highest net gain whose clean harms are at most epsilon of the clean episodes.

    Ties: fewer clean harms, fewer interventions, larger alpha, larger beta, larger gamma. All of alphas x betas x gammas
    (each ascending) is tried. None where nothing is feasible.
    """
    limit = harm_limit(episodes, epsilon)
    best: tuple[tuple[float, ...], Found] | None = None
    for gamma in tracked(gammas, len(gammas), "thresholds"):
        for block, (gain, harms, interventions) in _count_blocks(episodes, alphas, betas, gamma):
            if (found := _best_cell(gain, harms, interventions, limit)) is None:
                continue
            row, column = found
            thresholds = Thresholds(alphas[block + row], betas[column], gamma)
            what = PolicyCounts(*(int(part[row, column]) for part in (gain, harms, interventions)))
            rank = (
                what.net_gain, -what.clean_harms, -what.interventions, thresholds.alpha, thresholds.beta, thresholds.gamma,
            )  # fmt: skip
            if best is None or rank > best[0]:
                best = rank, Found(thresholds, what)
    return best[1] if best else None


def rate_matched(
    episodes: Sequence[DecisionEpisode], alphas: Sequence[float], interventions: int, epsilon: float
) -> Found | None:
    """The p_err threshold whose intervention count is nearest the given one and whose clean harms are within the limit.

    Ties: the lower count, then the larger alpha. None where nothing is feasible.
    """
    limit = harm_limit(episodes, epsilon)
    best: tuple[tuple[float, ...], Found] | None = None
    for block, (gain, harms, acted) in _count_blocks(episodes, alphas, [0.0], -np.inf):
        for row in range(len(gain)):
            if harms[row, 0] > limit:
                continue
            count, alpha = int(acted[row, 0]), alphas[block + row]
            rank = (-abs(count - interventions), -count, alpha)
            if best is None or rank > best[0]:
                thresholds = Thresholds(alpha, 0.0, -np.inf)
                best = rank, Found(thresholds, PolicyCounts(int(gain[row, 0]), int(harms[row, 0]), count))
    return best[1] if best else None


def frontier(
    episodes: Sequence[DecisionEpisode], alphas: Sequence[float], betas: Sequence[float], gammas: Sequence[float]
) -> list[tuple[int, int]]:
    """(clean harms, highest net gain with at most so many) over all triples, ascending; only harms that buy more gain."""
    best: dict[int, int] = {}
    for gamma in gammas:
        for _, (gain, harms, _) in _count_blocks(episodes, alphas, betas, gamma):
            top = np.full(int(harms.max()) + 1, np.iinfo(np.int32).min, dtype=np.int32)
            np.maximum.at(top, harms.ravel(), gain.ravel())
            for count in np.flatnonzero(top > np.iinfo(np.int32).min).tolist():
                best[count] = max(best.get(count, int(top[count])), int(top[count]))
    steps: list[tuple[int, int]] = []
    for count, gained in sorted(best.items()):
        if not steps or gained > steps[-1][1]:
            steps.append((count, gained))
    return steps


def _count_blocks(
    episodes: Sequence[DecisionEpisode], alphas: Sequence[float], betas: Sequence[float], gamma: float
) -> Iterator[tuple[int, np.ndarray]]:
    """Blocks of the grid from the largest alphas down: first row, and an int32 array (3, rows, betas) of the counts."""
    rows, columns, weights = _weights(episodes, np.asarray(alphas), np.asarray(betas), gamma)
    height = max(1, _BLOCK_CELLS // len(betas))
    carry = np.zeros((3, len(betas)), dtype=np.int32)
    for stop in range(len(alphas), 0, -height):
        start = max(0, stop - height)
        block = np.zeros((3, stop - start, len(betas)), dtype=np.int32)
        inside = (rows >= start) & (rows < stop)
        for count in range(3):
            np.add.at(block[count], (rows[inside] - start, columns[inside]), weights[count, inside])
        block[:, -1] += carry
        block = np.cumsum(block[:, ::-1], axis=1, dtype=np.int32)[:, ::-1]
        carry = block[:, 0].copy()
        yield start, np.cumsum(block[:, :, ::-1], axis=2, dtype=np.int32)[:, :, ::-1]


def _weights(
    episodes: Sequence[DecisionEpisode], alphas: np.ndarray, betas: np.ndarray, gamma: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Grid points (rows, columns) and the weights (3, points) of net gain, clean harms and interventions there."""
    points: list[tuple[int, int]] = []
    weights: list[tuple[int, int, int]] = []
    for episode in episodes:
        corners: list[tuple[int, int]] = []
        before: list[tuple[int, int, int]] = []
        for candidate in episode.candidates:
            if candidate.u < gamma:
                continue
            # The last grid point at which the candidate still passes; -1 where it passes nowhere.
            point = (
                int(np.searchsorted(alphas, candidate.p_err, side="right")) - 1,
                int(np.searchsorted(betas, candidate.need, side="right")) - 1,
            )
            if min(point) < 0 or any(point[0] <= other[0] and point[1] <= other[1] for other in corners):
                continue
            corners = [other for other in corners if not (other[0] <= point[0] and other[1] <= point[1])] + [point]
            after = _staircase(corners)
            gain = 0 if episode.clean else candidate.gain
            harm = int(episode.clean and candidate.gain < 0)
            for sign, terms in ((1, after), (-1, before)):
                for row, column, weight in terms:
                    points.append((row, column))
                    weights.append((sign * weight * gain, sign * weight * harm, sign * weight))
            before = after
    if not points:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros((3, 0), dtype=np.int32)
    placed = np.array(points, dtype=np.int64)
    return placed[:, 0], placed[:, 1], np.array(weights, dtype=np.int32).T


def _staircase(corners: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """The union of the orthants below `corners` (none dominates another) as orthants with weights 1 and -1."""
    ordered = sorted(corners, reverse=True)
    terms = [(row, column, 1) for row, column in ordered]
    # Ordered by falling row, columns rise: neighbours overlap in the orthant of the later row and the earlier column.
    terms += [(late[0], early[1], -1) for early, late in pairwise(ordered)]
    return terms


def _best_cell(gain: np.ndarray, harms: np.ndarray, interventions: np.ndarray, limit: int) -> tuple[int, int] | None:
    """Best feasible cell of a block; among equals the one with the largest alpha, then the largest beta."""
    if not (feasible := harms <= limit).any():
        return None
    size = int(interventions.max()) + 1
    rank = (gain.astype(np.int64) * (limit + 1) - harms) * size - interventions
    rank[~feasible] = np.iinfo(np.int64).min
    # The axes ascend, so the last of the equals is the one wanted.
    last = rank.size - 1 - int(np.argmax(rank.ravel()[::-1]))
    return last // rank.shape[1], last % rank.shape[1]
