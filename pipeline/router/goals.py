"""The task sentence of an ALFWorld game, taken apart: what is wanted, in which state, where.

The sentences come from the templates of ALFWorld's goal library, two for each of the six task types.
"""

import re
from dataclasses import dataclass

_TEMPLATES = [
    re.compile(pattern)
    for pattern in (
        r"(?:look at|examine the) (?P<target>\S+) (?:under|with) the (?P<lamp>\S+)",
        r"(?:put|find) two (?P<pair>\S+) (?:and put them )?(?:in/on|in|on) (?P<place>\S+)",
        r"(?P<do>clean|heat|cool) some (?P<target>\S+) and put it (?:in/on|in|on) (?P<place>\S+)",
        r"put an? (?P<state>clean|hot|cool) (?P<target>\S+) (?:in/on|in|on) (?P<place>\S+)",
        r"put (?:an?|some) (?P<target>\S+) (?:in/on|in|on) (?P<place>\S+)",
    )
]
_VERB_OF = {"clean": "clean", "hot": "heat", "cool": "cool"}


@dataclass(frozen=True, slots=True)
class Goal:
    """`target` type and how many (`count`), the `verb` that changes it (clean, heat, cool; None), `place` or `lamp` type."""

    target: str
    count: int = 1
    verb: str | None = None
    place: str | None = None
    lamp: str | None = None


def parse_goal(sentence: str) -> Goal | None:
    """The goal of a task sentence such as `put a clean mug in shelf`, or None where no template fits."""
    for template in _TEMPLATES:
        if found := template.fullmatch(sentence.strip().rstrip(".").lower()):
            parts = found.groupdict()
            return Goal(
                target=parts.get("target") or parts["pair"],
                count=2 if parts.get("pair") else 1,
                verb=parts.get("do") or _VERB_OF.get(parts.get("state") or ""),
                place=parts.get("place"),
                lamp=parts.get("lamp"),
            )
    return None
