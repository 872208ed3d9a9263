"""Effects of a recovery, and contrasts between conditions, out of any table with the columns of outcomes/pairs.parquet.

DuckDB counts (the SQL files beside this module), `pipeline.statistics` gives intervals and tests (protocol.md section 4).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pipeline.errors import BadInput
from pipeline.outcomes.pairing import SHOWN_PROBLEMS, sql
from pipeline.records.schemas import SCHEMAS
from pipeline.records.tables import check_kinds, read_table
from pipeline.runtime.progress import tracked
from pipeline.statistics.bootstrap import exact_interval, exact_ratio_interval, percentile_interval
from pipeline.statistics.paired import holm, mcnemar_exact, sign_flip_exact

if TYPE_CHECKING:
    import duckdb

KEYS = ("cohort", "population", "condition", "delay", "operator")
CELLS = ("rescue", "harm", "kept_success", "unchanged_failure")
_OPTIONAL = ("cohort", "folder", "factual_success", "condition", "delay", "operator", "null_alteration")


@dataclass(frozen=True)
class Interval:
    """How intervals are made: resamples and seed of the bootstrap, what is drawn, and whether exactly instead."""

    resamples: int = 10_000
    seed: int = 0
    cluster: str = "task"
    exact: bool = False

    def of(self, sums: np.ndarray, sizes: np.ndarray) -> tuple[float, float]:
        """95% interval in percentage points, of clusters' sums and sizes. Raises BadInput where no exact one exists."""
        if not self.exact:
            low, high = percentile_interval(sums, sizes, self.resamples, self.seed)
        elif len(set(sizes.tolist())) == 1:
            low, high = exact_interval(sums, int(sizes[0]))
        else:
            try:
                low, high = exact_ratio_interval(sums, sizes)
            except ValueError as error:
                raise BadInput(f"--exact: {error}; leave --exact out to resample") from error
        return 100 * low, 100 * high

    def nearest(self, sums: np.ndarray, sizes: np.ndarray) -> tuple[float, float]:
        """The same, resampled where no exact one can be made: a sensitivity must not stop the row it stands beside."""
        try:
            return self.of(sums, sizes)
        except BadInput:
            return replace(self, exact=False).of(sums, sizes)


def effects(
    path: str | Path, by: Sequence[str] = KEYS, interval: Interval | None = None, without_null_alterations: bool = False
) -> list[dict[str, Any]]:
    """One row per group of `by`: the columns of outcomes/effects.parquet without the keys that are not in `by`.

    `n` counts paired units, the denominator of the four counts and of the effect; `tasks` the tasks they come from,
    which move together in the bootstrap. Without `population` in `by` all tasks count (complete); without `operator`
    the recoveries are pooled and the A/A arm is left out. `holm_p` adjusts over conditions x delays within the rest of
    the keys: the McNemar p, or the sign-flip p where a task has several units. `ci_folder_*` and `no_null_*` are the
    sensitivities: the interval over task folders, and the row without null alterations; null where the table can't tell.
    Raises BadInput for a missing column or an unusable row.
    """
    interval = interval or Interval()
    needed = {"task", "y0", "ym", *(key if key != "population" else "factual_success" for key in by)}
    needed |= {"folder"} if interval.cluster == "folder" else set()
    needed |= {"null_alteration"} if without_null_alterations else set()
    settings: dict[str, bool] = {f"by_{key}": key in by for key in KEYS}
    settings |= {"without_null_alterations": without_null_alterations}
    with opened_pairs(path, needed) as connection:
        connection.register("effect_settings", pa.table({name: [value] for name, value in settings.items()}))
        connection.execute(sql("effect_rows"))
        counts = connection.sql(sql("effects")).to_arrow_table().to_pylist()
        flips = connection.sql(sql("flips")).to_arrow_table().to_pylist()
    rest = [key for key in KEYS if key != "operator"]
    flip_rates = {tuple(row[key] for key in rest): row["aa_flip_rate"] for row in flips}
    rows_of = list(groups(counts, KEYS))
    rows = [
        _effect(units, interval) | {"aa_flip_rate": flip_rates.get(tuple(units[0][key] for key in rest))}
        for units in tracked(rows_of, len(rows_of), "effects")
    ]
    for family in groups(rows, [key for key in KEYS if key not in ("condition", "delay")]):
        # McNemar's test takes units as independent; where a task has several, the sign-flip of its sum stands in.
        p_values = [row["mcnemar_p"] if row["n"] == row["tasks"] else row["sign_flip_p"] for row in family]
        for row, adjusted in zip(family, holm(p_values), strict=True):
            row["holm_p"] = adjusted
    names = [name for name in SCHEMAS["effects"].names if name in by or name not in KEYS]
    return [{name: row[name] for name in names} for row in rows]


