"""ALFWorld's text environment over a stored translation: the stock environment's texts, two orders of magnitude faster.

Equal, byte for byte, to `AlfredInfos(AlfredDemangler(PddlEnv(...), shuffle=False))` (tests/test_environment.py plays
both). What is kept: an operator's effects (they never change in a game), and what depends on the planner's
state alone (admissible commands, goal). What is not: texts, since equal planner states can differ in their `not_…`
facts and one condition of ALFWorld's grammar reads `not_inreceptacle`.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from pipeline.environment.facts import Arguments, Facts, Signature, negated, number
from pipeline.environment.grammar import Bindings, Scene, compiled
from pipeline.environment.interface import Rejection
from pipeline.environment.library import Downward, acquire, release
from pipeline.environment.translation import Translation, parse_atom

NOTHING = "Nothing happens."
GO_TO = "go to "
KEPT_STATES = 1024  # admissible commands of that many states; about 6 KB each

# A fact to remove and one to add, each with its digest number.
Change = tuple[Signature, Arguments, int, Signature, Arguments, int]


@dataclass(frozen=True)
class Operator:
    """A ground action that was taken once: what its text is derived from, and what it changes."""

    action: str
    bindings: Bindings
    changes: list[Change]


@dataclass
class Moment:
    """What depends on the planner's state alone: the commands taken in it with their operators' ids, and the goal."""

    commands: dict[str, int]
    won: bool

    @cached_property
    def admissible(self) -> tuple[str, ...]:
        """Sorted commands."""
        return tuple(sorted(self.commands))

    @cached_property
    def digest(self) -> bytes:
        """sha256 of the sorted commands."""
        return hashlib.sha256("\0".join(self.admissible).encode()).digest()


@dataclass(frozen=True)
class Snapshot:
    """A state to come back to; `game` ties it to one load, since state ids die with it."""

    game: object
    state_id: int
    facts: Facts
    observation: str
    rejection: Rejection | None
    arrived: str | None


class AlfworldEnvironment:
    """A game being played (interface.TextEnvironment). One object can play many games, one after another (`load`)."""

    def __init__(self, translation: Translation):
        """Load a game and reset. The planner's library is taken from a pool; `close` (or `with`) gives it back."""
        self._library: Downward | None = acquire()
        self.load(translation)

    def load(self, translation: Translation) -> None:
        """Play another game from its start; snapshots of the former game become invalid."""
        library = self._open()
        self._translation = translation
        self._grammar = compiled(translation.grammar)
        self._start = Facts(translation.facts, translation.dynamic)
        self._operators: dict[int, Operator] = {}
        self._moments: dict[int, Moment] = {}
        self._game = object()
        library.load(translation.sas)
        self._start_id = library.state_id()
        self._places = self._find_places()
        scene = self._scene(self._start)
        self._opening = self._grammar.intro(scene)
        self.reset()

    @property
    def task(self) -> str:
        """The task sentence, without its "Your task is to: " lead."""
        return self._translation.task

    @property
    def verb(self) -> str:
        """The game's own verb for placing an object: `move` or `put`."""
        return self._translation.verb

    @property
    def won(self) -> bool:
        """Whether the goal holds now."""
        return self._now().won

    @property
    def last_rejection(self) -> Rejection | None:
        """Why the last action changed nothing: `shared-place`, `rejected`, or None where it was taken."""
        return self._rejection

    def reset(self) -> str:
        """Back to the start (one state id and a copy of the facts); returns observation 0."""
        self._open().set_state_id(self._start_id)
        self._facts = self._start.copy()
        self._observation = self._opening
        self._rejection: Rejection | None = None
        self._arrived: str | None = None
        self._moment: Moment | None = None
        return self._observation

    def step(self, action: str) -> str:
        """Take an action (stripped, otherwise matched exactly); what is not admissible answers "Nothing happens."."""
        command = action.strip()
        operator_id = self._now().commands.get(command)
        if operator_id is None:
            self._rejection = "shared-place" if self._is_shared_place(command) else "rejected"
            self._observation = NOTHING
            return NOTHING
        operator = self._apply(operator_id)
        self._observation = self._grammar.feedback(operator.action, operator.bindings, self._scene(self._facts))
        self._rejection = None
        if command.startswith(GO_TO):
            self._arrived = command.removeprefix(GO_TO)
        return self._observation

    def admissible(self) -> tuple[str, ...]:
        """Every command the game takes now, sorted, without doubles."""
        return self._now().admissible

    def facts(self) -> list[str]:
        """The facts that hold now with display names, as TextWorld prints them, sorted."""
        return self._facts.texts(self._translation.names)

    def facts_digest(self) -> str:
        """Hex digest (64 digits) of the facts that hold now, kept up step by step: a sum of sha256 values."""
        return self._facts.digest()

    def state_hash(self) -> str:
        """sha256 hex over the last true observation, the facts digest and the admissible commands."""
        state = hashlib.sha256(self._observation.encode())
        state.update(self._facts.digest().encode())
        state.update(self._now().digest)
        return state.hexdigest()

    def snapshot(self) -> Snapshot:
        """A copy of the state, valid until the next `load`."""
        return Snapshot(
            self._game, self._open().state_id(), self._facts.copy(), self._observation, self._rejection, self._arrived
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot of this load. Raises ValueError for another's, whose state ids mean nothing here."""
        if snapshot.game is not self._game:
            raise ValueError("this snapshot belongs to another environment or an earlier load")
        self._open().set_state_id(snapshot.state_id)
        self._facts = snapshot.facts.copy()
        self._observation = snapshot.observation
        self._rejection = snapshot.rejection
        self._arrived = snapshot.arrived
        self._moment = None

    def replay(self, actions: Iterable[str]) -> list[str]:
        """Reset, take the actions, and return observation 0 and every later one."""
        return [self.reset(), *(self.step(action) for action in actions)]

    def close(self) -> None:
        """Give the library back to the pool; the environment can't be used afterwards."""
        if self._library is not None:
            release(self._library)
            self._library = None

    def __enter__(self) -> "AlfworldEnvironment":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _open(self) -> Downward:
        if self._library is None:
            raise ValueError("this environment is closed")
        return self._library

    def _scene(self, facts: Facts) -> Scene:
        return Scene(facts, self._translation.names, self._translation.task)

    def _now(self) -> Moment:
        """The current moment, made when first asked for and kept by state id."""
        if self._moment is None:
            library = self._open()
            state_id = library.state_id()
            moment = self._moments.get(state_id)
            if moment is None:
                if len(self._moments) >= KEPT_STATES:
                    del self._moments[next(iter(self._moments))]
                moment = self._moments[state_id] = Moment(self._commands(library.applicable()), library.check_goal())
            self._moment = moment
        return self._moment

    def _commands(self, operator_ids: list[int]) -> dict[str, int]:
        # Of several operators with one command stock takes the planner's first; the last pair of a dict wins.
        operator_ids.reverse()
        return dict(zip(map(self._translation.commands.__getitem__, operator_ids), operator_ids, strict=True))

    def _apply(self, operator_id: int) -> Operator:
        library = self._open()
        operator = self._operators.get(operator_id)
        if operator is None:
            name, effects = library.operator(operator_id)
            changes = [self._change(atom) for atom in library.apply_and_read(operator_id, effects)]
            operator = self._operators[operator_id] = Operator(*self._grammar.ground(name), changes)
        else:
            library.apply(operator_id)
        facts = self._facts
        for gone, gone_arguments, gone_number, new, new_arguments, new_number in operator.changes:
            facts.remove(gone, gone_arguments, gone_number)
            facts.add(new, new_arguments, new_number)
        self._moment = None
        return operator

    def _change(self, atom: str) -> Change:
        new = parse_atom(atom, self._translation.types)
        (predicate, types), arguments = new
        gone = (negated(predicate), types), arguments
        return (*gone, number(gone), *new, number(new))

    def _find_places(self) -> dict[str, set[str]]:
        """Display name of a receptacle -> the places (ids) where it stands; no action moves one."""
        names = self._translation.names
        places: dict[str, set[str]] = {}
        for (predicate, _), arguments in self._translation.facts:
            if predicate == "receptacleatlocation":
                receptacle, place = (var.partition("\0")[0] for var in arguments)
                places.setdefault(names[receptacle], set()).add(place)
        return places

    def _is_shared_place(self, command: str) -> bool:
        """Whether a refused command goes to a receptacle in the place where the agent stands, other than the one it went to."""
        name = command.removeprefix(GO_TO)
        if not command.startswith(GO_TO) or name not in self._places or name == self._arrived:
            return False
        here = {arguments[1].partition("\0")[0] for arguments in self._facts.of("atlocation")}
        return not here.isdisjoint(self._places[name])
