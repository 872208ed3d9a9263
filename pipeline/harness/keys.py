"""What determines an episode, and nothing else: the inputs of its key in the store (docs/store.md).

Study, cohort, paths, threads and the texts of other operators or conditions are not here, so they change no key.
"""

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pipeline.environment import Translation
from pipeline.errors import BadInput
from pipeline.harness.conditions import Clean, condition, condition_identity
from pipeline.harness.operators import operator, operator_digest
from pipeline.harness.player import Settings, Unit
from pipeline.provenance.code import code_digest
from pipeline.records.canonical import digest

ENGINE = "fast-downward-textworld"  # the package whose library plays the games
# Identified elsewhere in the key, so that an edit of one agent, operator or condition leaves the others' episodes alone:
# the agent's code in its own digest, operators and conditions by what the chosen one is; settings by their values.
APART = (
    "pipeline.agents.registry",
    "pipeline.config",
    "pipeline.errors",
    "pipeline.harness.conditions",
    "pipeline.harness.operators",
)


def inputs_of(unit: Unit, settings: Settings, agent: str) -> dict[str, Any]:
    """The inputs of a unit's key, JSON-able; `agent` is the digest of agent and harness settings.

    A prefix is identified by the outputs it replays and by the hashes it must come back to: where an agent gave its
    origin in two ways, a branch belongs to the very text it goes on from. Raises BadInput for a damaged translation.
    """
    return {
        "code": player_code(),
        "engine": engine(),
        "game": _game(unit),
        "agent": agent,
        "condition": None if unit.k is None else _condition(unit, settings),
        "origin": unit.origin,
        "prefix": {
            "outputs": digest(list(unit.prefix)),
            "state": unit.expected_state,
            "transcript": unit.expected_transcript,
        },
        "fork": None if unit.operator is None else _fork(unit, settings),
    }


@cache
def player_code() -> str:
    """Digest of the code that plays: harness and environment, without agents, operators, conditions and config."""
    return code_digest("pipeline.harness.player:Player", APART)


@cache
def engine() -> str:
    """Version of the planner's library that is installed here. Raises BadInput where it is missing."""
    try:
        return version(ENGINE)
    except PackageNotFoundError as error:
        raise BadInput(f"the package {ENGINE} is not installed; run `make setup`") from error


def _game(unit: Unit) -> dict[str, Any]:
    try:
        return Translation.origin(unit.translation)
    except BadInput as error:
        raise BadInput(f"{unit.task}: {error}") from None


def _condition(unit: Unit, settings: Settings) -> dict[str, Any]:
    made = condition(unit.condition, settings.alteration)
    # However many true texts are shown as they are, it is the same run.
    length = None if isinstance(made, Clean) else settings.alteration.length
    return {"name": unit.condition, "shows": condition_identity(made), "k": unit.k, "length": length}


def _fork(unit: Unit, settings: Settings) -> dict[str, Any]:
    assert unit.operator is not None
    chosen = operator(unit.operator, settings.texts)
    return {"delay": unit.delay, "operator": unit.operator, "digest": operator_digest(chosen)}
