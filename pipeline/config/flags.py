"""A command's flag, or, where it is left out, the same key of the study in `--settings`."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.config.ranges import LARGEST
from pipeline.config.scopes import parsed_settings, study_key
from pipeline.errors import BadInput


def flag_or_key(flag: Any, settings: str | None, path: str, option: str, default: Any = None) -> Any:
    """The flag's value; else the key at the dotted `path` of the `--settings` JSON; else the default.

    Raises BadInput naming the option where all three are missing, and where `settings` is no JSON object or its value is
    none that the study's key allows.
    """
    if flag is not None:
        return flag
    if settings is not None:
        value: Any = parsed_settings(settings)
        for part in path.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None:
            return study_key(path, value, "--settings")
    if default is None:
        raise BadInput(f"{option}: is missing; give it, or --settings with the key {path}")
    return default


def listed(value: str | Sequence[Any], option: str) -> list[str]:
    """A comma-separated text, or a list out of `--settings`, as names. Raises BadInput for an empty or a repeated one."""
    values = [part.strip() for part in (value.split(",") if isinstance(value, str) else map(str, value))]
    if not values or not all(values) or len(set(values)) != len(values):
        raise BadInput(f"{option}: expected distinct names with commas between, found {value!r}")
    return values


def listed_delays(value: str | Sequence[Any], option: str) -> list[int]:
    """The same for whole numbers from 0 on. Raises BadInput."""
    values = listed(value, option)
    if not all(part.isascii() and part.isdigit() and len(part) <= 10 and int(part) <= LARGEST for part in values):
        raise BadInput(f"{option}: expected whole numbers from 0 to {LARGEST:,} with commas between, found {value!r}")
    return [int(part) for part in values]
