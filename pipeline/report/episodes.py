"""The fork viewer's data: trunks and branches of the sampled units, deduplicated, compressed, safe to stand in HTML."""

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import CheckFailed
from pipeline.records.tables import read_table
from pipeline.report.sampling import ordered, unit_key
from pipeline.report.treated import SIGNALS, Key, Treated
from pipeline.runtime.progress import tracked

Row = Mapping[str, Any]
MOST_BRANCHES = 25_000
MOST_BYTES = 2_600_000  # of base64 text; the rest of a page of four cohorts takes about 2 MB, and 5 MB are promised
LONGEST = 4_000  # characters of one text; agents can write without end
KINDS = ("reset", "act", "think", "unparseable", "recover", "give-up")
CELLS = ("rescue", "harm", "kept-success", "unchanged-failure")
_STEP = ("kind", "output", "action", "observation_shown", "observation_true")
_EPISODE = ("task", "success", "exit", "altered_at", "steps")


@dataclass(frozen=True)
class ViewerData:
    """`packed`: base64 of gzipped JSON (viewer.js reads it); how many branches it holds, of how many in the study."""

    packed: str
    branches: int
    of: int


class _Texts:
    """Texts by number, each once; 0 stands for none."""

    def __init__(self) -> None:
        self.places: dict[str | None, int] = {None: 0}

    def __call__(self, text: str | None) -> int:
        if text is not None and len(text) > LONGEST:
            text = f"{text[:LONGEST]}… [{len(text) - LONGEST:,} more characters]"
        return self.places.setdefault(text, len(self.places))


def viewer_data(
    pairs: Sequence[Row],
    trajectories: Path,
    forks: Path,
    answers: Mapping[Key, Treated],
    operator: str,
    most: int = MOST_BRANCHES,
    most_bytes: int = MOST_BYTES,
) -> ViewerData:
    """Read and pack the episodes of a study; the router is said to fire on branches of `operator`.

    `trajectories` and `forks` are the stages' folders (contracts.md). Raises BadInput for a file that is missing or
    damaged, CheckFailed where a pair has no trunk or branch.
    """
    fired = {(*key, answer.fired, operator) for key, answer in answers.items() if answer.fired is not None}
    queue, take = ordered(pairs, fired), min(most, len(pairs))
    trunks, branches = _read_trunks(queue[:take], trajectories), _read_branches(queue[:take], forks)
    while True:
        chosen = sorted(queue[:take], key=unit_key)
        packed = _packed(_content(chosen, trunks, branches, answers, fired))
        if len(packed) <= most_bytes or take <= 1:
            return ViewerData(packed, take, len(pairs))
        take = max(1, int(0.95 * take * most_bytes / len(packed)))


def _packed(content: Any) -> str:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    # A lone surrogate is no UTF-8; it becomes a question mark here and stays as it is in the tables.
    return base64.b64encode(gzip.compress(text.encode("utf-8", "replace"), 6, mtime=0)).decode("ascii")


def _content(
    chosen: Sequence[Row],
    trunks: Mapping[tuple[str, ...], Row],
    branches: Mapping[tuple[Any, ...], Row],
    answers: Mapping[Key, Treated],
    fired: set[tuple[Any, ...]],
) -> dict[str, Any]:
    texts = _Texts()
    places: dict[tuple[str, ...], int] = {}
    packed_trunks, units = [], []
    for pair in chosen:
        key = (pair["cohort"], pair["task"], pair["condition"])
        trunk = trunks[key]
        if key not in places:
            places[key] = len(places)
            answer = answers.get(key)
            moments = [
                [delay, *(round(getattr(signals, name), 3) for name in SIGNALS)]
                for delay, signals in (answer.moments if answer else ())
            ]
            packed_trunks.append(
                [texts(pair["cohort"]), texts(pair["task"]), texts(pair["condition"]), int(trunk["success"])]
                + [texts(trunk["exit"]), trunk["altered_at"] or 0, _steps(trunk["steps"], texts)]
                + [moments, answer.fired if answer else None, int(pair["factual_success"])]
            )
        branch = branches[unit_key(pair)]
        units.append(
            [places[key], pair["delay"], texts(pair["operator"]), CELLS.index(pair["cell"])]
            + [int(branch["carried_forward"]), int(pair["null_alteration"]), int(unit_key(pair) in fired)]
            + [
                _fork_place(trunk["steps"], branch["fork_action"]),
                texts(branch["exit"]),
                _steps(branch["steps"], texts),
            ]
        )
    return {"texts": list(texts.places), "kinds": KINDS, "cells": CELLS, "trunks": packed_trunks, "units": units}


