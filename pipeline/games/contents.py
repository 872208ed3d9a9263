"""What lies where at the start: targets and their copies, distractors, lamp, scenery, and where the agent stands."""

import random
from dataclasses import dataclass

from pipeline.games import tables
from pipeline.games.rooms import CELLS_PER_METRE, Receptacle, identifier, location
from pipeline.games.tasks import TREATED_IN, Task

FEWEST, MOST = 18, 60  # objects in a game, scenery included
TARGETS = ((1, 0.38), (2, 0.28), (3, 0.20), (4, 0.14))
TARGETS_OF_TWO = ((2, 0.43), (3, 0.33), (4, 0.24))


@dataclass(frozen=True, slots=True)
class Thing:
    """An object: ALFRED's identifier, class, the receptacle it lies in (None: it stands about), its location."""

    id: str
    kind: str
    receptacle: Receptacle | None
    location: str


@dataclass(frozen=True, slots=True)
class Contents:
    """Everything in the room, sorted by id, and the location where the agent starts (no receptacle is reached there)."""

    things: tuple[Thing, ...]
    start: str


class Unfurnishable(Exception):
    """The draw left no place for something that the task needs; another draw may succeed."""


def furnish(task: Task, rng: random.Random) -> Contents:
    """Fill the task's room. Raises Unfurnishable where the targets find no place."""
    placing = _Placing(task, rng)
    two = task.task_type == "pick_two_obj_and_place"
    for _ in range(_draw(TARGETS_OF_TWO if two else TARGETS, rng)):
        placing.target()
    if tables.LAMP in task.room.classes:
        placing.lamp(needed=bool(task.toggle))
    scenery = [name for name in task.room.classes if name in tables.scenery_classes()]
    for name in scenery:
        most = tables.SCENERY_COPIES.get(name, 1)
        for _ in range(most if name == "StoveKnob" else rng.randint(1, most)):
            placing.scenery(name)
    placing.distractors()
    return Contents(tuple(sorted(placing.things, key=lambda thing: thing.id)), placing.start())


def _draw(table: tuple[tuple[int, float], ...], rng: random.Random) -> int:
    return rng.choices([value for value, _ in table], [weight for _, weight in table])[0]


class _Placing:
    """The room while it is being filled."""

    def __init__(self, task: Task, rng: random.Random):
        self._task, self._rng = task, rng
        self._free = {receptacle: tables.ROOMINESS[receptacle.kind][1] for receptacle in task.room.receptacles}
        self._taken = {receptacle.id for receptacle in task.room.receptacles}
        self.things: list[Thing] = []

    def target(self) -> None:
        """One instance of the task's object, never where the goal wants it unless it must be treated first."""
        solved_there = self._task.parent if self._task.task_type not in TREATED_IN else ""
        if not self._place(self._task.object, avoid=solved_there):
            raise Unfurnishable(f"no place for a {self._task.object}")

    def lamp(self, needed: bool) -> None:
        """A lamp on a piece of furniture that carries one; some rooms have two stands but one lamp."""
        stands = {place: tables.LAMP_STANDS.get(place.kind, 0.0) for place in self._task.room.receptacles}
        if sum(stands.values()):
            self._put(tables.LAMP, self._rng.choices(list(stands), list(stands.values()))[0])
        elif needed:
            raise Unfurnishable("no stand for a lamp")

    def distractors(self) -> None:
        """Every class that the room has, in one to three instances, within the limits of a game's size."""
        names = [
            name for name in self._task.room.classes if name in tables.placeable_classes() and name != self._task.object
        ]
        more = [name for name in names for _ in range(_draw(tables.COPIES, self._rng) - 1)]
        self._rng.shuffle(more)
        for name in names + more:
            if len(self.things) < MOST:
                self._place(name)
        for _ in range(FEWEST):
            if names and len(self.things) < FEWEST:
                self._place(self._rng.choice(names))
        if len(self.things) < FEWEST:
            raise Unfurnishable(f"only {len(self.things)} objects find a place")

    def scenery(self, name: str) -> None:
        """A thing that stands about: half of the time where some receptacle is reached, else anywhere."""
        beside = self._rng.choice(self._task.room.receptacles).location
        where = beside if self._rng.random() < 0.5 else self._anywhere()
        x, z = (int(part) / CELLS_PER_METRE for part in where.split("|")[1:3])
        self.things.append(Thing(self._new_id(name, x, self._rng.uniform(0.0, 2.0), z), name, None, where))

    def start(self) -> str:
        """A location at which no receptacle is reached: the first look is from the middle of the room."""
        reached = {receptacle.location for receptacle in self._task.room.receptacles}
        while (where := self._anywhere()) in reached:
            pass
        return where

    def _anywhere(self) -> str:
        return location(*self._rng.choice(self._task.room.spots), self._rng.randrange(4), 30)

    def _place(self, name: str, avoid: str = "") -> bool:
        """Put an instance of a class into some receptacle with room for it; whether there was one."""
        holds = tables.can_contain()
        weights = {
            place: tables.ROOMINESS[place.kind][0]
            for place, free in self._free.items()
            if free and place.kind != avoid and name in holds[place.kind]
        }
        if not weights:
            return False
        place = self._rng.choices(list(weights), list(weights.values()))[0]
        self._free[place] -= 1
        self._put(name, place)
        return True

    def _put(self, name: str, place: Receptacle) -> None:
        x, y, z = (float(part) for part in place.id.split("|")[1:4])
        self.things.append(Thing(self._new_id(name, x, y + 0.05, z), name, place, place.location))

    def _new_id(self, name: str, x: float, y: float, z: float) -> str:
        """An identifier near a point that nothing else has."""
        while True:
            found = identifier(name, x + self._rng.uniform(-0.3, 0.3), y, z + self._rng.uniform(-0.3, 0.3))
            if found not in self._taken:
                self._taken.add(found)
                return found
