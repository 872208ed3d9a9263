"""`cir status`, `cir show`, `cir doctor`."""

from typing import TYPE_CHECKING, Any

import click

from pipeline.config.ranges import DELAY

if TYPE_CHECKING:
    from pipeline.config.models import Study

FORM = click.option(
    "--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True, help="What to print."
)
STUDY = click.option(
    "--study",
    multiple=True,
    type=click.Path(),
    help="The study's config; repeatable, later files laid over earlier ones.",
)


@click.command()
@click.argument("results", type=click.Path())
@STUDY
@click.option("--watch", type=click.FloatRange(min=0.5), help="Print again every so many seconds until all is done.")
@FORM
def status(results: str, study: tuple[str, ...], watch: float | None, form: str) -> None:
    """Jobs done, running, failed and missing; episodes, their pace and what is left; exclusions so far.

    RESULTS is a study's folder. What is planned stands in its study.json, or in the config given with --study. A job is
    done when its output stands there; whether it is up to date with the config, `snakemake --dry-run` says.

    \b
    Example: cir status results/demo
             cir status results/demo --study config/demo.yaml --format json
    """
    import time
    from pathlib import Path

    from pipeline.terminal.printed import print_status
    from pipeline.terminal.status import status as status_of
    from pipeline.terminal.status import study_of

    folder = Path(results)
    planned = study_of(folder, _loaded(study))
    while True:
        now = status_of(folder, planned)
        print_status(now, form)
        if watch is None or now["jobs"]["done"] == sum(now["jobs"].values()):
            return
        time.sleep(watch)


@click.command()
@click.argument("task")
@click.option("--results", default="results/demo", show_default=True, type=click.Path(), help="The study's results.")
@click.option("--cohort", help="Only tasks of this cohort.")
@click.option("--condition", help="The trunk of this condition; without it the factual run.")
@click.option("--delay", type=DELAY, help="With --operator: the branch that left the trunk so many actions later.")
@click.option("--operator", help="With --delay: the branch with this operator; none = the A/A arm.")
@FORM
def show(
    task: str,
    results: str,
    cohort: str | None,
    condition: str | None,
    delay: int | None,
    operator: str | None,
    form: str,
) -> None:
    """Print an episode's transcript; the altered reply is marked with its true text. With a branch: both, side by side.

    TASK is a task's name or a part of it that no other task has.

    \b
    Example: cir show SprayBottle-None-Cabinet --condition stale-2
             cir show SprayBottle-None-Cabinet --condition stale-2 --delay 1 --operator refresh
    """
    from pathlib import Path

    from pipeline.records.printing import print_json
    from pipeline.terminal.episodes import find

    episode = find(Path(results), task, cohort, condition, delay, operator)
    if form == "json":
        print_json({"cohort": episode.cohort, "trajectory": episode.row, "branch": episode.branch})
        return
    from pipeline.terminal.transcript import print_episode

    print_episode(episode)


@click.command()
@STUDY
@FORM
def doctor(study: tuple[str, ...], form: str) -> None:
    """Check what a study needs of this machine; each line is ok, a warning or a problem, with what to do.

    With --study also what that study needs: its games, its agent's server, its results folder. Exits 1 at a problem.

    \b
    Example: cir doctor
             cir doctor --study config/demo.yaml --format json
    """
    from pipeline.errors import CheckFailed
    from pipeline.terminal.doctor import examine
    from pipeline.terminal.printed import print_checks

    checks = examine(_loaded(study))
    print_checks(checks, form)
    if problems := [check.name for check in checks if check.level == "problem"]:
        raise CheckFailed(f"{len(problems)} problem(s): {', '.join(problems)}; what to do stands beside each")


def _loaded(paths: tuple[str, ...]) -> "Study | Any":
    from pipeline.config.load import load_study

    return load_study(*paths) if paths else None
