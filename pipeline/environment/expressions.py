"""The only expressions a game's grammar may hold, read without evaluating anything.

TextWorld evaluates what stands between `{` and `}` of a grammar as Python, so a game file is code. Here an expression
is matched against the five forms that ALFWorld's grammar uses and becomes plain data; there is no `eval` anywhere.
"""

import re
from collections.abc import Callable, Mapping

from pipeline.errors import BadInput

# Kind, variable: what a form shows of the entity bound to the variable.
Expression = tuple[str, str]

# Names that TextWorld's evaluation binds to other things than an entity.
_NAME = r"(?!(?:self|context|value|True|False|None)\b)([A-Za-z][A-Za-z0-9_]{0,31})"
_FORMS = (
    ("name", re.compile(_NAME)),
    ("name", re.compile(_NAME + r"\.name")),
    ("indefinite", re.compile(_NAME + r"\.indefinite")),
    ("indefinite-name", re.compile(_NAME + r"\.indefinite \+ ' ' \+ \1\.name")),
    ("name-or-id", re.compile(_NAME + r"\.name or \1\.id")),
)
FORMS = "x, x.name, x.indefinite, x.indefinite + ' ' + x.name, x.name or x.id"

Show = Callable[[str, str], str]
# id, display name -> text. The indefinite article is always "a" in TextWorld's PDDL games.
SHOW: Mapping[str, Show] = {
    "name": lambda id_, name: name,
    "indefinite": lambda id_, name: "a",
    "indefinite-name": lambda id_, name: "a " + name,
    "name-or-id": lambda id_, name: name or id_,
}


def parse_expression(text: str) -> Expression:
    """Kind and variable of an allow-listed expression. Raises BadInput for any other."""
    for kind, form in _FORMS:
        if match := form.fullmatch(text.strip()):
            return kind, match[1]
    shown = text if len(text) <= 80 else text[:77] + "..."
    raise BadInput(f"the grammar holds the expression {shown!r}; expected one of {FORMS}: do not run this game")
