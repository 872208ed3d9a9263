"""Reading and writing entries: atomic, without locks, safe for many nodes on one shared folder.

An entry is written beside its place and linked to it, which only the first writer can do; who comes second takes the
entry that stands there, so that studies which share a store hold the same episodes even where an agent could have
answered in two ways. Nothing is ever changed in place, so a reader sees a whole entry or none.
"""

import errno
import os
import secrets
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pipeline.errors import BadInput
from pipeline.records.files import unwritable
from pipeline.store.entry import SUFFIX, Damaged, Entry, decode, encode, key_of

EPISODES, DAMAGED = "episodes", "damaged"
PART = ".part"
# An entry that is used is marked young, so that no collection takes it before the job's table stands there.
YOUNG_SECONDS = 3600.0
FSYNC_SECONDS = 1.0
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


class EpisodeStore:
    """The episodes under one folder. Nothing is made or changed there until something is put."""

    def __init__(self, folder: str | Path):
        """`folder` need not exist yet."""
        self.folder = Path(folder)
        self._synced = 0.0

    def path(self, key: str) -> Path:
        """Where the entry of a key stands. 256 folders keep each small enough to list at 10^6 entries."""
        return self.folder / EPISODES / key[:2] / f"{key}{SUFFIX}"

    def get(self, inputs: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """Key and row of the episode with these inputs, or None where there is none.

        A damaged entry is set aside and named on stderr; it counts as none. Raises BadInput where the store can't be read.
        """
        key = key_of(inputs)
        entry = self._read(key)
        return None if entry is None else (key, entry.row)

    def put(self, inputs: Mapping[str, Any], row: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Store a row; key and row as they stand in the store then, which are another writer's where that was first.

        Raises BadInput where it can't be written.
        """
        key = key_of(inputs)
        path = self.path(key)
        beside = path.with_name(f".{key}.{secrets.token_hex(8)}{PART}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._write(beside, encode(inputs, row))
            entry = self._publish(beside, path, key)
        except OSError as error:
            raise unwritable(path, error) from error
        finally:
            # A part that can't be removed now is collected later.
            with suppress(OSError):
                beside.unlink(missing_ok=True)
        return key, dict(row) if entry is None else entry.row

    def prepare(self) -> None:
        """Make the folder and see that it takes files, before anything is played for it. Raises BadInput."""
        folder = self.folder / EPISODES
        probe = folder / f".probe.{secrets.token_hex(8)}{PART}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            probe.write_bytes(b"x")
            probe.unlink()
        except OSError as error:
            with suppress(OSError):
                probe.unlink(missing_ok=True)
            raise unwritable(self.folder, error) from error

    def _publish(self, beside: Path, path: Path, key: str) -> Entry | None:
        """Give the part its name. None: it stands there now; else the entry that was there before."""
        while True:
            try:
                _name(beside, path)
                return None
            except FileExistsError:
                # A damaged one is set aside by reading it, and the next turn of the loop takes its place.
                if (stands := self._read(key)) is not None:
                    return stands

    def _write(self, path: Path, data: bytes) -> None:
        # Plain open with 0o666: the umask decides who may read, as for any file; a store is shared.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with open(handle, "wb") as file:
            file.write(data)
            # Not every entry: one that a power cut tears fails its checksum and is played again. At most once a second
            # means that a slow agent's every episode is on the disk, and a fast one's is cheap to play again.
            if time.monotonic() - self._synced > FSYNC_SECONDS:
                file.flush()
                os.fsync(file.fileno())
                self._synced = time.monotonic()

    def _read(self, key: str) -> Entry | None:
        path = self.path(key)
        try:
            with open(path, "rb") as file:
                data, written = file.read(), os.fstat(file.fileno()).st_mtime
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BadInput(
                f"{path}: cannot be read ({error.strerror or error}); expected an entry of an episode store: mend the disk or "
                "its permissions, or name another folder with --store (config key store)"
            ) from error
        try:
            entry = decode(data, key)
        except Damaged as damage:
            return self._set_aside(path, key, str(damage))
        if time.time() - written > YOUNG_SECONDS:
            with suppress(OSError):
                os.utime(path)
        return entry

    def _set_aside(self, path: Path, key: str, problem: str) -> Entry | None:
        """Move a damaged entry out of the way and say so; None, or the entry where another job has just put a good one."""
        aside = self.folder / DAMAGED / f"{key}.{secrets.token_hex(4)}{SUFFIX}"
        try:
            aside.parent.mkdir(parents=True, exist_ok=True)
            path.rename(aside)
        except FileNotFoundError:
            # Another job has set it aside.
            return None
        except OSError as error:
            raise unwritable(aside, error) from error
        try:
            entry = decode(aside.read_bytes(), key)
        except (Damaged, OSError):
            print(f"store: {path.name} {problem}; set aside as {aside}, to be generated again", file=sys.stderr)
            return None
        # Between our reading and our moving another job had replaced it: this one is good and goes back.
        with suppress(FileExistsError):
            _name(aside, path)
        aside.unlink(missing_ok=True)
        return entry


def _name(beside: Path, path: Path) -> None:
    """Give a file its second name. Raises FileExistsError where that is taken."""
    try:
        os.link(beside, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # A file system without hard links: the last writer wins, the entry is whole all the same.
        os.replace(beside, path)
