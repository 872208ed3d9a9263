"""The facts of a state: sets by signature, sorted on demand, with a digest that is kept up step by step.

A variable is the string "name\\0type": it sorts as TextWorld's (name, type) pairs do, and Python keeps a string's hash.
A signature is (predicate, (type, ...)); a fact is a signature with a tuple of variables.
"""

import hashlib
from collections.abc import Iterable, Mapping

Variable = str
Signature = tuple[str, tuple[str, ...]]
Arguments = tuple[Variable, ...]
Fact = tuple[Signature, Arguments]

_MODULUS = 1 << 256


def variable(name: str, type_: str) -> Variable:
    """A variable as a string that sorts like (name, type)."""
    return f"{name}\0{type_}"


def name_of(var: Variable) -> str:
    """The entity id of a variable."""
    return var.partition("\0")[0]


def fact(predicate: str, arguments: Iterable[Variable]) -> Fact:
    """A fact with its signature."""
    arguments = tuple(arguments)
    return (predicate, tuple(var.partition("\0")[2] for var in arguments)), arguments


def negated(predicate: str) -> str:
    """TextWorld's negation of a predicate's name: `not_p` for `p`, and back."""
    return predicate.removeprefix("not_") if predicate.startswith("not_") else "not_" + predicate


def number(one: Fact) -> int:
    """A fact's sha256 as a number; a state's digest is the sum of its facts' numbers modulo 2**256."""
    (predicate, _), arguments = one
    return int.from_bytes(hashlib.sha256("\x1f".join((predicate, *arguments)).encode()).digest())


class Facts:
    """A mutable set of facts with a running digest.

    `copy` shares the sets of predicates that no action changes, so it costs only what can differ.
    """

    __slots__ = ("_dynamic", "_sets", "_sorted", "_total")

    def __init__(self, facts: Iterable[Fact], dynamic: Iterable[str]):
        """Facts that hold, and the predicates that actions change (their `not_` forms are meant too)."""
        self._dynamic = frozenset(dynamic) | {negated(name) for name in dynamic}
        self._sets: dict[Signature, set[Arguments]] = {}
        self._sorted: dict[Signature, list[Arguments]] = {}
        self._total = 0
        for one in facts:
            signature, arguments = one
            members = self._sets.setdefault(signature, set())
            if arguments not in members:
                members.add(arguments)
                self._total += number(one)
        self._total %= _MODULUS

    def copy(self) -> "Facts":
        """An independent copy; the cost is that of the dynamic facts (≈ 10 µs in a kitchen)."""
        twin = object.__new__(Facts)
        dynamic = twin._dynamic = self._dynamic
        twin._sets = {key: set(members) if key[0] in dynamic else members for key, members in self._sets.items()}
        # The lists are replaced, never changed, so two copies may share them.
        twin._sorted = self._sorted.copy()
        twin._total = self._total
        return twin

    def add(self, signature: Signature, arguments: Arguments, number_: int) -> None:
        """Make a fact true."""
        members = self._sets.get(signature)
        if members is None:
            members = self._sets[signature] = set()
        elif arguments in members:
            return
        members.add(arguments)
        self._sorted.pop(signature, None)
        self._total = (self._total + number_) % _MODULUS

    def remove(self, signature: Signature, arguments: Arguments, number_: int) -> None:
        """Make a fact untrue."""
        members = self._sets.get(signature)
        if members is not None and arguments in members:
            members.discard(arguments)
            self._sorted.pop(signature, None)
            self._total = (self._total - number_) % _MODULUS

    def ordered(self, signature: Signature) -> list[Arguments]:
        """The arguments of every fact of a signature, sorted; not to be changed."""
        found = self._sorted.get(signature)
        if found is None:
            found = self._sorted[signature] = sorted(self._sets.get(signature, ()))
        return found

    def of(self, predicate: str) -> list[Arguments]:
        """The arguments of every fact of a predicate, whatever their types."""
        return [
            one for signature, members in self._sets.items() if signature[0] == predicate for one in sorted(members)
        ]

    def digest(self) -> str:
        """Hex digest of the set, independent of order and of how it came about."""
        return f"{self._total:064x}"

    def texts(self, names: Mapping[str, str]) -> list[str]:
        """Sorted facts as TextWorld prints them, `predicate(display name: type, ...)`."""
        return sorted(
            f"{predicate}({', '.join(_shown(var, names) for var in arguments)})"
            for (predicate, _), members in self._sets.items()
            for arguments in members
        )


def _shown(var: Variable, names: Mapping[str, str]) -> str:
    id_, _, type_ = var.partition("\0")
    # An entity without a display name is shown by its id.
    name = names[id_] or id_
    return name if name == type_ else f"{name}: {type_}"
