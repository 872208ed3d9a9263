"""The games table: every usable game of an ALFWorld data folder, checked, with what later stages need to know of it.

No planner runs here. A file that is damaged is an error that names it (or, with `skip_bad`, a counted exclusion); a
game that ALFWorld itself would not play (movable receptacles, sliced objects, unsolvable, no game file) is always a
counted exclusion.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.errors import BadInput
from pipeline.games.store import DATA, GAME, SPLITS, TRAJECTORY
from pipeline.records.canonical import bytes_sha256

TASK_TYPES = (
    "look_at_obj_in_light",
    "pick_and_place_simple",
    "pick_clean_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_two_obj_and_place",
)
UNSUPPORTED = ("movable", "Sliced")  # in a path: ALFWorld's text engine has no such tasks
TRAJECTORY_LIMIT = 20_000_000  # bytes; the largest official one has about 0.5 MB
_PLACED = re.compile(r"\(receptacleType\s")
_OBJECT = re.compile(r"\(objectType\s")


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial folder that was found: `data` is the folder that holds the splits."""

    data: Path
    split: str
    folder: str
    trial: str

    @property
    def task(self) -> str:
        """Task identifier (contracts.md)."""
        return f"{self.folder}/{self.trial}"

    @property
    def place(self) -> Path:
        """The trial folder."""
        return self.data / self.split / self.folder / self.trial


