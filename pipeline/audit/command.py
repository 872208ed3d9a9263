"""`cir audit`."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pipeline.audit.checks import Audit

FORMATS = ("table", "json")
SHOWN = 200


@click.command()
@click.argument("results", required=False, type=click.Path(), metavar="[RESULTS/STUDY]")
@click.option(
    "--study", "config", multiple=True, type=click.Path(), help="Hold the records to this config; repeatable."
)
@click.option("--games", type=click.Path(), help="Folder that holds json_2.1.1, where it is not where it was.")
@click.option("--no-code", is_flag=True, help="Leave out the code that is checked out against the code that ran.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True, help="What to print.")
def audit(results: str | None, config: tuple[str, ...], games: str | None, no_code: bool, form: str) -> None:
    """Check a finished study against its records: every hash, every input's origin, every planned unit, the code.

    Prints what is wrong, by name, and exits 1; a clean audit prints what it covered. Works on a folder that was moved or
    copied from another machine; nothing is written. Without a folder: the only study under results/.

    \b
    Example: cir audit results/demo
    """
    from pipeline.audit.checks import audited
    from pipeline.audit.study import only_study, read_study
    from pipeline.config.load import load_study
    from pipeline.errors import CheckFailed
    from pipeline.records.printing import print_json

    results = results or only_study()
    study = read_study(results, games)
    found = audited(study, load_study(*config) if config else None, not no_code)
    if form == "json":
        print_json(found.values())
    else:
        _print(found)
    if found.findings:
        raise CheckFailed(f"{results}: {len(found.findings)} finding(s)")


def _print(found: "Audit") -> None:
    from pipeline.audit.study import Finding

    def line(finding: Finding) -> str:
        return f"{finding.check}: {finding.where}\n    {finding.what}\n    -> {finding.do}"

    for finding in found.findings[:SHOWN]:
        click.echo(line(finding))
    if (more := len(found.findings) - SHOWN) > 0:
        click.echo(f"… {more} more findings; --format json prints all")
    click.echo("" if found.findings else "clean: every record, file, unit and input is as it should be")
    for name, count in found.covered.items():
        click.echo(f"  {count:>13,}  {name}")
    for commit, count in sorted(found.commits.items(), key=lambda item: -item[1]):
        click.echo(f"  {count:>13,}  records of commit {commit}")
    for what in found.not_covered:
        click.echo(f"  not covered: {what}")
