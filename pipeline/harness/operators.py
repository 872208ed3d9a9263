"""Recovery operators m: what each does to the environment and which text it appends (protocol.md section 1).

An operator is one entry of OPERATORS. All use one wrapper in the agent's own format: a line as if the agent had written
it, and a reply. They differ only in whether the environment is asked, and in what is shown.
"""

import difflib
from collections.abc import Callable
from dataclasses import asdict, dataclass

from pipeline.config.models import RecoveryTexts
from pipeline.errors import BadInput
from pipeline.records.canonical import digest


@dataclass(frozen=True)
class Operator:
    """A recovery: the line shown as the agent's, the action sent (None: none), and the reply shown (None: the environment's).

    `applies` is False for the A/A arm, which forks and changes nothing.
    """

    name: str
    line: str = ""
    action: str | None = None
    reply: str | None = None
    applies: bool = True


OPERATORS: dict[str, Callable[[RecoveryTexts], Operator]] = {
    "none": lambda texts: Operator("none", applies=False),
    "refresh": lambda texts: Operator("refresh", texts.look_line, action="look"),
    "content-ablated": lambda texts: Operator(
        "content-ablated", texts.look_line, action="look", reply=texts.withheld_text
    ),
    "replan-only": lambda texts: Operator("replan-only", texts.replan_line, reply=texts.replan_text),
}


def operator(name: str, texts: RecoveryTexts) -> Operator:
    """The operator of that name. Raises BadInput, with the nearest name, for an unknown one."""
    if name in OPERATORS:
        return OPERATORS[name](texts)
    close = difflib.get_close_matches(name, OPERATORS, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise BadInput(f"no such operator: {name!r}; {hint}known are {', '.join(OPERATORS)}")


def operator_digest(chosen: Operator) -> str:
    """sha256 of an operator, its texts included: stands with every branch (protocol.md section 1, [D])."""
    return digest(asdict(chosen))
