"""Agents by name. A new agent is one entry in AGENTS."""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipeline.agents.openai import OpenAIAgent, OpenAIParameters
from pipeline.agents.protocol import Agent, AgentParameters
from pipeline.agents.scripted.agent import ScriptedAgent
from pipeline.agents.scripted.policy import Parameters
from pipeline.errors import BadInput
from pipeline.provenance.code import meaning
from pipeline.records.canonical import digest


@dataclass(frozen=True)
class Kind:
    """A kind of agent: the model of its parameters, its class, and the modules its replies depend on."""

    parameters: type[AgentParameters]
    make: Callable[[Any, str], Agent]
    package: str


AGENTS: dict[str, Kind] = {
    "scripted": Kind(Parameters, ScriptedAgent, "pipeline.agents.scripted"),
    "openai": Kind(OpenAIParameters, OpenAIAgent, "pipeline.agents.openai"),
}


def build(kind: str, parameters: Mapping[str, Any]) -> Agent:
    """The agent of that kind with these parameters, defaults for the rest.

    Raises BadInput, with the nearest known name, for an unknown kind or parameter and for a wrong value.
    """
    if kind not in AGENTS:
        raise BadInput(f"agent.kind: no such agent: {kind!r}{_suggest(kind, AGENTS)}")
    chosen = AGENTS[kind]
    try:
        return chosen.make(chosen.parameters.model_validate(dict(parameters)), modules_digest(chosen.package))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            known = chosen.parameters.model_fields
            raise BadInput(
                f"agent.parameters.{name}: agent {kind} has no such parameter{_suggest(name, known)}"
            ) from error
        raise BadInput(f"agent.parameters.{name}: {first['msg']}, got {first['input']!r}") from error


def packages_but(kind: str) -> tuple[str, ...]:
    """The packages of the other kinds of agent, sorted: no code of theirs plays where `kind` does."""
    return tuple(sorted(other.package for name, other in AGENTS.items() if name != kind))


@cache
def modules_digest(name: str) -> str:
    """sha256 over a module, or the modules of a package; comments, docstrings and formatting do not count."""
    found = import_module(name)
    folder = Path(found.__file__).parent
    paths = sorted(folder.glob("*.py")) if hasattr(found, "__path__") else [Path(found.__file__)]
    return digest({path.name: meaning(path.read_text("utf-8")) for path in paths})


def _suggest(name: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(sorted(known))}"
