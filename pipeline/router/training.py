"""The rows of a decisions table that a router is fitted on, checked (protocol.md section 3, [D])."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import BadInput
from pipeline.records.schemas import decisions_schema
from pipeline.records.tables import check_kinds, read_table

POPULATIONS = ("factual-success", "complete")
# A column ym_<operator> holds the outcome of a further operator at the same moment.
OTHER = "ym_"
_COLUMNS = ("task", "folder", "condition", "delay", "live", "y0", "ym")


@dataclass(frozen=True)
class Training:
    """Decision rows in order of (task, condition, delay), and the arrays of the live ones.

    `rows` are all rows, `live` the places of the live ones among them. Of the live rows: `features` (rows, features),
    `labels` (rows, 3) of 0 and 1 for p_err (condition is not clean), p_0 (y0) and p_1 (ym), `folders` their groups.
    `others`: outcomes of further operators by name, one a row of `rows`, None where an operator has no branch.
    """

    rows: list[dict[str, Any]]
    live: list[int]
    names: tuple[str, ...]
    features: np.ndarray
    labels: np.ndarray
    folders: list[str]
    conditions: tuple[str, ...]
    delays: tuple[int, ...]
    population: str
    others: dict[str, list[bool | None]] = field(default_factory=dict)


def read_decisions(
    path: str | Path, cohort: str | None = None, factual: bool = False
) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows of a decisions table, in order of (task, condition, delay), and the names of its features.

    Only the given cohort's where one is given; a column cohort is kept where there is one, and so are the outcomes of
    further operators (ym_<operator>, may be null); `factual` asks for the column factual_success. Raises BadInput for
    missing columns, no features, a feature that is no number, a repeated row, a task in two folders, or an outcome that
    is not 0 or 1.
    """
    needed = [*_COLUMNS, *(["cohort"] if cohort else []), *(["factual_success"] if factual else [])]
    table = read_table(path, required=needed)
    check_kinds(path, table, decisions_schema([]))
    names = [name for name in table.column_names if name.startswith("x_")]
    if not names:
        raise BadInput(f"{path}: has no feature column; features are the columns whose names begin with x_")
    for name in names:
        kind = table.schema.field(name).type
        if not (
            pa.types.is_integer(kind)
            or pa.types.is_floating(kind)
            or pa.types.is_boolean(kind)
            or pa.types.is_null(kind)
        ):
            raise BadInput(f"{path}: feature {name} is {kind}, expected a number")
    if cohort:
        table = table.filter(pc.equal(table.column("cohort"), cohort))
    others = [name for name in table.column_names if name.startswith(OTHER)]
    kept = [*needed, *names, *others, *(["cohort"] if "cohort" in table.column_names else [])]
    rows = table.select([*dict.fromkeys(kept)]).to_pylist()
    if not rows:
        raise BadInput(f"{path}: holds no rows" + (f" of cohort {cohort}" if cohort else ""))
    for row in rows:
        if any(row[name] is None for name in needed) or any(row[name] not in (0, 1) for name in ("y0", "ym", "live")):
            raise BadInput(
                f"{path}: {_named(row)}: {', '.join(needed)} must not be null, live, y0 and ym must be true or false"
            )
        if wrong := [name for name in others if row[name] not in (0, 1, None)]:
            raise BadInput(f"{path}: {_named(row)}: {', '.join(wrong)} must be true, false or null")
    rows.sort(key=lambda row: (row["task"], row["condition"], row["delay"]))
    twice = [
        key
        for key, count in Counter((row["task"], row["condition"], row["delay"]) for row in rows).items()
        if count > 1
    ]
    if twice:
        raise BadInput(f"{path}: {len(twice)} row(s) stand more than once, the first {' '.join(map(str, twice[0]))}")
    folder_of: dict[str, str] = {}
    for row in rows:
        if folder_of.setdefault(row["task"], row["folder"]) != row["folder"]:
            raise BadInput(
                f"{path}: task {row['task']} stands in the folders {folder_of[row['task']]} and {row['folder']}"
            )
    return rows, names


def training(
    path: str | Path,
    conditions: Sequence[str],
    delays: Sequence[int],
    population: str = "factual-success",
    cohort: str | None = None,
) -> tuple[Training, list[str]]:
    """The rows to fit on, and notes for the user on what was left out.

    Episodes that lack a row for one of the delays can't be judged by the policy and are left out. Raises BadInput where
    a condition or delay is absent, nothing is live, or a live row lacks a feature.
    """
    if list(delays) != sorted(delays):
        # Asked after a later moment, an earlier one would be decided with hindsight.
        raise BadInput(
            f"--delays: moments are asked as they come, so they must rise; found {', '.join(map(str, delays))}"
        )
    rows, names = read_decisions(path, cohort, factual=population == "factual-success")
    for label, wanted, have in (
        ("condition", conditions, {row["condition"] for row in rows}),
        ("delay", delays, {row["delay"] for row in rows}),
    ):
        if absent := [value for value in wanted if value not in have]:
            raise BadInput(
                f"{path}: holds no row with {label} {', '.join(map(str, absent))}; it has {', '.join(map(str, sorted(have)))}"
            )
    if "clean" not in conditions or len(conditions) < 2:
        raise BadInput(
            "--conditions: clean and at least one other are needed, else p_err can't be learnt or harm be limited"
        )
    rows = [row for row in rows if row["condition"] in conditions and row["delay"] in delays]
    if population == "factual-success":
        rows = [row for row in rows if row["factual_success"]]
    counted = Counter((row["task"], row["condition"]) for row in rows)
    partial = {key for key, count in counted.items() if count < len(delays)}
    rows = [row for row in rows if (row["task"], row["condition"]) not in partial]
    notes = [f"{len(partial)} episode(s) without a row at every delay were left out"] if partial else []
    live = [place for place, row in enumerate(rows) if row["live"]]
    if not live:
        raise BadInput(f"{path}: no live row is left to fit on ({population}, conditions {', '.join(conditions)})")
    moments = [rows[place] for place in live]
    return Training(
        rows=rows,
        live=live,
        names=tuple(names),
        features=feature_array(moments, names, path),
        labels=np.array([[row["condition"] != "clean", row["y0"], row["ym"]] for row in moments], dtype=int),
        folders=[row["folder"] for row in moments],
        conditions=tuple(conditions),
        delays=tuple(delays),
        population=population,
        others={name.removeprefix(OTHER): [row[name] for row in rows] for name in rows[0] if name.startswith(OTHER)},
    ), notes


def feature_array(moments: Sequence[dict[str, Any]], names: Sequence[str], path: str | Path) -> np.ndarray:
    """Features of live rows (rows, features). Raises BadInput naming the first row and feature that is missing."""
    values = np.array([[row[name] for name in names] for row in moments], dtype=float).reshape(len(moments), len(names))
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = bad[0]
        raise BadInput(
            f"{path}: {_named(moments[row])} is live but its feature {names[column]} is missing or not finite "
            f"({len(bad)} such value(s)); make the table again, or mark the moment as not live"
        )
    return values


def _named(row: dict[str, Any]) -> str:
    return f"task {row['task']}, condition {row['condition']}, delay {row['delay']}"
