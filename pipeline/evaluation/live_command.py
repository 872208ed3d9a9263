"""`cir live`: the router inside the harness, held against the look-up evaluation."""

from typing import Any

import click

from pipeline.config.options import CODE, FORMAT, SETTINGS, THREADS, TRANSLATIONS


@click.command()
@click.argument("router", type=click.Path(), metavar="ROUTER.json")
@click.option(
    "--trunk",
    "trunks",
    required=True,
    multiple=True,
    type=click.Path(),
    help="Trunks of the held-out tasks; once for each condition.",
)
@TRANSLATIONS
@click.option("--decisions", required=True, type=click.Path(), help="Candidate moments of the held-out tasks.")
@click.option("--pairs", required=True, type=click.Path(), help="Pairs that hold the held-out tasks' branches.")
@click.option("--cohort", help="Only this cohort's rows.  [default: every cohort of the decisions]")
@SETTINGS
@CODE
@THREADS
@FORMAT
@click.option("--out", required=True, type=click.Path(), help="Live table to write.")
def live(
    router: str,
    trunks: tuple[str, ...],
    translations: str,
    decisions: str,
    pairs: str,
    cohort: str | None,
    settings: str,
    code: str | None,
    threads: int,
    form: str,
    out: str,
) -> None:
    """Play the held-out episodes with the router deciding, and check them against `cir evaluate`'s look-up.

    Exit 1 where an episode's decision, delay or outcome differs; the table is written all the same.

    \b
    Example: cir live results/demo/router/router.json --cohort evaluation \\
               $(printf -- '--trunk %s ' results/demo/trajectories/cohort=evaluation/condition=*/trunk.parquet) \\
               --translations results/demo/games/translations.parquet \\
               --decisions results/demo/router/decisions.parquet --pairs results/demo/outcomes/pairs.parquet \\
               --settings "$(cir config settings config/demo.yaml live)" --out live.parquet
    """
    from pipeline.errors import CheckFailed
    from pipeline.evaluation.live import compared, live_units, play_live
    from pipeline.evaluation.lookup import SHOWN, held_out
    from pipeline.harness.play import agent_of, job_key, parse_settings
    from pipeline.provenance.code import code_digest
    from pipeline.records.printing import print_csv, print_json
    from pipeline.records.tables import read_rows, write_rows
    from pipeline.router.model import Router
    from pipeline.runtime.journal import Journal
    from pipeline.trajectories.runs import same_agent, translations_of

    parsed, model = parse_settings(settings), Router.load(router)
    agent = agent_of(parsed)
    found = held_out(model, decisions, pairs, cohort)
    by_episode: dict[tuple[str, str], dict[str, Any]] = {}
    for path in trunks:
        rows = [row for row in read_rows(path, "trajectories") if row["excluded"] is None]
        same_agent(rows, agent, path)
        by_episode |= {(row["task"], row["condition"]): row for row in rows}
    tasks = sorted({episode.task for episode in found.episodes})
    games = translations_of(tasks, read_rows(translations, "translations"), translations)
    units = live_units(found.episodes, by_episode, games, model.operator)
    code = code or code_digest(f"{__name__}:live")
    with Journal(out, job_key("live", settings, [router, *trunks, translations], code)) as journal:
        played = play_live(units, parsed, model, threads, journal)
        table = compared(found.episodes, played, model, agent)
        write_rows(out, table, "live")
    if found.left_out:
        names = "; ".join(" ".join(key) for key in found.left_out[:SHOWN])
        click.echo(
            f"{len(found.left_out)} of {found.planned_episodes} episodes have no look-up and are not played, the first: "
            f"{names}",
            err=True,
        )
    by_condition = _by_condition(table)
    if form == "json":
        print_json({"episodes": len(table), "agree": _agreeing(table), "by_condition": by_condition})
    elif form == "csv":
        print_csv(by_condition)
    else:
        _print_table(by_condition)
    if differing := [row for row in table if row["difference"]]:
        names = "; ".join(f"{row['task']} {row['condition']} ({row['difference']})" for row in differing[:SHOWN])
        raise CheckFailed(
            f"{len(differing)} of {len(table)} live episodes differ from the look-up evaluation: {names}; an agent that "
            "answers the same prefix in two ways, other code or other settings than the forks' are the usual reasons"
        )


def _agreeing(rows: list[dict[str, Any]]) -> int:
    return sum(row["difference"] is None for row in rows)


def _by_condition(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Counts by condition, clean first."""
    rows = []
    for name in sorted({row["condition"] for row in table}, key=lambda c: (c != "clean", c)):
        mine = [row for row in table if row["condition"] == name]
        rows.append(
            {
                "condition": name,
                "episodes": len(mine),
                "agree": _agreeing(mine),
                "interventions": sum(row["intervened"] for row in mine),
                "success": sum(row["success"] for row in mine),
                "lookup_success": sum(row["lookup_success"] for row in mine),
            }
        )
    return rows


def _print_table(rows: list[dict[str, Any]]) -> None:
    from pipeline.records.printing import Column, print_table

    counts = ("episodes", "agree", "interventions", "success", "lookup_success")
    columns: list[Column] = [("condition", lambda row: row["condition"])]
    columns += [(name.replace("_", " "), lambda row, name=name: str(row[name])) for name in counts]
    total = {"condition": "all"} | {name: sum(row[name] for row in rows) for name in counts}
    print_table("The router live, beside its look-up evaluation", columns, [*rows, total])
