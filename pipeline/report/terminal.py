"""What `cir report` prints: rescues and harms of the fit cohort, the policies, where the page stands."""

from collections.abc import Sequence
from typing import Any

from pipeline.outcomes.tables import print_effects
from pipeline.records.printing import Column, interval, p_value, percent_points, print_json, print_table
from pipeline.report.answer import clean_row
from pipeline.report.inputs import Inputs, Row
from pipeline.report.wording import number

NOTE = "gain: points over never; +/-: rescues/harms; clean: harms of clean episodes"


def print_summary(inputs: Inputs, page: str, form: str) -> None:
    """Print as tables of at most 80 columns, or as one JSON object with the rows as they are."""
    effects = inputs.effects_of(inputs.fit_cohort, "complete", inputs.study.router.operator)
    if form == "json":
        summary: dict[str, Any] = {
            "study": inputs.study.study,
            "effects": effects,
            "policies": inputs.policies,
            "page": page,
        }
        print_json(summary)
        return
    print_effects(effects, ("cohort", "population", "condition", "delay", "operator"), "table")
    print_policies(inputs.policies)
    print(f"report: {page}")


def print_policies(policies: Sequence[Row]) -> None:
    """Policies on held-out tasks."""
    columns: list[Column] = [
        ("policy", lambda row: row["policy"][:22]),
        ("gain", lambda row: percent_points(row["gain_pp"])),
        ("95% interval", lambda row: interval(*row["ci95_pp"])),
        ("+/-", lambda row: f"{number(row['rescue'])}/{number(row['harm'])}"),
        ("acts", lambda row: number(row["interventions"])),
        ("clean", lambda row: f"{number(clean['harm'])}/{clean['tasks']}" if (clean := clean_row(row)) else "-"),
        ("p", lambda row: p_value(row["sign_flip_p"])),
    ]
    tasks, episodes = policies[0]["tasks"], policies[0]["episodes"]
    print_table(f"policies on {tasks} held-out tasks, {episodes} episodes", columns, policies, NOTE)
