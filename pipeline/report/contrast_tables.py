"""Tables of contrasts: stale less clean, operators against each other, the study beside the published figures."""

from collections.abc import Sequence

from pipeline.report.inputs import Inputs, Row
from pipeline.report.tables import Table
from pipeline.report.wording import p_text, population, signed, span


def contrast_table(rows: Sequence[Row]) -> Table:
    """Altered less clean by cohort, population, condition and delay."""
    return Table(
        "Effect under alteration less effect under clean",
        ["cohort", "tasks", "shown", "delay", "paired", "altered, points", "clean, points", "difference, points", "95% interval", "p"],
        [
            [row["cohort"], population(row["population"]), row["condition"], str(row["delay"]), str(row["n"])]
            + [signed(row[f"effect_{name}_pp"]) for name in ("condition", "versus")]
            + [signed(row["effect_pp"]), span(row["ci_low_pp"], row["ci_high_pp"]), p_text(row["sign_flip_p"])]
            for row in rows
        ],
        labels=3,
        grouped=True,
        note="Paired inside the tasks that have both; interval: bootstrap over tasks; p: exact sign-flip, unadjusted.",
    )  # fmt: skip


def overlap_table(inputs: Inputs, rows: Sequence[Row]) -> Table:
    """Who is rescued or harmed by both of two operators, or by one alone, on all tasks of the fit cohort."""
    names = ("both", "only_operator", "only_versus")
    return Table(
        f"Overlap of {inputs.study.router.operator} with the other operators, all tasks of {inputs.fit_cohort}",
        ["other", "shown", "delay", "rescued by both", "only by the first", "only by the other", "harmed by both", "only by the first", "only by the other", "difference, points", "95% interval"],
        [
            [row["versus_operator"], row["condition"], str(row["delay"])]
            + [str(row[f"{cell}_{name}"]) for cell in ("rescue", "harm") for name in names]
            + [signed(row["effect_pp"]), span(row["ci_low_pp"], row["ci_high_pp"])]
            for row in sorted(rows, key=lambda row: row["versus_operator"])
            if row["cohort"] == inputs.fit_cohort and row["population"] == "complete"
        ],
        labels=2,
        grouped=True,
        note=f"first: {inputs.study.router.operator}; difference: its effect less the other's, paired inside tasks, with a bootstrap interval.",
    )  # fmt: skip


def published_table(inputs: Inputs, ghosts: Sequence[Row]) -> Table:
    """The published effects whose keys the study has, and the study's beside them."""
    keys = ("cohort", "population", "condition", "delay", "operator")
    mine = {tuple(row[key] for key in keys): row for row in inputs.effects}
    rows = []
    for row in ghosts:
        own = mine[tuple(row[key] for key in keys)]
        low, high = row["ci_low_pp"], row["ci_high_pp"]
        rows.append(
            [
                row["cohort"],
                population(row["population"]),
                row["operator"],
                row["condition"],
                str(row["delay"]),
                str(row["n"]),
            ]
            + [signed(row["effect_pp"]), "–" if low is None else span(low, high), str(own["n"])]
            + [signed(own["effect_pp"]), span(own["ci_low_pp"], own["ci_high_pp"])]
        )
    return Table(
        "Published effects of the same names, and this study's",
        ["cohort", "tasks", "operator", "shown", "delay", "published n", "published, points", "95% interval", "n here", "here, points", "95% interval"],
        rows,
        labels=4,
        note="Published: arXiv 2610.00372. Agent, games and chance differ; the rows share the names of cohort, condition, delay and operator.",
    )  # fmt: skip
