"""New games: drawn, built, proven by playing the walkthrough, written whole.

A game depends on (seed, split, task type, its number within the type, verb) alone: more games of a split, fewer task
types or more processes change none of the others, and the same call gives the same bytes everywhere.
"""

import hashlib
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import BadInput, CheckFailed
from pipeline.games.contents import Unfurnishable, furnish
from pipeline.games.problem import game_json, sentence, trajectory_json
from pipeline.games.store import Written, put_game, stored_game
from pipeline.games.tasks import draw_task
from pipeline.games.walkthrough import walkthrough

if TYPE_CHECKING:
    from pipeline.environment import TextEnvironment

ATTEMPTS = 50  # draws for one game before the settings are given up as impossible


@dataclass(frozen=True, slots=True)
class Order:
    """One game to make: the `number`-th of its task type in its split."""

    seed: int
    split: str
    task_type: str
    number: int
    verb: str

    @property
    def trial(self) -> str:
        """Name of the trial folder: another one for each order, so that a task always means the same game."""
        return f"trial_G{int(self._digest(self.verb)[:16], 16) % 10**16:016d}"

    def rng(self, attempt: int) -> random.Random:
        """The source of every draw of one attempt (seeded by text, so independent of the hash seed).

        The verb is left out: a `put` game is its `move` twin in the older words.
        """
        return random.Random(self._digest(f"attempt {attempt}"))

    def _digest(self, what: str) -> str:
        key = f"{self.seed}/{self.split}/{self.task_type}/{self.number}/{what}"
        return hashlib.sha256(key.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Game:
    """A built game, not yet proven: where it belongs, and its files' texts."""

    folder: str
    trial: str
    game: str
    trajectory: str
    walkthrough: tuple[str, ...]

    @property
    def task(self) -> str:
        """Task identifier (contracts.md)."""
        return f"{self.folder}/{self.trial}"


class Unproven(Exception):
    """Playing the walkthrough did not win, so the game is not written. The message says at which command."""


def orders(splits: Mapping[str, int], task_types: Sequence[str], seed: int, verb: str) -> list[Order]:
    """The games of a call, task types in equal shares (the first ones get the remainder), splits in the given order."""
    types = sorted(set(task_types))
    return [
        Order(seed, split, types[place % len(types)], place // len(types), verb)
        for split, count in splits.items()
        for place in range(count)
    ]


def build(order: Order, attempt: int) -> Game:
    """Draw and build one game. Raises Unfurnishable where this attempt's draw leaves no place for what is needed."""
    rng = order.rng(attempt)
    task = draw_task(order.task_type, order.split, rng)
    contents = furnish(task, rng)
    words = sentence(task, rng)
    steps = walkthrough(task, contents, order.verb)
    game = game_json(task, contents, order.trial, order.verb, words, steps)
    return Game(task.folder, order.trial, game, trajectory_json(task, order.trial), tuple(steps))


def prove(game: Game) -> None:
    """Check and translate the game, play its walkthrough. Raises Unproven unless it wins with the last command, not before."""
    from pipeline.environment import AlfworldEnvironment, translate

    with AlfworldEnvironment(translate(game.game.encode(), game.task)) as environment:
        try:
            play(environment, game.walkthrough)
        except Unproven as failure:
            raise Unproven(f"{game.task}: {failure}") from None


def play(environment: "TextEnvironment", walkthrough: Sequence[str]) -> None:
    """Play a walkthrough from the start. Raises Unproven as `prove` does."""
    environment.reset()
    for place, command in enumerate(walkthrough, start=1):
        if environment.won:
            raise Unproven(f"won before command {place}")
        environment.step(command)
        if environment.last_rejection:
            raise Unproven(f"command {place}, {command!r}, was refused")
    if not environment.won:
        raise Unproven("the walkthrough does not win")


def make(order: Order, root: Path) -> Written:
    """Make one game under `root` and say what happened. An identical one that stands there is kept without a new proof.

    Raises CheckFailed where no attempt gives a game that can be won.
    """
    roomless, unproven = [], []
    for attempt in range(ATTEMPTS):
        try:
            game = build(order, attempt)
        except Unfurnishable as failure:
            roomless.append(str(failure))
            continue
        files = (root, order.split, game.folder, game.trial, game.game, game.trajectory)
        if kept := stored_game(*files):
            return Written(game.task, order.split, kept, len(roomless), tuple(unproven))
        try:
            prove(game)
        except Unproven as failure:
            unproven.append(str(failure))
            continue
        put_game(*files)
        return Written(game.task, order.split, kept, len(roomless), tuple(unproven))
    raise CheckFailed(
        f"{order.task_type} number {order.number} of {order.split}, seed {order.seed}: none of {ATTEMPTS} draws gave a game "
        f"that can be won (the last: {(roomless + unproven)[-1]}); choose another seed and report it"
    )


def make_all(wanted: Sequence[Order], root: Path, threads: int) -> list[Written]:
    """Make all games, with progress on stderr; sorted by split and task. Raises BadInput where the disk can't be written."""
    from pipeline.runtime.progress import tracked

    made = list(tracked(_each(wanted, root, threads), len(wanted), "games"))
    return sorted(made, key=lambda written: (written.split, written.task))


def _each(wanted: Sequence[Order], root: Path, threads: int) -> Iterator[Written]:
    if threads == 1:
        yield from (make(order, root) for order in wanted)
        return
    from pipeline.runtime.workers import WorkerDied, run_units

    for order, written in run_units(list(wanted), _work, _setup, (str(root),), threads):
        if isinstance(written, WorkerDied):
            raise CheckFailed(f"{order.trial}: the process that made it was killed twice; what was finished is kept")
        yield written


_ROOT = Path()


def _setup(root: str) -> None:
    global _ROOT
    _ROOT = Path(root)


def _work(order: Order) -> Written:
    return make(order, _ROOT)


def parse_splits(pairs: Iterable[str]) -> dict[str, int]:
    """`train=120` and the like. Raises BadInput naming the pair that is wrong."""
    splits: dict[str, int] = {}
    for pair in pairs:
        name, _, count = pair.partition("=")
        if name not in ("train", "valid_seen", "valid_unseen") or not count.isdecimal() or int(count) < 1:
            raise BadInput(f"--split {pair}: expected train=N, valid_seen=N or valid_unseen=N with N of at least 1")
        if name in splits:
            raise BadInput(f"--split {name} is given twice; give each split once")
        splits[name] = int(count)
    return splits


def report(made: Sequence[Written]) -> None:
    """One line on stderr: how many were made and kept, what had to be drawn again; one line for each unproven draw."""
    kept = sum(written.kept for written in made)
    again = sum(written.redrawn for written in made)
    unproven = [failure for written in made for failure in written.unproven]
    print(
        f"games: {len(made) - kept} made, {kept} kept, {again} drawn again for want of room, {len(unproven)} not won",
        file=sys.stderr,
    )
    for failure in unproven:
        print(f"  not written: {failure}", file=sys.stderr)
