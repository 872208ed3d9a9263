"""What lies in a store, and which of it the tables under results folders refer to. Everything here is one pass over names."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import BadInput
from pipeline.provenance.record import FOLDER, parsed
from pipeline.records.tables import read_table
from pipeline.store.entry import SUFFIX, is_key
from pipeline.store.episodes import DAMAGED, EPISODES, PART

COLUMN = "episode_key"
_STAGES = ("trajectories", "forks")


@dataclass(frozen=True, slots=True)
class Found:
    """A file of a store. `key` is None for a part that a writer left; `size` in bytes, `written` in seconds (mtime)."""

    path: str
    key: str | None
    size: int
    written: float


def entries(store: Path) -> Iterator[Found]:
    """Entries and parts under `episodes`, in no order; other files are no business of the store.

    One `scandir` a folder and one `stat` a file; what vanishes meanwhile (another job's part) is passed over. Raises
    BadInput where a folder can't be read.
    """
    root = store / EPISODES
    try:
        with os.scandir(root) as found:
            top = list(found)
        # Probes of writers lie beside the folders.
        yield from _files(top)
        for folder in top:
            if folder.is_dir(follow_symlinks=False):
                with os.scandir(folder.path) as files:
                    yield from _files(files)
    except FileNotFoundError:
        return
    except OSError as error:
        raise BadInput(
            f"{error.filename or root}: cannot be read ({error.strerror}); expected an episode store"
        ) from error


def _files(files: Iterable[os.DirEntry[str]]) -> Iterator[Found]:
    for one in files:
        key = one.name.removesuffix(SUFFIX)
        whole = one.name.endswith(SUFFIX) and is_key(key)
        if whole or (one.name.startswith(".") and one.name.endswith(PART)):
            with suppress(FileNotFoundError):
                stat = one.stat(follow_symlinks=False)
                yield Found(one.path, key if whole else None, stat.st_size, stat.st_mtime)


def damaged(store: Path) -> list[str]:
    """Names of the entries that were set aside, sorted."""
    with suppress(FileNotFoundError):
        return sorted(name for name in os.listdir(store / DAMAGED) if name.endswith(SUFFIX))
    return []


@dataclass
class References:
    """The keys that tables name, as 32 bytes each, by study (path of its folder); `tables` counts the tables."""

    studies: dict[str, set[bytes]] = field(default_factory=dict)
    tables: int = 0

    @property
    def keys(self) -> set[bytes]:
        """Keys of all studies."""
        return set().union(*self.studies.values())


def references(results: Sequence[Path], store: Path) -> References:
    """What every Parquet table with a column `episode_key` under the folders refers to; the store itself is left out.

    Raises BadInput for a folder that isn't there and for a table that can't be read: what it refers to is not known.
    """
    found = References()
    visited: set[tuple[int, int]] = set()
    for folder in results:
        if not folder.is_dir():
            raise BadInput(f"{folder}: no such folder; expected a results folder, as the workflow makes it")
        for path in _parquet(folder, store, visited):
            if (keys := _keys_of(path)) is not None:
                found.tables += 1
                found.studies.setdefault(str(_study(path)), set()).update(keys)
    return found


def hits(study: str) -> tuple[int, int]:
    """Episodes that the jobs of a study, each when it last ran, found in the store and generated, as their records tell.

    Records that can't be read are left to `cir audit`.
    """
    found = generated = 0
    for path in sorted(Path(study, FOLDER).rglob("*.json")):
        with suppress(BadInput):
            counts = parsed(path.read_bytes(), path).run.notes.get("store", {})
            found, generated = found + counts.get("found", 0), generated + counts.get("generated", 0)
    return found, generated


def _parquet(folder: Path, store: Path, visited: set[tuple[int, int]]) -> Iterator[Path]:
    """Tables below a folder, sorted; links are followed, each real folder is entered once."""
    with suppress(FileNotFoundError):
        kept = store.stat()
        visited.add((kept.st_dev, kept.st_ino))
    for place, folders, names in os.walk(folder, followlinks=True, onerror=_unreadable):
        here = os.stat(place)
        if (here.st_dev, here.st_ino) in visited:
            folders.clear()
            continue
        visited.add((here.st_dev, here.st_ino))
        folders.sort()
        yield from (Path(place, name) for name in sorted(names) if name.endswith(".parquet") and name[0] != ".")


def _unreadable(error: OSError) -> None:
    raise BadInput(f"{error.filename}: cannot be read ({error.strerror}); what its tables refer to is not known")


def _keys_of(path: Path) -> set[bytes] | None:
    """Keys that a table names, or None where it has no column for them."""
    try:
        if COLUMN not in pq.read_schema(path).names:
            return None
    except (pa.ArrowException, OSError) as error:
        raise BadInput(
            f"{path}: is no readable Parquet file ({' '.join(str(error).split())}); delete it and run its stage again"
        ) from error
    texts = read_table(path, [COLUMN]).column(COLUMN).drop_null().to_pylist()
    if wrong := next((text for text in texts if not isinstance(text, str) or not is_key(text)), None):
        raise BadInput(f"{path}: column {COLUMN} holds {wrong!r}, expected keys of 64 hex digits; run its stage again")
    return {bytes.fromhex(text) for text in texts}


def _study(path: Path) -> Path:
    """The study's folder: the one that holds trajectories/ or forks/; of another table its own folder."""
    for parent in path.parents:
        if parent.name in _STAGES:
            return parent.parent
    return path.parent
