"""`cir report`."""

import click

FORMATS = ("table", "json")


def _table(name: str, text: str) -> object:
    return click.option(f"--{name}", required=True, type=click.Path(), help=text)


@click.command()
@_table("study", "The study's whole merged config, as JSON.")
@_table("games", "Games table.")
@_table("cohorts", "Settled cohorts table.")
@_table("pairs", "Pairs table.")
@_table("exclusions", "Exclusions table.")
@_table("effects", "Effects table of these pairs.")
@_table("router", "The fitted router, router.json.")
@_table("evaluation", "The evaluation, summary.json.")
@click.option("--out", required=True, type=click.Path(), help="Page to write; figures/ is written beside it.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True, help="What to print.")
def report(out: str, form: str, **paths: str) -> None:
    """Write the study's page and its figures (SVG, CSV), and print a summary.

    The page is one file that needs no network. Printed are the router's operator on all tasks of the fit cohort, by
    condition and delay, and the policies on held-out tasks.

    \b
    Example: cd results/demo && cir report --study study.json \\
               --games games/games.parquet --cohorts games/cohorts.parquet \\
               --pairs outcomes/pairs.parquet --exclusions outcomes/exclusions.parquet \\
               --effects outcomes/effects.parquet --router router/router.json \\
               --evaluation evaluation/summary.json --out report/index.html
    """
    from pathlib import Path

    from pipeline.report.inputs import Paths, read_inputs
    from pipeline.report.page import write_page
    from pipeline.report.terminal import print_summary

    inputs = read_inputs(Paths(**{name: Path(path) for name, path in paths.items()}))
    write_page(inputs, Path(out))
    print_summary(inputs, out, form)
