"""`cir power`, `cir gate`."""

import click

from pipeline.config.options import FORMAT
from pipeline.config.ranges import FiniteRange

OPEN_SHARE = FiniteRange(0, 1, min_open=True, max_open=True)


@click.command()
@click.option("--rescue", metavar="RATE", help="Share of all tasks rescued: 0.16 or 17/106.")
@click.option("--harm", metavar="RATE", help="Share of all tasks harmed: 0.094 or 10/106.")
@click.option("--power", default=0.8, show_default=True, type=OPEN_SHARE, help="Power wanted.")
@click.option("--alpha", default=0.05, show_default=True, type=OPEN_SHARE, help="Level of the two-sided test.")
@click.option("--tasks", type=click.IntRange(1, 1_000_000), help="Also the power of a study of this many tasks.")
@click.option("--epsilon", type=OPEN_SHARE, help="Also the clean tasks that certify clean harm of at most this share.")
@click.option("--confidence", default=0.95, show_default=True, type=OPEN_SHARE, help="Confidence of --epsilon.")
@click.option(
    "--clean-harms",
    default=0,
    show_default=True,
    type=click.IntRange(0, 1_000_000),
    help="Clean tasks harmed, for --epsilon.",
)
@FORMAT
def power(
    rescue: str | None,
    harm: str | None,
    power: float,
    alpha: float,
    tasks: int | None,
    epsilon: float | None,
    confidence: float,
    clean_harms: int,
    form: str,
) -> None:
    """Tasks that a study needs, by the exact McNemar test and an exact bound; nothing is simulated.

    \b
    Example: cir power --rescue 17/106 --harm 10/106 --tasks 106
             cir power --epsilon 0.02 --clean-harms 1
    """
    from pipeline.errors import BadInput
    from pipeline.outcomes.planning import plan, print_plan, rate

    if (rescue is None) != (harm is None) or (rescue is None and epsilon is None):
        raise BadInput("give --rescue and --harm together, or --epsilon, or all three")
    rates = [None if text is None else rate(text, name) for text, name in ((rescue, "--rescue"), (harm, "--harm"))]
    print_plan(plan(rates[0], rates[1], power, alpha, tasks, epsilon, confidence, clean_harms), form)


@click.command()
@click.argument("pairs", type=click.Path(), metavar="[PAIRS.parquet]", required=False)
@click.option("--rescue", metavar="COUNT", help="Without a table: rescued of those that fail alone, such as 9/30.")
@click.option("--harm", metavar="COUNT", help="Without a table: harmed of those that succeed alone, such as 2/45.")
@click.option(
    "--by",
    default="cohort,population,condition,delay,operator",
    show_default=True,
    help="Keys of a row; each row needs one unit a task.",
)
@click.option(
    "--failure-rate", metavar="RATE", help="Share that fails alone where it will run.  [default: the pilot's]"
)
@click.option("--confidence", default=0.95, show_default=True, type=OPEN_SHARE, help="Of both intervals together.")
@FORMAT
def gate(
    pairs: str | None,
    rescue: str | None,
    harm: str | None,
    by: str,
    failure_rate: str | None,
    confidence: float,
    form: str,
) -> None:
    """From which failure rate on a recovery gains: d / (r + d), with the interval that a pilot supports.

    r: chance to rescue an episode that would fail; d: chance to harm one that would succeed.

    \b
    Example: cir gate results/demo/outcomes/pairs.parquet
             cir gate --rescue 9/30 --harm 2/45 --failure-rate 0.25
    """
    from pipeline.config.flags import listed
    from pipeline.errors import BadInput
    from pipeline.outcomes.effects import KEYS
    from pipeline.outcomes.planning import counts, gate_row, gates, print_gates, rate

    share = None if failure_rate is None else rate(failure_rate, "--failure-rate")
    if pairs is not None and (rescue is not None or harm is not None):
        raise BadInput("give a table, or --rescue and --harm, not both")
    if pairs is not None:
        keys = listed(by, "--by")
        if unknown := [key for key in keys if key not in KEYS]:
            raise BadInput(f"--by: no such key {', '.join(unknown)}; known are {', '.join(KEYS)}")
        print_gates(gates(pairs, keys, confidence, share), keys, form)
        return
    if rescue is None or harm is None:
        raise BadInput("give a pairs table, or --rescue and --harm, such as --rescue 9/30 --harm 2/45")
    row = gate_row(*counts(rescue, "--rescue"), *counts(harm, "--harm"), confidence, share)
    print_gates([row], [], form)
