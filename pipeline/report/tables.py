"""The page's tables as headings and text cells; a count stands beside every rate."""

import platform
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from pipeline import __version__
from pipeline.records.canonical import canonical_json
from pipeline.report import links
from pipeline.report.answer import clean_row
from pipeline.report.inputs import Inputs, Row
from pipeline.report.wording import number, p_text, share, signed, span
from pipeline.report.wording import population as population_words
from pipeline.router.model import MODELS

VERSIONED = (
    "altair",
    "duckdb",
    "numpy",
    "pyarrow",
    "scikit-learn",
    "scipy",
    "snakemake",
    "textworld",
    "vl-convert-python",
)


@dataclass(frozen=True)
class Table:
    """A table of text cells. The first `labels` columns are words and row headings, the others numbers;
    `grouped` sets rows with another first cell apart."""

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    labels: int = 1
    grouped: bool = False
    note: str = ""


def headline_table(rows: Sequence[Row], caption: str) -> Table:
    """The first screen's table: main conditions by delay."""
    return Table(
        caption,
        ["shown", "delay", "rescues", "harms", "of", "net effect, points", "95% interval", "p"],
        [
            [
                row["condition"], str(row["delay"]), _linked(row, "rescue", str(row["rescue"])),
                _linked(row, "harm", str(row["harm"])), str(row["n"]),
                signed(row["effect_pp"]), span(row["ci_low_pp"], row["ci_high_pp"]), p_text(row["mcnemar_p"]),
            ]
            for row in rows
        ],
        grouped=True, note="p: exact McNemar, unadjusted.",
    )  # fmt: skip


def setup_table(inputs: Inputs) -> Table:
    """What was set up, out of the config; the whole of it stands at the page's end."""
    study, protocol = inputs.study, inputs.study.protocol
    parameters = f" {canonical_json(study.agent.parameters)}" if study.agent.parameters else ""
    rows = [
        ["agent", study.agent.kind + parameters],
        ["games", "generated" if study.games.source == "generated" else "ALFWorld's own"],
        ["budget", f"{study.harness.turns} turns, {study.harness.actions} environment actions"],
        ["altered", f"the reply at {100 * protocol.alteration.fraction:g}% of the unaltered run's actions"],
        ["shown", ", ".join(protocol.conditions)],
        ["delays", f"{', '.join(map(str, protocol.delays))} actions after it"],
        ["operators", ", ".join(protocol.operators)],
        ["intervals", f"bootstrap over tasks, {study.statistics.resamples:,} resamples, seed {study.statistics.seed}"],
    ]
    return Table("Set-up", ["what", "value"], rows, labels=2)


def cohort_table(inputs: Inputs) -> Table:
    """Candidates, feasible tasks and factual success of each cohort."""
    rows = []
    for name, tasks in _by(inputs.cohorts, "cohort").items():
        cohort = inputs.study.cohorts.get(name)
        feasible = [task for task in tasks if task["feasible"]]
        rows.append(
            [
                name, tasks[0]["role"], cohort.split if cohort else "–", str(cohort.size) if cohort else "–", str(len(tasks)),
                str(len(feasible)), str(len(tasks) - len(feasible)), str(len({task["folder"] for task in feasible})),
                share(sum(bool(task["factual_success"]) for task in feasible), len(feasible)),
            ]
        )  # fmt: skip
    return Table(
        "Cohorts",
        ["cohort", "role", "split", "planned", "candidates", "feasible", "not taken", "folders", "succeed unaltered"],
        rows,
        labels=3,
        note="planned: tasks wanted; folders: distinct task folders of the feasible tasks; cohorts share none.",
    )


def success_table(inputs: Inputs) -> Table:
    """Factual success of the feasible tasks by task type and cohort."""
    cohorts = list(_by(inputs.cohorts, "cohort"))
    feasible = [task for task in inputs.cohorts if task["feasible"]]
    cells: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for task in feasible:
        for kind in (task["task_type"], "all"):
            cells[kind, task["cohort"]].append(bool(task["factual_success"]))
    kinds = [*sorted({task["task_type"] for task in feasible}), "all"]
    return Table(
        "Success of the unaltered run by task type",
        ["task type", *cohorts],
        [[kind, *(share(sum(cells[kind, name]), len(cells[kind, name])) for name in cohorts)] for kind in kinds],
    )


