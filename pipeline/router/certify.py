"""Values of alpha whose clean harm is certified: Learn then Test with an exact binomial test (Angelopoulos et al., 2021,
arXiv 2110.01052).

The loss of an alpha on a clean task is 1 where any moment with p_err >= alpha, if intervened at, would turn its success
into failure. Whatever beta and gamma are, a policy with that alpha intervenes at such moments only and once at most, so its
clean harm is at most this loss: certifying alpha certifies every beta and gamma with it, also those chosen on the same data.

For each alpha of a fixed ladder the hypothesis "the expected loss exceeds epsilon" has the p-value P(Bin(n, epsilon) <=
losses), exact for n independent tasks. The ladder is tested from its most careful step down, each at the full level, until
one is not rejected (fixed-sequence testing): clean harm <= epsilon then holds with the stated confidence whichever of the
rejected steps is used. The ladder is written down here and not taken from the data.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.router.policy import DecisionEpisode

# 1, then odds of p_err from 10,000 down to 1/100 in tenths of a power of ten, then 0.
LADDER = (1.0, *(round(1 / (1 + 10 ** (tenth / 10 - 4)), 6) for tenth in range(61)), 0.0)
ASSUMES = (
    "independent clean tasks; out-of-fold scores as calibration scores: each is made without its own task folder, but the "
    "folds share tasks with each other and the router is refitted on all, so the certificate is for the out-of-fold policy "
    "and holds for the refitted one as far as the two agree"
)


@dataclass(frozen=True, slots=True)
class Step:
    """One tested alpha: clean tasks that some moment with p_err >= alpha would harm, and the p of exceeding epsilon."""

    alpha: float
    harmed: int
    p: float
    certified: bool


@dataclass(frozen=True)
class Certificate:
    """The tests of the ladder on the clean tasks, up to the first step that is not certified."""

    clean_tasks: int
    epsilon: float
    confidence: float
    steps: tuple[Step, ...]

    @property
    def alphas(self) -> list[float]:
        """The certified values of alpha, ascending."""
        return sorted(step.alpha for step in self.steps if step.certified)

    @property
    def clean_tasks_needed(self) -> int | None:
        """Clean tasks without harm that would certify epsilon."""
        return clean_tasks_needed(self.epsilon, self.confidence)

    def record(self) -> dict[str, Any]:
        """The certificate as router.json holds it."""
        failed = next((step.harmed for step in self.steps if not step.certified), None)
        return {
            "confidence": self.confidence,
            "epsilon": self.epsilon,
            "clean_tasks": self.clean_tasks,
            "clean_tasks_needed": self.clean_tasks_needed,
            "clean_tasks_needed_for_the_next_step": None
            if failed is None
            else clean_tasks_needed(self.epsilon, self.confidence, failed),
            "steps": [asdict(step) for step in self.steps],
            "assumes": ASSUMES,
        }


def exceeds_p(harmed: int, tasks: int, epsilon: float) -> float:
    """Exact p of the hypothesis that the rate is above epsilon: P(Bin(tasks, epsilon) <= harmed)."""
    from scipy.stats import binom

    return float(binom.cdf(harmed, tasks, epsilon))


def clean_tasks_needed(epsilon: float, confidence: float, harmed: int = 0) -> int | None:
    """Fewest clean tasks, so many of them harmed, that certify a rate of at most epsilon; None where none do (epsilon 0).

    149 for 2% at 95% without harm. The p falls with the number of tasks, so bisection finds it.
    """
    if epsilon <= 0:
        return None
    level = 1 - confidence
    high = harmed + 1
    while exceeds_p(harmed, high, epsilon) > level:
        high *= 2
    low = harmed
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if exceeds_p(harmed, middle, epsilon) <= level else (middle, high)
    return high


def certify(episodes: Sequence[DecisionEpisode], epsilon: float, confidence: float) -> Certificate:
    """Test the ladder on the clean episodes, one a task. Without clean episodes nothing is tested."""
    clean = [episode for episode in episodes if episode.clean]
    # Highest p_err of a moment that would harm, for each task that has one: alpha harms it where alpha is at most that.
    reach = [max((c.p_err for c in episode.candidates if c.gain < 0), default=-1.0) for episode in clean]
    steps: list[Step] = []
    for alpha in LADDER if clean else ():
        harmed = sum(value >= alpha for value in reach)
        p = exceeds_p(harmed, len(clean), epsilon)
        steps.append(Step(alpha, harmed, p, p <= 1 - confidence))
        if not steps[-1].certified:
            break
    return Certificate(len(clean), epsilon, confidence, tuple(steps))
