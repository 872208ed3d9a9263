"""Agents by name. A new agent is one entry in AGENTS."""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from importlib.resources import files
from typing import Any

from pipeline.agents.protocol import Agent
from pipeline.agents.scripted.agent import ScriptedAgent
from pipeline.agents.scripted.policy import Parameters
from pipeline.errors import BadInput
from pipeline.provenance.code import meaning
from pipeline.records.canonical import digest


def _scripted(parameters: Mapping[str, Any]) -> Agent:
    known = {field.name: field for field in fields(Parameters)}
    for name, value in parameters.items():
        if name not in known:
            raise BadInput(f"agent.parameters.{name}: agent scripted has no such parameter{_suggest(name, known)}")
        if type(value) is not known[name].type:
            raise BadInput(f"agent.parameters.{name}: expected {known[name].type.__name__}, got {value!r}")
    if parameters.get("likely_kinds", 0) < 0:
        raise BadInput(
            f"agent.parameters.likely_kinds: expected a number of kinds, 0 or more, got {parameters['likely_kinds']}"
        )
    return ScriptedAgent(Parameters(**parameters), modules_digest("pipeline.agents.scripted"))


AGENTS: dict[str, Callable[[Mapping[str, Any]], Agent]] = {"scripted": _scripted}


def build(kind: str, parameters: Mapping[str, Any]) -> Agent:
    """The agent of that kind with these parameters, defaults for the rest.

    Raises BadInput, with the nearest known name, for an unknown kind or parameter and for a value of the wrong type.
    """
    if kind not in AGENTS:
        raise BadInput(f"agent.kind: no such agent: {kind!r}{_suggest(kind, AGENTS)}")
    return AGENTS[kind](parameters)


@cache
def modules_digest(package: str) -> str:
    """sha256 over the modules of an agent's package; comments, docstrings and formatting do not count."""
    modules = sorted(
        (item for item in files(package).iterdir() if item.name.endswith(".py")), key=lambda item: item.name
    )
    return digest({module.name: meaning(module.read_text()) for module in modules})


def _suggest(name: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(sorted(known))}"
