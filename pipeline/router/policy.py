"""Episodes with their candidate moments, and what a policy of three thresholds does with them (protocol.md section 3).

Policy: at the candidate delays in order, intervene at the first with p_err >= alpha, 1 - p_0 >= beta and u >= gamma; at
most once per episode.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """A live candidate moment: its delay, the three signals compared with thresholds, and the gain of intervening there.

    `p_err` and `need` = 1 - p_0 are shares, `u` = s_R - lambda s_H; `gain` = Y(intervene here) - Y(leave alone). The
    joint-outcome models put P(rescue) and P(rescue) - lambda P(harm) in their place (pipeline.router.joint). `operator`
    is what would be applied, None: the router's only one.
    """

    delay: int
    p_err: float
    need: float
    u: float
    gain: int
    operator: str | None = None


@dataclass(frozen=True, slots=True)
class DecisionEpisode:
    """One (task, condition) with its live candidates in the order they are asked."""

    task: str
    condition: str
    clean: bool
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """alpha, beta and gamma of the policy."""

    alpha: float
    beta: float
    gamma: float

    def passed(self, p_err: float, need: float, u: float) -> tuple[bool, bool, bool]:
        """Which of the three tests a moment passes."""
        return p_err >= self.alpha, need >= self.beta, u >= self.gamma

    def choose(self, episode: DecisionEpisode) -> Candidate | None:
        """The candidate at which the policy intervenes, or None."""
        for candidate in episode.candidates:
            if all(self.passed(candidate.p_err, candidate.need, candidate.u)):
                return candidate
        return None


@dataclass(frozen=True, slots=True)
class PolicyCounts:
    """A policy on training episodes: net gain on incorrect-observation episodes, harms on clean ones, interventions."""

    net_gain: int
    clean_harms: int
    interventions: int


def counts(thresholds: Thresholds | None, episodes: Sequence[DecisionEpisode]) -> PolicyCounts:
    """What a policy does on episodes; None never intervenes."""
    gain = harms = interventions = 0
    for episode in episodes:
        chosen = thresholds.choose(episode) if thresholds else None
        if chosen is not None:
            interventions += 1
            gain += 0 if episode.clean else chosen.gain
            harms += episode.clean and chosen.gain < 0
    return PolicyCounts(gain, harms, interventions)


def harm_limit(episodes: Sequence[DecisionEpisode], epsilon: float) -> int:
    """Most clean harms allowed: floor of epsilon times the clean episodes (guarded against rounding of the product)."""
    return int(epsilon * sum(episode.clean for episode in episodes) + 1e-9)
