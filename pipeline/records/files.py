"""Atomic files: an output appears whole or not at all (written beside, fsynced, renamed)."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.errors import BadInput
from pipeline.records.ledger import note_read, note_written


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of `path`; on a clean exit it is fsynced and renamed to `path`.

    On an error the temporary file goes and whatever stood at `path` stays as it was. A full or read-only disk raises
    BadInput that names the path, since that is something the user must mend before the job can be run again.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        os.close(handle)
    except OSError as error:
        raise unwritable(path, error) from error
    beside = Path(name)
    try:
        try:
            yield beside
            with open(beside, "rb") as file:
                os.fsync(file.fileno())
            # mkstemp makes private files; results are shared between the people of a project.
            beside.chmod(0o666 & ~_umask())
            beside.replace(path)
            note_written(path)
        except OSError as error:
            if error.filename not in (None, str(beside), str(path)):
                raise
            raise unwritable(path, error) from error
    finally:
        beside.unlink(missing_ok=True)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def unwritable(path: Path, error: OSError) -> BadInput:
    """What a user is told where `path` can't be written."""
    return BadInput(
        f"{path}: cannot be written ({error.strerror or error}); expected a writable folder with free space: "
        "free or choose another disk and run the same command again, nothing that was finished is lost"
    )


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write bytes atomically."""
    with replacing(path) as beside:
        beside.write_bytes(data)


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    write_bytes(path, text.encode())


def write_json(path: str | Path, value: Any) -> None:
    """Write indented JSON with sorted keys atomically. Raises ValueError for NaN or infinity."""
    write_text(path, json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: str | Path) -> Any:
    """Read a JSON file. Raises BadInput that names the file where it is missing or no JSON."""
    try:
        text = Path(path).read_text("utf-8")
        note_read(path)
        return json.loads(text)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); expected a JSON file") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: is no valid JSON ({error}); make it again with the command that wrote it") from error
