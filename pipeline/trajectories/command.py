"""`cir cohorts draw|settle`, `cir factual`, `cir trunk`."""

from typing import TYPE_CHECKING

import click

from pipeline.config.options import SETTINGS, STORE, THREADS, TRANSLATIONS

if TYPE_CHECKING:
    from pipeline.config.models import Cohort


def _cohorts_of(settings: str) -> dict[str, "Cohort"]:
    from pipeline.config.scopes import parsed_settings, study_key

    return study_key("cohorts", parsed_settings(settings).get("cohorts", {}), "--settings")


@click.group()
def cohorts() -> None:
    """Draw disjoint cohorts of candidates; settle which tasks are feasible.

    \b
    Example: cir cohorts draw --games results/demo/games/games.parquet \\
               --settings "$(cir config settings config/demo.yaml draw)" --out candidates.parquet
    """


@cohorts.command()
@click.option("--games", required=True, type=click.Path(), help="The games table.")
@SETTINGS
@click.option("--out", required=True, type=click.Path(), help="Candidates table to write.")
def draw(games: str, settings: str, out: str) -> None:
    """Draw every cohort's candidates: disjoint by game and by task folder.

    \b
    Example: cir cohorts draw --games results/demo/games/games.parquet \\
               --settings "$(cir config settings config/demo.yaml draw)" --out candidates.parquet
    """
    from pipeline.records.tables import read_rows, write_rows
    from pipeline.trajectories.cohorts import draw as draw_cohorts

    write_rows(out, draw_cohorts(read_rows(games, "games"), _cohorts_of(settings)), "candidates")


@cohorts.command()
@click.option("--candidates", required=True, type=click.Path(), help="The candidates table.")
@click.option(
    "--trajectories", required=True, type=click.Path(), help="Folder that holds cohort=<name>/factual.parquet."
)
@SETTINGS
@click.option("--out", required=True, type=click.Path(), help="Cohorts table to write.")
def settle(candidates: str, trajectories: str, settings: str, out: str) -> None:
    """Fill each cohort with its first feasible candidates; name why the others fell out.

    \b
    Example: cir cohorts settle --candidates results/demo/games/candidates.parquet \\
               --trajectories results/demo/trajectories \\
               --settings "$(cir config settings config/demo.yaml settle)" --out cohorts.parquet
    """
    from pathlib import Path

    from pipeline.config.flags import flag_or_key, listed
    from pipeline.config.models import Alteration
    from pipeline.config.scopes import section
    from pipeline.records.tables import read_rows, write_rows
    from pipeline.trajectories.cohorts import settle as settle_cohorts
    from pipeline.trajectories.runs import played_all

    sizes = {name: cohort.size for name, cohort in _cohorts_of(settings).items()}
    columns = ["task", "success", "actions", "excluded"]
    drawn, factual = read_rows(candidates, "candidates"), {}
    for name in sizes:
        path = Path(trajectories, f"cohort={name}", "factual.parquet")
        rows = {row["task"]: row for row in read_rows(path, "trajectories", columns)}
        played_all((row["task"] for row in drawn if row["cohort"] == name), rows, str(path))
        factual |= {(name, task): row for task, row in rows.items()}
    rows = settle_cohorts(
        [row for row in drawn if row["cohort"] in sizes],
        factual,
        sizes,
        listed(flag_or_key(None, settings, "protocol.conditions", "--settings"), "protocol.conditions"),
        section(settings, "protocol.alteration", Alteration),
    )
    write_rows(out, rows, "cohorts")
    for name in sizes:
        mine = [row for row in rows if row["cohort"] == name]
        solved = sum(bool(row["factual_success"]) for row in mine if row["feasible"])
        click.echo(f"{name}: {sizes[name]} of {len(mine)} candidates taken, {solved} solved factually", err=True)


@click.command()
@click.option("--cohort", required=True, help="Name of the cohort.")
@click.option("--candidates", required=True, type=click.Path(), help="The candidates table.")
@TRANSLATIONS
@SETTINGS
@STORE
@THREADS
@click.option("--out", required=True, type=click.Path(), help="Trajectories table to write.")
def factual(cohort: str, candidates: str, translations: str, settings: str, store: str, threads: int, out: str) -> None:
    """Run the agent on a cohort's candidates: nothing altered, no recovery.

    \b
    Example: cir factual --cohort main --candidates results/demo/games/candidates.parquet \\
               --translations results/demo/games/translations.parquet \\
               --settings "$(cir config settings config/demo.yaml factual)" --out factual.parquet
    """
    from pipeline.records.tables import read_rows
    from pipeline.trajectories.runs import factual_units, of_cohort, translations_of

    tasks = [row["task"] for row in of_cohort(read_rows(candidates, "candidates"), cohort, candidates)]
    units = factual_units(tasks, translations_of(tasks, read_rows(translations, "translations"), translations))
    _play(units, settings, store, threads, out, f"factual {cohort}")


@click.command()
@click.option("--cohort", required=True, help="Name of the cohort.")
@click.option("--condition", required=True, help="clean, stale-N or missing.")
@click.option("--cohorts", required=True, type=click.Path(), help="The settled cohorts table.")
@click.option("--factual", required=True, type=click.Path(), help="The cohort's factual trajectories.")
@TRANSLATIONS
@SETTINGS
@STORE
@THREADS
@click.option("--out", required=True, type=click.Path(), help="Trajectories table to write.")
def trunk(
    cohort: str,
    condition: str,
    cohorts: str,
    factual: str,
    translations: str,
    settings: str,
    store: str,
    threads: int,
    out: str,
) -> None:
    """Replay each task to action k, show its reply as the condition has it, and run on without recovery.

    \b
    Example: cir trunk --cohort main --condition stale-2 --cohorts results/demo/games/cohorts.parquet \\
               --factual results/demo/trajectories/cohort=main/factual.parquet \\
               --translations results/demo/games/translations.parquet \\
               --settings "$(cir config settings config/demo.yaml trunk)" --out trunk.parquet
    """
    from pipeline.harness.conditions import condition as known_condition
    from pipeline.harness.play import agent_of, parse_settings
    from pipeline.records.tables import read_rows
    from pipeline.trajectories.runs import of_cohort, played_all, same_agent, translations_of, trunk_units

    members = [row for row in of_cohort(read_rows(cohorts, "cohorts"), cohort, cohorts) if row["feasible"]]
    games = translations_of([row["task"] for row in members], read_rows(translations, "translations"), translations)
    episodes = {row["task"]: row for row in read_rows(factual, "trajectories")}
    parsed = parse_settings(settings)
    known_condition(condition, parsed.alteration)
    played_all((row["task"] for row in members), episodes, factual)
    same_agent(episodes.values(), agent_of(parsed), factual)
    units = trunk_units(members, episodes, condition, games)
    _play(units, settings, store, threads, out, f"trunk {cohort} {condition}")


def _play(units: list, settings: str, store: str, threads: int, out: str, what: str) -> None:
    from pipeline.harness.play import agent_of, parse_settings, play_all
    from pipeline.records.tables import write_rows
    from pipeline.store.episodes import EpisodeStore
    from pipeline.trajectories.runs import lost_episode

    parsed = parse_settings(settings)
    # Built here first, so that a wrong parameter is said once, and not by each worker that it kills.
    agent = agent_of(parsed)
    rows = play_all(units, parsed, agent, threads, EpisodeStore(store), what)
    episodes = [rows.get(unit.task) or lost_episode(unit.task, unit.condition, unit.k, agent) for unit in units]
    write_rows(out, episodes, "trajectories")
