"""`cir --record FILE COMMAND …`: the record of a command that succeeded, from what was seen of it."""

import os
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from json import loads
from pathlib import Path
from typing import Any

import click

from pipeline.provenance.code import code_digest
from pipeline.provenance.environment import gpus, software
from pipeline.provenance.record import FOLDER, FORMAT, rendered, sealed
from pipeline.records.files import write_bytes
from pipeline.records.ledger import Content, Ledger, observed
from pipeline.runtime.notes import noted

# Params that choose how fast a result comes, or where a copy of it is kept, and not what it is.
MACHINE = ("threads", "store")


@contextmanager
def recording(target: str, command: click.Context) -> Iterator[None]:
    """Record the command of that context to `target` when the block ends well; on an error nothing is written."""
    started, clock = datetime.now(UTC), time.monotonic()
    with observed() as ledger:
        yield
        # Within: what has been read and written is hashed here, and the record itself must not be seen.
        inputs, outputs = ledger.inputs(), ledger.outputs()
    names = Names(target, ledger)
    params = named_params(command, names)
    function = f"{command.command.callback.__module__}:{command.command.callback.__name__}"
    # Computed here, whatever the caller says: what ran is this process's own code.
    params.pop("code", None)
    apart = tuple(ledger.facts.get("apart", ()))
    machine = {name: params.pop(name) for name in MACHINE if name in params}
    found = gpus()
    values = {
        "format": FORMAT,
        "job": {
            "name": names.job,
            "command": command.command_path.removeprefix(command.find_root().command_path).strip(),
            "params": params,
        },
        "inputs": files(inputs, names),
        "outputs": files(outputs, names),
        "code": {"function": function, "digest": code_digest(function, apart), "apart": list(apart)},
        "environment": software(),
        "agent": ledger.facts.get("agent"),
        "seeds": seeds(params),
        "run": {
            "host": platform.node(),
            "gpus": None if found is None else list(found),
            "started": started.isoformat(timespec="seconds"),
            "seconds": round(time.monotonic() - clock, 3),
            "params": machine,
            "places": {"study": names.base, **ledger.roots},
            "notes": noted(),
        },
    }
    write_bytes(target, rendered(sealed(values)))


class Names:
    """Names of files that hold on any machine: relative to the folder that holds provenance/, or to a named root."""

    def __init__(self, target: str, ledger: Ledger):
        """`target` is the record to be written; its place under provenance/ names the job."""
        path = Path(os.path.abspath(target))
        above = [folder for folder in path.parents if folder.name == FOLDER]
        self.base = str(above[0].parent if above else path.parent)
        self.job = path.relative_to(above[0] if above else path.parent).with_suffix("").as_posix()
        self.roots = ledger.roots

    def of(self, path: str) -> str:
        """The name of a file or folder. What stands beside the study is named from there, though it is a root too."""
        place = os.path.abspath(path)
        if not _within(place, os.path.dirname(self.base)):
            for name, root in self.roots.items():
                if _within(place, root):
                    inner = os.path.relpath(place, root)
                    return f"{name}:" + ("" if inner == "." else Path(inner).as_posix())
        return Path(os.path.relpath(place, self.base)).as_posix()


def _within(place: str, folder: str) -> bool:
    return os.path.commonpath([place, folder]) == folder


def files(contents: Mapping[str, Content], names: Names) -> list[dict[str, Any]]:
    """Files as they stand in a record, sorted by name."""
    rows = [{"path": names.of(p), "sha256": content.sha256, "bytes": content.bytes} for p, content in contents.items()]
    return sorted(rows, key=lambda row: row["path"])


def named_params(command: click.Context, names: Names) -> dict[str, Any]:
    """What the command was called with, by the name of the option; paths by their names, JSON as what it says."""
    named = {}
    for option in command.command.params:
        value = command.params.get(option.name)
        if value is None:
            continue
        long = max(option.opts, key=len).lstrip("-") if isinstance(option, click.Option) else option.name
        many = isinstance(value, tuple | list)
        plain = [_plain(item, option, names) for item in (value if many else [value])]
        named[long] = plain if many else plain[0]
    return named


def _plain(value: Any, option: click.Parameter, names: Names) -> Any:
    if isinstance(option.type, click.Path):
        return names.of(value)
    if isinstance(value, str) and value.startswith("{"):
        return loads(value)
    return value


def seeds(params: Mapping[str, Any], prefix: str = "") -> dict[str, int]:
    """Every `seed` among nested params, by dotted name."""
    found: dict[str, int] = {}
    for name, value in sorted(params.items()):
        if isinstance(value, Mapping):
            found |= seeds(value, f"{prefix}{name}.")
        elif name == "seed" and isinstance(value, int):
            found[f"{prefix}{name}"] = value
    return found
