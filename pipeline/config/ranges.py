"""Ranges of the commands' options, the same wherever an option appears; a value outside ends the call before any work."""

import math
from typing import Any

import click

LARGEST = 10**9  # of a delay or budget: no episode is that long, and every table's whole numbers hold it
WORKERS = click.IntRange(1, 1024)
SEED = click.IntRange(0, 2**32 - 1)  # the seeds of numpy and scikit-learn, and of the config
RESAMPLES = click.IntRange(100, 10_000_000)
DELAY = click.IntRange(0, LARGEST)
BUDGET = click.IntRange(1, LARGEST)


class FiniteRange(click.FloatRange):
    """A float range without nan and infinity, which pass click's comparisons."""

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> Any:
        """The number; fails as click's own ranges do."""
        number = super().convert(value, param, context)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, context)
        return number
