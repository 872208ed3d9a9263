"""`cir evaluate`: policies on held-out tasks."""

from typing import Any

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
@click.option("--out", type=click.Path(), help="Summary to write (JSON).")
def evaluate(
    router: str, decisions: str, pairs: str, cohort: str | None, resamples: int, seed: int, form: str, out: str | None
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
        _print_tables(summary)


def _print_tables(summary: dict[str, Any]) -> None:
    from pipeline.records.printing import Column, interval, p_value, percent_points, print_table

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
        [("policy", lambda row: row["policy"]), *figures],
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


def _count(value: float) -> str:
    """A count; of an expectation one decimal."""
    return str(value) if isinstance(value, int) else f"{value:.1f}"
