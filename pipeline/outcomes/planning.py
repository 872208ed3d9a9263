"""Planning a study and reading a pilot: `cir power`, `cir gate`."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.errors import BadInput
from pipeline.outcomes.effects import Interval, effects
from pipeline.records.printing import Column, print_csv, print_json, print_table
from pipeline.statistics.gate import gate
from pipeline.statistics.power import LARGEST, clean_tasks_needed, mcnemar_power, tasks_needed

_COUNTS = re.compile(r"(\d{1,9})/(\d{1,9})")


def counts(text: str, option: str) -> tuple[int, int]:
    """`17/106` as (17, 106). Raises BadInput that names the option."""
    found = _COUNTS.fullmatch(text.strip())
    if not found or int(found[1]) > int(found[2]):
        raise BadInput(f"{option}: expected a count of a total such as 17/106, found {text!r}")
    return int(found[1]), int(found[2])


def rate(text: str, option: str) -> float:
    """A share such as 0.16 or 17/106. Raises BadInput that names the option."""
    if "/" in text:
        count, total = counts(text, option)
        if total:
            return count / total
    else:
        try:
            if 0 <= (share := float(text)) <= 1:
                return share
        except ValueError:
            pass
    raise BadInput(f"{option}: expected a share of tasks such as 0.16 or 17/106, found {text!r}")


def plan(
    rescue: float | None, harm: float | None, power: float, alpha: float, tasks: int | None,
    epsilon: float | None, confidence: float, harms: int,
) -> dict[str, Any]:  # fmt: skip
    """What a study of these rates needs. Keys of an unasked part (no rates, no epsilon) are null. Raises BadInput."""
    made: dict[str, Any] = {
        "rescue_rate": rescue, "harm_rate": harm, "effect_pp": None, "alpha": alpha, "power": power,
        "tasks_needed": None, "power_at_tasks_needed": None, "tasks": tasks, "power_at_tasks": None,
        "epsilon": epsilon, "confidence": confidence, "clean_harms": harms, "clean_tasks_needed": None,
    }  # fmt: skip
    try:
        if rescue is not None and harm is not None:
            needed = tasks_needed(rescue, harm, power, alpha)
            made["effect_pp"], made["tasks_needed"] = 100 * (rescue - harm), needed
            made["power_at_tasks_needed"] = None if needed is None else mcnemar_power(needed, rescue, harm, alpha)
            made["power_at_tasks"] = None if tasks is None else mcnemar_power(tasks, rescue, harm, alpha)
        if epsilon is not None:
            made["clean_tasks_needed"] = clean_tasks_needed(epsilon, confidence, harms)
    except ValueError as error:
        raise BadInput(str(error)) from error
    return made


def print_plan(row: Mapping[str, Any], form: str) -> None:
    """Print a plan as JSON (one object), CSV (one line) or a table of what was asked and what follows."""
    if form != "table":
        print_json(row) if form == "json" else print_csv([row])
        return
    lines: list[tuple[str, str]] = []
    if row["rescue_rate"] is not None:
        lines += [
            ("rescue rate, harm rate", f"{100 * row['rescue_rate']:.2f}%, {100 * row['harm_rate']:.2f}%"),
            ("effect, percentage points", f"{row['effect_pp']:+.2f}"),
            (f"tasks for power {row['power']:g} at alpha {row['alpha']:g}", _many(row["tasks_needed"])),
        ]
        if row["tasks"] is not None:
            lines.append((f"power with {row['tasks']:,} tasks", f"{row['power_at_tasks']:.3f}"))
    if row["epsilon"] is not None:
        what = f"clean harm <= {100 * row['epsilon']:g}% at {100 * row['confidence']:g}%, {row['clean_harms']} harmed"
        lines.append((f"clean tasks for {what}", _many(row["clean_tasks_needed"])))
    columns: list[Column] = [("quantity", lambda line: line["name"]), ("value", lambda line: line["value"])]
    note = "exact two-sided McNemar test; tasks taken as independent, one unit each"
    print_table("plan", columns, [{"name": name, "value": value} for name, value in lines], note)


def gates(path: str | Path, by: Sequence[str], confidence: float, failure_rate: float | None) -> list[dict[str, Any]]:
    """The gate of each group of a pairs table that holds one unit a task. Raises BadInput otherwise."""
    made = []
    for row in effects(path, by, Interval(resamples=100)):
        if row["n"] != row["tasks"]:
            raise BadInput(
                f"--by: a row holds {row['n']} units of {row['tasks']} tasks; a binomial interval needs one unit a task: "
                "keep condition, delay and operator in --by, or narrow the table"
            )
        if row.get("operator") == "none":
            continue
        failed, succeeded = row["rescue"] + row["unchanged_failure"], row["harm"] + row["kept_success"]
        keys = {key: row[key] for key in by}
        made.append(keys | gate_row(row["rescue"], failed, row["harm"], succeeded, confidence, failure_rate))
    if not made:
        raise BadInput(f"{path}: holds only the A/A arm (operator none); a gate needs a recovery")
    return made


def gate_row(
    rescues: int, failed: int, harms: int, succeeded: int, confidence: float, failure_rate: float | None
) -> dict[str, Any]:
    """One row of `cir gate`. Without a failure rate the pilot's own, with its interval. Raises BadInput without episodes."""
    if failed + succeeded == 0:
        raise BadInput("--rescue, --harm: no episode at all; expected counts such as --rescue 9/30 --harm 2/45")
    made = gate(rescues, failed, harms, succeeded, confidence)
    if failure_rate is None:
        share = failed / (failed + succeeded)
        verdict, ends = made.at_home()
    else:
        share, ends = failure_rate, (failure_rate, failure_rate)
        verdict = made.at(*ends)
    return {
        "n": failed + succeeded, "failed": failed, "rescue": rescues, "succeeded": succeeded, "harm": harms,
        "confidence": confidence,
        "rescue_rate": made.rescue_rate,
        "rescue_low": made.rescue_interval[0], "rescue_high": made.rescue_interval[1],
        "harm_rate": made.harm_rate,
        "harm_low": made.harm_interval[0], "harm_high": made.harm_interval[1],
        "threshold": made.threshold,
        "threshold_low": made.threshold_interval[0], "threshold_high": made.threshold_interval[1],
        "failure_rate": share, "failure_rate_low": ends[0], "failure_rate_high": ends[1], "recovering": verdict,
    }  # fmt: skip


