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
@click.option("--decisions", type=click.Path(), help="Decisions table; with --oof: the router's curves.")
@click.option("--oof", type=click.Path(), help="The fit's out-of-fold predictions.")
@click.option("--trajectories", type=click.Path(), help="Folder of the trunks; with --forks: the fork viewer.")
@click.option("--forks", type=click.Path(), help="Folder of the branches.")
@click.option("--audit", type=click.Path(), help="What `cir audit` printed, to be shown as it is.")
@click.option("--out", required=True, type=click.Path(), help="Page to write; figures/ is written beside it.")
@click.option("--summary", type=click.Path(), help="File to write what is printed to, as well.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True, help="What to print.")
def report(out: str, summary: str | None, form: str, **paths: str | None) -> None:
    """Write the study's page and its figures (SVG, CSV), and print a summary.

    The page is one file that needs no network. With the router's tables and the folders of the episodes it also shows
    the router's curves, and every branch beside its trunk. Printed are the router's operator on all tasks of the fit cohort, by
    condition and delay, and the policies on held-out tasks.

    \b
    Example: cd results/demo && cir report --study study.json \\
               --games games/games.parquet --cohorts games/cohorts.parquet \\
               --pairs outcomes/pairs.parquet --exclusions outcomes/exclusions.parquet \\
               --effects outcomes/effects.parquet --router router/router.json \\
               --evaluation evaluation/summary.json --decisions router/decisions.parquet --oof router/oof.parquet \\
               --trajectories trajectories --forks forks --out report/index.html
    """
    import sys
    from contextlib import redirect_stdout
    from io import StringIO
    from pathlib import Path

    from pipeline.records.files import write_text
    from pipeline.report.inputs import Paths, read_inputs
    from pipeline.report.page import write_page
    from pipeline.report.terminal import print_summary

    inputs = read_inputs(Paths(**{name: Path(path) for name, path in paths.items() if path is not None}))
    write_page(inputs, Path(out))
    printed = StringIO()
    with redirect_stdout(printed):
        print_summary(inputs, out, form)
    if summary:
        write_text(summary, printed.getvalue())
    sys.stdout.write(printed.getvalue())
