"""The planner's C++ library, bound thinly: the state of a game lives there, as a number that can be kept and set back.

`libdownward.so` exports `get_state_id` and `set_state_id`, which TextWorld doesn't use; with them a reset or a fork is
one assignment. State ids are valid until the next `load`. The library is global state: one game at a time per loaded
copy, so every environment in use at once has its own; a copy that is given back is used again, since each new one
costs about 3 MB that can't be freed.
"""

import ctypes
import importlib.util
import shutil
import tempfile
from ctypes import POINTER, Structure, c_bool, c_char, c_char_p, c_int, c_size_t
from functools import cache
from pathlib import Path

from pipeline.errors import BadInput


class Operator(Structure):
    """C struct of an applicable operator (fast_downward.interface.Operator has the same fields)."""

    _fields_ = (("id", c_int), ("name", c_char * 1024), ("nb_effect_atoms", c_int))


class Atom(Structure):
    """C struct of an atom (fast_downward.interface.Atom has the same field)."""

    _fields_ = (("name", c_char * 1024),)


# name -> (argument types, result type); the test of the library's signatures reads this table.
FUNCTIONS = {
    "load_sas": ((c_char_p,), None),
    "cleanup": ((), None),
    "get_applicable_operators_count": ((), c_int),
    "get_applicable_operators": ((POINTER(Operator),), None),
    "get_state_size": ((), c_int),
    "get_state": ((POINTER(Atom),), None),
    "get_state_id": ((), c_int),
    "set_state_id": ((c_int,), None),
    "apply_operator": ((c_size_t, POINTER(Atom)), c_size_t),
    "check_goal": ((), c_bool),
}
_INTS_PER_OPERATOR = ctypes.sizeof(Operator) // ctypes.sizeof(c_int)
_free: list["Downward"] = []
_opened = 0


@cache
def library_path() -> Path:
    """Where the installed library lies. Raises BadInput where the package is missing."""
    spec = importlib.util.find_spec("fast_downward")
    if spec is None or not spec.submodule_search_locations:
        raise BadInput("the package fast-downward-textworld is not installed; run `make setup`")
    path = Path(spec.submodule_search_locations[0]) / "libdownward.so"
    if not path.is_file():
        raise BadInput(f"{path} is missing: reinstall fast-downward-textworld with `make setup`")
    return path


class Downward:
    """One loaded copy of the library. Use `acquire` and `release` rather than making one."""

    def __init__(self, own_copy: bool):
        """Load the library; `own_copy` from a private file, since the same path would share one global state."""
        if own_copy:
            with tempfile.TemporaryDirectory() as folder:
                library = ctypes.CDLL(str(shutil.copy(library_path(), folder)))
        else:
            library = ctypes.CDLL(str(library_path()))
        for name, (arguments, result) in FUNCTIONS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, result
        self._library = library
        self._operators = (Operator * 256)()
        self._ids = self._view()
        self._atoms = (Atom * 16)()
        self.state_id = library.get_state_id
        self.set_state_id = library.set_state_id
        self.check_goal = library.check_goal
        self._count = library.get_applicable_operators_count
        self._applicable = library.get_applicable_operators
        self._apply = library.apply_operator

    def load(self, sas: bytes) -> None:
        """Load a game and stand at its initial state; earlier state ids die."""
        self._library.load_sas(sas)

    def unload(self) -> None:
        """Free the loaded game."""
        self._library.cleanup()

    def applicable(self) -> list[int]:
        """Ids of the operators that can be applied now, in the library's order."""
        count = self._count()
        if count > len(self._operators):
            self._operators = (Operator * (2 * count))()
            self._ids = self._view()
        self._applicable(self._operators)
        return self._ids[: count * _INTS_PER_OPERATOR : _INTS_PER_OPERATOR].tolist()

    def operator(self, operator_id: int) -> tuple[str, int]:
        """Name and number of effects of an operator that can be applied now. Raises ValueError for another."""
        found = self._operators[self.applicable().index(operator_id)]
        return found.name.decode("cp1252"), found.nb_effect_atoms

    def apply(self, operator_id: int) -> None:
        """Apply an operator; its effects are known already."""
        self._apply(operator_id, None)

    def apply_and_read(self, operator_id: int, effects: int) -> list[str]:
        """Apply an operator and return the atoms it sets, conditional ones included, as the library prints them."""
        if effects > len(self._atoms):
            self._atoms = (Atom * effects)()
        self._apply(operator_id, self._atoms)
        return [self._atoms[i].name.decode("cp1252") for i in range(effects)]

    def state(self) -> list[str]:
        """Every atom of the current state as the library prints it; slow (≈ 10 ms)."""
        atoms = (Atom * self._library.get_state_size())()
        self._library.get_state(atoms)
        return [atom.name.decode("cp1252") for atom in atoms]

    def _view(self) -> memoryview:
        return memoryview(self._operators).cast("B").cast("i")


def acquire() -> Downward:
    """A library nobody else in this process uses: one given back earlier, or a new one."""
    global _opened
    if _free:
        return _free.pop()
    _opened += 1
    # The first may be the installed file itself; only a second one needs a private copy (33 MB).
    return Downward(own_copy=_opened > 1)


def release(library: Downward) -> None:
    """Give a library back. It stays loaded: unloading two of them crashes the process at its end."""
    library.unload()
    _free.append(library)
