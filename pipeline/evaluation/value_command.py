"""`cir value`: a policy's value from a log without pairs."""

import click

from pipeline.config import ranges
from pipeline.config.options import FORMAT


@click.command()
@click.argument("log", type=click.Path(), metavar="LOG.parquet")
@click.option("--router", type=click.Path(), help="Value this router and its comparators.")
@click.option("--policy-column", "column", help="Value the policy in this column: 1 where it would recover.")
@click.option("--folds", default=5, show_default=True, type=click.IntRange(2, 1000), help="Folds of the cross-fitting.")
@click.option("--seed", default=0, show_default=True, type=ranges.SEED, help="Seed of the folds.")
@FORMAT
def value(log: str, router: str | None, column: str | None, folds: int, seed: int, form: str) -> None:
    """Doubly robust (AIPW) value of a policy from logged episodes, each known under one action only.

    The log has one row per (task, condition, delay): live, action (1: recovered there), y, features x_*; propensity (of
    action 1) where it is known, else it is estimated from the features; folder, where tasks of one move together.

    \b
    Example: cir value log.parquet --router results/demo/router/router.json
             cir value log.parquet --policy-column would_recover --format json
    """
    from pipeline.errors import BadInput
    from pipeline.evaluation.value import UNITS, column_policy, read_log, router_policies, values
    from pipeline.records.printing import Column, interval, percent_points, print_csv, print_json, print_table
    from pipeline.router.model import Router

    if (router is None) == (column is None):
        raise BadInput("give either --router or --policy-column: the policy to value")
    table = read_log(log, [column] if column else [])
    if column:
        policies = {column: column_policy(table, column, log)}
    else:
        policies = router_policies(table, Router.load(router or ""), log)
    if table.log.propensity is None:
        click.echo(f"{log}: no column propensity; it is estimated from the features, cross-fitted", err=True)
    rows = values(table.log, policies, folds, seed)
    if form == "json":
        source = "given" if table.log.propensity is not None else "estimated"
        print_json({"policies": rows, "propensity": source, "folds": folds, "seed": seed, "units": UNITS})
    elif form == "csv":
        print_csv(rows)
    else:
        columns: list[Column] = [
            ("policy", lambda row: row["policy"]),
            ("success", lambda row: f"{row['success_rate']:.2f}%"),
            ("95% interval", lambda row: interval(*row["success_ci95"])),
            ("gain", lambda row: percent_points(row["gain_pp"])),
            ("95% interval", lambda row: interval(*row["ci95_pp"])),
            ("followed", lambda row: f"{row['followed_rate']:.0f}%"),
        ]
        first = rows[0]
        note = "gain over never: points; followed: episodes whose logged actions are the policy's"
        print_table(f"Values from {first['episodes']} logged episodes", columns, rows, note)
