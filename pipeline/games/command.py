"""`cir games index|generate|translate`."""

from typing import TYPE_CHECKING

import click

from pipeline.config.options import FORMAT, THREADS
from pipeline.config.ranges import SEED

if TYPE_CHECKING:
    from pipeline.games.index import Index

SPLIT_NAMES = ("train", "valid_seen", "valid_unseen")
TYPE_NAMES = (
    "look_at_obj_in_light",
    "pick_and_place_simple",
    "pick_clean_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_two_obj_and_place",
)


@click.group()
def games() -> None:
    """Index ALFWorld's games, generate new ones, translate them for the engine.

    \b
    Example: cir games generate --out games --split train=12 --index games.parquet
    """


@games.command()
@click.argument("root", envvar="ALFWORLD_DATA", type=click.Path())
@click.option("--out", required=True, type=click.Path(), help="Games table to write.")
@click.option("--split", "splits", multiple=True, type=click.Choice(SPLIT_NAMES), help="Only this split; repeatable.")
@click.option("--skip-bad", is_flag=True, help="Leave damaged or repeated games out, named and counted.")
@FORMAT
def index(root: str, out: str, splits: tuple[str, ...], skip_bad: bool, form: str) -> None:
    """Check every game under ROOT (default $ALFWORLD_DATA) and write the games table; print a summary.

    ROOT is the folder that holds json_2.1.1, or json_2.1.1 itself.

    \b
    Example: cir games index ~/.cache/alfworld --out official.parquet
    """
    from pathlib import Path

    from pipeline.games.index import index_root
    from pipeline.records.ledger import note_root
    from pipeline.records.tables import write_rows

    note_root("games", root)
    found = index_root(Path(root), splits, skip_bad)
    write_rows(out, found.rows, "games")
    for split, reason, what in found.excluded:
        if reason == "damaged":
            click.echo(f"left out of {split}: {what}", err=True)
    for split, reason, count in found.counts():
        click.echo(f"{split}: {count} left out, {reason}", err=True)
    _print_summary(found, form)


@games.command()
@click.option("--out", "root", required=True, type=click.Path(), help="Folder to write json_2.1.1/<split>/... under.")
@click.option("--split", "splits", multiple=True, help="NAME=COUNT with NAME train, valid_seen or valid_unseen.")
@click.option("--seed", default=1, show_default=True, type=SEED, help="Same seed, same bytes.")
@click.option(
    "--task-types",
    multiple=True,
    type=click.Choice(TYPE_NAMES),
    metavar="TYPE",
    help=f"Only this task type, repeatable; default: all of {', '.join(TYPE_NAMES)}.",
)
@click.option(
    "--verb", type=click.Choice(["move", "put"]), default="move", show_default=True, help="Wording of placing."
)
@click.option("--settings", help="Instead of the four options above: the config keys as JSON (`cir config settings`).")
@click.option("--index", "table", type=click.Path(), help="Also write the games table of exactly these games.")
@THREADS
@FORMAT
def generate(
    root: str,
    splits: tuple[str, ...],
    seed: int,
    task_types: tuple[str, ...],
    verb: str,
    settings: str | None,
    table: str | None,
    threads: int,
    form: str,
) -> None:
    """Make new games in ALFWorld's layout, each proven by playing its walkthrough before it is written.

    A rerun keeps the games that stand there and makes the missing ones. Splits never share a task folder.

    \b
    Example: cir games generate --out games --split train=12 --split valid_seen=6 --seed 1
    """
    from pathlib import Path

    from pipeline.errors import BadInput
    from pipeline.games import generate as making
    from pipeline.games.index import Trial, index_trials
    from pipeline.games.store import DATA, GAME, TRAJECTORY, clear_parts
    from pipeline.records.ledger import note_root, note_written
    from pipeline.records.tables import write_rows

    if settings is not None:
        from pipeline.config.models import Generate
        from pipeline.config.scopes import section

        keys = section(settings, "games.generate", Generate)
        counts, seed, verb, task_types = dict(keys.splits), keys.seed, keys.verb, tuple(keys.task_types)
    else:
        counts = making.parse_splits(splits)
    if not counts:
        raise BadInput("--split: give at least one, such as --split train=120")
    wanted = making.orders(counts, task_types or TYPE_NAMES, seed, verb)
    note_root("games", root)
    clear_parts(Path(root))
    made = making.make_all(wanted, Path(root), threads)
    making.report(made)
    trials = [Trial(Path(root) / DATA, one.split, *one.task.split("/")) for one in made]
    for trial in trials:
        for name in (GAME, TRAJECTORY):
            note_written(trial.place / name)
    found = index_trials(Path(root), trials)
    if table:
        write_rows(table, found.rows, "games")
    _print_summary(found, form)


@games.command()
@click.argument("table", metavar="GAMES", type=click.Path())
@click.option("--root", required=True, envvar="ALFWORLD_DATA", type=click.Path(), help="Folder that was indexed.")
@click.option("--only", type=click.Path(), help="Table with a column task: only these games.")
@click.option("--out", required=True, type=click.Path(), help="Translations table to write.")
@THREADS
def translate(table: str, root: str, only: str | None, out: str, threads: int) -> None:
    """Translate games once for the engine; refuses a file that has changed since it was indexed.

    \b
    Example: cir games translate games.parquet --root games --out translations.parquet --threads 2
    """
    from pathlib import Path

    from pipeline.games.translate import chosen, translate_all
    from pipeline.records.ledger import note_root
    from pipeline.records.tables import read_rows, write_rows

    note_root("games", root)
    tasks = [row["task"] for row in read_rows(only, columns=["task"])] if only else None
    units = chosen(read_rows(table, "games"), tasks, Path(root))
    write_rows(out, translate_all(units, threads), "translations")
    click.echo(f"translations: {len(units)} games, {out}", err=True)


def _print_summary(found: "Index", form: str) -> None:
    from pipeline.games.index import summary
    from pipeline.records.printing import print_csv, print_json, print_table

    rows = summary(found)
    if form == "json":
        excluded = [{"split": split, "reason": reason, "games": count} for split, reason, count in found.counts()]
        print_json({"games": len(found.rows), "summary": rows, "excluded": excluded})
    elif form == "csv":
        print_csv(rows)
    else:
        columns = [
            ("task type", lambda row: row["task_type"]),
            ("split", lambda row: row["split"]),
            ("games", lambda row: str(row["games"])),
            ("folders", lambda row: str(row["folders"])),
            ("walk", lambda row: f"{row['walkthrough_mean']:.1f}"),
            ("recep.", lambda row: f"{row['receptacles_min']}-{row['receptacles_max']}"),
            ("objects", lambda row: f"{row['objects_min']}-{row['objects_max']}"),
        ]
        print_table(f"{len(found.rows)} games", columns, rows, "walk: mean actions of the walkthrough")
