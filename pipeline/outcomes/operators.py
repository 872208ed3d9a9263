"""Contrasts between two operators at the same moment, and who is rescued or harmed by both (protocol.md section 4)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.errors import BadInput
from pipeline.outcomes.effects import Interval, groups, opened_pairs
from pipeline.outcomes.pairing import sql
from pipeline.statistics.paired import sign_flip_exact

OVERLAP = ("both", "only_operator", "only_versus", "neither")


def operator_contrast(
    path: str | Path,
    operator: str,
    versus_operator: str,
    condition: str | None = None,
    delay: int | None = None,
    interval: Interval | None = None,
) -> list[dict[str, Any]]:
    """Effect of `operator` less effect of `versus_operator`, paired inside the tasks that have both at that moment.

    One row per (cohort, population, condition, delay): both effects, their difference with its interval (percentage
    points), the exact sign-flip p over clusters, and the overlap counts. `rescue_*` split the tasks that fail without
    recovery into those rescued by both, by one only, by neither; `harm_*` those that succeed likewise: the eight counts
    add up to `n`. Raises BadInput for missing columns, where no task has both operators, and where a task's outcome
    without recovery differs between the two (operators at one moment share their trunk).
    """
    interval = interval or Interval()
    if operator == versus_operator:
        raise BadInput(f"--operator and --versus-operator are both {operator}; a contrast needs two operators")
    needed = {"task", "y0", "ym", "operator", *(["folder"] if interval.cluster == "folder" else [])}
    needed |= {name for name, value in (("condition", condition), ("delay", delay)) if value is not None}
    with opened_pairs(path, needed) as connection:
        known = connection.sql("SELECT factual_success IS NOT NULL FROM pairs LIMIT 1").fetchall()[0][0]
        settings = {
            "operator": pa.array([operator], pa.string()),
            "versus_operator": pa.array([versus_operator], pa.string()),
            "condition": pa.array([condition], pa.string()),
            "delay": pa.array([delay], pa.int64()),
            "by_population": pa.array([bool(known)]),
            "by_folder": pa.array([interval.cluster == "folder"]),
        }
        connection.register("operator_settings", pa.table(settings))
        units = connection.sql(sql("operators")).to_arrow_table().to_pylist()
        found = connection.sql("SELECT DISTINCT condition, delay, operator FROM pairs ORDER BY ALL").fetchall()
    if not units:
        have = [sorted({str(row[place]) for row in found}) for place in range(3)]
        raise BadInput(
            f"{path}: no task has both {operator} and {versus_operator}"
            + (f" in condition {condition}" if condition is not None else "")
            + (f" at delay {delay}" if delay is not None else "")
            + f"; it holds conditions {', '.join(have[0])}, delays {', '.join(have[1])}, operators {', '.join(have[2])}"
        )
    if apart := [row for row in units if row["y0"] != row["y0_versus"]]:
        raise BadInput(
            f"{path}: y0 of {apart[0]['task']} (condition {apart[0]['condition']}, delay {apart[0]['delay']}) differs "
            f"between {operator} and {versus_operator}; operators at one moment share the outcome without recovery: "
            "pair both with the same trunk"
        )
    keys = ("cohort", "population", "condition", "delay")
    return [_contrast(rows, operator, versus_operator, interval) for rows in groups(units, keys)]


def _contrast(
    rows: Sequence[Mapping[str, Any]], operator: str, versus_operator: str, interval: Interval
) -> dict[str, Any]:
    clusters = [
        (sum(row["ym"] - row["ym_versus"] for row in group), len(group)) for group in groups(rows, ("cluster",))
    ]
    sums, sizes = (np.array(part, dtype=np.int64) for part in zip(*clusters, strict=True))
    low, high = interval.of(sums, sizes)
    effects = [100 * sum(row[name] - row["y0"] for row in rows) / len(rows) for name in ("ym", "ym_versus")]
    return {
        "cohort": rows[0]["cohort"],
        "population": rows[0]["population"],
        "condition": rows[0]["condition"],
        "delay": rows[0]["delay"],
        "operator": operator,
        "versus_operator": versus_operator,
        "n": len(rows),
        "effect_operator_pp": effects[0],
        "effect_versus_pp": effects[1],
        "effect_pp": 100 * int(sums.sum()) / len(rows),
        "ci_low_pp": low,
        "ci_high_pp": high,
        "sign_flip_p": sign_flip_exact(sums),
        **_overlap(rows, "rescue", y0=0),
        **_overlap(rows, "harm", y0=1),
    }


def _overlap(rows: Sequence[Mapping[str, Any]], name: str, y0: int) -> dict[str, int]:
    """Of the tasks with this outcome without recovery: how many both, one, or no operator turned."""
    turned = [(row["ym"] != y0, row["ym_versus"] != y0) for row in rows if row["y0"] == y0]
    patterns = ((True, True), (True, False), (False, True), (False, False))
    return {f"{name}_{which}": turned.count(pattern) for which, pattern in zip(OVERLAP, patterns, strict=True)}
