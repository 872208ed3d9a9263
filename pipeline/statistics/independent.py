"""Intervals of a difference between two independent samples, out of each one's own interval."""

from math import sqrt

# Two-sided 95% point of the normal distribution.
_Z = 1.959963984540054


def difference_interval(
    first: float, first_ends: tuple[float, float], second: float, second_ends: tuple[float, float]
) -> tuple[float, float]:
    """Interval of `first` less `second` from both estimates and their intervals of the same level.

    The square-and-add rule (MOVER): each end lies as far from the difference as the root of the two squared distances
    that can move it there. With score intervals of two shares it is Newcombe's method 10 (Statistics in Medicine 17,
    1998, 873-890); for other estimates Zou and Donner (27, 2008, 1693-1702). It needs no counts, so a published interval
    serves; it takes the samples as independent. An interval of no width moves nothing.
    """
    low = sqrt((first - first_ends[0]) ** 2 + (second_ends[1] - second) ** 2)
    high = sqrt((first_ends[1] - first) ** 2 + (second - second_ends[0]) ** 2)
    return first - second - low, first - second + high


def wilson_interval(events: int, trials: int) -> tuple[float, float]:
    """Wilson's 95% score interval of a share, without continuity correction. Raises ValueError without trials."""
    if trials < 1 or not 0 <= events <= trials:
        raise ValueError(f"{events} events in {trials} trials: no share can be estimated")
    share, z2 = events / trials, _Z**2
    middle = (events + z2 / 2) / (trials + z2)
    width = _Z * sqrt(trials * share * (1 - share) + z2 / 4) / (trials + z2)
    return middle - width, middle + width
