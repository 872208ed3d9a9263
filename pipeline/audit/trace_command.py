"""`cir trace`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from pipeline.config.ranges import DELAY

if TYPE_CHECKING:
    from pipeline.audit.study import Recorded

CELL_NAMES = ("rescue", "harm", "kept-success", "unchanged-failure")


@click.command()
@click.argument("artifact")
@click.option(
    "--results",
    type=click.Path(),
    help="The study's folder.  [default: the one that holds the path, else the only one under results/]",
)
@click.option("--condition", help="With effects: the row's condition.")
@click.option("--delay", type=DELAY, help="With effects: the row's delay.")
@click.option("--operator", help="With effects: the row's operator.  [default: the router's]")
@click.option("--cohort", help="With effects: the row's cohort.  [default: the one the router is fitted on]")
@click.option(
    "--population",
    type=click.Choice(["complete", "factual-success"]),
    default="complete",
    show_default=True,
    help="With effects: the row's population.",
)
@click.option("--policy", help="With the artifact `policy`: which one.  [default: cir]")
@click.option("--cell", type=click.Choice(CELL_NAMES), help="Only the episodes of this cell.")
@click.option(
    "--transcripts", is_flag=True, help="Print what both branches of each episode said and were shown after the fork."
)
@click.option("--all", "everything", is_flag=True, help="In a tree: every input, however many.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["tree", "json", "dot"]),
    default="tree",
    show_default=True,
    help="What to print.",
)
def trace(
    artifact: str,
    results: str | None,
    condition: str | None,
    delay: int | None,
    operator: str | None,
    cohort: str | None,
    population: str,
    policy: str | None,
    cell: str | None,
    transcripts: bool,
    everything: bool,
    form: str,
) -> None:
    """Show what an artifact was made from, down to games and config; or the episodes behind a number.

    ARTIFACT is a file of the study, or its name without ending (effects, router, page). With --condition and --delay the
    episodes behind a row of the effects are listed, with `policy` those behind a row of the policies; their counts must
    equal the table's, else the exit code is 1.

    \b
    Example: cir trace effects --results results/demo
             cir trace effects --results results/demo --condition stale-2 --delay 1 --cell harm --transcripts
             cir trace policy --results results/demo --policy cir --cell rescue
    """
    from pipeline.audit import trace as lines
    from pipeline.audit.cells import behind_effects, behind_policy
    from pipeline.audit.study import only_study, read_study, study_around
    from pipeline.errors import BadInput
    from pipeline.records.printing import print_json

    study = read_study(results or study_around(artifact) or only_study())
    if artifact == "policy":
        return _print_episodes(study, behind_policy(study, policy or "cir", cell), transcripts, form)
    if policy is not None:
        raise BadInput("--policy: goes with the artifact `policy`, as in `cir trace policy --policy cir`")
    name = lines.artifact(study, artifact)
    if any(value is not None for value in (condition, delay, operator, cohort, cell)):
        if name != "outcomes/effects.parquet" or condition is None or delay is None:
            raise BadInput(
                "a cell needs the artifact effects with --condition and --delay, such as --condition stale-2 --delay 1"
            )
        found = behind_effects(study, condition, delay, operator, cohort, population, cell)
        return _print_episodes(study, found, transcripts, form)
    if form == "json":
        print_json({"artifact": name, "study": study.root.name, "lineage": lines.lineage(study, name)})
    else:
        for line in lines.dot(study, name) if form == "dot" else lines.tree(study, name, everything):
            click.echo(line)
    return None


def _print_episodes(study: "Recorded", found: Mapping[str, Any], transcripts: bool, form: str) -> None:
    from pipeline.audit.cells import transcripts as both
    from pipeline.errors import BadInput
    from pipeline.records.printing import print_json

    if form == "dot":
        raise BadInput("--format dot: shows lineages, episodes come as tree or json")
    episodes = found["episodes"]
    if form == "json":
        shown = [
            dict(one, transcripts=dict(zip(("alone", "recovered"), both(study, one), strict=True))) for one in episodes
        ]
        print_json(dict(found, episodes=shown if transcripts else episodes))
        return
    asked = [
        f"{key} {found[key]}"
        for key in ("policy", "cohort", "population", "condition", "delay", "operator")
        if key in found
    ]
    click.echo(", ".join(asked))
    click.echo(", ".join(f"{count} {name}" for name, count in found["counts"].items()))
    click.echo(f"{len(episodes)} episode(s){' of ' + found['cell'] if found['cell'] else ''}:")
    for one in episodes:
        click.echo(f"\n{one['task']}, {one['condition']}: {one['cell']}")
        acted = one["branch"] is not None
        when = (
            f"{one['operator']} at delay {one['delay']}, after action {one['fork_action']}" if acted else "left alone"
        )
        click.echo(f"  {when}; alone {_ended(one['y0'])}{', recovered ' + _ended(one['ym']) if acted else ''}")
        sides = [("alone", one["trunk"], one["trunk_key"]), ("recovered", one["branch"], one["branch_key"])]
        for side, file, key in sides[: 1 + acted]:
            click.echo(f"  {side + ':':10} {file}{f'   cir store show {key}' if key else ''}")
        if transcripts:
            for (side, *_), text in zip(sides[: 1 + acted], both(study, one), strict=False):
                click.echo(f"  --- {side}")
                for line in text or ["(it had ended)"]:
                    click.echo(f"    {line}")


def _ended(success: object) -> str:
    return "succeeds" if success else "fails"
