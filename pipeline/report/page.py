"""The page: one HTML file with its style and drawings inside, and the drawings and their data as files beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.records.files import write_text
from pipeline.report import figures, tables
from pipeline.report.answer import answer, clean_row
from pipeline.report.contrasts import published_effects
from pipeline.report.drawing import Drawn, csv_text, drawn
from pipeline.report.episodes import ViewerData, viewer_data
from pipeline.report.figures import Figure
from pipeline.report.inputs import Inputs, Row
from pipeline.report.sections import Section, contrast_section, domain, router_section
from pipeline.report.treated import treated

if TYPE_CHECKING:
    from jinja2 import Environment

EFFECT_COLUMNS = (
    "cohort", "population", "condition", "delay", "operator", "n", "rescue", "harm", "kept_success", "unchanged_failure",
    "effect_pp", "ci_low_pp", "ci_high_pp",
)  # fmt: skip


@dataclass(frozen=True)
class CohortFigures:
    """Drawings of one cohort and population: four cells by operator, effects by condition."""

    cohort: str
    population: str
    cells: Sequence[Drawn]
    effects: Sequence[Drawn]


def write_page(inputs: Inputs, out: Path) -> None:
    """Write the page, and `figures/<name>.svg` and `figures/<name>.csv` beside it.

    Raises BadInput for a full disk or a transcript table that can't be read, CheckFailed where a pair has no episode.
    """
    ghosts = published_effects(inputs)
    cohorts = [
        CohortFigures(
            cohort,
            population,
            [drawn(figure) for figure in _cells(inputs, cohort, population)],
            [drawn(figure) for figure in _effects(inputs, cohort, population, ghosts)],
        )
        for cohort, population in shown_figures(inputs)
    ]
    policies = [drawn(figure) for figure in policy_figures(inputs)]
    answers = treated(inputs.router, inputs.decisions, inputs.oof)
    contrasts, router = contrast_section(inputs, ghosts), router_section(inputs, answers)
    viewer = None
    if inputs.paths.trajectories and inputs.paths.forks:
        operator = inputs.router.operator
        viewer = viewer_data(inputs.pairs, inputs.paths.trajectories, inputs.paths.forks, answers, operator)
    groups = [one for group in cohorts for one in (*group.cells, *group.effects)]
    for one in [*policies, *groups, *contrasts.drawings, *router.drawings]:
        write_text(out.parent / "figures" / f"{one.figure.name}.svg", one.svg)
        write_text(out.parent / "figures" / f"{one.figure.name}.csv", csv_text(one.figure.rows))
    write_text(out, render(inputs, cohorts, policies, contrasts, router, viewer))


def render(
    inputs: Inputs,
    cohorts: Sequence[CohortFigures],
    policies: Sequence[Drawn],
    contrasts: Section | None = None,
    router: Section | None = None,
    viewer: ViewerData | None = None,
) -> str:
    """The page as HTML. Everything that comes from a config or a table is escaped by the template engine."""
    import yaml
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("pipeline.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found = answer(inputs)
    return environment.get_template("page.html").render(
        study=inputs.study.study,
        operator=inputs.study.router.operator,
        fit_cohort=inputs.fit_cohort,
        style=_source(environment, "page.css") + (_source(environment, "viewer.css") if viewer else ""),
        script=_source(environment, "viewer.js"),
        viewer=viewer,
        contrasts=contrasts or Section(),
        router=router or Section(),
        answer=found,
        headline=tables.headline_table(
            found.headline,
            f"{inputs.study.router.operator} on all {found.headline[0]['n']} tasks of {inputs.fit_cohort}",
        ),
        run=[
            tables.setup_table(inputs),
            tables.cohort_table(inputs),
            tables.success_table(inputs),
            tables.exclusion_table(inputs),
            tables.games_table(inputs),
        ],
        cohorts=cohorts,
        effect_tables=[
            tables.effects_table(inputs, cohort, population)
            for cohort in inputs.cohort_names
            for population in ("complete", "factual-success")
            if inputs.effects_of(cohort, population)
        ],
        policies=policies,
        policy_table=tables.policy_table(inputs),
        policy_details=[
            tables.condition_table(inputs),
            tables.threshold_table(inputs),
            tables.coefficient_table(inputs),
        ],
        notes=inputs.router_record.get("notes", []),
        config=yaml.safe_dump(dict(inputs.config), sort_keys=False, allow_unicode=True, width=100),
        digests=tables.digest_table(inputs),
        versions=tables.version_table(),
        audit=inputs.audit,
    )


def _source(environment: "Environment", name: str) -> str:
    return environment.loader.get_source(environment, name)[0] if environment.loader else ""


def shown_figures(inputs: Inputs) -> list[tuple[str, str]]:
    """(cohort, population) in the order they are drawn: the fit cohort both ways, then the others whole."""
    pairs = [(inputs.fit_cohort, "complete"), (inputs.fit_cohort, "factual-success")]
    pairs += [(name, "complete") for name in inputs.cohort_names if name != inputs.fit_cohort]
    return [pair for pair in pairs if inputs.effects_of(*pair)]


def _cells(inputs: Inputs, cohort: str, population: str) -> list[Figure]:
    protocol, made = inputs.study.protocol, []
    every = inputs.effects_of(cohort, population)
    domain = (
        -max(row["harm"] + row["unchanged_failure"] for row in every),
        max(row["rescue"] + row["kept_success"] for row in every),
    )
    for operator in inputs.operators:
        if rows := inputs.effects_of(cohort, population, operator):
            title = f"{operator} (A/A: forked, left alone)" if operator == "none" else operator
            words = f"Stacked bars around zero by condition and delay: rescues, kept successes, harms, unchanged failures of {operator}."
            chart = figures.four_cells(rows, protocol.conditions, protocol.delays, domain, title)
            made.append(Figure(f"four-cells-{cohort}-{population}-{operator}", title, words, chart, _columns(rows)))
    return made


def _effects(inputs: Inputs, cohort: str, population: str, published: Sequence[Row]) -> list[Figure]:
    protocol, made = inputs.study.protocol, []
    rows = inputs.effects_of(cohort, population)
    ghosts = [row for row in published if row["cohort"] == cohort and row["population"] == population]
    ends = domain([*rows, *ghosts])
    for condition in protocol.conditions:
        if some := [row for row in rows if row["condition"] == condition]:
            words = f"Net effects with 95% intervals by delay and operator where {condition} was shown."
            marks = [row for row in ghosts if row["condition"] == condition]
            if marks:
                words += " Hollow grey diamonds: published values."
            chart = figures.effect_intervals(
                some, inputs.operators, protocol.delays, ends, condition, "operator", marks
            )
            made.append(Figure(f"effects-{cohort}-{population}-{condition}", condition, words, chart, _columns(some)))
    return made


def policy_figures(inputs: Inputs) -> list[Figure]:
    """Gains, interventions and clean harm of the policies."""
    rows = []
    for policy in inputs.policies:
        clean = clean_row(policy)
        rows.append(
            {name: policy[name] for name in ("policy", "tasks", "episodes", "gain_pp")}
            | dict(zip(("ci_low_pp", "ci_high_pp"), policy["ci95_pp"], strict=True))
            | {name: policy[name] for name in ("rescue", "harm", "interventions")}
            | {"clean_harm": clean["harm"] if clean else 0, "clean_episodes": clean["tasks"] if clean else 0}
        )
    gain, acts = "gain over never, with 95% interval", "interventions"
    limit = inputs.router.epsilon
    harm = f"clean harm (dashed: limit {100 * limit:g}%)"
    return [
        Figure("policies-gain", gain, "Gain of each policy with its interval.", figures.policy_gains(rows, gain), rows),
        Figure(
            "policies-interventions",
            acts,
            "Share of episodes in which each policy intervened.",
            figures.policy_shares(rows, "interventions", "episodes", None, acts, "% of episodes"),
            rows,
        ),
        Figure(
            "policies-clean-harm",
            harm,
            "Share of clean episodes that each policy harmed.",
            figures.policy_shares(rows, "clean_harm", "clean_episodes", limit, harm, "% of clean episodes"),
            rows,
        ),
    ]


def _columns(rows: Sequence[Row]) -> list[Row]:
    return [{name: row[name] for name in EFFECT_COLUMNS} for row in rows]
