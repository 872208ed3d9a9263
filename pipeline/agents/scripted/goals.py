"""Reading the task sentence: ALFWorld's templates (alfworld/gen/goal_library.py) for its six task types."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """`count` objects of kind `object`, treated, in one receptacle of kind `target`, or seen by `lamp`.

    `treatment` is `clean`, `heat`, `cool` or None. Either `target` or `lamp` is None.
    """

    object: str
    target: str | None = None
    count: int = 1
    treatment: str | None = None
    lamp: str | None = None


TASK = re.compile(r"Your task is to: ([^\n]*)")
TREATMENTS = {"clean": "clean", "heat": "heat", "hot": "heat", "cool": "cool", "cold": "cool"}
_PATTERNS = [
    re.compile(pattern)
    for pattern in (
        r"(?:put|find) (?P<two>two) (?P<object>\w+)(?: and put them)? (?:in|on) (?P<target>\w+)",
        r"put (?:a|an|some) (?P<state>clean|hot|cool|cold) (?P<object>\w+) (?:in|on) (?P<target>\w+)",
        r"(?P<state>clean|heat|cool) (?:a|an|some) (?P<object>\w+) and put it (?:in|on) (?P<target>\w+)",
        r"put (?:a|an|some) (?P<object>\w+) (?:in|on) (?P<target>\w+)",
        r"look at (?:a |an |the |some )?(?P<object>\w+) under the (?P<lamp>\w+)",
        r"examine (?:a |an |the |some )?(?P<object>\w+) with the (?P<lamp>\w+)",
    )
]


def parse_goal(sentence: str) -> Goal | None:
    """The goal in a task sentence such as `put a clean mug in shelf.`; None where no template fits."""
    for pattern in _PATTERNS:
        if match := pattern.fullmatch(sentence.strip().lower().removesuffix(".")):
            found = match.groupdict()
            return Goal(
                object=found["object"],
                target=found.get("target"),
                count=2 if found.get("two") else 1,
                treatment=TREATMENTS.get(found.get("state") or ""),
                lamp=found.get("lamp"),
            )
    return None
