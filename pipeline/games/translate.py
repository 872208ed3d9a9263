"""The translations table: what the engine needs of each game, made once (half a second a game) and read in milliseconds."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.errors import BadInput, CheckFailed
from pipeline.records.canonical import bytes_sha256
from pipeline.records.ledger import note_read

# task, path of the game file, its sha256 in the games table
Unit = tuple[str, str, str]


def chosen(games: Sequence[Mapping[str, Any]], tasks: Sequence[str] | None, root: Path) -> list[Unit]:
    """The games to translate, sorted by task: all, or those of `tasks`. Raises BadInput for a task that is no game."""
    known = {game["task"]: game for game in games}
    wanted = sorted(known if tasks is None else set(tasks))
    if missing := [task for task in wanted if task not in known]:
        raise BadInput(f"{', '.join(missing[:5])}: not in the games table; index the games again")
    if not wanted:
        raise BadInput("no game to translate; the games table or the list of tasks is empty")
    return [(task, str(root / known[task]["path"]), known[task]["sha256"]) for task in wanted]


def translated(unit: Unit) -> dict[str, Any]:
    """A row of the translations table. Raises BadInput where the file is gone, has changed since it was indexed, or is bad."""
    from pipeline.environment import translate
    from pipeline.environment.safety import read_game

    task, path, sha256 = unit
    try:
        content = read_game(Path(path))
    except BadInput as error:
        raise BadInput(f"{error}; is --root the folder that was indexed? Index it again if games moved") from None
    if bytes_sha256(content) != sha256:
        raise BadInput(f"{path}: has changed since it was indexed (sha256 differs); index the games again")
    return {"task": task, "sha256": sha256, "translation": translate(content, path).to_bytes()}


def translate_all(units: Sequence[Unit], threads: int) -> list[dict[str, Any]]:
    """Rows of the translations table sorted by task, from `threads` processes, with progress on stderr."""
    from pipeline.runtime.progress import tracked

    # Here, since workers are processes of their own, whose reads nobody sees.
    for _, path, _ in units:
        if Path(path).is_file():
            note_read(path)
    return sorted(tracked(_each(units, threads), len(units), "translations"), key=lambda row: row["task"])


def _each(units: Sequence[Unit], threads: int) -> Iterator[dict[str, Any]]:
    if threads == 1:
        yield from map(translated, units)
        return
    from pipeline.runtime.workers import WorkerDied, run_units

    for unit, row in run_units(list(units), translated, _setup, (), threads):
        if isinstance(row, WorkerDied):
            raise CheckFailed(f"{unit[1]}: the process that translated it was killed twice (out of memory?)")
        yield row


def _setup() -> None:
    """Nothing to prepare in a worker: the translator is imported with its first game."""
