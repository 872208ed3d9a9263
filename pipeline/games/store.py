"""Games on disk in ALFWorld's layout: `<root>/json_2.1.1/<split>/<task folder>/<trial>/{game.tw-pddl,traj_data.json}`."""

import os
import shutil
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import BadInput

DATA = "json_2.1.1"
GAME, TRAJECTORY = "game.tw-pddl", "traj_data.json"
SPLITS = ("train", "valid_seen", "valid_unseen")
PARTS = ".parts"  # beside json_2.1.1, where no reader of games looks
STALE_SECONDS = 3600.0  # no game takes that long


@dataclass(frozen=True, slots=True)
class Written:
    """What became of one game: its task, whether it stood there already, draws that failed before it."""

    task: str
    split: str
    kept: bool
    redrawn: int
    unproven: tuple[str, ...]


def trial_path(root: Path, split: str, folder: str, trial: str) -> Path:
    """Where a game's files stand."""
    return root / DATA / split / folder / trial


def stored_game(root: Path, split: str, folder: str, trial: str, game: str, trajectory: str) -> bool:
    """Whether exactly this game stands there already."""
    place = trial_path(root, split, folder, trial)
    try:
        return (place / GAME).read_text("utf-8") == game and (place / TRAJECTORY).read_text("utf-8") == trajectory
    except (OSError, UnicodeDecodeError):
        return False


def put_game(root: Path, split: str, folder: str, trial: str, game: str, trajectory: str) -> None:
    """Write a game's folder whole or not at all (written aside, fsynced, renamed); a different one there is replaced.

    Raises BadInput that names the folder where the disk is full or can't be written; what was finished stays.
    """
    place = trial_path(root, split, folder, trial)
    try:
        (root / PARTS).mkdir(parents=True, exist_ok=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{trial}.", dir=root / PARTS) as aside:
            fresh = Path(aside) / "new"
            fresh.mkdir()
            for name, text in ((GAME, game), (TRAJECTORY, trajectory)):
                with open(fresh / name, "w", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
            with suppress(FileNotFoundError):
                place.rename(Path(aside) / "old")
            try:
                fresh.rename(place)
            except OSError:
                # Another run of the same settings was quicker: its game is the same game.
                if not stored_game(root, split, folder, trial, game, trajectory):
                    raise
            _fsync_folder(place.parent)
    except OSError as error:
        raise BadInput(
            f"{place}: cannot be written ({error.strerror or error}); expected a writable folder with free space: "
            "free or choose another disk and run the same command again, nothing that was finished is lost"
        ) from error


def clear_parts(root: Path) -> None:
    """Remove what runs that were killed have left aside; younger things may belong to a run that is going on."""
    for part in (root / PARTS).glob("*"):
        if time.time() - part.stat().st_mtime > STALE_SECONDS:
            shutil.rmtree(part, ignore_errors=True)


def _fsync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
