"""What a job learns about itself while it runs (episodes found and generated, the agent's identity), for its record."""

from typing import Any

_notes: dict[str, Any] = {}


def note(**values: Any) -> None:
    """Keep JSON-able values under their names for this process; a later one of the same name replaces the former."""
    _notes.update(values)


def noted() -> dict[str, Any]:
    """A copy of all notes of this process."""
    return dict(_notes)
