"""Stale less clean by delay, what two operators share, and the published rows that the study has too."""

from collections.abc import Sequence
from typing import Any

from pipeline.outcomes.comparison import read_published
from pipeline.outcomes.effects import KEYS, Interval, contrast
from pipeline.outcomes.operators import operator_contrast
from pipeline.report.inputs import Inputs, Row


def condition_contrasts(inputs: Inputs) -> list[Row]:
    """Effect of the router's operator under each altered condition less its effect under clean, paired inside tasks.

    All cohorts and populations, with the study's resamples and seed; empty where the study never shows clean.
    """
    conditions = inputs.study.protocol.conditions
    if "clean" not in conditions:
        return []
    rows: list[Row] = []
    for condition in conditions:
        if condition != "clean":
            found = contrast(
                inputs.paths.pairs, condition, "clean", None, inputs.study.router.operator, _interval(inputs)
            )
            rows += found
    return rows


def operator_overlaps(inputs: Inputs) -> list[Row]:
    """For every other recovery: tasks that it and the router's operator rescue or harm, both or one alone."""
    mine, rows = inputs.study.router.operator, []
    for other in inputs.operators:
        if other not in (mine, "none"):
            rows += operator_contrast(inputs.paths.pairs, mine, other, None, None, _interval(inputs))
    return rows


def published_effects(inputs: Inputs) -> list[dict[str, Any]]:
    """Published effects whose keys the study has, with the columns of an effects row; null where not published."""
    have = {tuple(row[key] for key in KEYS): row for row in inputs.effects}
    rows = []
    for row in read_published()["effects"]:
        if tuple(row[key] for key in KEYS) not in have:
            continue
        low, high = row["ci95_pp"] or (None, None)
        effect, counts = row["effect_pp"], (row["rescue"], row["harm"])
        if effect is None and None not in counts:
            effect = 100 * (counts[0] - counts[1]) / row["n"]
        if effect is not None:
            names = {key: row[key] for key in (*KEYS, "n", "rescue", "harm")}
            rows.append(names | {"effect_pp": effect, "ci_low_pp": low, "ci_high_pp": high})
    return rows


def published_contrasts(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Published contrasts that stand among the study's `rows` (condition_contrasts)."""
    keys = ("cohort", "population", "condition", "versus", "delay", "operator")
    have = {tuple(row[key] for key in keys) for row in rows}
    made = []
    for row in read_published()["contrasts"]:
        if tuple(row[key] for key in keys) in have:
            low, high = row["ci95_pp"] or (None, None)
            made.append(
                {key: row[key] for key in keys} | {"effect_pp": row["effect_pp"], "ci_low_pp": low, "ci_high_pp": high}
            )
    return made


def _interval(inputs: Inputs) -> Interval:
    return Interval(inputs.study.statistics.resamples, inputs.study.statistics.seed)