def exclusion_table(inputs: Inputs) -> Table:
    """Why candidates and units are not in the pairs, counted."""
    counts = Counter(
        (row["cohort"], "unit" if row["condition"] is not None else "task", row["reason"]) for row in inputs.exclusions
    )
    return Table(
        "Not in the pairs, and why",
        ["cohort", "what", "reason", "count"],
        [[cohort, what, reason, f"{count:,}"] for (cohort, what, reason), count in sorted(counts.items())],
        labels=3,
        note="task: a candidate that is in no pair; unit: one (task, condition, delay, operator) of a task that is.",
    )


def games_table(inputs: Inputs) -> Table:
    """Games the candidates were drawn from."""
    games = _by(inputs.games, "split")
    return Table(
        "Games at hand",
        ["split", "games", "folders", "task types", "verb", "actions of the walkthrough"],
        [
            [
                split, f"{len(rows):,}", f"{len({row['folder'] for row in rows}):,}", str(len({row["task_type"] for row in rows})),
                ", ".join(sorted({row["verb"] for row in rows})), _range([row["walkthrough_actions"] for row in rows]),
            ]
            for split, rows in games.items()
        ],
    )  # fmt: skip


def effects_table(inputs: Inputs, cohort: str, population: str) -> Table:
    """Every effect of a cohort and population: four cells with shares, net effect, interval, tests, A/A flips."""
    flips = aa_flips(inputs.pairs, cohort, population)
    rows = []
    for row in inputs.effects_of(cohort, population):
        n = row["n"]
        flipped = flips.get((row["condition"], row["delay"]))
        rows.append(
            [
                row["operator"], row["condition"], str(row["delay"]), _linked(row, None, str(n)),
                *(_linked(row, cell, share(row[cell], n)) for cell in ("rescue", "harm", "kept_success", "unchanged_failure")),
                signed(row["effect_pp"]), span(row["ci_low_pp"], row["ci_high_pp"]), p_text(row["mcnemar_p"]),
                p_text(row["holm_p"]), share(*flipped) if flipped else "–",
            ]
        )  # fmt: skip
    return Table(
        f"{cohort}, {population_words(population)}",
        [
            "operator", "shown", "delay", "tasks", "rescue", "harm", "kept success", "unchanged failure", "net effect, points",
            "95% interval", "p", "Holm p", "A/A flips",
        ],
        rows,
        labels=2,
        grouped=True,
        note="p: exact McNemar; Holm p: over conditions and delays of an operator; A/A flips: branches left alone that ended "
        "unlike their trunk.",
    )  # fmt: skip


def _linked(row: Row, cell: str | None, text: str) -> str:
    """A count of an effects row, linked to its episodes."""
    filters = {name: row[name] for name in ("cohort", "condition", "delay", "operator")}
    filters |= {"population": row["population"]} if row["population"] != "complete" else {}
    return links.episodes(text, **filters, **({"cell": cell.replace("_", "-")} if cell else {}))


def _fired(inputs: Inputs, policy: Row, text: str, **filters: str) -> str:
    """A count of the router's interventions on held-out tasks, linked to them; other policies' have no mark to link to."""
    if policy["policy"] != "cir":
        return text
    cohort = next(name for name, cohort in inputs.study.cohorts.items() if cohort.role == "evaluate")
    return links.episodes(text, cohort=cohort, fired=1, **filters)


def aa_flips(pairs: Iterable[Row], cohort: str, population: str) -> dict[tuple[str, int], tuple[int, int]]:
    """(condition, delay) -> flips and branches of the A/A arm."""
    counts: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
    for pair in pairs:
        if (
            pair["cohort"] == cohort
            and pair["operator"] == "none"
            and (population == "complete" or pair["factual_success"])
        ):
            cell = counts[pair["condition"], pair["delay"]]
            cell[0] += pair["y0"] != pair["ym"]
            cell[1] += 1
    return {key: (flips, branches) for key, (flips, branches) in counts.items()}


def policy_table(inputs: Inputs) -> Table:
    """Policies side by side on the held-out tasks."""
    rows = []
    for policy in inputs.policies:
        clean = clean_row(policy)
        rows.append(
            [
                policy["policy"], share(sum(row["success"] for row in policy["by_condition"]), policy["episodes"]),
                signed(policy["gain_pp"]), span(*policy["ci95_pp"]),
                *(_fired(inputs, policy, number(policy[cell]), cell=cell) for cell in ("rescue", "harm")),
                _fired(inputs, policy, share(policy["interventions"], policy["episodes"])), share(clean["harm"], clean["tasks"]) if clean else "–",
                p_text(policy["sign_flip_p"]),
            ]
        )  # fmt: skip
    return Table(
        "Policies on held-out tasks",
        ["policy", "success", "gain, points", "95% interval", "rescues", "harms", "interventions", "clean harm", "p"],
        rows,
        note="gain: over never intervening, paired; interval: bootstrap over tasks; p: exact sign-flip on per-task sums."
        + (" Counts of random are expectations over its draws." if "random" in [row[0] for row in rows] else ""),
    )


