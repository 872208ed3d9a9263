"""What a router may know: an episode up to a candidate moment, as the agent saw it (protocol.md section 3, [D]).

A `Prefix` has no place for a true observation, for anything later, for the condition's name or for k, so no feature can
depend on them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.errors import BadInput
from pipeline.records.episodes import KINDS, Step, step_of_action

_GOAL = re.compile(r"Your task is to: (.+?)\s*(?:\n|$)")
# Kinds of steps that cost a model call.
_TURNS = ("act", "think", "unparseable", "give-up")


@dataclass(frozen=True, slots=True)
class Entry:
    """One step as the agent saw it: its kind, its text, the action sent (or None), and the reply it was shown."""

    kind: str
    output: str
    action: str | None
    shown: str


@dataclass(frozen=True, slots=True)
class Prefix:
    """An episode from its opening (observation 0, task sentence included) to a candidate moment, with its budgets.

    `turns` and `actions` are what has been used: model calls and environment actions. `turn_budget` and `action_budget`
    are what an episode may use.
    """

    opening: str
    entries: tuple[Entry, ...]
    turns: int
    actions: int
    turn_budget: int
    action_budget: int

    @property
    def goal(self) -> str:
        """The task sentence without its full stop, or an empty text where the opening holds none."""
        found = _GOAL.search(self.opening)
        return found.group(1).rstrip(".") if found else ""


def prefix_at(steps: Sequence[Step], number: int, turn_budget: int, action_budget: int) -> Prefix:
    """The prefix that ends with the reply to the agent's action `number` (1-based) of a trunk.

    Raises ValueError where the episode has no such action or does not begin with its reset.
    """
    position = step_of_action(steps, number)
    if position is None or steps[0].kind != "reset":
        raise ValueError(f"no prefix ends at action {number}")
    entries = tuple(_entry(step) for step in steps[1 : position + 1])
    return Prefix(
        opening=steps[0].observation_shown or "",
        entries=entries,
        turns=sum(entry.kind in _TURNS for entry in entries),
        actions=sum(entry.action is not None for entry in entries),
        turn_budget=turn_budget,
        action_budget=action_budget,
    )


def _entry(step: Step) -> Entry:
    return Entry(step.kind, step.output or "", step.action, step.observation_shown or "")


def prefix_from_json(value: Any, source: str) -> Prefix:
    """A prefix out of its JSON form, which has the fields of `Prefix`; `turns` and `actions` may be left out (counted).

    Raises BadInput naming `source` and the field.
    """
    fields = {"opening", "entries", "turns", "actions", "turn_budget", "action_budget"}
    needed = fields - {"turns", "actions"}
    if not isinstance(value, Mapping) or not needed <= set(value) <= fields:
        found = ", ".join(sorted(value)) if isinstance(value, Mapping) else type(value).__name__
        raise BadInput(f"{source}: expected an object with {', '.join(sorted(fields))}; found {found}")
    if not isinstance(value["opening"], str):
        raise BadInput(f"{source}: opening must be the text of observation 0")
    if not isinstance(value["entries"], list):
        raise BadInput(f"{source}: entries must be a list of steps")
    entries = tuple(
        _entry_from_json(entry, f"{source}: entries[{place}]") for place, entry in enumerate(value["entries"])
    )
    counts = {
        "turns": sum(entry.kind in _TURNS for entry in entries),
        "actions": sum(entry.action is not None for entry in entries),
    } | {name: value[name] for name in ("turns", "actions", "turn_budget", "action_budget") if name in value}
    for name, count in counts.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise BadInput(f"{source}: {name} must be a whole number from 0 on, found {count!r}")
    if counts["turn_budget"] == 0 or counts["action_budget"] == 0:
        raise BadInput(f"{source}: turn_budget and action_budget must be at least 1")
    return Prefix(opening=value["opening"], entries=entries, **counts)


def _entry_from_json(entry: Any, place: str) -> Entry:
    if not isinstance(entry, Mapping) or set(entry) != {"kind", "output", "action", "shown"}:
        raise BadInput(f"{place}: expected an object with kind, output, action, shown")
    if entry["kind"] not in KINDS:
        raise BadInput(f"{place}: kind {entry['kind']!r} is none of {', '.join(KINDS)}")
    texts_fit = all(isinstance(entry[name], str) for name in ("output", "shown"))
    if not texts_fit or not isinstance(entry["action"], str | None):
        raise BadInput(f"{place}: output and shown must be texts, action a text or null")
    return Entry(**entry)
