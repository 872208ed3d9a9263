"""`cir pairs`, `cir effects`, `cir contrast`."""

import click

from pipeline.config.options import FORMAT, RESAMPLES, SEED
from pipeline.config.ranges import DELAY

TABLE = click.argument("pairs", type=click.Path(), metavar="PAIRS.parquet")
CLUSTER = click.option(
    "--cluster",
    type=click.Choice(["task", "folder"]),
    default="task",
    show_default=True,
    help="What the bootstrap draws.",
)
EXACT = click.option("--exact", is_flag=True, help="Exact bootstrap interval, the one that resampling converges to.")


@click.command()
@click.option("--cohorts", required=True, type=click.Path(), help="The settled cohorts table.")
@click.option("--trajectories", required=True, type=click.Path(), help="Folder of cohort=C/condition=E/trunk.parquet.")
@click.option(
    "--forks", required=True, type=click.Path(), help="Folder of cohort=C/condition=E/delay=D/operator=M/part.parquet."
)
@click.option("--settings", help="The config keys of this stage, as JSON (`cir config settings`), for flags left out.")
@click.option("--conditions", help="Planned conditions, commas between.  [protocol.conditions]")
@click.option("--delays", help="Planned delays, commas between.  [protocol.delays]")
@click.option("--operators", help="Planned operators, commas between.  [protocol.operators]")
@click.option(
    "--null-alterations",
    type=click.Choice(["keep", "exclude"]),
    help="Units whose altered text equals the true text.  [statistics.null_alterations, else keep]",
)
@click.option("--out", required=True, type=click.Path(), help="Pairs table to write.")
@click.option("--exclusions", required=True, type=click.Path(), help="Exclusions table to write.")
def pairs(
    cohorts: str,
    trajectories: str,
    forks: str,
    settings: str | None,
    conditions: str | None,
    delays: str | None,
    operators: str | None,
    null_alterations: str | None,
    out: str,
    exclusions: str,
) -> None:
    """Pair each branch with its trunk; list what fell out. Every planned unit must be there exactly once.

    \b
    Example: cir pairs --cohorts results/demo/games/cohorts.parquet \\
               --trajectories results/demo/trajectories --forks results/demo/forks \\
               --conditions clean,stale-2 --delays 1,2,4 --operators none,refresh \\
               --out pairs.parquet --exclusions exclusions.parquet
    """
    from pipeline.config.flags import flag_or_key, listed, listed_delays
    from pipeline.outcomes.pairing import pair_up
    from pipeline.records.tables import write_table

    nulls = flag_or_key(null_alterations, settings, "statistics.null_alterations", "--null-alterations", "keep")
    paired, excluded = pair_up(
        cohorts,
        trajectories,
        forks,
        listed(flag_or_key(conditions, settings, "protocol.conditions", "--conditions"), "--conditions"),
        listed_delays(flag_or_key(delays, settings, "protocol.delays", "--delays"), "--delays"),
        listed(flag_or_key(operators, settings, "protocol.operators", "--operators"), "--operators"),
        nulls == "exclude",
    )
    write_table(out, paired)
    write_table(exclusions, excluded)
    units = len(excluded) - excluded.column("condition").null_count
    click.echo(
        f"{len(paired)} pairs, {units} excluded units, {len(excluded) - units} candidate tasks left out", err=True
    )


@click.command()
@TABLE
@click.option(
    "--by",
    default="cohort,population,condition,delay,operator",
    show_default=True,
    help="Keys of a row; what is left out is pooled.",
)
@RESAMPLES
@SEED
@CLUSTER
@EXACT
@click.option(
    "--without-null-alterations", is_flag=True, help="Leave out units whose altered text equals the true text."
)
@click.option(
    "--sensitivity",
    is_flag=True,
    help="Print, as a table, the intervals over folders and the rows without null alterations instead.",
)
@FORMAT
@click.option("--out", type=click.Path(), help="Effects table to write.")
def effects(
    pairs: str,
    by: str,
    resamples: int,
    seed: int,
    cluster: str,
    exact: bool,
    without_null_alterations: bool,
    sensitivity: bool,
    form: str,
    out: str | None,
) -> None:
    """Rescues, harms, effects and intervals of a pairs table, whoever made it.

    Effects and intervals are percentage points of n, the paired units of a row; a task's units move together in the
    bootstrap. Without population in --by all tasks count; without operator the A/A arm (none) is left out.
    JSON, CSV and --out always hold the sensitivities too (ci_folder_*, no_null_*).

    \b
    Example: cir effects results/demo/outcomes/pairs.parquet --format json
    """
    from pipeline.config.flags import listed
    from pipeline.errors import BadInput
    from pipeline.outcomes.effects import KEYS, Interval, effects_schema
    from pipeline.outcomes.effects import effects as effects_of
    from pipeline.outcomes.tables import print_effects, print_sensitivities
    from pipeline.records.tables import write_rows

    keys = listed(by, "--by")
    if unknown := [key for key in keys if key not in KEYS]:
        raise BadInput(f"--by: no such key {', '.join(unknown)}; known are {', '.join(KEYS)}")
    rows = effects_of(pairs, keys, Interval(resamples, seed, cluster, exact), without_null_alterations)
    if out:
        write_rows(out, rows, effects_schema(keys))
    if sensitivity and form == "table":
        print_sensitivities(rows, keys)
    else:
        print_effects(rows, keys, form)


@click.command()
@TABLE
@click.option(
    "--condition", help="Condition whose effect is compared; with --versus-operator: only this one.  [default: each]"
)
@click.option("--versus", help="Condition it is compared with.")
@click.option("--delay", type=DELAY, help="Only this delay.  [default: each]")
@click.option("--operator", help="Only this operator.  [default: each]")
@click.option("--versus-operator", help="Operator that --operator is compared with, instead of two conditions.")
@RESAMPLES
@SEED
@CLUSTER
@EXACT
@FORMAT
def contrast(
    pairs: str,
    condition: str | None,
    versus: str | None,
    delay: int | None,
    operator: str | None,
    versus_operator: str | None,
    resamples: int,
    seed: int,
    cluster: str,
    exact: bool,
    form: str,
) -> None:
    """Difference of effects between two conditions, or two operators, paired inside the tasks that have both.

    Between operators it also counts the tasks rescued by both, by one only and by neither, and harmed likewise.

    \b
    Example: cir contrast results/demo/outcomes/pairs.parquet --condition stale-2 --versus clean --operator refresh
             cir contrast results/demo/outcomes/pairs.parquet --operator refresh --versus-operator replan-only \\
               --condition stale-2 --delay 4
    """
    from pipeline.errors import BadInput
    from pipeline.outcomes.effects import Interval
    from pipeline.outcomes.effects import contrast as contrast_of
    from pipeline.outcomes.operators import operator_contrast
    from pipeline.outcomes.tables import print_contrast, print_operator_contrast

    made = Interval(resamples, seed, cluster, exact)
    if (versus is None) == (versus_operator is None):
        raise BadInput("give either --versus (a second condition) or --versus-operator (a second operator)")
    if versus_operator is not None:
        if operator is None:
            raise BadInput("--versus-operator: needs --operator, the operator that is compared with it")
        print_operator_contrast(operator_contrast(pairs, operator, versus_operator, condition, delay, made), form)
    elif versus is not None:
        if condition is None:
            raise BadInput("--versus: needs --condition, the condition that is compared with it")
        print_contrast(contrast_of(pairs, condition, versus, delay, operator, made), form)
