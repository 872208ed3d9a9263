"""A game file: ALFWorld's domain and grammar with our problem, in the form that TextWorld reads (.tw-pddl, JSON)."""

import json
import random
from functools import cache

from pipeline.games import tables
from pipeline.games.contents import Contents, Thing
from pipeline.games.tasks import Task

# The grammar's texts that changed with ALFWorld 0.4.0: as shipped, and as in the data before (protocol.md section 5).
OLDER_WORDING = (
    ("move {o} to {r}", "put {o} in/on {r}"),
    ("You move the {o.name} to the {r.name}.", "You put the {o.name} in/on the {r.name}."),
    ("move (object) to (receptacle):  ", "put (object) in/on (receptacle):  "),
)
_MANGLED = (("|", "_bar_"), ("+", "_plus_"), ("-", "_minus_"), (".", "_dot_"), (",", "_comma_"))


def mangle(name: str) -> str:
    """ALFRED's identifier as a PDDL name: `Apple|-01.20|…` is `Apple_bar__minus_01_dot_20_bar_…`."""
    for sign, word in _MANGLED:
        name = name.replace(sign, word)
    return name


def sentence(task: Task, rng: random.Random) -> str:
    """The task sentence, drawn from the official templates."""
    template = rng.choice(tables.sentences(task.task_type))
    return template.format(obj=task.object.lower(), recep=task.parent.lower(), toggle=task.toggle.lower())


def grammar(verb: str, task_sentence: str) -> str:
    """ALFWorld's grammar with the task sentence; `verb` is `move` (as shipped) or `put` (the older wording)."""
    text = _logic("alfred.twl2")
    for shipped, older in OLDER_WORDING if verb == "put" else ():
        if shipped not in text:
            raise ValueError(
                f"the installed alfworld's grammar has no {shipped!r}: another version than the pinned one"
            )
        text = text.replace(shipped, older)
    return text.replace("UNKNOWN GOAL", task_sentence)


@cache
def _logic(name: str) -> str:
    return tables.package_file("data", name).read_text()


def problem(task: Task, contents: Contents, trial: str) -> str:
    """The PDDL problem, laid out like the official ones."""
    receptacles = task.room.receptacles
    places = {receptacle.location for receptacle in receptacles} | {thing.location for thing in contents.things}
    kinds = sorted({thing.kind for thing in contents.things} | {task.object})
    holders = sorted({receptacle.kind for receptacle in receptacles})
    declared = [
        ("agent", ["agent1"]),
        ("otype", [f"{kind}Type" for kind in kinds]),
        ("rtype", [f"{kind}Type" for kind in holders]),
        ("object", [mangle(thing.id) for thing in contents.things]),
        ("receptacle", [mangle(receptacle.id) for receptacle in receptacles]),
        ("location", [mangle(place) for place in sorted(places | {contents.start})]),
    ]
    objects = "\n".join(f"        {name} - {kind}" for kind, names in declared for name in names)
    facts = "\n".join(f"        ({' '.join(fact)})" for fact in _facts(task, contents, kinds, holders))
    goal = tables.goal(task.task_type).format(obj=task.object, recep=task.parent, toggle=task.toggle)
    return (
        f"\n(define (problem plan_{trial})\n(:domain alfred)\n(:objects\n{objects}\n        )\n\n"
        f"(:init\n{facts}\n        )\n{goal}"
    )


def _facts(task: Task, contents: Contents, kinds: list[str], holders: list[str]) -> list[tuple[str, ...]]:
    receptacles, things = task.room.receptacles, contents.things
    takeable = tables.placeable_classes() | tables.LOOSE
    facts: list[tuple[str, ...]] = []
    facts += [("receptacleType", mangle(place.id), f"{place.kind}Type") for place in receptacles]
    facts += [("objectType", mangle(thing.id), f"{thing.kind}Type") for thing in things]
    facts += [
        ("canContain", f"{holder}Type", f"{kind}Type")
        for holder in holders
        for kind in kinds
        if kind in tables.can_contain()[holder]
    ]
    facts += [("pickupable", mangle(thing.id)) for thing in things if thing.kind in takeable]
    facts += [("openable", mangle(place.id)) for place in receptacles if tables.openable(place.kind)]
    facts += [("atLocation", "agent1", mangle(contents.start))]
    for predicate, classes in tables.property_classes().items():
        facts += [(predicate, mangle(thing.id)) for thing in things if thing.kind in classes]
    facts += [("inReceptacle", mangle(t.id), mangle(t.receptacle.id)) for t in things if t.receptacle]
    facts += [("receptacleAtLocation", mangle(place.id), mangle(place.location)) for place in receptacles]
    facts += [("objectAtLocation", mangle(thing.id), mangle(thing.location)) for thing in things]
    return facts


def game_json(task: Task, contents: Contents, trial: str, verb: str, task_sentence: str, walkthrough: list[str]) -> str:
    """Text of game.tw-pddl, the keys in the official order."""
    game = {
        "pddl_domain": _logic("alfred.pddl"),
        "grammar": grammar(verb, task_sentence),
        "pddl_problem": problem(task, contents, trial),
        "solvable": True,
        "walkthrough": walkthrough,
    }
    return json.dumps(game)


def trajectory_json(task: Task, trial: str) -> str:
    """Text of traj_data.json: what ALFWorld's own environment and expert read of it."""
    trajectory = {
        "task_id": trial,
        "task_type": task.task_type,
        "generated": True,
        "pddl_params": {
            "object_target": task.object,
            "object_sliced": False,
            "parent_target": task.parent,
            "mrecep_target": "",
            "toggle_target": task.toggle,
        },
        "scene": {"scene_num": task.room.scene, "floor_plan": f"FloorPlan{task.room.scene}"},
    }
    return json.dumps(trajectory, indent=2) + "\n"


def targets(task: Task, contents: Contents) -> list[Thing]:
    """The instances of the task's object."""
    return [thing for thing in contents.things if thing.kind == task.object]
