"""Canonical JSON and digests: two equal values have the same text and the same hash, on every machine."""

import hashlib
import json
from pathlib import Path
from typing import Any


def canonical_json(value: Any) -> str:
    """Sorted, compact, ASCII JSON of a JSON-able value. Raises ValueError for NaN or infinity (they are no JSON)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(value: Any) -> str:
    """sha256 (64 hex digits) of a value's canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def bytes_sha256(data: bytes) -> str:
    """sha256 (64 hex digits) of bytes."""
    return hashlib.sha256(data).hexdigest()


def file_sha256(path: str | Path) -> str:
    """sha256 (64 hex digits) of a file's content. Raises OSError where it can't be read."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
