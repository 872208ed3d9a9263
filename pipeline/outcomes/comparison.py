"""A study's figures beside published ones, row by row. Differences are stated, never judged."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import BadInput
from pipeline.outcomes.effects import KEYS, Interval, contrast, effects
from pipeline.outcomes.operators import operator_contrast
from pipeline.records.files import read_json
from pipeline.records.printing import Column, interval, percent_points, print_csv, print_json, print_table
from pipeline.records.schemas import SCHEMAS
from pipeline.records.tables import check_kinds, read_table
from pipeline.statistics.bootstrap import exact_interval
from pipeline.statistics.independent import difference_interval, wilson_interval

Row = Mapping[str, Any]
_FIGURES = ("n", "rescue", "harm", "effect_pp", "ci_low_pp", "ci_high_pp")
# The published overlap stands without its cohort; it is the mechanism cohort's (its refresh row has the same 10 rescues).
_OVERLAP_IN = {"cohort": "mechanism", "population": "factual-success"}
_PAIRS_NEEDED = "needs the pairs table"


def compare(
    path: str | Path, published: str | Path | None = None, cohorts: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """One row per published effect, contrast and overlap, in the published order, with the study's row of equal keys.

    `path` is a pairs table (effects, contrasts and overlap are computed, with exact bootstrap intervals) or an effects
    table (only effects are there). `published` is a file like the package's own `published.json`, the default.
    `cohorts` maps published cohort names to the study's. `missing` says why the study has no such row. What a published
    row leaves out but its counts determine is computed and listed in `published_derived`. Raises BadInput.
    """
    wanted, cohorts = read_published(published), cohorts or {}
    known = {row["cohort"] for part in ("effects", "contrasts") for row in wanted[part]} | {_OVERLAP_IN["cohort"]}
    if unknown := [name for name in cohorts if name not in known]:
        raise BadInput(f"--cohort: no published cohort {', '.join(unknown)}; known are {', '.join(sorted(known))}")
    columns = read_table(path).schema.names
    if {"y0", "ym"} <= set(columns):
        pairs, rows = path, effects(path, KEYS, Interval(exact=True))
    elif {*KEYS, *_FIGURES} <= set(columns):
        table = read_table(path, columns=[*KEYS, *_FIGURES])
        check_kinds(path, table, SCHEMAS["effects"], filled=table.column_names)
        pairs, rows = None, table.to_pylist()
        counted = Counter(tuple(row[key] for key in KEYS) for row in rows)
        if twice := next((key for key, count in counted.items() if count > 1), None):
            raise BadInput(f"{path}: {' '.join(map(str, twice))} stands {counted[twice]} times; expected one row each")
    else:
        raise BadInput(f"{path}: is neither a pairs table (y0, ym) nor an effects table; it has {', '.join(columns)}")
    study = _Study(pairs, rows, cohorts)
    made = [_row("effect", one, study.effect(one)) for one in wanted["effects"]]
    made += [_row("contrast", one, study.contrast(one)) for one in wanted["contrasts"]]
    if overlap := wanted["mechanism_overlap"]:
        made.append(_overlap_row(overlap, study.overlap(overlap)))
    return made


class _Study:
    """The study's rows by key; each look-up gives a row, or the reason why there is none."""

    def __init__(self, pairs: str | Path | None, rows: Sequence[Row], cohorts: Mapping[str, str]) -> None:
        self.pairs, self.cohorts = pairs, cohorts
        self.rows = {tuple(row[key] for key in KEYS): row for row in rows}
        self.contrasts: dict[tuple[str, str], Sequence[Row] | str] = {}

    def effect(self, wanted: Row) -> Row | str:
        return self.rows.get((self.cohort(wanted), *(wanted[key] for key in KEYS[1:])), self.why(wanted))

    def contrast(self, wanted: Row) -> Row | str:
        if self.pairs is None:
            return _PAIRS_NEEDED
        both = (wanted["condition"], wanted["versus"])
        if both not in self.contrasts:
            there = {key[2] for key in self.rows}
            call = partial(contrast, self.pairs, *both, interval=Interval(exact=True))
            self.contrasts[both] = _rows_or_reason(call) if there >= {*both} else []
        return self.find(wanted, self.contrasts[both], ("population", "delay", "operator"))

    def overlap(self, wanted: Row) -> Row | str:
        if self.pairs is None:
            return _PAIRS_NEEDED
        moment = (wanted["condition"], wanted["delay"])
        there = {key[4] for key in self.rows if (key[2], key[3]) == moment}
        both = ("refresh", "content-ablated")
        call = partial(operator_contrast, self.pairs, *both, *moment)
        return self.find(wanted, _rows_or_reason(call) if there >= {*both} else [], ("population",))

    def find(self, wanted: Row, rows: Sequence[Row] | str, keys: Sequence[str]) -> Row | str:
        if isinstance(rows, str):
            return rows
        cohort = self.cohort(wanted)
        same = (row for row in rows if row["cohort"] == cohort and all(row[key] == wanted[key] for key in keys))
        return next(same, self.why(wanted))

    def cohort(self, wanted: Row) -> str:
        return self.cohorts.get(wanted["cohort"], wanted["cohort"])

    def why(self, wanted: Row) -> str:
        cohort = self.cohort(wanted)
        return "no such row" if any(key[0] == cohort for key in self.rows) else f"no cohort {cohort}"