def effects_schema(by: Sequence[str]) -> pa.Schema:
    """Schema of an effects table with the keys `by`."""
    return pa.schema([field for field in SCHEMAS["effects"] if field.name in by or field.name not in KEYS])


def contrast(
    path: str | Path,
    condition: str,
    versus: str,
    delay: int | None = None,
    operator: str | None = None,
    interval: Interval | None = None,
) -> list[dict[str, Any]]:
    """Effect under `condition` less effect under `versus`, paired inside the tasks that have both.

    One row per (cohort, population, operator, delay): both effects, their difference, its interval (percentage points)
    and the exact sign-flip p over clusters. Raises BadInput for missing columns or when no task has both conditions.
    """
    interval = interval or Interval()
    if condition == versus:
        raise BadInput(f"--condition and --versus are both {condition}; a contrast needs two conditions")
    needed = {"task", "y0", "ym", "condition", *(["folder"] if interval.cluster == "folder" else [])}
    needed |= {name for name, value in (("delay", delay), ("operator", operator)) if value is not None}
    with opened_pairs(path, needed) as connection:
        columns = connection.sql("SELECT factual_success IS NOT NULL AS known FROM pairs LIMIT 1").fetchall()
        settings = {
            "condition": pa.array([condition], pa.string()),
            "versus": pa.array([versus], pa.string()),
            "delay": pa.array([delay], pa.int64()),
            "operator": pa.array([operator], pa.string()),
            "by_population": pa.array([bool(columns[0][0])]),
            "by_folder": pa.array([interval.cluster == "folder"]),
        }
        connection.register("contrast_settings", pa.table(settings))
        tasks = connection.sql(sql("contrast")).to_arrow_table().to_pylist()
        found = connection.sql("SELECT DISTINCT condition, delay, operator FROM pairs ORDER BY ALL").fetchall()
    if not tasks:
        have = [sorted({str(row[place]) for row in found}) for place in range(3)]
        raise BadInput(
            f"{path}: no task has both {condition} and {versus}"
            + (f" at delay {delay}" if delay is not None else "")
            + (f" with operator {operator}" if operator else "")
            + f"; it holds conditions {', '.join(have[0])}, delays {', '.join(have[1])}, operators {', '.join(have[2])}"
        )
    keys = ("cohort", "population", "operator", "delay")
    return [_contrast(rows, keys, condition, versus, interval) for rows in groups(tasks, keys)]


def _contrast(
    rows: Sequence[Mapping[str, Any]], keys: Sequence[str], condition: str, versus: str, interval: Interval
) -> dict[str, Any]:
    clusters = [
        (sum(row["effect_condition"] - row["effect_versus"] for row in group), len(group))
        for group in groups(rows, ("cluster",))
    ]
    sums, sizes = (np.array(part, dtype=np.int64) for part in zip(*clusters, strict=True))
    low, high = interval.of(sums, sizes)
    first = {name: 100 * sum(row[name] for row in rows) / len(rows) for name in ("effect_condition", "effect_versus")}
    return {key: rows[0][key] for key in keys[:2]} | {
        "condition": condition,
        "versus": versus,
        "delay": rows[0]["delay"],
        "operator": rows[0]["operator"],
        "n": len(rows),
        "effect_condition_pp": first["effect_condition"],
        "effect_versus_pp": first["effect_versus"],
        "effect_pp": 100 * int(sums.sum()) / len(rows),
        "ci_low_pp": low,
        "ci_high_pp": high,
        "sign_flip_p": sign_flip_exact(sums),
    }


