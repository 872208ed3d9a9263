"""Counts that a command leaves for its record, such as the store's hits and misses; one collection a process."""

from typing import Any

_notes: dict[str, Any] = {}


def note(**values: Any) -> None:
    """Keep values by name (JSON-able); a name noted again is replaced."""
    _notes.update(values)


def noted() -> dict[str, Any]:
    """What has been noted so far, by name."""
    return dict(_notes)
