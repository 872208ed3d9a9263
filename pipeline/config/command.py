"""`cir config check|settings|docs`."""

from pathlib import Path

import click

FOLDER = Path("config")


@click.group()
def config() -> None:
    """Check a study's config; print a stage's keys; regenerate schema and docs.

    \b
    Example: cir config check config/demo.yaml
    """


@config.command()
@click.argument("study", type=click.Path(), nargs=-1, required=True)
def check(study: tuple[str, ...]) -> None:
    """Say whether a study's config is right, and how many branches it means; later files are laid over earlier ones.

    \b
    Example: cir config check config/demo.yaml
    """
    from pipeline.config.load import load_study

    parsed = load_study(*study)
    protocol = parsed.protocol
    click.echo(f"study {parsed.study}: right")
    for name, cohort in parsed.cohorts.items():
        branches = cohort.size * len(protocol.conditions) * len(protocol.delays) * len(protocol.operators)
        click.echo(f"  {name} ({cohort.role}): {cohort.size} tasks of {cohort.split}, {branches} branches planned")


@config.command()
@click.argument("study", type=click.Path(), nargs=-1, required=True)
def name(study: tuple[str, ...]) -> None:
    """Print a study's name: its results stand under results/<name>/.

    \b
    Example: cir config name config/demo.yaml
    """
    from pipeline.config.load import load_study

    click.echo(load_study(*study).study)


@config.command()
@click.argument("study", type=click.Path())
@click.argument("stage")
def settings(study: str, stage: str) -> None:
    """Print the keys that concern a stage, as the canonical JSON its command takes.

    \b
    Example: cir config settings config/demo.yaml fork
    """
    from pipeline.config.load import load_study
    from pipeline.config.scopes import SCOPES
    from pipeline.config.scopes import settings as settings_of
    from pipeline.errors import BadInput

    if stage not in SCOPES:
        raise BadInput(f"no such stage: {stage!r}; stages are {', '.join(SCOPES)}")
    click.echo(settings_of(load_study(study), stage))


@config.command()
@click.option("--study", required=True, help="The whole study, as JSON.")
@click.option("--out", required=True, type=click.Path(), help="File to write.")
def record(study: str, out: str) -> None:
    """Write a study's whole config beside its results, defaults filled in; the store is a place and left out.

    \b
    Example: cir config record --study "$(cat results/demo/study.json)" --out study.json
    """
    import json

    from pipeline.config.load import parse_study
    from pipeline.errors import BadInput
    from pipeline.records.files import write_json

    try:
        values = json.loads(study)
    except ValueError as error:
        raise BadInput(f"--study: is no valid JSON ({error})") from error
    write_json(out, parse_study(values, "--study").model_dump(mode="json", by_alias=True, exclude={"store"}))


@config.command()
@click.option("--check", "only_check", is_flag=True, help="Write nothing; exit 1 where a file is out of date.")
def docs(only_check: bool) -> None:
    """Regenerate config/schema.json, the key table of config/README.md, docs/tables.md and docs/record.schema.json from models and schemas.

    \b
    Example: cir config docs --check
    """
    from pipeline.config.document import schema_text, with_key_table
    from pipeline.errors import BadInput, CheckFailed
    from pipeline.provenance.record import schema_text as record_schema
    from pipeline.records.document import tables_text
    from pipeline.records.files import write_text

    if not (FOLDER / "README.md").is_file():
        raise BadInput(f"{FOLDER / 'README.md'}: not here; run this in the project's own folder")
    wanted = {
        FOLDER / "schema.json": schema_text(),
        FOLDER / "README.md": with_key_table((FOLDER / "README.md").read_text("utf-8")),
        Path("docs/tables.md"): tables_text(),
        Path("docs/record.schema.json"): record_schema(),
    }
    stale = [str(path) for path, text in wanted.items() if not path.exists() or path.read_text("utf-8") != text]
    if only_check and stale:
        raise CheckFailed(f"{', '.join(stale)}: differs from the config models; run `cir config docs`")
    for path in stale:
        write_text(path, wanted[Path(path)])
        click.echo(f"wrote {path}", err=True)
