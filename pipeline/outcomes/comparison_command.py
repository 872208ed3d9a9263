"""`cir compare`."""

import click

from pipeline.config.options import FORMAT


@click.command()
@click.argument("table", type=click.Path(), metavar="PAIRS.parquet|EFFECTS.parquet")
@click.option(
    "--published", type=click.Path(), help="JSON of published figures.  [default: the package's, of arXiv 2610.00372]"
)
@click.option(
    "--cohort",
    "cohorts",
    multiple=True,
    metavar="PUBLISHED=STUDY",
    help="Set this cohort of the study beside that published one; may be given several times.  [default: equal names]",
)
@FORMAT
def compare(table: str, published: str | None, cohorts: tuple[str, ...], form: str) -> None:
    """Set a study's effects, contrasts and overlap beside published ones, row by row, with both intervals.

    Rows are equal in cohort, population, condition, delay and operator; rows that the study lacks are named. A pairs
    table gives all; an effects table has no contrasts. Differences are stated, not judged.

    \b
    Example: cir compare results/demo/outcomes/pairs.parquet
             cir compare results/demo/outcomes/effects.parquet --cohort mechanism=main --format json
    """
    from pipeline.errors import BadInput
    from pipeline.outcomes.comparison import compare as compare_with
    from pipeline.outcomes.comparison import print_comparison, read_published

    names: dict[str, str] = {}
    for pair in cohorts:
        theirs, sign, ours = pair.partition("=")
        if not (theirs and sign and ours) or theirs in names:
            raise BadInput(f"--cohort: expected PUBLISHED=STUDY, each published cohort once, found {pair!r}")
        names[theirs] = ours
    rows = compare_with(table, published, names)
    click.echo(f"published: {read_published(published).get('source') or published}", err=True)
    print_comparison(rows, form)