def condition_table(inputs: Inputs) -> Table:
    """Every policy by condition."""
    return Table(
        "Policies by what was shown",
        ["policy", "shown", "success", "rescues", "harms", "interventions"],
        [
            [
                policy["policy"], row["condition"], share(row["success"], row["tasks"]),
                *(
                    _fired(inputs, policy, number(row[cell]), cell=cell, condition=row["condition"])
                    for cell in ("rescue", "harm")
                ),
                _fired(inputs, policy, share(row["interventions"], row["tasks"]), condition=row["condition"]),
            ]
            for policy in inputs.policies
            for row in policy["by_condition"]
        ],
        labels=2,
        grouped=True,
    )  # fmt: skip


def threshold_table(inputs: Inputs) -> Table:
    """What the router tests, and its frozen thresholds."""
    router = inputs.router
    limits = vars_of(router.thresholds)
    rows = [
        ["alpha", "p_err, the observation was wrong", "≥", limits["alpha"]],
        ["beta", "1 − p_0, failure without recovery", "≥", limits["beta"]],
        ["gamma", f"u = s_R − {router.lambda_:g} · s_H", "≥", limits["gamma"]],
        ["epsilon", "clean harm on the fit cohort, share of clean episodes", "≤", f"{router.epsilon:g}"],
    ]
    for name, alpha in router.anomaly.items():
        rows.append([name, "p_err alone", "≥", "never" if alpha is None else f"{alpha:.6g}"])
    delays = ", ".join(map(str, router.delays))
    return Table(
        "Thresholds",
        ["name", "what is compared", "", "value"],
        rows,
        labels=3,
        note=f"Asked at delay {delays}, in this order; {router.operator} is applied at the first moment that passes all three, once.",
    )


def vars_of(thresholds: Any) -> Mapping[str, str]:
    """Thresholds as text; `never` where the fit found none."""
    names = ("alpha", "beta", "gamma")
    return {name: "never" if thresholds is None else f"{getattr(thresholds, name):.6g}" for name in names}


def coefficient_table(inputs: Inputs) -> Table:
    """Coefficients of the three models on scaled features, largest first."""
    router = inputs.router
    weights = [router.weights[name][1] for name in MODELS]
    order = sorted(
        range(len(router.names)), key=lambda place: (-max(abs(w[place]) for w in weights), router.names[place])
    )
    rows = [["intercept", *(f"{router.weights[name][0]:+.3f}" for name in MODELS), "", ""]]
    for place in order:
        rows.append(
            [router.names[place].removeprefix("x_"), *(f"{w[place]:+.3f}" for w in weights)]
            + [f"{router.mean[place]:.4g}", f"{router.scale[place]:.4g}"]
        )
    return Table(
        "Coefficients of the three logistic regressions",
        ["feature", *MODELS, "mean", "scale"],
        [[cell.replace("-", "−") if place else cell for place, cell in enumerate(row)] for row in rows],
        note="For features less their mean, divided by their scale; p_err: the observation was wrong, p_0: success without later "
        "recovery, p_1: success after the recovery now.",
    )


def digest_table(inputs: Inputs) -> Table:
    """sha256 of the files this page was made from, and of what the router was fitted on."""
    rows = [["this page", name, digest] for name, digest in inputs.digests.items()]
    rows += [
        ["router.json", str(name), str(digest)]
        for name, digest in sorted(inputs.router_record.get("inputs", {}).items())
    ]
    return Table("Digests (sha256)", ["made from", "input", "digest"], rows, labels=3)


def version_table() -> Table:
    """Versions of what made this page."""
    rows = [["cir-pipeline", __version__], ["Python", platform.python_version()]]
    rows += [[name, metadata.version(name)] for name in VERSIONED]
    return Table("Versions", ["what", "version"], rows, labels=2)


def _by(rows: Sequence[Row], key: str) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row[key]):
        groups[row[key]].append(row)
    return dict(groups)


def _range(values: Sequence[int]) -> str:
    return f"{min(values)}–{max(values)}"