def _rows_or_reason(call: Callable[[], Sequence[Row]]) -> Sequence[Row] | str:
    """The rows; where the table has no such contrast, why: the other rows can be compared all the same."""
    try:
        return call()
    except BadInput as error:
        return str(error)


def read_published(path: str | Path | None = None) -> dict[str, Any]:
    """Published figures: `source` and the three parts that are compared. Raises BadInput naming the file and the row."""
    where = path or Path(str(files("pipeline.outcomes").joinpath("published.json")))
    table = read_json(where)
    if not isinstance(table, dict):
        raise BadInput(f"{where}: expected an object with the keys effects, contrasts, mechanism_overlap")
    for name, extra in (("effects", ()), ("contrasts", ("versus",))):
        rows = table.setdefault(name, [])
        for place, row in enumerate(rows if isinstance(rows, list) else [rows]):
            if not (isinstance(rows, list) and isinstance(row, dict) and _usable(row, (*KEYS, *extra))):
                raise BadInput(
                    f"{where}: {name}[{place}]: expected {', '.join((*KEYS, *extra))}, n, and counts of at most n, a number "
                    "effect_pp and two numbers ci95_pp, or null for each"
                )
    overlap = table.setdefault("mechanism_overlap", None)
    counts = ("rescued_by_refresh", "also_rescued_by_content_ablated")
    if overlap is not None:
        if not (isinstance(overlap, dict) and {"condition", "delay", *counts} <= set(overlap)):
            raise BadInput(f"{where}: mechanism_overlap: expected condition, delay, {', '.join(counts)}")
        table["mechanism_overlap"] = _OVERLAP_IN | overlap
    return table


def _usable(row: Row, keys: Sequence[str]) -> bool:
    counts = [row.get(name) or 0 for name in ("n", "rescue", "harm")]
    numbers = [row.get("effect_pp") or 0, *(row.get("ci95_pp") or [0, 0])]
    return (
        all(key in row for key in keys)
        and all(type(count) is int and count >= 0 for count in counts)
        and 0 < counts[0] >= counts[1] + counts[2]
        and len(numbers) == 3
        and all(type(number) in (int, float) for number in numbers)
    )


def _row(kind: str, wanted: Row, found: Row | str) -> dict[str, Any]:
    low, high = wanted.get("ci95_pp") or (None, None)
    figures = {name: wanted.get(name) for name in _FIGURES[:4]} | {"ci_low_pp": low, "ci_high_pp": high}
    derived = []
    if kind == "effect" and figures["rescue"] is not None and figures["harm"] is not None:
        n, rescue, harm = (figures[name] for name in ("n", "rescue", "harm"))
        if figures["effect_pp"] is None:
            figures["effect_pp"] = 100 * (rescue - harm) / n
            derived.append("effect_pp")
        if low is None:
            ends = exact_interval(np.array([1] * rescue + [-1] * harm + [0] * (n - rescue - harm)))
            figures["ci_low_pp"], figures["ci_high_pp"] = (100 * end for end in ends)
            derived.append("ci95_pp")
    return _beside(kind, wanted, wanted.get("versus"), figures, derived, found)


def _overlap_row(wanted: Row, found: Row | str) -> dict[str, Any]:
    """Of those rescued by refresh, how many content-ablated rescues too; the `effect` is that share in percent."""
    rescue, both = wanted["rescued_by_refresh"], wanted["also_rescued_by_content_ablated"]
    figures = {"rescue": rescue, "both": both, "effect_pp": 100 * both / rescue if rescue else None}
    if not isinstance(found, str):
        both = found["rescue_both"]
        rescue = both + found["rescue_only_operator"]
        found = {"cohort": found["cohort"], "n": found["n"], "rescue": rescue, "both": both}
        found |= {"effect_pp": 100 * both / rescue if rescue else None}
    return _beside("overlap", {**wanted, "operator": "refresh"}, "content-ablated", figures, [], found)


