"""Figures and tables of the page's sections beyond the four cells: contrasts and overlap, and the router."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pipeline.report import contrast_tables, contrasts, curves, figures, router_figures, router_tables
from pipeline.report.drawing import Drawn, drawn
from pipeline.report.figures import Figure
from pipeline.report.inputs import Inputs, Row
from pipeline.report.tables import Table
from pipeline.report.treated import Key, Treated
from pipeline.router.model import MODELS


@dataclass(frozen=True)
class Section:
    """Drawings and tables that stand together."""

    drawings: Sequence[Drawn] = ()
    tables: Sequence[Table] = field(default_factory=list)


def contrast_section(inputs: Inputs, ghosts: Sequence[Row]) -> Section:
    """Altered less clean by delay, operators against each other, published rows beside the study's."""
    rows = contrasts.condition_contrasts(inputs)
    overlaps = contrasts.operator_overlaps(inputs)
    made, published = [], contrasts.published_contrasts(rows)
    for population in ("complete", "factual-success"):
        some, marks = (
            [row for row in part if row["cohort"] == inputs.fit_cohort and row["population"] == population]
            for part in (rows, published)
        )
        if some:
            words = "all feasible tasks" if population == "complete" else "tasks that succeed unaltered"
            series = [name for name in inputs.study.protocol.conditions if name != "clean"]
            title, name = f"altered less clean, {words}", f"contrasts-{inputs.fit_cohort}-{population}"
            chart = figures.effect_intervals(
                some, series, inputs.study.protocol.delays, domain([*some, *marks]), title, "condition", marks,
                "difference, points",
            )  # fmt: skip
            text = f"Effect of {inputs.study.router.operator} under each altered condition less its effect under clean, by delay."
            made.append(Figure(name, title, text, chart, some))
    tables = [contrast_tables.contrast_table(rows), contrast_tables.overlap_table(inputs, overlaps)]
    if ghosts:
        tables.append(contrast_tables.published_table(inputs, ghosts))
    return Section([drawn(figure) for figure in made], [table for table in tables if table.rows])


def router_section(inputs: Inputs, answers: Mapping[Key, Treated]) -> Section:
    """Differences and costs of the policies; with the router's tables also its curves, its models and whom it treats."""
    made = []
    if rows := router_tables.difference_rows(inputs):
        title = "cir less each other policy"
        text = "The router's success less each other policy's on the same episodes, with 95% intervals."
        made.append(Figure("policies-differences", title, text, router_figures.differences(rows, title), rows))
    if inputs.decisions:
        made += _curves(inputs)
    made.append(_coefficients(inputs))
    made += _costs(inputs)
    tables = [router_tables.difference_table(inputs), router_tables.cost_table(inputs)]
    if answers:
        tables.insert(1, router_tables.treated_table(inputs, answers))
    return Section([drawn(figure) for figure in made], [table for table in tables if table.rows])


def domain(rows: Sequence[Row]) -> tuple[float, float]:
    """From the lowest to the highest interval end, zero among them; one point to each side where all is zero."""
    ends = [row[name] for row in rows for name in ("ci_low_pp", "ci_high_pp", "effect_pp") if row[name] is not None]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    return (low, high) if low < high else (-1.0, 1.0)


def _curves(inputs: Inputs) -> list[Figure]:
    made = []
    if rows := curves.risk_gain(inputs):
        title = f"risk and gain on the fit cohort, out of fold (dashed: limit {100 * inputs.router.epsilon:g}%)"
        text = (
            "The most net gain that any thresholds buy with at most so much clean harm, and where the policies stand."
        )
        made.append(
            Figure("router-risk-gain", title, text, router_figures.risk_gain(rows, inputs.router.epsilon, title), rows)
        )
    if rows := curves.reliability(inputs):
        brier = {row["model"]: (row["brier"], row["brier_of_base_rate"]) for row in rows}
        title = "predicted and came true, out of fold (Brier score; in brackets that of the base rate)"
        text = "; ".join(
            f"{name}: Brier score {own:.3f}, of the base rate alone {base:.3f}" for name, (own, base) in brier.items()
        )
        made.append(Figure("router-reliability", title, text, router_figures.reliability(rows, MODELS, title), rows))
    return made


def _coefficients(inputs: Inputs) -> Figure:
    router = inputs.router
    largest = {
        name: max(abs(router.weights[model][1][place]) for model in MODELS) for place, name in enumerate(router.names)
    }
    rows = [
        {"feature": name.removeprefix("x_"), "model": model, "coefficient": router.weights[model][1][place]}
        for place, name in sorted(enumerate(router.names), key=lambda one: (-largest[one[1]], one[1]))
        for model in MODELS
    ]
    title, text = (
        "coefficients on scaled features",
        "Coefficients of the three logistic regressions by feature, largest first.",
    )
    return Figure("router-coefficients", title, text, router_figures.coefficients(rows, MODELS, title), rows)


def _costs(inputs: Inputs) -> list[Figure]:
    made = []
    curve = inputs.evaluation.get("cost_curve", [])
    for unit in dict.fromkeys(row["unit"] for row in curve):
        rows = [
            {name: row[name] for name in ("policy", "unit", "c", "value_pp")}
            | dict(zip(("ci_low_pp", "ci_high_pp"), row["ci95_pp"], strict=True))
            for row in curve
            if row["unit"] == unit
        ]
        if any(row["policy"] in router_figures.DRAWN for row in rows):
            title = f"value at a price of each {unit.replace('_', ' ')}"
            text = "Gain over never less the price of what each policy uses, along the price."
            made.append(
                Figure(f"policies-cost-{unit}", title, text, router_figures.cost_curve(rows, unit, title), rows)
            )
    return made
