"""How an evaluation is printed: tables of at most 80 columns out of evaluation/summary.json."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from pipeline.evaluation.costs import THOUSAND, UNITS, prices
from pipeline.records.printing import Column, interval, p_value, percent_points, print_table

Row = Mapping[str, Any]
_HEADINGS = {"intervention": "acts", "look": "looks", "turn": "turns", "action": "actions"}
_HEADINGS |= {"prompt_token": "prompt", "completion_token": "compl."}

_UNITS_NOTE = (
    "acts: interventions; looks: actions an operator takes itself; turns, actions: of\n"
    "whole episodes; prompt, compl.: tokens after the fork; n/a: not counted"
)


def print_policies(summary: Mapping[str, Any]) -> None:
    """Print the policies, cir beside each other policy, and cir by condition."""
    figures: list[Column] = [
        ("success", lambda row: f"{row['success_rate']:.2f}%"),
        ("gain", lambda row: percent_points(row["gain_pp"])),
        ("95% interval", lambda row: interval(*row["ci95_pp"])),
        ("resc", lambda row: _count(row["rescue"])),
        ("harm", lambda row: _count(row["harm"])),
        ("acts", lambda row: _count(row["interventions"])),
        ("p", lambda row: p_value(row["sign_flip_p"])),
    ]
    have, wanted = summary["evaluable"], summary["planned"]
    print_table(
        f"Policies on {have['tasks']} held-out tasks, {have['episodes']} of {wanted['episodes']} planned episodes",
        [_POLICY, *figures],
        summary["policies"],
    )
    cir = next(row for row in summary["policies"] if row["policy"] == "cir")
    note = "gain over never: percentage points of episodes; p: exact sign-flip of tasks"
    if cir["clean_harm_rate"] is not None:
        note += f"\ncir: clean harm {cir['clean_harm_rate']:.2f}%, at 95% at most {cir['clean_harm_upper95']:.2f}%"
    pairs = [row for row in summary["differences"] if "cir" in (row["policy"], row["versus"])]
    compared: list[Column] = [
        ("policies", lambda row: f"{row['policy']} - {row['versus']}"),
        ("points", lambda row: percent_points(row["difference_pp"])),
        ("95% interval", lambda row: interval(*row["ci95_pp"])),
        ("+", lambda row: _count(row["better"])),
        ("-", lambda row: _count(row["worse"])),
        ("p", lambda row: p_value(row["sign_flip_p"])),
    ]
    print_table(
        "cir and each other policy on the same episodes",
        compared,
        pairs,
        "+, -: episodes that only the first, only the second ends well; random: expectations",
    )
    print_table("cir by condition", [("condition", lambda row: row["condition"]), *figures], cir["by_condition"], note)


def print_costs(summary: Mapping[str, Any]) -> None:
    """Print what each policy used more than never: for an episode, for a net rescue, turns with intervals; then values."""
    costs = {(row["policy"], row["unit"]): row for row in summary["costs"]}
    policies = [{"policy": row["policy"]} for row in summary["policies"]]

    def cell(row: Row, unit: str, name: str) -> str:
        value = costs[row["policy"], unit][name]
        if value is not None:
            return f"{value:.1f}" if unit in THOUSAND else f"{value:.3f}" if name == "per_episode" else f"{value:.2f}"
        return "-" if costs[row["policy"], unit]["total"] is not None else "n/a"

    for title, name, note in (
        (
            "Used more than never, an episode",
            "per_episode",
            _UNITS_NOTE,
        ),
        ("Used more than never, a net rescue", "per_net_rescue", "-: rescues do not exceed harms"),
    ):
        columns = [(_HEADINGS[unit], partial(cell, unit=unit, name=name)) for unit in UNITS]
        print_table(title, [_POLICY, *columns], policies, note)

    def ends(row: Row, unit: str) -> str:
        found = costs[row["policy"], unit]["ci95"]
        return "n/a" if found is None else interval(*found)

    print_table(
        "Used more than never, an episode: 95% intervals over tasks",
        [_POLICY, *[(_HEADINGS[unit], partial(ends, unit=unit)) for unit in ("intervention", "turn", "action")]],
        policies,
    )
    values = {(row["policy"], row["unit"], row["c"]): row["value_pp"] for row in summary["cost_curve"]}

    def value(row: Row, unit: str, price: float) -> str:
        return percent_points(values[row["policy"], unit, price])

    for unit in UNITS:
        known = [row for row in policies if (row["policy"], unit, 0.0) in values]
        if not known:
            continue
        many = 1000 if unit in THOUSAND else 1
        grid: list[Column] = [(f"{price * many:g}", partial(value, unit=unit, price=price)) for price in prices(unit)]
        what = f"{'1000 ' if many > 1 else ''}{unit.replace('_', ' ')}{'s' if many > 1 else ''}"
        note = "c in successes; percentage points of episodes" if unit == UNITS[-1] or unit == "action" else ""
        print_table(f"Gain less c for each {what}, by c", [_POLICY, *grid], known, note)


_POLICY: Column = ("policy", lambda row: row["policy"])


def _count(value: float) -> str:
    """A count; of an expectation one decimal."""
    return str(value) if isinstance(value, int) else f"{value:.1f}"
