"""A finished study as its records tell it, and where the files stand that they name."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.config.load import parse_study
from pipeline.config.models import Study
from pipeline.errors import BadInput
from pipeline.provenance.record import FOLDER, File, Record, parsed
from pipeline.records.files import read_json

GAMES = "games:"  # files under the root of games that stand elsewhere
SHARED = "../games/"  # generated games, shared by the studies beside this one


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong: which check found it, where (a file or record), what, and what to do."""

    check: str
    where: str
    what: str
    do: str


@dataclass(frozen=True)
class Recorded:
    """A study's folder with its readable records by name; `unreadable` are the others, as findings."""

    root: Path
    records: Mapping[str, Record]
    unreadable: list[Finding]
    games: Path | None = None
    makers: Mapping[str, str] = field(default_factory=dict)

    def place(self, name: str) -> Path | None:
        """Where a file of that name in a record stands, None where its root is not known or not there."""
        if name.startswith(GAMES):
            return self.games / name.removeprefix(GAMES) if self.games else None
        if name.startswith(SHARED):
            folder, _, inner = name.removeprefix(SHARED).partition("/")
            root = self.games or self.root.parent / "games" / folder
            return root / inner if root.is_dir() else None
        return self.root / name

    def entry(self, name: str) -> File | None:
        """What the record that made a file says of it."""
        maker = self.makers.get(name)
        return None if maker is None else next(f for f in self.records[maker].outputs if f.path == name)


def outside(name: str) -> bool:
    """Whether a file of that name stands outside the study's folder, among the games."""
    return name.startswith((GAMES, SHARED))


def read_study(results: str | Path, games: str | Path | None = None) -> Recorded:
    """The records under a study's folder. Raises BadInput where it is none; damaged records are findings, not errors."""
    root = Path(os.path.abspath(results))
    folder = root / FOLDER
    if not folder.is_dir() and not (root / "study.json").is_file():
        raise BadInput(f"{results}: holds no study; expected the folder that the workflow wrote, such as results/demo")
    if games is not None and not Path(games).is_dir():
        raise BadInput(f"{games}: no such folder; --games takes the folder that holds json_2.1.1")
    records, unreadable = {}, []
    for path in sorted(folder.rglob("*.json")):
        name, shown = path.relative_to(folder).with_suffix("").as_posix(), path.relative_to(root).as_posix()
        try:
            record = parsed(path.read_bytes(), shown)
            if record.job.name != name:
                raise BadInput(f"{shown}: is the record of {record.job.name}; put it back in its place")
        except (BadInput, OSError) as error:
            what = str(error).removeprefix(f"{shown}: ")
            unreadable.append(Finding("record", shown, what, "restore the record, or delete it and run its job again"))
        else:
            records[name] = record
    makers = {file.path: name for name, record in records.items() for file in record.outputs}
    found = Recorded(root, records, unreadable, Path(games) if games is not None else None, makers)
    return found if games is not None else _with_official_games(found)


def only_study() -> str:
    """The only study under results/. Raises BadInput with the names where there are several, or none."""
    found = sorted(path.parent.parent for path in Path("results").glob(f"*/{FOLDER}/study.json"))
    if len(found) != 1:
        names = ", ".join(str(path) for path in found) or "none under results/"
        raise BadInput(f"which study? Name its folder; there are: {names}")
    return str(found[0])


def study_around(artifact: str) -> str | None:
    """The study's folder that holds a file of that path, None where none does."""
    above = Path(os.path.abspath(artifact)).parents
    return next((str(folder) for folder in above if (folder / FOLDER).is_dir()), None)


def config_of(study: Recorded) -> Study | None:
    """The study's config: as the record of its own job holds it, else study.json; None where neither can be read."""
    if record := study.records.get("study"):
        return parse_study(record.job.params.get("study"), f"{FOLDER}/study.json")
    try:
        return parse_study(read_json(study.root / "study.json"), "study.json")
    except BadInput:
        return None


def _with_official_games(study: Recorded) -> Recorded:
    """Official games are looked for where the study's config or ALFWORLD_DATA says."""
    config = config_of(study)
    root = (
        (config.games.root or os.environ.get("ALFWORLD_DATA")) if config and config.games.source == "alfworld" else None
    )
    if root is None or not Path(root).is_dir():
        return study
    return Recorded(study.root, study.records, study.unreadable, Path(root), study.makers)


def same(first: object, second: object) -> bool:
    """Whether two JSON-able values are the same JSON; 2 and 2.0 are."""
    return json.loads(json.dumps(first)) == json.loads(json.dumps(second))
