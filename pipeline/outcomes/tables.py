"""How effects and contrasts are printed: JSON, CSV, or tables of at most 80 columns."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from pipeline.outcomes.operators import OVERLAP
from pipeline.records.printing import (
    Column,
    interval,
    p_value,
    percent_points,
    print_csv,
    print_json,
    print_table,
)

Row = Mapping[str, Any]


def print_effects(rows: Sequence[Row], by: Sequence[str], form: str) -> None:
    """Print effects; a table has one section per (cohort, population, operator), as far as they are keys."""
    columns: list[Column] = [
        (name, lambda row, name=name: str(row[name])) for name in ("condition", "delay") if name in by
    ]
    columns = [("d" if heading == "delay" else heading, cell) for heading, cell in columns] or [("", lambda row: "all")]
    columns += [
        ("n", lambda row: str(row["n"])),
        ("rescue", lambda row: str(row["rescue"])),
        ("harm", lambda row: str(row["harm"])),
        ("kept", lambda row: str(row["kept_success"])),
        ("fail", lambda row: str(row["unchanged_failure"])),
        ("effect", lambda row: percent_points(row["effect_pp"])),
        ("95% interval", _interval),
        ("p", lambda row: p_value(row["mcnemar_p"] if row["n"] == row["tasks"] else row["sign_flip_p"])),
        ("Holm", lambda row: p_value(row["holm_p"])),
        ("A/A", lambda row: "-" if row["aa_flip_rate"] is None else f"{100 * row['aa_flip_rate']:.0f}%"),
    ]
    if form == "table" and any(row.get("operator", "none") != "none" for row in rows):
        # The A/A arm's flips stand in the column A/A of every recovery; JSON and CSV hold its own rows too.
        rows = [row for row in rows if row["operator"] != "none"]
    pooled = any(row["n"] != row["tasks"] for row in rows)
    note = "n: paired units, several a task; effect: percentage points of n; p: sign-flip"
    _print(
        rows,
        form,
        [key for key in ("cohort", "population", "operator") if key in by],
        columns,
        note if pooled else _NOTE,
    )


_NOTE = "effect: percentage points; p: exact McNemar; A/A: flips when left alone"


def print_sensitivities(rows: Sequence[Row], by: Sequence[str]) -> None:
    """Print the table of sensitivities: the interval over folders, and the rows without null alterations."""
    columns: list[Column] = [
        ("d" if name == "delay" else name, lambda row, name=name: str(row[name]))
        for name in ("condition", "delay")
        if name in by
    ] or [("", lambda row: "all")]
    columns += [
        ("n", lambda row: str(row["n"])),
        ("effect", lambda row: percent_points(row["effect_pp"])),
        ("over folders", lambda row: _known_interval(row["ci_folder_low_pp"], row["ci_folder_high_pp"])),
        ("altered", lambda row: "-" if row["no_null_n"] is None else str(row["no_null_n"])),
        ("effect", lambda row: "-" if row["no_null_effect_pp"] is None else percent_points(row["no_null_effect_pp"])),
        ("95% interval", lambda row: _known_interval(row["no_null_ci_low_pp"], row["no_null_ci_high_pp"])),
    ]
    rows = [row for row in rows if row.get("operator") != "none"] or rows
    note = "over folders: 95% interval, folders drawn; altered: units whose text was altered"
    _print(rows, "table", [key for key in ("cohort", "population", "operator") if key in by], columns, note)


def _known_interval(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else interval(low, high)


def print_contrast(rows: Sequence[Row], form: str) -> None:
    """Print contrasts; a table has one section per (cohort, population, operator)."""
    columns: list[Column] = [
        ("d", lambda row: "all" if row["delay"] is None else str(row["delay"])),
        ("tasks", lambda row: str(row["n"])),
        (rows[0]["condition"], lambda row: percent_points(row["effect_condition_pp"])),
        (rows[0]["versus"], lambda row: percent_points(row["effect_versus_pp"])),
        ("difference", lambda row: percent_points(row["effect_pp"])),
        ("95% interval", _interval),
        ("sign-flip p", lambda row: p_value(row["sign_flip_p"])),
    ]
    _print(rows, form, ["cohort", "population", "operator"], columns, "percentage points, paired inside tasks")


def print_operator_contrast(rows: Sequence[Row], form: str) -> None:
    """Print contrasts between operators, and under them, in a table, who was rescued and harmed by both."""
    first, second = rows[0]["operator"], rows[0]["versus_operator"]
    moment: list[Column] = [
        ("condition", lambda row: row["condition"] or "all"),
        ("d", lambda row: "all" if row["delay"] is None else str(row["delay"])),
    ]
    columns: list[Column] = [
        *moment,
        ("tasks", lambda row: str(row["n"])),
        ("first", lambda row: percent_points(row["effect_operator_pp"])),
        ("second", lambda row: percent_points(row["effect_versus_pp"])),
        ("difference", lambda row: percent_points(row["effect_pp"])),
        ("95% interval", _interval),
        ("sign-flip p", lambda row: p_value(row["sign_flip_p"])),
    ]
    names = f"first: {first}; second: {second}"
    _print(rows, form, ["cohort", "population"], columns, f"{names}; percentage points, paired inside tasks")
    if form != "table":
        return
    overlap: list[Column] = [
        *moment,
        ("turned", lambda row: row["turned"]),
        ("of", lambda row: str(sum(row[f"{row['turned']}_{name}"] for name in OVERLAP))),
    ]
    overlap += [
        (name.replace("_", " ").replace("operator", "first").replace("versus", "second"), partial(_turned, name=name))
        for name in OVERLAP
    ]
    doubled = [{**row, "turned": cell} for row in rows for cell in ("rescue", "harm")]
    note = f"{names}; of: tasks that fail (rescue) or succeed (harm) without either"
    _print(doubled, form, ["cohort", "population"], overlap, note)


def _turned(row: Row, name: str) -> str:
    return str(row[f"{row['turned']}_{name}"])


def _interval(row: Row) -> str:
    return interval(row["ci_low_pp"], row["ci_high_pp"])


def _print(rows: Sequence[Row], form: str, sections: Sequence[str], columns: Sequence[Column], note: str) -> None:
    if form == "json":
        print_json(rows)
        return
    if form == "csv":
        print_csv(rows)
        return
    groups = [list(group) for _, group in groupby(rows, key=lambda row: tuple(row[key] for key in sections))]
    for place, group in enumerate(groups):
        title = " · ".join(str(group[0][key]) for key in sections if group[0][key] is not None)
        print_table(title or "all", columns, group, note if place == len(groups) - 1 else "")
