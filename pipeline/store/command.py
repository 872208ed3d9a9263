"""`cir store status|verify|show|collect`."""

from typing import TYPE_CHECKING, Any

import click

from pipeline.config.options import FORMAT, STORE
from pipeline.config.ranges import FiniteRange

if TYPE_CHECKING:
    from pathlib import Path

RESULTS = click.option(
    "--results",
    multiple=True,
    default=("results",),
    show_default=True,
    type=click.Path(),
    help="Folder of studies' results; repeatable: name every folder whose studies use the store.",
)


@click.group()
def store() -> None:
    """Look into the store of finished episodes, check it, collect what no study refers to.

    \b
    Example: cir store status --results results
    """


@store.command()
@STORE
@RESULTS
@FORMAT
def status(store: str, results: tuple[str, ...], form: str) -> None:
    """Size of the store, and of each study how many of its episodes are there, shared with other studies, missing.

    found and generated: what its jobs, each when it last ran, took from the store and played.

    \b
    Example: cir store status --store results/store --results results
    """
    from collections import Counter
    from pathlib import Path

    from pipeline.records.printing import print_csv, print_json, print_table
    from pipeline.store.listing import damaged, entries, hits, references

    there, size, parts = set(), 0, 0
    for one in entries(Path(store)):
        if one.key is None:
            parts += 1
        else:
            there.add(bytes.fromhex(one.key))
            size += one.size
    # A store may be looked at before any study has run.
    folders = [Path(folder) for folder in results if Path(folder).is_dir()]
    studies = references(folders, Path(store)).studies
    uses = Counter(key for keys in studies.values() for key in keys)
    rows: list[dict[str, Any]] = [
        {
            "study": name,
            "episodes": len(keys),
            "shared": sum(uses[key] > 1 for key in keys),
            "missing": len(keys - there),
            **dict(zip(("found", "generated"), hits(name), strict=True)),
        }
        for name, keys in sorted(studies.items())
    ]
    whole = {
        "store": store,
        "entries": len(there),
        "bytes": size,
        "unreferenced": sum(key not in uses for key in there),
        "damaged": len(damaged(Path(store))),
        "parts": parts,
    }
    if form == "json":
        print_json(whole | {"studies": rows})
    elif form == "csv":
        print_csv(rows)
    else:
        title = f"{store}: {len(there)} episodes, {size / 1e6:.1f} MB"
        counts = ("episodes", "shared", "missing", "found", "generated")
        columns = [("study", lambda row: row["study"])]
        columns += [(name, lambda row, name=name: str(row[name])) for name in counts]
        note = f"no study refers to {whole['unreferenced']}; {whole['damaged']} set aside as damaged; {parts} unfinished parts"
        print_table(title, columns, rows, note)


@store.command()
@STORE
def verify(store: str) -> None:
    """Read every entry and check its checksum, inputs and name; exit 1 naming those that don't hold. Changes nothing.

    \b
    Example: cir store verify --store results/store
    """
    from pathlib import Path

    from pipeline.errors import BadInput, CheckFailed
    from pipeline.runtime.progress import tracked
    from pipeline.store.entry import Damaged, decode
    from pipeline.store.listing import entries

    if not Path(store).is_dir():
        raise BadInput(f"{store}: no such folder; expected an episode store (--store, config key store)")
    found = sorted((one.path, one.key) for one in entries(Path(store)) if one.key is not None)
    wrong = []
    for path, key in tracked(found, len(found), "verify"):
        try:
            decode(Path(path).read_bytes(), key)
        except (Damaged, OSError) as error:
            wrong.append(f"{path} {error}")
    if wrong:
        shown = "\n".join(f"  {line}" for line in wrong)
        raise CheckFailed(
            f"{len(wrong)} of {len(found)} entries are damaged:\n{shown}\n"
            "a study that needs one sets it aside and generates it again; you may delete them"
        )
    click.echo(f"{store}: {len(found)} entries, all whole", err=True)


@store.command()
@click.argument("key")
@STORE
@click.option(
    "--format",
    "form",
    type=click.Choice(["transcript", "json"]),
    default="transcript",
    show_default=True,
    help="The episode to read, or its whole entry.",
)
def show(key: str, store: str, form: str) -> None:
    """Print the episode of KEY (or of the only key that begins so, from 6 digits on).

    \b
    Example: cir store show 1f6f6a --store results/store
    """
    from pathlib import Path

    from pipeline.errors import CheckFailed
    from pipeline.records.printing import print_json
    from pipeline.store.entry import Damaged, decode

    path = _only(Path(store), key)
    try:
        entry = decode(path.read_bytes(), path.stem)
    except Damaged as damage:
        raise CheckFailed(f"{path}: {damage}; a study that needs it generates it again") from damage
    if form == "json":
        print_json({"key": entry.key, "inputs": entry.inputs, "episode": entry.row})
        return
    row = entry.row
    click.echo(f"{row['task']}, {row['condition']}: {row['exit']} after {row['turns']} turns, {row['actions']} actions")
    for step in row["steps"]:
        if step["output"] is not None:
            click.echo(f"\n{step['index']:>3} {step['kind']}\n> {step['output']}")
        if step["observation_shown"] is not None:
            click.echo(step["observation_shown"])
            if step["observation_true"] not in (None, step["observation_shown"]) and step["kind"] != "reset":
                click.echo(f"[truly: {step['observation_true']}]")


@store.command()
@STORE
@RESULTS
@click.option(
    "--older-than",
    default=24.0,
    show_default=True,
    type=FiniteRange(min=0),
    metavar="HOURS",
    help="Keep what was written or used since: a running job's table isn't there yet.",
)
@click.option("--dry-run", is_flag=True, help="Say what would go and remove nothing.")
def collect(store: str, results: tuple[str, ...], older_than: float, dry_run: bool) -> None:
    """Remove episodes that no trajectories or forks table under the results names, and parts of killed writers.

    \b
    Example: cir store collect --store results/store --results results --dry-run
    """
    from pathlib import Path

    from pipeline.store.collect import collect as collect_from

    done = collect_from(Path(store), [Path(folder) for folder in results], older_than, dry_run)
    word = "would be removed" if dry_run else "removed"
    click.echo(
        f"{store}: {done.removed} episodes ({done.removed_bytes / 1e6:.1f} MB) and {done.parts} parts {word}; "
        f"{done.kept} are referred to, {done.young} are younger than {older_than:g} hours",
        err=True,
    )


def _only(folder: "Path", prefix: str) -> "Path":
    """The path of the one entry whose key begins so. Raises BadInput where there is none or several."""
    from pipeline.errors import BadInput
    from pipeline.store.entry import SUFFIX
    from pipeline.store.episodes import EPISODES

    shown = f"KEY {prefix!r}"
    if not 6 <= len(prefix) <= 64 or not set(prefix) <= set("0123456789abcdef"):
        raise BadInput(
            f"{shown}: expected 6 to 64 hex digits, as column episode_key of trajectories and forks has them"
        )
    found = sorted((folder / EPISODES / prefix[:2]).glob(f"{prefix}*{SUFFIX}"))
    if len(found) != 1:
        what = "no entry" if not found else f"{len(found)} entries"
        raise BadInput(
            f"{shown}: {folder} holds {what} of that beginning; `cir store status` shows whether it is the store"
        )
    return found[0]
