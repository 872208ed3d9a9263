"""A journal of finished episodes beside a job's output: a killed job goes on where it was (one JSON line an episode).

Only the live check keeps one: it plays to check what the episode store holds, so it takes nothing from there.
"""

import json
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from pipeline.records.files import unwritable

FSYNC_SECONDS = 1.0


class Journal:
    """Finished rows of one job, by unit. Rows written under another `key` (other config, code or inputs) are not used."""

    def __init__(self, output: str | Path, key: str):
        """Open the journal of the job that will write `output`; `key` identifies everything its rows depend on.

        Raises BadInput, here and in `add`, where the disk is full or can't be written.
        """
        output = Path(output)
        self.path = output.with_name(f".{output.name}.journal")
        self.rows: dict[str, dict[str, Any]] = {}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            kept = self._read(key)
            self._file = open(self.path, "r+b" if kept else "wb")  # noqa: SIM115 (closed by close)
        except OSError as error:
            raise unwritable(self.path, error) from error
        if kept:
            self._file.truncate(kept)
            self._file.seek(kept)
        else:
            self._line({"key": key})
        self._synced = time.monotonic()

    def _read(self, key: str) -> int:
        """Take over the whole lines that stand there; returns the bytes worth keeping (a torn last line is not)."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return 0
        kept = 0
        for line in data.splitlines(keepends=True):
            try:
                entry = json.loads(line) if line.endswith(b"\n") else None
            except ValueError:
                entry = None
            if entry is None:
                break
            if kept == 0:
                if entry != {"key": key}:
                    print(f"{self.path.name}: belongs to another config or code, starting afresh", file=sys.stderr)
                    return 0
            else:
                self.rows[entry["unit"]] = entry["row"]
            kept += len(line)
        if self.rows:
            print(f"resuming: {len(self.rows)} episodes were finished before", file=sys.stderr)
        return kept

    def add(self, unit: str, row: Mapping[str, Any]) -> None:
        """Record a finished unit; it survives a kill of the process at once, a power cut within a second."""
        self._line({"unit": unit, "row": row})
        self.rows[unit] = dict(row)

    def _line(self, entry: Mapping[str, Any]) -> None:
        try:
            self._file.write(json.dumps(entry, separators=(",", ":")).encode() + b"\n")
            self._file.flush()
            if time.monotonic() - getattr(self, "_synced", 0.0) > FSYNC_SECONDS:
                os.fsync(self._file.fileno())
                self._synced = time.monotonic()
        except OSError as error:
            self.close()
            raise unwritable(self.path, error) from error

    def close(self) -> None:
        """Close the file and keep it; a line that a full disk did not take is lost, the next run plays it again."""
        with suppress(OSError):
            self._file.close()

    def remove(self) -> None:
        """Close and delete: the output has been written whole."""
        self.close()
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.remove()
        else:
            self.close()
