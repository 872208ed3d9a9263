"""A small structural simulator: episodes with a latent state, planted rescue and harm, and truths that can be summed by hand.

A task is easy or hard; its difficulty moves all its conditions together. An episode is in one latent state, drawn from its
condition and difficulty. Left alone it succeeds with ALONE[state]; recovered at delay d, a failure becomes a success with
RESCUE[state][d] and a success a failure with HARM[state][d]. At delay 4 a share ENDED of the episodes is over, whatever the
state. Features are the state's indicators plus normal noise, drawn anew at every moment.
"""

from dataclasses import dataclass

import numpy as np

STATES = ("on-track", "misled", "stuck", "fragile")
DELAYS = (1, 2, 4)
CONDITIONS = ("clean", "stale-2")
FEATURES = tuple(f"x_{name.replace('-', '_')}" for name in STATES)
# P(state | condition, difficulty): rows easy, hard.
STATE_SHARE = {
    "clean": np.array([[0.80, 0.00, 0.10, 0.10], [0.50, 0.00, 0.25, 0.25]]),
    "stale-2": np.array([[0.35, 0.45, 0.10, 0.10], [0.20, 0.40, 0.20, 0.20]]),
}
HARD = 0.5
ALONE = np.array([0.97, 0.45, 0.15, 0.85])
RESCUE = np.array([[0.05, 0.05, 0.05], [0.60, 0.45, 0.30], [0.05, 0.20, 0.05], [0.10, 0.10, 0.10]])
HARM = np.array([[0.01, 0.01, 0.01], [0.03, 0.03, 0.03], [0.02, 0.02, 0.02], [0.30, 0.30, 0.30]])
ENDED = 0.1
LIVE = np.array([1.0, 1.0, 1 - ENDED])
# What an omniscient policy does in each state: the place in DELAYS, or None. test_simulator enumerates to check.
BEST: tuple[int | None, ...] = (None, 0, 1, None)


def state_share(condition: str) -> np.ndarray:
    """P(state | condition) over easy and hard tasks."""
    return np.array([1 - HARD, HARD]) @ STATE_SHARE[condition]


def cells(condition: str, moment: int) -> tuple[float, float]:
    """True probabilities of rescue and harm when everybody is recovered at DELAYS[moment]."""
    share = state_share(condition) * LIVE[moment]
    return float(share @ ((1 - ALONE) * RESCUE[:, moment])), float(share @ (ALONE * HARM[:, moment]))


def never_value(conditions=CONDITIONS) -> float:
    """True success without recovery, over conditions."""
    return float(np.mean([state_share(condition) @ ALONE for condition in conditions]))


def gain(policy: tuple[int | None, ...], conditions=CONDITIONS) -> float:
    """True gain over never of a policy that sees the state: a place in DELAYS for each state, or None."""
    total = 0.0
    for condition in conditions:
        for state, moment in enumerate(policy):
            if moment is not None:
                effect = (1 - ALONE[state]) * RESCUE[state, moment] - ALONE[state] * HARM[state, moment]
                total += state_share(condition)[state] * LIVE[moment] * effect
    return total / len(conditions)


def clean_harm(policy: tuple[int | None, ...]) -> float:
    """True share of clean episodes that such a policy harms."""
    return sum(
        state_share("clean")[state] * LIVE[moment] * ALONE[state] * HARM[state, moment]
        for state, moment in enumerate(policy)
        if moment is not None
    )


@dataclass(frozen=True)
class Sample:
    """Simulated episodes, task by task and in it condition by condition: arrays (episodes, ...)."""

    task: list[str]
    condition: list[str]
    state: np.ndarray
    y0: np.ndarray
    ym: np.ndarray
    live: np.ndarray
    features: np.ndarray

    def decisions(self) -> list[dict]:
        """Rows of the decisions table."""
        return [
            self._keys(episode, moment)
            | {"live": bool(self.live[episode, moment]), "factual_success": True}
            | {
                name: float(x) if self.live[episode, moment] else None
                for name, x in zip(FEATURES, self.features[episode, moment], strict=True)
            }
            for episode in range(len(self.task))
            for moment in range(len(DELAYS))
        ]

    def pairs(self) -> list[dict]:
        """Rows of the pairs table, with the columns that `effects` and `evaluate` need."""
        return [
            self._keys(episode, moment)
            | {"operator": "refresh", "intervened": bool(self.live[episode, moment]), "factual_success": True}
            for episode in range(len(self.task))
            for moment in range(len(DELAYS))
        ]

    def _keys(self, episode: int, moment: int) -> dict:
        return {
            "cohort": "simulated",
            "task": self.task[episode],
            "folder": self.task[episode].split("/")[0],
            "condition": self.condition[episode],
            "delay": DELAYS[moment],
            "y0": bool(self.y0[episode]),
            "ym": bool(self.ym[episode, moment]),
        }

    def effects(self, condition: str, moment: int) -> np.ndarray:
        """ym - y0 of one condition's episodes at one moment."""
        mine = np.array([c == condition for c in self.condition])
        return (self.ym[:, moment].astype(int) - self.y0)[mine]


def sample(tasks: int, rng: np.random.Generator, noise: float = 0.0, conditions=CONDITIONS) -> Sample:
    """Draw tasks with every condition each."""
    hard = np.repeat((rng.random(tasks) < HARD).astype(int), len(conditions))
    condition = list(conditions) * tasks
    shares = np.array([STATE_SHARE[name][level] for name, level in zip(condition, hard, strict=True)])
    n = len(condition)
    state = (rng.random(n)[:, None] > np.cumsum(shares, axis=1)).sum(axis=1).clip(max=len(STATES) - 1)
    y0 = (rng.random(n) < ALONE[state]).astype(int)
    live = np.ones((n, len(DELAYS)), dtype=bool)
    live[:, 2] = rng.random(n) >= ENDED
    luck = rng.random((n, len(DELAYS)))
    recovered = np.where(y0[:, None] == 1, luck >= HARM[state], luck < RESCUE[state]).astype(int)
    ym = np.where(live, recovered, y0[:, None])
    features = np.eye(len(STATES))[state][:, None, :] + noise * rng.standard_normal((n, len(DELAYS), len(STATES)))
    task = [f"task{place // len(conditions):05}/trial" for place in range(n)]
    return Sample(task, condition, state, y0, ym, live, features)


def state_policy(drawn: Sample, policy: tuple[int | None, ...]) -> np.ndarray:
    """A policy that sees the state, as (episodes, moments) of 0 and 1."""
    table = np.array([[int(moment == place) for place in range(len(DELAYS))] for moment in policy])
    return table[drawn.state]


def reveal(drawn: Sample, chance: np.ndarray, rng: np.random.Generator) -> list[dict]:
    """A log of the sample: at each live moment the episode is recovered with its state's chance, one branch is shown."""
    rows = []
    for episode, state in enumerate(drawn.state):
        mine = []
        outcome = int(drawn.y0[episode])
        for moment, delay in enumerate(DELAYS):
            live = bool(drawn.live[episode, moment])
            action = int(live and rng.random() < chance[state])
            mine.append(
                {"task": drawn.task[episode], "condition": drawn.condition[episode], "delay": delay, "live": live,
                 "action": action if live else None, "propensity": float(chance[state]) if live else None}
                | {name: float(x) for name, x in zip(FEATURES, drawn.features[episode, moment], strict=True)}
            )  # fmt: skip
            if action:
                outcome = int(drawn.ym[episode, moment])
                break
        rows += [row | {"y": outcome} for row in mine]
    return rows
