"""From a belief to the next turn: what the agent is after, and the one command that brings it nearer.

Everything is tried once before anything is tried again; an agent that does not `revisit` never tries again.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pydantic import Field

from pipeline.agents.protocol import AgentParameters
from pipeline.agents.scripted.belief import Belief
from pipeline.agents.scripted.commonsense import STATIONS, kind, search_order

GIVE_UP = "give up"


class Parameters(AgentParameters):
    """The scripted agent's parameters."""

    revisit: bool = Field(True, description="Go back to places it has tried, once it has tried all.")
    likely_kinds: int = Field(
        3, ge=0, description="Kinds of place it thinks likely, before it goes by the room's list."
    )
    thoughts: bool = Field(True, description="Write a thought, in a turn of its own, when its thought has changed.")

    @property
    def tries(self) -> int:
        """How often a place or a command is tried."""
        return 2 if self.revisit else 1


@dataclass(frozen=True, slots=True)
class Intention:
    """A thought and the command that follows from it."""

    thought: str
    command: str


def next_turn(belief: Belief, parameters: Parameters) -> str:
    """The agent's next output, one line: a changed thought first, then the command."""
    intention = intend(belief, parameters)
    if parameters.thoughts and intention.thought != belief.thought:
        return f"think: {intention.thought}"
    return intention.command


def intend(belief: Belief, parameters: Parameters) -> Intention:
    """What the agent wants to do now. Pure: the same belief gives the same intention."""
    goal = belief.goal
    if goal is None:
        return Intention("I don't understand the task. I give up.", GIVE_UP)
    if belief.check_hands:
        return Intention("That did not work. I check what I am carrying.", "inventory")
    options = (
        _holding(belief, parameters)
        if belief.holding and kind(belief.holding) == goal.object
        else _seeking(belief, parameters)
    )
    return next(options, Intention("I have tried everything I can think of. I give up.", GIVE_UP))


def _holding(belief: Belief, parameters: Parameters) -> Iterator[Intention]:
    goal, held = belief.goal, belief.holding
    assert goal is not None
    if goal.treatment and held not in belief.treated:
        station = STATIONS[goal.treatment]
        thought = f"I have {held}. Now I {goal.treatment} it with the {station}."
        commands = [
            (place, f"{goal.treatment} {held} with {place}") for place in belief.places if kind(place) == station
        ]
        for tried in range(parameters.tries):
            yield from _use_at(belief, tried, thought, commands)
    elif goal.lamp:
        for tried in range(parameters.tries):
            thought = f"I have {held}. Now I turn on the {goal.lamp}."
            yield from _use_at(
                belief, tried, thought, ((place, f"use {lamp}") for place, lamp in _seen(belief, goal.lamp))
            )
            yield from _search(belief, parameters, tried, goal.lamp, f"I have {held}. I look for a {goal.lamp}.")
    else:
        thought = f"I have {held}. Now I put it in the {goal.target}."
        to = "to" if belief.verb == "move" else "in/on"
        commands = [(place, f"{belief.verb} {held} {to} {place}") for place in _targets(belief)]
        for tried in range(parameters.tries):
            yield from _use_at(belief, tried, thought, commands)


def _seeking(belief: Belief, parameters: Parameters) -> Iterator[Intention]:
    goal = belief.goal
    assert goal is not None
    target, settled = _settled(belief)
    if len(settled) >= goal.count:
        if target in belief.unconfirmed:
            thought = f"That should be all. I check the {target}."
            for tried in range(parameters.tries):
                yield from _use_at(belief, tried, thought, [(target, f"examine {target}")])
        return
    wanted = f"another {goal.object}" if settled else f"a {goal.object}"
    for tried in range(parameters.tries):
        for place, thing in _seen(belief, goal.object):
            if thing not in settled:
                thought = f"{thing} is at {place}. I take it."
                yield from _use_at(belief, tried, thought, [(place, f"take {thing} from {place}")])
        again = "I have looked everywhere. I look again for" if tried else "I look for"
        yield from _search(belief, parameters, tried, goal.object, f"{again} {wanted}.")


def _use_at(belief: Belief, tried: int, thought: str, commands: Iterable[tuple[str, str]]) -> Iterator[Intention]:
    """Go where a command can be given, open what is shut, give it; nothing where that failed more than `tried` times."""
    for place, command in commands:
        if belief.failed[command] > tried:
            continue
        if place not in belief.here:
            if belief.refused[place] <= tried:
                yield Intention(thought, f"go to {place}")
        elif place in belief.shut and command.startswith(("take", "move", "put")):
            if belief.failed[f"open {place}"] <= tried:
                yield Intention(thought, f"open {place}")
        else:
            yield Intention(thought, command)


def _search(belief: Belief, parameters: Parameters, tried: int, thing: str, thought: str) -> Iterator[Intention]:
    """Read the list of each place not tried more than `tried` times: at first where it stands, then by likelihood."""
    order = belief.orders.get(thing)
    if order is None:
        order = belief.orders[thing] = search_order(thing, belief.places, parameters.likely_kinds)
    for place in order if tried else (*belief.here, *order):
        there = place in belief.here
        reading = f"open {place}" if place in belief.shut else f"examine {place}"
        attempts = belief.reads[place] + belief.failed[reading] + (0 if there else belief.refused[place])
        if attempts <= tried:
            yield Intention(thought, reading if there else f"go to {place}")


def _seen(belief: Belief, wanted: str) -> Iterator[tuple[str, str]]:
    """Places and things of a kind seen there, where it stands first, then in the order of the lists it has read."""
    places = (*belief.here, *(place for place in belief.contents if place not in belief.here))
    for place in places:
        for thing in belief.contents.get(place, ()):
            if kind(thing) == wanted:
                yield place, thing


def _targets(belief: Belief) -> list[str]:
    """Places of the goal's kind: for two objects the one that holds most first, else where it stands, else as listed."""
    goal = belief.goal
    assert goal is not None

    def rank(place: str) -> tuple[int, bool]:
        return (-len(_done_at(belief, place)) if goal.count > 1 else 0, place not in belief.here)

    return sorted((place for place in belief.places if kind(place) == goal.target), key=rank)


def _done_at(belief: Belief, place: str) -> list[str]:
    goal = belief.goal
    assert goal is not None
    return [
        thing
        for thing in belief.contents.get(place, ())
        if kind(thing) == goal.object and (goal.treatment is None or thing in belief.treated)
    ]


def _settled(belief: Belief) -> tuple[str, list[str]]:
    """The target in use and the objects that stand there as the goal wants them."""
    targets = _targets(belief)
    if not targets:
        return "", []
    best = max(targets, key=lambda place: len(_done_at(belief, place)))
    return best, _done_at(belief, best)
