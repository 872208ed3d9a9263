"""Removing what no study refers to, and what writers that were killed have left."""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import BadInput
from pipeline.records.files import unwritable
from pipeline.store.listing import entries, references


@dataclass
class Collected:
    """Counts and bytes of one collection."""

    kept: int = 0
    removed: int = 0
    removed_bytes: int = 0
    young: int = 0
    parts: int = 0


def collect(store: Path, results: Sequence[Path], older_than: float, dry_run: bool) -> Collected:
    """Remove entries that no table under `results` names and parts, both only where untouched for `older_than` hours.

    A younger entry may belong to a job whose table isn't written yet. With `dry_run` nothing is removed. Raises BadInput
    where there is no store, where the results hold no table that names episodes (another folder was meant: everything
    would go), and where one can't be read or a file not be removed.
    """
    if not store.is_dir():
        raise BadInput(f"{store}: no such folder; expected an episode store (--store, config key store)")
    named = references(results, store)
    if not named.tables:
        raise BadInput(
            f"{', '.join(map(str, results))}: holds no trajectories or forks table that names episodes, so everything would be "
            "removed; expected the results folder of the studies that use this store"
        )
    keys, limit, counts = named.keys, time.time() - older_than * 3600, Collected()
    for one in entries(store):
        old = one.written < limit
        if one.key is None:
            counts.parts += old
        elif bytes.fromhex(one.key) in keys:
            counts.kept += 1
            continue
        elif old:
            counts.removed += 1
            counts.removed_bytes += one.size
        else:
            counts.young += 1
        if old and not dry_run:
            _remove(one.path)
    return counts


def _remove(path: str) -> None:
    try:
        with suppress(FileNotFoundError):
            os.unlink(path)
    except OSError as error:
        raise unwritable(Path(path), error) from error