def print_gates(rows: Sequence[Mapping[str, Any]], by: Sequence[str], form: str) -> None:
    """Print gates; a table has one section per (cohort, population, operator), as far as they are keys."""
    if form != "table":
        print_json(rows) if form == "json" else print_csv(rows)
        return
    columns: list[Column] = [
        ("d" if key == "delay" else key, lambda row, key=key: str(row[key]))
        for key in ("condition", "delay")
        if key in by
    ] or [("", lambda row: "pilot")]
    columns += [
        ("rescued", lambda row: f"{row['rescue']}/{row['failed']}"),
        ("r, %", lambda row: _percents(row["rescue_low"], row["rescue_high"], 0)),
        ("harmed", lambda row: f"{row['harm']}/{row['succeeded']}"),
        ("d, %", lambda row: _percents(row["harm_low"], row["harm_high"], 1)),
        ("gate, %", lambda row: _percents(row["threshold_low"], row["threshold_high"], 0)),
        ("f, %", lambda row: f"{100 * row['failure_rate']:.1f}"),
        ("recover", lambda row: row["recovering"]),
    ]
    sections = [key for key in ("cohort", "population", "operator") if key in by]
    at = "that f" if rows[0]["failure_rate_low"] == rows[0]["failure_rate_high"] else "its own f, uncertain too"
    note = (
        f"r, d: {100 * rows[0]['confidence']:g}% intervals that hold together; gate: their d / (r + d)\n"
        "recover: gains where f, the share that fails alone, lies above the gate, loses\n"
        f"below it; open: the pilot leaves both possible at {at}"
    )
    titles = list(dict.fromkeys(tuple(row[key] for key in sections) for row in rows))
    for title in titles:
        group = [row for row in rows if tuple(row[key] for key in sections) == title]
        print_table(" · ".join(map(str, title)) or "gate", columns, group, note if title == titles[-1] else "")


def _percents(low: float, high: float, decimals: int) -> str:
    return f"[{100 * low:.{decimals}f}, {100 * high:.{decimals}f}]"


def _many(count: int | None) -> str:
    return f"more than {LARGEST:,}" if count is None else f"{count:,}"