def _steps(steps: Sequence[Row], texts: _Texts) -> list[list[int]]:
    """Each step as [kind, output, action, shown, true] by number of text; −1: the same as output, or as shown."""
    return [
        [
            KINDS.index(step["kind"]),
            texts(step["output"]),
            -1 if step["action"] == step["output"] else texts(step["action"]),
            texts(step["observation_shown"]),
            -1 if step["observation_true"] == step["observation_shown"] else texts(step["observation_true"]),
        ]
        for step in steps
    ]


def _fork_place(steps: Sequence[Row], fork_action: int) -> int:
    """How many steps of the trunk stand before the fork; all of them where it had ended by then."""
    seen = 0
    for place, step in enumerate(steps):
        seen += step["kind"] == "act"
        if seen == fork_action:
            return place + 1
    return len(steps)


def _read_trunks(pairs: Sequence[Row], folder: Path) -> dict[tuple[str, ...], Row]:
    wanted: dict[tuple[str, str], set[str]] = {}
    for pair in pairs:
        wanted.setdefault((pair["cohort"], pair["condition"]), set()).add(pair["task"])
    found: dict[tuple[str, ...], Row] = {}
    for (cohort, condition), tasks in sorted(wanted.items()):
        path = folder / f"cohort={cohort}" / f"condition={condition}" / "trunk.parquet"
        for row in _rows_of(path, tasks, _EPISODE, "trunk"):
            found[cohort, row["task"], condition] = row
    return found


def _read_branches(pairs: Sequence[Row], folder: Path) -> dict[tuple[Any, ...], Row]:
    wanted: dict[tuple[Any, ...], set[str]] = {}
    for pair in pairs:
        wanted.setdefault(tuple(pair[name] for name in ("cohort", "condition", "delay", "operator")), set()).add(
            pair["task"]
        )
    found: dict[tuple[Any, ...], Row] = {}
    for (cohort, condition, delay, operator), tasks in tracked(sorted(wanted.items()), len(wanted), "report"):
        path = folder / f"cohort={cohort}" / f"condition={condition}" / f"delay={delay}" / f"operator={operator}"
        for row in _rows_of(
            path / "part.parquet", tasks, (*_EPISODE, "fork_action", "carried_forward"), "recorded branch"
        ):
            found[cohort, row["task"], condition, delay, operator] = row
    return found


def _slim(steps: pa.ChunkedArray) -> pa.Array:
    """The lists of steps with the fields that are shown alone: the hashes would take half of the time to read."""
    lists = steps.combine_chunks()
    structs = lists.values
    shown = pa.StructArray.from_arrays([structs.field(name) for name in _STEP], list(_STEP))
    return pa.ListArray.from_arrays(lists.offsets, shown)


def _rows_of(path: Path, tasks: set[str], columns: Sequence[str], what: str) -> list[dict[str, Any]]:
    """Rows of the tasks asked for; the others are never made into Python values."""
    table = read_table(path, columns=columns)
    table = table.filter(pc.is_in(table.column("task"), pa.array(sorted(tasks))))
    rows = table.set_column(table.column_names.index("steps"), "steps", _slim(table.column("steps"))).to_pylist()
    if missing := sorted(tasks - {row["task"] for row in rows}):
        raise CheckFailed(
            f"{path}: holds no {what} of {missing[0]} ({len(missing)} missing), but the pairs do; run the fork and pairs "
            "stages again"
        )
    return rows