@dataclass(slots=True)
class Index:
    """Rows of the games table, sorted by task; exclusions as (split, reason, what); `bad` are the damaged among them."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    excluded: list[tuple[str, str, str]] = field(default_factory=list)

    def counts(self) -> list[tuple[str, str, int]]:
        """(split, reason, how many), sorted."""
        tally = Counter((split, reason) for split, reason, _ in self.excluded)
        return [(split, reason, count) for (split, reason), count in sorted(tally.items())]


class Unusable(Exception):
    """A game that ALFWorld would not play either; the message is the reason, in few words."""


def data_folder(root: Path) -> Path:
    """The folder that holds the splits: `root/json_2.1.1`, or `root` itself. Raises BadInput where it is neither."""
    for data in (root / DATA, root):
        if data.is_dir() and any((data / split).is_dir() for split in SPLITS):
            return data
    raise BadInput(
        f"{root}: holds no games; expected {DATA}/<split>/<task folder>/<trial>/{GAME} with a split of {', '.join(SPLITS)} "
        "(alfworld-download makes it, or `cir games generate`)"
    )


def index_root(root: Path, splits: Sequence[str] = (), skip_bad: bool = False) -> Index:
    """Index a data folder, all splits that it has or the given ones.

    Raises BadInput that names the file where one is damaged or listed twice (unless `skip_bad`), and where a split has
    no usable game.
    """
    from pipeline.runtime.progress import tracked

    data = data_folder(root)
    chosen = splits or [split for split in SPLITS if (data / split).is_dir()]
    trials = [trial for split in chosen for trial in _trials(data, split)]
    index = index_trials(root, tracked(trials, len(trials), "games checked"), skip_bad)
    for split in chosen:
        if not any(row["split"] == split for row in index.rows):
            raise BadInput(
                f"{data / split}: the split has no usable game ({_reasons(index, split)}); expected "
                f"<task folder>/<trial>/{GAME} and {TRAJECTORY}"
            )
    return index


def index_trials(root: Path, trials: Iterable[Trial], skip_bad: bool = False) -> Index:
    """Index the given trial folders. Raises as `index_root` does for damaged or repeated games."""
    index, seen = Index(), {}
    for trial in trials:
        try:
            row = game_row(root, trial)
            for kind in ("task", "sha256"):
                if (first := seen.setdefault((kind, row[kind]), row["path"])) != row["path"]:
                    raise BadInput(
                        f"{trial.place / GAME}: listed twice, it has the same {kind} as {first}; remove one of the two"
                    )
        except Unusable as reason:
            index.excluded.append((trial.split, str(reason), trial.task))
        except BadInput as error:
            if not skip_bad:
                raise BadInput(f"{error} (--skip-bad leaves such games out and counts them)") from error
            index.excluded.append((trial.split, "damaged", str(error)))
        else:
            index.rows.append(row)
    index.rows.sort(key=lambda row: row["task"])
    return index


def game_row(root: Path, trial: Trial) -> dict[str, Any]:
    """A row of the games table. Raises Unusable for what ALFWorld would not play, BadInput for a damaged file."""
    from pipeline.environment.safety import check_game, read_game

    if any(word in trial.task for word in UNSUPPORTED):
        raise Unusable("movable or sliced")
    path = trial.place / GAME
    if not path.exists():
        raise Unusable("no game file")
    task_type = _task_type(trial.place / TRAJECTORY)
    if task_type not in TASK_TYPES:
        raise Unusable(f"task type {task_type}")
    content = read_game(path)
    game = check_game(content, str(path))
    if "solvable" not in game:
        raise Unusable("not known to be solvable")
    if game["solvable"] is not True:
        raise Unusable("unsolvable")
    if not game.get("walkthrough"):
        raise BadInput(f"{path}: key 'walkthrough' is missing or empty; expected the commands that win the game")
    start, _, goal = game["pddl_problem"].partition("(:goal")
    if not goal:
        raise BadInput(f"{path}: the PDDL problem has no (:goal ...); download or generate the game again")
    return {
        "task": trial.task,
        "folder": trial.folder,
        "split": trial.split,
        "task_type": task_type,
        "path": path.relative_to(root).as_posix(),
        "sha256": bytes_sha256(content),
        "verb": _verb(game["grammar"], path),
        "walkthrough_actions": len(game["walkthrough"]),
        "receptacles": len(_PLACED.findall(start)),
        "objects": len(_OBJECT.findall(start)),
    }


def _trials(data: Path, split: str) -> Iterator[Trial]:
    """Trial folders of a split in sorted order; hidden folders and loose files are none of ours."""
    for folder in _folders(data / split):
        for trial in _folders(folder):
            yield Trial(data, split, folder.name, trial.name)


def _folders(parent: Path) -> list[Path]:
    if not parent.is_dir():
        return []
    try:
        found = sorted(entry for entry in parent.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    except OSError as error:
        raise BadInput(f"{parent}: cannot be read ({error.strerror}); expected a folder of games") from error
    for entry in found:
        if not entry.name.isprintable():
            raise BadInput(f"{str(entry)!r}: the name holds characters that are no text; rename or remove this folder")
    return found


def _task_type(path: Path) -> str:
    from pipeline.environment.safety import read_game

    try:
        trajectory = json.loads(read_game(path, TRAJECTORY_LIMIT))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: is no complete JSON ({error}); download or generate the game again") from error
    task_type = trajectory.get("task_type") if isinstance(trajectory, dict) else None
    if not isinstance(task_type, str):
        raise BadInput(f"{path}: key 'task_type' is missing; expected one of {', '.join(TASK_TYPES)}")
    return task_type


def _verb(grammar: str, path: Path) -> str:
    from pipeline.environment.grammar_source import put_template
    from pipeline.environment.safety import split_task
    from pipeline.environment.translation import VERBS

    try:
        # Without its task sentence a grammar is the same in all games, and parsed once.
        template = put_template(split_task(grammar)[0])
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from error
    for verb, form in VERBS.items():
        if template == form:
            return verb
    raise BadInput(f"{path}: the grammar places objects by {template[:60]!r}; expected one of {sorted(VERBS.values())}")


def _reasons(index: Index, split: str) -> str:
    reasons = [f"{count} {reason}" for its_split, reason, count in index.counts() if its_split == split]
    return ", ".join(reasons) or "no trial folder at all"


def summary(index: Index) -> list[dict[str, Any]]:
    """One row a (split, task type): games, folders, verbs, mean walkthrough, range of receptacles and of objects."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in index.rows:
        groups.setdefault((row["split"], row["task_type"]), []).append(row)
    return [
        {
            "split": split,
            "task_type": task_type,
            "games": len(rows),
            "folders": len({row["folder"] for row in rows}),
            "verbs": "+".join(sorted({row["verb"] for row in rows})),
            "walkthrough_mean": round(sum(row["walkthrough_actions"] for row in rows) / len(rows), 2),
            "receptacles_min": min(row["receptacles"] for row in rows),
            "receptacles_max": max(row["receptacles"] for row in rows),
            "objects_min": min(row["objects"] for row in rows),
            "objects_max": max(row["objects"] for row in rows),
        }
        for (split, task_type), rows in sorted(groups.items())
    ]