def _beside(
    kind: str, wanted: Row, versus: str | None, figures: Row, derived: Sequence[str], found: Row | str
) -> dict[str, Any]:
    names = ("n", "rescue", "harm", "both", "effect_pp", "ci_low_pp", "ci_high_pp")
    study: Row = {} if isinstance(found, str) else found
    effects_pp = (study.get("effect_pp"), figures["effect_pp"])
    low, high = _difference_ends(kind, study, figures)
    return {
        "kind": kind,
        **{key: wanted[key] for key in KEYS},
        "versus": versus,
        **{f"published_{name}": figures.get(name) for name in names},
        "published_derived": " ".join(derived) or None,
        "study_cohort": study.get("cohort"),
        **{f"study_{name}": study.get(name) for name in names},
        "difference_pp": None if None in effects_pp else effects_pp[0] - effects_pp[1],
        "difference_ci_low_pp": low,
        "difference_ci_high_pp": high,
        "missing": found if isinstance(found, str) else None,
    }


def _difference_ends(kind: str, study: Row, published: Row) -> tuple[float | None, float | None]:
    """95% interval of study less published, the two as independent samples; nulls where one has no interval.

    Effects and contrasts: from the two bootstrap intervals. Shares of an overlap: from their counts' score intervals.
    """
    both = []
    for row in (study, published):
        if kind == "overlap":
            ends = (
                [100 * end for end in wilson_interval(row["both"], row["rescue"])] if row.get("rescue") else [None] * 2
            )
        else:
            ends = [row.get("ci_low_pp"), row.get("ci_high_pp")]
        both += [row.get("effect_pp"), (ends[0], ends[1])]
    if any(value is None for value in (both[0], *both[1], both[2], *both[3])):
        return None, None
    return difference_interval(*both)


def print_comparison(rows: Sequence[Row], form: str) -> None:
    """Print a comparison; in a table each row takes three lines: the published one, the study's and their difference."""
    if form != "table":
        print_json(rows) if form == "json" else print_csv(rows)
        return
    missing = Counter(row["missing"] for row in rows if row["missing"])
    note = (
        "difference: study less published, percentage points; the two differ in agent,\n"
        "games and chance. Its interval takes them as independent samples.\n"
        "*: computed from the published counts."
    )
    if missing:
        listed = "; ".join(f"{reason}: {count}" for reason, count in missing.items())
        note += f"\nRows that the study lacks ({sum(missing.values())} of {len(rows)}): {listed}."
    titles = list(dict.fromkeys(_title(row) for row in rows))
    for title in titles:
        group = [row for row in rows if _title(row) == title]
        lines = [line for row in group for line in _lines(row)]
        print_table(title, _columns(group[0]["kind"]), lines, note if title == titles[-1] else "")


def _title(row: Row) -> str:
    parts = [row["cohort"], row["population"], row["operator"]]
    if row["kind"] == "contrast":
        parts.append(f"{row['condition']} less {row['versus']}")
    if row["kind"] == "overlap":
        parts[2] = "rescued by refresh, and by content-ablated too"
    return " · ".join(parts)


def _columns(kind: str) -> list[Column]:
    shown = {
        "effect": ("condition", "d", "of", "n", "rescue", "harm", "effect", "95% interval"),
        "contrast": ("d", "of", "n", "contrast", "95% interval"),
        "overlap": ("condition", "d", "of", "rescue", "both", "share, %", "95% interval"),
    }[kind]
    keys = {"contrast": "effect", "share, %": "effect"}
    return [(name if name != "of" else "", itemgetter(keys.get(name, name))) for name in shown]


def _lines(row: Row) -> list[dict[str, str]]:
    made = []
    derived = (row["published_derived"] or "").split()
    for whose in ("published", "study"):
        effect, low, high = (row[f"{whose}_{name}"] for name in ("effect_pp", "ci_low_pp", "ci_high_pp"))
        star = {name: "*" if whose == "published" and name in derived else "" for name in ("effect_pp", "ci95_pp")}
        counts = {name: row[f"{whose}_{name}"] for name in ("n", "rescue", "harm", "both")}
        made.append(
            {name: "-" if count is None else str(count) for name, count in counts.items()}
            | {
                "condition": row["condition"] if whose == "published" else "",
                "d": str(row["delay"]) if whose == "published" else "",
                "of": whose,
                "effect": "-" if effect is None else percent_points(effect) + star["effect_pp"],
                "95% interval": "-" if low is None or high is None else interval(low, high) + star["ci95_pp"],
            }
        )
    if row["difference_pp"] is not None:
        low, high = row["difference_ci_low_pp"], row["difference_ci_high_pp"]
        made.append(
            dict.fromkeys(("n", "rescue", "harm", "both", "condition", "d"), "")
            | {"of": "difference", "effect": percent_points(row["difference_pp"])}
            | {"95% interval": "-" if low is None else interval(low, high)}
        )
    return made
