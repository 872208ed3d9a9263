"""Options that several commands share: one name, one range, one help text wherever they appear."""

import click

from pipeline.config import ranges
from pipeline.records.printing import FORMATS

FORMAT = click.option(
    "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True, help="What to print."
)
RESAMPLES = click.option(
    "--resamples", default=10_000, show_default=True, type=ranges.RESAMPLES, help="Bootstrap resamples."
)
SEED = click.option("--seed", default=0, show_default=True, type=ranges.SEED, help="Seed of the resampling.")
SETTINGS = click.option(
    "--settings", required=True, help="The config keys of this stage, as JSON (`cir config settings`)."
)
CODE = click.option(
    "--code", help="Digest of the code behind this stage, as the workflow passes it.  [default: computed]"
)
STORE = click.option(
    "--store",
    default="results/store",
    show_default=True,
    envvar="CIR_STORE",
    show_envvar=True,
    type=click.Path(),
    help="Folder of the episode store (docs/store.md).",
)
THREADS = click.option("--threads", default=1, show_default=True, type=ranges.WORKERS, help="Worker processes.")
TRANSLATIONS = click.option("--translations", required=True, type=click.Path(), help="The games' translations.")
