"""`cir features`, `cir fit`, `cir decide`."""

import click

from pipeline.config.options import FORMAT
from pipeline.config.ranges import BUDGET, SEED, FiniteRange

SETTINGS = click.option(
    "--settings", help="The config keys of this stage, as JSON (`cir config settings`), for flags left out."
)


@click.command()
@click.option("--pairs", required=True, type=click.Path(), help="The pairs table.")
@click.option("--trajectories", required=True, type=click.Path(), help="Folder of cohort=C/condition=E/trunk.parquet.")
@click.option("--cohort", "cohorts", required=True, help="Cohorts whose candidate moments are wanted, commas between.")
@SETTINGS
@click.option("--conditions", help="Conditions, commas between.  [protocol.conditions]")
@click.option("--delays", help="Candidate delays, commas between.  [router.delays]")
@click.option("--operator", help="Operator whose outcome is ym.  [router.operator]")
@click.option(
    "--operators",
    help="Further operators to choose among, as columns ym_<operator>.  [router.operators, else measured, no controls]",
)
@click.option("--turns", type=BUDGET, help="Turn budget of an episode.  [harness.turns]")
@click.option("--actions", type=BUDGET, help="Action budget of an episode.  [harness.actions]")
@click.option("--out", required=True, type=click.Path(), help="Decisions table to write.")
def features(
    pairs: str,
    trajectories: str,
    cohorts: str,
    settings: str | None,
    conditions: str | None,
    delays: str | None,
    operator: str | None,
    operators: str | None,
    turns: int | None,
    actions: int | None,
    out: str,
) -> None:
    """Features of every candidate moment, from the prefix only, beside both outcomes.

    \b
    Example: cir features --pairs results/demo/outcomes/pairs.parquet \\
               --trajectories results/demo/trajectories --cohort main,evaluation \\
               --conditions clean,stale-2 --delays 1,2,4 --operator refresh \\
               --turns 49 --actions 64 --out decisions.parquet
    """
    from pipeline.config.flags import flag_or_key, listed, listed_delays
    from pipeline.records.schemas import decisions_schema
    from pipeline.records.tables import write_rows
    from pipeline.router.decisions import decision_rows
    from pipeline.router.features import FEATURES
    from pipeline.router.joint import CONTROLS

    main = flag_or_key(operator, settings, "router.operator", "--operator")
    # Where no operators are named: all that were measured but controls; without a study's settings, the main one alone.
    measured = flag_or_key(None, settings, "protocol.operators", "--operators", [main])
    usual = [main, *(name for name in measured if name not in (main, *CONTROLS))]
    chosen = listed(flag_or_key(operators, settings, "router.operators", "--operators", usual), "--operators")
    others = [name for name in chosen if name != main]
    rows = decision_rows(
        pairs,
        trajectories,
        listed(cohorts, "--cohort"),
        listed(flag_or_key(conditions, settings, "protocol.conditions", "--conditions"), "--conditions"),
        listed_delays(flag_or_key(delays, settings, "router.delays", "--delays"), "--delays"),
        main,
        flag_or_key(turns, settings, "harness.turns", "--turns"),
        flag_or_key(actions, settings, "harness.actions", "--actions"),
        others,
    )
    write_rows(out, rows, decisions_schema(list(FEATURES), others))
    click.echo(f"{len(rows)} candidate moments, {sum(row['live'] for row in rows)} live", err=True)