def _effect(units: Sequence[Mapping[str, Any]], interval: Interval) -> dict[str, Any]:
    """One row of effects out of its tasks' counts (effects.sql)."""
    total = {name: sum(row[name] for row in units) for name in ("n", *CELLS)}
    sums, sizes = _clusters(units, interval.cluster)
    low, high = interval.of(sums, sizes)
    folder_low, folder_high = None, None
    if all(row["folder"] is not None for row in units):
        folder_low, folder_high = (
            (low, high) if interval.cluster == "folder" else interval.nearest(*_clusters(units, "folder"))
        )
    return (
        {key: units[0][key] for key in KEYS}
        | total
        | {
            "tasks": len({row["task"] for row in units}),
            "effect_pp": 100 * (total["rescue"] - total["harm"]) / total["n"],
            "ci_low_pp": low,
            "ci_high_pp": high,
            "ci_folder_low_pp": folder_low,
            "ci_folder_high_pp": folder_high,
            "mcnemar_p": mcnemar_exact(total["rescue"], total["harm"]),
            "sign_flip_p": sign_flip_exact(sums),
        }
        | _without_nulls(units, interval)
    )


def _without_nulls(units: Sequence[Mapping[str, Any]], interval: Interval) -> dict[str, Any]:
    """The columns `null_alterations` and `no_null_*`; all null where a unit's alteration is not known."""
    columns = ("n", "rescue", "harm", "effect_pp", "ci_low_pp", "ci_high_pp")
    made: dict[str, Any] = {"null_alterations": None} | {f"no_null_{name}": None for name in columns}
    if not all(row["alterations_known"] for row in units):
        return made
    made["null_alterations"] = sum(row["null_alterations"] for row in units)
    n, rescue, harm = (sum(row[f"no_null_{name}"] for row in units) for name in ("n", "rescue", "harm"))
    made |= {"no_null_n": n, "no_null_rescue": rescue, "no_null_harm": harm}
    if n:
        kept = [row for row in units if row["no_null_n"]]
        low, high = interval.nearest(*_clusters(kept, interval.cluster, "no_null_"))
        made |= {"no_null_effect_pp": 100 * (rescue - harm) / n, "no_null_ci_low_pp": low, "no_null_ci_high_pp": high}
    return made


def _clusters(units: Sequence[Mapping[str, Any]], cluster: str, prefix: str = "") -> tuple[np.ndarray, np.ndarray]:
    """Sum of effects and number of units of each cluster (`task` or `folder`), in the clusters' sorted order."""
    totals: dict[str, list[int]] = {}
    for row in units:
        total = totals.setdefault(row[cluster], [0, 0])
        total[0] += row[f"{prefix}rescue"] - row[f"{prefix}harm"]
        total[1] += row[f"{prefix}n"]
    pairs = np.array([totals[name] for name in sorted(totals)], dtype=np.int64)
    return pairs[:, 0], pairs[:, 1]


def groups(rows: Sequence[Any], keys: Sequence[str]) -> Iterator[list[Any]]:
    """Groups in order of first appearance; rows of a group need not be neighbours."""
    places: dict[tuple[Any, ...], int] = {}
    for row in rows:
        places.setdefault(tuple(row[key] for key in keys), len(places))
    ordered = sorted(rows, key=lambda row: places[tuple(row[key] for key in keys)])
    for _, group in groupby(ordered, key=lambda row: tuple(row[key] for key in keys)):
        yield list(group)


def opened_pairs(path: str | Path, needed: set[str]) -> "duckdb.DuckDBPyConnection":
    """A connection whose view `pairs` is the checked table, with nulls for optional columns that it lacks."""
    table = read_table(path, required=sorted(needed))
    table = table.select([name for name in table.column_names if name in {*needed, *_OPTIONAL}])
    outcomes = ("y0", "ym")  # checked below, value by value
    check_kinds(path, table.drop_columns(outcomes), SCHEMAS["pairs"], filled=needed.difference(outcomes))
    if len(table) == 0:
        raise BadInput(f"{path}: holds no rows; an effect needs at least one pair")
    for name in _OPTIONAL:
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(len(table), SCHEMAS["pairs"].field(name).type))
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.register("pairs", table)
    try:
        problems = connection.execute(sql("unusable")).fetchall()
    except duckdb.ConversionException as error:
        raise BadInput(f"{path}: y0 and ym must be booleans or 0 and 1 ({str(error).splitlines()[0]})") from error
    if problems:
        shown = "\n".join(
            "  " + " ".join(str(name) for name in names if name is not None) + f": {problem}"
            for problem, *names in problems[:SHOWN_PROBLEMS]
        )
        raise BadInput(f"{path}: {len(problems)} unit(s) can't be counted, the first:\n{shown}")
    return connection
