"""Which branches the fork viewer holds: all of a small study, of a large one a fixed sample that prefers what changed."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
# Of each cell of each table so many stand first, so that every link leads to an episode.
EACH = 2
CHANGED = ("rescue", "harm")
UNIT = ("cohort", "task", "condition", "delay", "operator")


def unit_key(pair: Row) -> tuple[Any, ...]:
    """What names a branch in a study."""
    return tuple(pair[name] for name in UNIT)


def ordered(pairs: Iterable[Row], fired: Iterable[tuple[Any, ...]]) -> list[Row]:
    """Pairs in the order in which the viewer takes them in; the same for the same pairs, whatever their order.

    First some of every (cohort, condition, delay, operator, cell); then rescues and harms; then branches at which the
    router fired (`fired`: their unit keys); then the others, trunk by trunk. Inside each: by a digest of the names.
    """
    fires = set(fired)
    seen: Counter[tuple[Any, ...]] = Counter()
    ranked = []
    for pair in sorted(pairs, key=lambda pair: (_digest(unit_key(pair)), unit_key(pair))):
        cell = tuple(pair[name] for name in ("cohort", "condition", "delay", "operator", "cell"))
        seen[cell] += 1
        if seen[cell] <= EACH:
            tier = 0
        elif pair["cell"] in CHANGED:
            tier = 1
        else:
            tier = 2 if unit_key(pair) in fires else 3
        trunk = _digest((pair["cohort"], pair["task"], pair["condition"])) if tier == 3 else ""
        ranked.append((tier, trunk, len(ranked), pair))
    return [pair for *_, pair in sorted(ranked, key=lambda one: one[:3])]


def _digest(names: Sequence[Any]) -> str:
    return hashlib.sha256("\0".join(map(str, names)).encode()).hexdigest()
