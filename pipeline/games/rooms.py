"""Real rooms: the receptacles of a scene with their poses, from the layout files in the alfworld package.

The files list, for each receptacle whose pose the simulator needed, where an agent stands to reach it. Classes that a
room has but that never needed a pose (stove burners, coffee machine, holders, …) are given one, the same in every game
of that room.
"""

import json
import random
from dataclasses import dataclass
from functools import cache

from pipeline.games import tables

CELLS_PER_METRE = 4  # a location counts quarters of a metre (constants.AGENT_STEP_SIZE)
SMALLEST, LARGEST = 8, 40  # receptacles in a room; larger kitchens lose cabinets and drawers


@dataclass(frozen=True, slots=True)
class Receptacle:
    """A receptacle: ALFRED's identifier (`Class|x|y|z`, metres), its class, the location one stands at to reach it."""

    id: str
    kind: str
    location: str


@dataclass(frozen=True, slots=True)
class Room:
    """One of the simulator's rooms: receptacles sorted by id, object classes, free spots (x, z in quarter metres)."""

    scene: int
    kind: str
    receptacles: tuple[Receptacle, ...]
    classes: tuple[str, ...]
    spots: tuple[tuple[int, int], ...]

    def count(self, kind: str) -> int:
        """Receptacles of a class."""
        return sum(receptacle.kind == kind for receptacle in self.receptacles)


def location(x: int, z: int, turn: int, horizon: int) -> str:
    """ALFRED's identifier of a place to stand: quarter metres, quarter turns, degrees of the camera."""
    return f"loc|{x}|{z}|{turn}|{horizon}"


def identifier(kind: str, x: float, y: float, z: float) -> str:
    """ALFRED's identifier of a thing: class and metres with two decimals, signs always shown."""
    return "|".join([kind, *(f"{value:+06.2f}" for value in (x, y, z))])


@cache
def rooms() -> dict[int, Room]:
    """All rooms with 8 to 40 receptacles, by scene number."""
    found = {}
    for kind, scenes in sorted(tables.KINDS.items()):
        for scene in scenes:
            room = read_room(scene, kind)
            if SMALLEST <= len(room.receptacles) <= LARGEST:
                found[scene] = room
    return dict(sorted(found.items()))


def read_room(scene: int, kind: str) -> Room:
    """One room out of the layout files; whatever they leave open is drawn from the scene's number alone."""
    import numpy as np

    folder = tables.package_file("gen", "layouts")
    rng = random.Random(f"room {scene}")
    poses = json.loads((folder / f"FloorPlan{scene}-openable.json").read_text())
    classes = sorted(set(json.loads((folder / f"FloorPlan{scene}-objects.json").read_text())))
    points = np.load(folder / f"FloorPlan{scene}-layout.npy")
    spots = tuple(sorted({(round(x * CELLS_PER_METRE), round(z * CELLS_PER_METRE)) for x, z in points.tolist()}))
    posed = []
    for name, (x, z, turn, horizon) in sorted(poses.items()):
        where = location(round(x * CELLS_PER_METRE), round(z * CELLS_PER_METRE), int(turn) // 90 % 4, int(horizon))
        posed.append(Receptacle(name, _class_of(name), where))
    posed = [receptacle for receptacle in posed if receptacle.kind in tables.receptacle_classes()]
    have = {receptacle.kind for receptacle in posed}
    missing = [name for name in classes if name in tables.receptacle_classes() and name not in have]
    added = [stand for name in missing for stand in _stands(name, rng, spots)]
    return Room(scene, kind, _trimmed(posed + added), tuple(classes), spots)


def _class_of(name: str) -> str:
    """`Sink|x|y|z|SinkBasin` is a SinkBasin, `Drawer|x|y|z` a Drawer."""
    parts = name.split("|")
    return parts[4] if len(parts) > 4 else parts[0]


def _stands(kind: str, rng: random.Random, spots: tuple[tuple[int, int], ...]) -> list[Receptacle]:
    """Receptacles of a class without a pose: side by side, two to a place, as burners and holders are."""
    stands = []
    for number in range(tables.UNPOSED.get(kind, 1)):
        if number % 2 == 0:
            (x, z), turn = rng.choice(spots), rng.randrange(4)
            dx, dz = ((0, 1), (1, 0), (0, -1), (-1, 0))[turn]
            height = rng.uniform(0.2, 1.2)
        aside = 0.2 * (number % 2)
        centre = (x / CELLS_PER_METRE + 0.6 * dx + aside * dz, height, z / CELLS_PER_METRE + 0.6 * dz + aside * dx)
        name = identifier("Sink" if kind == "SinkBasin" else kind, *centre)
        stands.append(Receptacle(f"{name}|SinkBasin" if kind == "SinkBasin" else name, kind, location(x, z, turn, 45)))
    return stands


def _trimmed(receptacles: list[Receptacle]) -> tuple[Receptacle, ...]:
    """Sorted by id; where there are too many, the last cabinets and drawers go."""
    ordered = sorted(receptacles, key=lambda receptacle: receptacle.id)
    spare = [receptacle for receptacle in ordered if receptacle.kind in ("Cabinet", "Drawer")]
    surplus = set(spare[len(spare) - max(0, len(ordered) - LARGEST) :]) if len(ordered) > LARGEST else set()
    return tuple(receptacle for receptacle in ordered if receptacle not in surplus)
