"""What may stand in which room and lie where: ALFWorld's own tables, and the weights that shape a generated room.

Membership (classes, what a receptacle can contain, what can be heated, cooled, cleaned, opened, toggled; goals and
task sentences) is read from the installed alfworld package. Weights and counts are ours: they reproduce what the
official train games look like on average, since the simulator that placed their objects is not part of the package.
"""

from functools import cache
from pathlib import Path

import alfworld
from alfworld.gen import constants, goal_library

KINDS: dict[str, range] = dict(constants.SCENE_TYPE)
# Rooms that ALFRED holds out of training: their games are the split valid_unseen.
UNSEEN_SCENES = frozenset({9, 10, 29, 215, 219, 226, 308, 315, 325, 404, 424, 425})
COPIES = ((1, 0.44), (2, 0.31), (3, 0.25))  # instances of a class that is not the target's, and how often
LAMP = "DeskLamp"
LAMP_STANDS = {"Desk": 3.0, "SideTable": 3.0, "Dresser": 2.0, "Shelf": 0.5, "CoffeeTable": 0.5}
# Task type -> how often it is set in which kind of room; membership follows ALFWorld's GOALS_VALID.
ROOM_SHARES: dict[str, dict[str, float]] = {
    "look_at_obj_in_light": {"Bedroom": 0.8, "LivingRoom": 0.2},
    "pick_and_place_simple": {"Bathroom": 0.3, "Bedroom": 0.3, "Kitchen": 0.1, "LivingRoom": 0.3},
    "pick_clean_then_place_in_recep": {"Bathroom": 0.25, "Kitchen": 0.75},
    "pick_cool_then_place_in_recep": {"Kitchen": 1.0},
    "pick_heat_then_place_in_recep": {"Kitchen": 1.0},
    "pick_two_obj_and_place": {"Bathroom": 0.28, "Bedroom": 0.28, "Kitchen": 0.16, "LivingRoom": 0.28},
}
# Class -> (relative share of the room's objects that one instance attracts, most it holds).
ROOMINESS: dict[str, tuple[float, int]] = {
    "ArmChair": (1.0, 4),
    "BathtubBasin": (4.0, 4),
    "Bed": (4.0, 9),
    "Cabinet": (0.8, 4),
    "Cart": (2.0, 7),
    "CoffeeMachine": (6.0, 1),
    "CoffeeTable": (4.3, 13),
    "CounterTop": (4.5, 20),
    "Desk": (5.0, 14),
    "DiningTable": (7.0, 20),
    "Drawer": (0.9, 4),
    "Dresser": (4.5, 13),
    "Fridge": (5.0, 12),
    "GarbageCan": (1.5, 4),
    "HandTowelHolder": (8.0, 1),
    "LaundryHamper": (0.3, 3),
    "Microwave": (1.5, 3),
    "Ottoman": (1.4, 4),
    "Safe": (2.5, 3),
    "Shelf": (1.1, 7),
    "SideTable": (2.5, 10),
    "SinkBasin": (2.0, 8),
    "Sofa": (2.4, 7),
    "StoveBurner": (5.0, 1),
    "TVStand": (1.0, 6),
    "Toaster": (0.1, 1),
    "Toilet": (2.4, 7),
    "ToiletPaperHanger": (2.5, 1),
    "TowelHolder": (0.9, 1),
}
# Scenery by class -> most instances; a class that is not named stands once.
SCENERY_COPIES = {"StoveKnob": 4, "Chair": 4, "Window": 3, "Painting": 2, "Curtains": 2, "HousePlant": 2, "Blinds": 2}
# Portable things that no receptacle can hold; they lie about and can't be taken.
LOOSE = frozenset({"Boots", "Footstool", "PaperTowelRoll", "ScrubBrush", "TeddyBear"})
# What a room of a kind has even where the layout files give it no pose: class -> how many.
UNPOSED = {"StoveBurner": 4, "HandTowelHolder": 2}


@cache
def receptacle_classes() -> frozenset[str]:
    """Classes of receptacles that stand still (a bowl can hold things too, but is itself an object)."""
    return frozenset(set(constants.VAL_RECEPTACLE_OBJECTS) - constants.MOVABLE_RECEPTACLES_SET)


@cache
def can_contain() -> dict[str, frozenset[str]]:
    """Receptacle class -> object classes that it can hold, without the sliced ones."""
    return {
        name: frozenset(held for held in constants.VAL_RECEPTACLE_OBJECTS[name] if not held.endswith("Sliced"))
        for name in sorted(receptacle_classes())
    }


@cache
def placeable_classes() -> frozenset[str]:
    """Object classes that some standing receptacle can hold: these can be taken and put."""
    return frozenset(held for holds in can_contain().values() for held in holds)


@cache
def scenery_classes() -> frozenset[str]:
    """Object classes that are neither placed in receptacles nor receptacles themselves, loose things included."""
    return frozenset(constants.OBJECTS) - placeable_classes() - receptacle_classes() - {LAMP}


def openable(receptacle: str) -> bool:
    """Whether a class of receptacle opens and closes; it starts closed."""
    return receptacle in constants.OPENABLE_CLASS_SET


@cache
def property_classes() -> dict[str, frozenset[str]]:
    """PDDL predicate -> object classes that have it."""
    tables = constants.VAL_ACTION_OBJECTS
    return {
        "isReceptacleObject": frozenset(constants.MOVABLE_RECEPTACLES_SET),
        "cleanable": frozenset(tables["Cleanable"]),
        "heatable": frozenset(tables["Heatable"]),
        "coolable": frozenset(tables["Coolable"]),
        "toggleable": frozenset(tables["Toggleable"]),
        "sliceable": frozenset(tables["Sliceable"]),
    }


def package_file(*parts: str) -> Path:
    """A file or folder of the installed alfworld package."""
    return Path(alfworld.__file__).parent.joinpath(*parts)


def goal(task_type: str) -> str:
    """The task type's PDDL goal, with {obj}, {recep}, {toggle} to fill in (goal_library.py)."""
    return goal_library.gdict[task_type]["pddl"].replace("#", "-")


def sentences(task_type: str) -> list[str]:
    """The task type's official sentences, with {obj}, {recep}, {toggle} to fill in (goal_library.py)."""
    return list(goal_library.gdict[task_type]["templates"])
