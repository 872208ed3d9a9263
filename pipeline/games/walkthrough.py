"""The shortest way to win, built from what is known of the room: commands as the game's grammar words them.

Open choices (which instance, which receptacle, which order) are few, so all are tried; the first shortest is taken.
"""

from collections.abc import Iterator
from itertools import permutations
from types import SimpleNamespace

from pipeline.games import tables
from pipeline.games.contents import Contents, Thing
from pipeline.games.problem import mangle, targets
from pipeline.games.rooms import Receptacle
from pipeline.games.tasks import TREATED_IN, Task

PLACING = {"move": "move {o} to {r}", "put": "put {o} in/on {r}"}
TREATING = {
    "pick_clean_then_place_in_recep": "clean",
    "pick_heat_then_place_in_recep": "heat",
    "pick_cool_then_place_in_recep": "cool",
}


def names(task: Task, contents: Contents) -> dict[str, str]:
    """Identifier -> name in the game (`drawer 2`), as ALFWorld's own demangler numbers them."""
    from alfworld.agents.utils.misc import Demangler

    known = [place.id for place in task.room.receptacles] + [thing.id for thing in contents.things]
    mangled = {name: mangle(name).lower() for name in known}
    demangler = Demangler(game_infos={low: SimpleNamespace(id=low) for low in mangled.values()})
    return {name: demangler.demangle_alfred_name(low) for name, low in mangled.items()}


def walkthrough(task: Task, contents: Contents, verb: str) -> list[str]:
    """Commands that win the game from its start. Raises ValueError where there is no way (no target that lies somewhere)."""
    ways = _ways(task, contents, names(task, contents), PLACING[verb])
    best = min(ways, key=len, default=None)
    if best is None:
        raise ValueError(f"{task.folder}: nothing to take or nowhere to put it")
    return best


def _ways(task: Task, contents: Contents, called: dict[str, str], placing: str) -> Iterator[list[str]]:
    wanted = [thing for thing in targets(task, contents) if thing.receptacle]
    if task.toggle:
        lamps = [thing for thing in contents.things if thing.kind == task.toggle and thing.receptacle]
        for target in wanted:
            for lamp in lamps:
                yield _Walk(called, placing).take(target).use(lamp).commands
        return
    parents = _of_class(task, task.parent)
    if task.task_type == "pick_two_obj_and_place":
        for first, second in permutations(wanted, 2):
            for parent in parents:
                walk = _Walk(called, placing).take(first).put(first, parent).take(second).put(second, parent)
                yield walk.commands
        return
    machine = TREATED_IN.get(task.task_type, ("", ""))[0]
    for target in wanted:
        for parent in parents:
            for where in _of_class(task, machine) or (None,):
                walk = _Walk(called, placing).take(target)
                if where is not None:
                    walk.treat(TREATING[task.task_type], target, where)
                yield walk.put(target, parent).commands


def _of_class(task: Task, kind: str) -> list[Receptacle]:
    return [place for place in task.room.receptacles if place.kind == kind]


class _Walk:
    """Commands so far, where they lead and what they have opened."""

    def __init__(self, called: dict[str, str], placing: str):
        self._called, self._placing = called, placing
        self._at: str | None = None
        self._open: set[Receptacle] = set()
        self.commands: list[str] = []

    def take(self, thing: Thing) -> "_Walk":
        assert thing.receptacle is not None
        self._reach(thing.receptacle)
        return self._do(f"take {self._called[thing.id]} from {self._called[thing.receptacle.id]}")

    def put(self, thing: Thing, place: Receptacle) -> "_Walk":
        self._reach(place)
        return self._do(self._placing.format(o=self._called[thing.id], r=self._called[place.id]))

    def treat(self, how: str, thing: Thing, place: Receptacle) -> "_Walk":
        self._go(place)
        return self._do(f"{how} {self._called[thing.id]} with {self._called[place.id]}")

    def use(self, lamp: Thing) -> "_Walk":
        assert lamp.receptacle is not None
        self._go(lamp.receptacle)
        return self._do(f"use {self._called[lamp.id]}")

    def _reach(self, place: Receptacle) -> None:
        """Stand before a receptacle and have it open."""
        self._go(place)
        if tables.openable(place.kind) and place not in self._open:
            self._open.add(place)
            self._do(f"open {self._called[place.id]}")

    def _go(self, place: Receptacle) -> None:
        # From one place several receptacles may be reached; going to the second would be refused.
        if place.location != self._at:
            self._at = place.location
            self._do(f"go to {self._called[place.id]}")

    def _do(self, command: str) -> "_Walk":
        self.commands.append(command)
        return self
