"""`cir export-crate`."""

import click


@click.command("export-crate")
@click.argument("results", type=click.Path(), metavar="RESULTS/STUDY")
@click.option("--out", required=True, type=click.Path(), help="Folder or .zip to write; must not exist.")
@click.option(
    "--with-data", is_flag=True, help="Copy every artifact and generated game; else they stand in it by their sha256."
)
def export_crate(results: str, out: str, with_data: bool) -> None:
    """Export a finished study as a Workflow Run RO-Crate: workflow, config, artifacts, and one action for each job.

    Needs the package rocrate (`pip install 'cir-pipeline[crate]'`). Audit the study first: a crate says what the records say.

    \b
    Example: cir export-crate results/demo --out demo-crate.zip
    """
    from importlib.util import find_spec
    from pathlib import Path

    from pipeline.audit.crate import write_crate
    from pipeline.audit.study import read_study
    from pipeline.errors import BadInput

    if find_spec("rocrate") is None:
        raise BadInput("the package rocrate is not installed; pip install 'cir-pipeline[crate]'")
    actions = write_crate(read_study(results), Path(out), with_data)
    click.echo(f"{out}: {actions} actions", err=True)
