"""Playing one unit: rebuild its prefix, check it, apply the operator, let the agent go on.

Factual runs, trunks and branches differ only in what a unit holds, so there is one function for all three. What this
module does, and what it imports, determines an episode: its digest stands in every episode's key (keys.py). What may
change without changing an episode (worker processes, progress, the store) belongs into play.py.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pipeline.agents.protocol import Agent
from pipeline.agents.registry import build
from pipeline.config.models import AgentSection, Alteration, Harness, RecoveryTexts
from pipeline.environment import AlfworldEnvironment, Translation
from pipeline.errors import BadInput
from pipeline.harness.conditions import condition
from pipeline.harness.operators import operator
from pipeline.harness.session import Altered, Session


@dataclass(frozen=True)
class Unit:
    """One episode to play.

    `prefix` are the recorded outputs to replay, `k` the altered action of `condition` (None: nothing is altered),
    `operator` what to apply after the prefix (None: nothing, the run is a trajectory), `delay` the actions between the
    altered reply and that. `expected_state` and `expected_transcript` are the hashes that the origin had after the same
    prefix; None is not checked. `origin` is the key of the episode that the prefix was taken from, where it has one.
    """

    task: str
    translation: bytes
    prefix: tuple[str, ...] = ()
    condition: str = "clean"
    k: int | None = None
    operator: str | None = None
    delay: int | None = None
    expected_state: str | None = None
    expected_transcript: str | None = None
    origin: str | None = None

    def __str__(self) -> str:
        return f"{self.task} ({self.condition}, {self.operator or 'no operator'})"


@dataclass(frozen=True)
class Settings:
    """The sections of the config that playing depends on."""

    agent: AgentSection
    harness: Harness
    alteration: Alteration = field(default_factory=Alteration)
    texts: RecoveryTexts = field(default_factory=RecoveryTexts)


class Player:
    """An agent and an environment that are used for one unit after another."""

    def __init__(self, settings: Settings):
        """Build the agent; the environment comes with the first unit."""
        self.settings = settings
        self.agent: Agent = build(settings.agent.kind, settings.agent.parameters)
        self.environment: AlfworldEnvironment | None = None

    def play(self, unit: Unit) -> dict[str, Any]:
        """Play a unit to its end: a row of the trajectories table, for a branch with its fork's columns.

        The prefix is replayed, never generated again; where its hashes differ from the origin's the row is `excluded`
        by name and nothing is played on (protocol.md section 1).
        """
        session = Session(unit.task, self._load(unit), self.settings.harness, self._altered(unit))
        whole = session.replay(unit.prefix)
        first_new = len(session.steps) if unit.operator else 0
        fork = {"state_hash": session.steps[-1].state_hash, "transcript_hash": session.transcript_hash}
        # A trunk that went on after the fork can't have ended there: the environment is another one.
        ended = not whole or (unit.operator is not None and session.exit is not None)
        excluded = "state-mismatch" if ended else _mismatch(unit, fork)
        intervened = False
        if excluded is None and session.exit is None:
            if unit.operator is not None:
                chosen = operator(unit.operator, self.settings.texts)
                session.intervene(chosen)
                intervened = chosen.applies
            episode = session.run(self.agent)
        else:
            episode = session.episode(self.agent)
        row = episode.row()
        row["steps"] = [asdict(step) for step in episode.steps[first_new:]]
        row["excluded"] = excluded or ("infrastructure" if episode.exit == "infrastructure" else None)
        if unit.operator is not None:
            row |= fork | {"final_transcript_hash": episode.transcript_hash, "intervened": intervened}
        return row

    def _load(self, unit: Unit) -> AlfworldEnvironment:
        try:
            game = Translation.from_bytes(unit.translation)
        except BadInput as error:
            raise BadInput(f"{unit.task}: {error}") from None
        if self.environment is None:
            self.environment = AlfworldEnvironment(game)
        else:
            self.environment.load(game)
        return self.environment

    def _altered(self, unit: Unit) -> Altered | None:
        if unit.k is None:
            return None
        alteration = self.settings.alteration
        return Altered(condition(unit.condition, alteration), unit.k, alteration.length)


def _mismatch(unit: Unit, fork: Mapping[str, str]) -> str | None:
    if unit.expected_state not in (None, fork["state_hash"]):
        return "state-mismatch"
    if unit.expected_transcript not in (None, fork["transcript_hash"]):
        return "transcript-mismatch"
    return None
