"""Signals of the joint-outcome models, and which operator looks best (protocol.md section 3, our extension).

Both branches of a moment are observed, so rescue (0 -> 1) and harm (1 -> 0) are labels. Two regressions, P(rescue | x) and
P(harm | x), stand for each operator; kept success and unchanged failure need no model, as only those two change a value.
Needs no numpy: an agent's loop asks these too.
"""

from collections.abc import Mapping
from dataclasses import dataclass

# Policies beside the published router and its comparators, and the signals whose thresholds each tests.
JOINT, CERTIFIED, CHOICE = "joint-outcome", "certified", "operator-choice"
VIEWS = {JOINT: "joint", CERTIFIED: "cir", CHOICE: "choice"}
CELLS = ("rescue", "harm")
# Operators that exist to be compared with, and that nobody would deploy: not chosen among unless asked for.
CONTROLS = ("none", "content-ablated")


@dataclass(frozen=True, slots=True)
class Moment:
    """What a policy's thresholds are compared with at one moment, and the operator it would apply.

    `p_err` is tested against alpha, `need` against beta, `u` against gamma. For the published router `need` is 1 - p_0
    and u = s_R - lambda s_H; for the joint-outcome models `need` is P(rescue) and u = P(rescue) - lambda P(harm).
    """

    operator: str
    p_err: float
    need: float
    u: float


def joint_moment(operator: str, p_err: float, rescue: float, harm: float, lambda_: float) -> Moment:
    """The moment as the joint-outcome models of an operator see it."""
    return Moment(operator, p_err, rescue, rescue - lambda_ * harm)


def best_operator(moments: Mapping[str, Moment]) -> Moment:
    """The moment of the operator with the highest u; among equals the first. It alone is then put to the thresholds."""
    return max(moments.values(), key=lambda moment: moment.u)
