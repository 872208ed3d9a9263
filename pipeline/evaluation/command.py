"""`cir evaluate`: policies on held-out tasks."""

import click

from pipeline.config.options import FORMAT, RESAMPLES, SEED


@click.command()
@click.argument("router", type=click.Path(), metavar="ROUTER.json")
@click.option("--decisions", required=True, type=click.Path(), help="Candidate moments of the held-out tasks.")
@click.option("--pairs", required=True, type=click.Path(), help="Pairs that hold the held-out tasks' branches.")
@click.option("--cohort", help="Only this cohort's rows.  [default: every cohort of the decisions]")
@RESAMPLES
@SEED
@FORMAT
@click.option("--costs", is_flag=True, help="Print what the policies cost too, and their value along a price.")
@click.option("--out", type=click.Path(), help="Summary to write (JSON).")
def evaluate(
    router: str,
    decisions: str,
    pairs: str,
    cohort: str | None,
    resamples: int,
    seed: int,
    form: str,
    costs: bool,
    out: str | None,
) -> None:
    """Compare policies on tasks the router has not seen, by their recorded branches.

    Policies: never, always at each recorded delay, random at cir's rate (an expectation), sequential-anomaly,
    rate-matched-anomaly, the router as cir, joint-outcome, operator-choice and certified where the router holds them, and
    oracle, the best branch of each episode. Every two are compared on the same episodes too.

    \b
    Example: cir evaluate results/demo/router/router.json \\
               --decisions results/demo/router/decisions.parquet \\
               --pairs results/demo/outcomes/pairs.parquet --cohort evaluation
    """
    from pipeline.evaluation.lookup import SHOWN, held_out
    from pipeline.evaluation.summary import summarise
    from pipeline.evaluation.tables import print_costs, print_policies
    from pipeline.records.canonical import file_sha256
    from pipeline.records.files import write_json
    from pipeline.records.printing import print_csv, print_json
    from pipeline.router.model import Router

    model = Router.load(router)
    found = held_out(model, decisions, pairs, cohort)
    summary = summarise(model, found, resamples, seed)
    summary["inputs"] = {
        name: file_sha256(path) for name, path in (("router", router), ("decisions", decisions), ("pairs", pairs))
    }
    if out:
        write_json(out, summary)
    if found.left_out:
        names = "; ".join(" ".join(key) for key in found.left_out[:SHOWN])
        click.echo(
            f"{len(found.left_out)} of {found.planned_episodes} episodes can't be evaluated, the first: {names}",
            err=True,
        )
    for row in summary["not_evaluated"]:
        click.echo(f"{row['policy']} is not evaluated: {row['why']}", err=True)
    if form == "json":
        print_json(summary)
    elif form == "csv":
        print_csv(summary["policies"])
    else:
        print_policies(summary)
        if costs:
            print_costs(summary)