@click.command()
@click.argument("decisions", type=click.Path(), metavar="DECISIONS.parquet")
@click.option("--out", required=True, type=click.Path(), help="Router to write (JSON).")
@click.option("--oof", type=click.Path(), help="Out-of-fold predictions to write (Parquet).")
@SETTINGS
@click.option("--lambda", "lambda_", type=FiniteRange(min=0), help="Weight of s_H in u.  [router.lambda, else 2]")
@click.option("--epsilon", type=FiniteRange(0, 1), help="Limit of clean harm, a share.  [router.epsilon, else 0.02]")
@click.option(
    "--confidence",
    type=FiniteRange(0, 1, min_open=True, max_open=True),
    help="Confidence of the certified thresholds.  [router.confidence, else 0.95]",
)
@click.option("--C", "C", type=FiniteRange(min=0, min_open=True), help="Inverse l2 strength.  [router.C, else 0.1]")
@click.option("--folds", type=click.IntRange(2, 1000), help="Folds, grouped by task folder.  [router.folds, else 5]")
@click.option("--seed", type=SEED, help="Seed of the folds' shuffle.  [router.seed, else 0]")
@click.option(
    "--gamma-quantiles", type=click.IntRange(0, 1000), help="Quantiles of u tried.  [router.gamma_quantiles, else 19]"
)
@click.option("--conditions", help="Conditions to fit on.  [router.conditions, else clean,stale-2]")
@click.option("--delays", help="Candidate delays, in the order asked.  [router.delays, else 1,2,4]")
@click.option("--operator", help="Operator that ym stands for.  [router.operator, else refresh]")
@click.option(
    "--population",
    type=click.Choice(["factual-success", "complete"]),
    help="Tasks to fit on; the paper fits on those that succeed factually.  [router.population, else factual-success]",
)
@click.option("--cohort", help="Only this cohort's rows.  [default: all]")
def fit(
    decisions: str,
    out: str,
    oof: str | None,
    settings: str | None,
    lambda_: float | None,
    epsilon: float | None,
    confidence: float | None,
    C: float | None,
    folds: int | None,
    seed: int | None,
    gamma_quantiles: int | None,
    conditions: str | None,
    delays: str | None,
    operator: str | None,
    population: str | None,
    cohort: str | None,
) -> None:
    """Fit the router: out-of-fold predictions, thresholds under the limit of clean harm, refit on all.

    \b
    Example: cir fit results/demo/router/decisions.parquet --cohort main --out router.json --oof oof.parquet
    """
    from pipeline.config.flags import flag_or_key, listed, listed_delays
    from pipeline.records.canonical import file_sha256
    from pipeline.records.files import write_json
    from pipeline.records.tables import write_rows
    from pipeline.router.fit import FitSettings
    from pipeline.router.fit import fit as fit_router
    from pipeline.router.training import training

    rows, notes = training(
        decisions,
        listed(flag_or_key(conditions, settings, "router.conditions", "--conditions", "clean,stale-2"), "--conditions"),
        listed_delays(flag_or_key(delays, settings, "router.delays", "--delays", "1,2,4"), "--delays"),
        flag_or_key(population, settings, "router.population", "--population", "factual-success"),
        cohort,
    )
    chosen = FitSettings(
        C=flag_or_key(C, settings, "router.C", "--C", 0.1),
        lambda_=flag_or_key(lambda_, settings, "router.lambda", "--lambda", 2.0),
        epsilon=flag_or_key(epsilon, settings, "router.epsilon", "--epsilon", 0.02),
        folds=flag_or_key(folds, settings, "router.folds", "--folds", 5),
        seed=flag_or_key(seed, settings, "router.seed", "--seed", 0),
        gamma_quantiles=flag_or_key(gamma_quantiles, settings, "router.gamma_quantiles", "--gamma-quantiles", 19),
        operator=flag_or_key(operator, settings, "router.operator", "--operator", "refresh"),
        confidence=flag_or_key(confidence, settings, "router.confidence", "--confidence", 0.95),
    )
    fitted = fit_router(rows, chosen, {"decisions": file_sha256(decisions)}, notes)
    write_json(out, fitted.router)
    if oof:
        write_rows(oof, fitted.oof, "oof")
    for note in fitted.notes:
        click.echo(f"cir fit: {note}", err=True)
    for name, what in {"cir": fitted.router, **fitted.router["extensions"]}.items():
        did = fitted.router["oof"]["policies"][name]
        limits = " ".join(f"{limit} {value:.3f}" for limit, value in what["thresholds"].items() if value is not None)
        click.echo(
            f"{name}: {limits or 'never'}; out of fold: net gain {did['net_gain']}, clean harms {did['clean_harms']}, "
            f"{did['interventions']} interventions in {fitted.router['oof']['episodes']} episodes",
            err=True,
        )


@click.command()
@click.argument("router", type=click.Path(), metavar="ROUTER.json")
@click.argument("prefix", type=click.Path(), metavar="PREFIX.json")
@FORMAT
def decide(router: str, prefix: str, form: str) -> None:
    """Ask a fitted router whether to intervene where a prefix ends.

    A prefix is {"opening": text of observation 0, "entries": [{"kind", "output", "action", "shown"}, ...],
    "turn_budget": 49, "action_budget": 64}.

    \b
    Example: cir decide results/demo/router/router.json prefix.json --format json
    """
    from dataclasses import asdict

    from pipeline.records.files import read_json
    from pipeline.records.printing import print_csv, print_json, print_table
    from pipeline.router.model import Router
    from pipeline.router.prefix import prefix_from_json

    model = Router.load(router)
    decision = model.decide(prefix_from_json(read_json(prefix), prefix))
    limits = asdict(model.thresholds) if model.thresholds else dict.fromkeys(("alpha", "beta", "gamma"))
    if form == "json":
        whole = asdict(decision)
        print_json({"intervene": whole["intervene"], "operator": model.operator, **whole, "thresholds": limits})
        return
    values = {**asdict(decision.signals), **decision.features}
    rows = [{"name": "intervene", "value": decision.intervene}]
    rows += [{"name": f"passed {name}", "value": passed} for name, passed in decision.passed.items()]
    rows += [{"name": name, "value": value} for name, value in values.items()]
    if form == "csv":
        print_csv(rows)
        return
    columns = [("", lambda row: row["name"]), ("value", lambda row: _shown(row["value"]))]
    print_table("Intervene now" if decision.intervene else "Leave alone", columns, rows)


def _shown(value: float | bool) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else f"{value:.4f}"
