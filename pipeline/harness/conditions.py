"""Conditions e: what the agent is shown in place of a true observation (protocol.md section 1).

A condition is one small dataclass here, registered in CONDITIONS. The environment is never changed, only the shown text.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

from pipeline.config.models import Alteration
from pipeline.errors import BadInput
from pipeline.provenance.code import definition_digest

# Metadata of a field that only says which tasks are feasible: a run that was played is the same whatever it is.
FEASIBILITY = {"shown": False}


class Condition(Protocol):
    """What stands in for the reply to an altered action."""

    name: str

    def infeasible(self, k: int) -> str | None:
        """Why the reply to action k can't be altered so, or None. Lets a task fall out with a reason."""
        ...

    def shown(self, texts: Sequence[str]) -> str:
        """The text to show. `texts[n]` is the text that belongs to action n, n = 0 being the room text; the last is the true one."""
        ...


@dataclass(frozen=True)
class Clean:
    """The true text: the control."""

    name: str = "clean"

    def infeasible(self, k: int) -> str | None:
        """Never: the reply to any action can be left as it is."""
        return None

    def shown(self, texts: Sequence[str]) -> str:
        """The true text."""
        return texts[-1]


@dataclass(frozen=True)
class Stale:
    """The text that stood `lag` observations earlier."""

    name: str
    lag: int
    first_observation: bool = field(metadata=FEASIBILITY)

    def infeasible(self, k: int) -> str | None:
        """The history must reach back far enough: to observation 0 where it may serve, else to the first reply."""
        reach = k if self.first_observation else k - 1
        return (
            None if reach >= self.lag else f"{self.name} needs {self.lag} earlier observations, action {k} has {reach}"
        )

    def shown(self, texts: Sequence[str]) -> str:
        """The text `lag` observations back."""
        return texts[-1 - self.lag]


@dataclass(frozen=True)
class Missing:
    """A fixed text that says nothing."""

    text: str
    name: str = "missing"

    def infeasible(self, k: int) -> str | None:
        """Never: the fixed text needs no history."""
        return None

    def shown(self, texts: Sequence[str]) -> str:
        """The fixed text."""
        return self.text


def _stale(match: re.Match[str], alteration: Alteration) -> Condition:
    return Stale(match.group(0), int(match.group(1)), alteration.first_observation)


CONDITIONS: dict[str, Callable[[re.Match[str], Alteration], Condition]] = {
    r"clean": lambda match, alteration: Clean(),
    r"stale-([1-9]\d*)": _stale,
    r"missing": lambda match, alteration: Missing(alteration.missing_text),
}


def condition(name: str, alteration: Alteration) -> Condition:
    """The condition of that name. Raises BadInput for a name that no pattern of CONDITIONS matches."""
    for pattern, make in CONDITIONS.items():
        if match := re.fullmatch(pattern, name):
            return make(match, alteration)
    raise BadInput(f"no such condition: {name!r}; known are clean, stale-N with N >= 1, missing")


def condition_identity(made: Condition) -> dict[str, Any]:
    """What determines the texts a condition shows: its class, that class's code, and the settings it shows them by."""
    kind = type(made)
    settings = {one.name: getattr(made, one.name) for one in fields(made) if one.metadata.get("shown", True)}
    return {"code": definition_digest(f"{kind.__module__}:{kind.__qualname__}"), "settings": settings}
