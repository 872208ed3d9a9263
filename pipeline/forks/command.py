"""`cir fork`: one job per (cohort, condition, delay, operator), looping over the cohort's tasks."""

import click

from pipeline.config.options import SETTINGS, STORE, THREADS, TRANSLATIONS
from pipeline.config.ranges import DELAY


@click.command()
@click.option("--delay", required=True, type=DELAY, help="Environment actions after the altered reply.")
@click.option("--operator", required=True, help="Recovery operator; none = the A/A arm.")
@click.option("--trunk", required=True, type=click.Path(), help="Trunks of the cohort under one condition.")
@TRANSLATIONS
@SETTINGS
@STORE
@THREADS
@click.option("--out", required=True, type=click.Path(), help="Forks table to write.")
def fork(
    delay: int, operator: str, trunk: str, translations: str, settings: str, store: str, threads: int, out: str
) -> None:
    """Fork every trunk at action k + d, apply one operator, and let the agent go on.

    \b
    Example: cir fork --delay 1 --operator refresh \\
               --trunk results/demo/trajectories/cohort=main/condition=stale-2/trunk.parquet \\
               --translations results/demo/games/translations.parquet \\
               --settings "$(cir config settings config/demo.yaml fork)" --out part.parquet
    """
    from pipeline.forks.branches import altered, branch_row, branch_units, lost_branch
    from pipeline.harness.operators import operator as known_operator
    from pipeline.harness.operators import operator_digest
    from pipeline.harness.play import agent_of, parse_settings, play_all
    from pipeline.records.tables import read_rows, write_rows
    from pipeline.store.episodes import EpisodeStore
    from pipeline.trajectories.runs import same_agent, translations_of

    parsed = parse_settings(settings)
    trunks = read_rows(trunk, "trajectories")
    applied = operator_digest(known_operator(operator, parsed.texts))
    agent = agent_of(parsed)
    altered(trunks, trunk)
    same_agent(trunks, agent, trunk)
    tasks = [row["task"] for row in trunks]
    games = translations_of(tasks, read_rows(translations, "translations"), translations)
    units, rows = branch_units(trunks, delay, operator, games)
    played = play_all(units, parsed, agent, threads, EpisodeStore(store), f"fork d={delay} {operator}")
    by_task = {row["task"]: row for row in trunks}
    for unit in units:
        row = played.get(unit.task)
        rows.append(branch_row(unit, row) if row else lost_branch(unit, by_task[unit.task]))
    rows = [row | {"operator_hash": applied} for row in sorted(rows, key=lambda row: row["task"])]
    write_rows(out, rows, "forks")
