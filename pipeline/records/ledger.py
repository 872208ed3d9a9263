"""What a command reads and writes, observed as it happens: the readers and writers of tables and files report here.

There is one ledger a process, and only while someone asked for one; without it a note costs one comparison.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.errors import BadInput, CheckFailed
from pipeline.records.canonical import file_sha256

_PACKAGE = str(Path(__file__).resolve().parents[1]) + os.sep


@dataclass(frozen=True, slots=True)
class Content:
    """A file's content: sha256 (64 hex digits) and size in bytes."""

    sha256: str
    bytes: int


@dataclass
class Ledger:
    """Files by absolute path: contents read, names written; folders outside the results by name; further facts."""

    reads: dict[str, Content] = field(default_factory=dict)
    writes: set[str] = field(default_factory=set)
    roots: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    _stats: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def read(self, path: str | Path) -> None:
        """Take the file's content down, once. Raises CheckFailed where it has changed since it was first read."""
        place = os.path.abspath(path)
        if place.startswith(_PACKAGE):
            return  # a data file of the package belongs to the code, whose digest counts it
        found = os.stat(place)
        now = (found.st_ino, found.st_size, found.st_mtime_ns)
        # What the job itself wrote is its output, however often it is read again.
        if place in self.writes or self._stats.get(place) == now:
            return
        content = Content(file_sha256(place), found.st_size)
        if self.reads.setdefault(place, content) != content:
            raise CheckFailed(f"{path}: has changed while the command read it; run the command again")
        self._stats[place] = now

    def inputs(self) -> dict[str, Content]:
        """What was read and not written, by absolute path."""
        return {place: content for place, content in self.reads.items() if place not in self.writes}

    def outputs(self) -> dict[str, Content]:
        """What was written and still stands there, hashed now, by absolute path."""
        return {
            place: Content(file_sha256(place), os.path.getsize(place))
            for place in sorted(self.writes)
            if os.path.isfile(place)
        }


_ledger: Ledger | None = None


@contextmanager
def observed() -> Iterator[Ledger]:
    """Keep a ledger while the block runs. Raises BadInput where one is kept already: two would share what they see."""
    global _ledger
    if _ledger is not None:
        raise BadInput("a record of this process is being kept already; run one recorded command at a time")
    _ledger = Ledger()
    try:
        yield _ledger
    finally:
        _ledger = None


def note_read(path: str | Path) -> None:
    """Say that a file was read. Raises CheckFailed where it is another one than when it was read before."""
    if _ledger is not None:
        _ledger.read(path)


def note_written(path: str | Path) -> None:
    """Say that a file was written, or found to hold already what would have been written."""
    if _ledger is not None:
        _ledger.writes.add(os.path.abspath(path))


def note_root(name: str, path: str | Path) -> None:
    """Name a folder outside the results that inputs come from, so that records need not hold this machine's path."""
    if _ledger is not None:
        _ledger.roots[name] = os.path.abspath(path)


def note_fact(name: str, value: Any) -> None:
    """Say what else determined the result, such as who the agent was. JSON-able."""
    if _ledger is not None:
        _ledger.facts[name] = value
