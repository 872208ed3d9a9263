"""How long the page of a large study takes, and how large it gets, from the rows of a finished study.

    python benchmarks/report_page.py results/demo [--branches 100000] [--words 40]

Every task is copied under new names until the study has as many branches. `--words` adds so many random words to each
output, as a language model would write: without them copies share their texts, and the page would be small for that
reason alone. Prints seconds, bytes and branches held; exits 1 where the page takes over a minute or 5 MB.
"""

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.outcomes.effects import KEYS, Interval, effects
from pipeline.records.files import read_json, write_json
from pipeline.records.tables import read_table, write_rows, write_table

SECONDS, BYTES = 60, 5_000_000
TABLES = ("games/games", "games/cohorts", "outcomes/pairs", "outcomes/exclusions", "router/decisions", "router/oof")
OPTIONS = {
    "games": "games/games.parquet", "cohorts": "games/cohorts.parquet", "pairs": "outcomes/pairs.parquet",
    "exclusions": "outcomes/exclusions.parquet", "effects": "outcomes/effects.parquet", "router": "router/router.json",
    "evaluation": "evaluation/summary.json", "decisions": "router/decisions.parquet", "oof": "router/oof.parquet",
    "study": "study.json", "trajectories": "trajectories", "forks": "forks",
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("results", type=Path, help="folder of a finished study")
    parser.add_argument("--branches", type=int, default=100_000)
    parser.add_argument("--words", type=int, default=0, help="random words added to each output")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "study"
        branches = scale(arguments.results, study, arguments.branches, arguments.words)
        page = Path(folder) / "report/index.html"
        options = [f"--{name}={study / path}" for name, path in OPTIONS.items()]
        start = time.perf_counter()
        subprocess.run(["cir", "report", *options, "--out", page], check=True, stdout=subprocess.DEVNULL)
        seconds, size = time.perf_counter() - start, page.stat().st_size
        held = re.search(r"The page holds ([^:.]*)", page.read_text())
    figures = {"branches": branches, "seconds": round(seconds, 1), "bytes": size, "page_holds": held and held[1]}
    print(json.dumps(figures))
    sys.exit(seconds > SECONDS or size > BYTES)


def scale(source: Path, target: Path, branches: int, words: int) -> int:
    """Write a study of at least so many branches to `target`; returns how many it has."""
    times = -(-branches // len(read_table(source / "outcomes/pairs.parquet")))
    for name in TABLES:
        copy_rows(source / f"{name}.parquet", target / f"{name}.parquet", times, 0)
    for path in [*source.glob("trajectories/*/*/trunk.parquet"), *source.glob("forks/**/part.parquet")]:
        copy_rows(path, target / path.relative_to(source), times, words)
    pairs = target / "outcomes/pairs.parquet"
    write_rows(target / "outcomes/effects.parquet", effects(pairs, KEYS, Interval(resamples=200)), "effects")
    shutil.copy(source / "study.json", target / "study.json")
    router, summary = read_json(source / "router/router.json"), read_json(source / "evaluation/summary.json")
    router["fit"]["tasks"] = sorted(renamed(task, n) for task in router["fit"]["tasks"] for n in range(times))
    write_json(target / "router/router.json", router)
    write_json(target / "evaluation/summary.json", {key: value for key, value in summary.items() if key != "inputs"})
    return len(read_table(pairs))


def copy_rows(source: Path, target: Path, times: int, words: int) -> None:
    table = read_table(source)
    copies = []
    for number in range(times):
        copy = replaced(table, "task", [renamed(task, number) for task in table["task"].to_pylist()])
        if "folder" in table.column_names and number:
            copy = replaced(copy, "folder", [f"{folder}-{number:03}" for folder in table["folder"].to_pylist()])
        if "steps" in table.column_names and words:
            rows = zip(copy["task"].to_pylist(), copy["steps"].to_pylist(), strict=True)
            copy = replaced(copy, "steps", [list(wordy(task, steps, words)) for task, steps in rows])
        copies.append(copy)
    write_table(target, pa.concat_tables(copies))


def replaced(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    place = table.column_names.index(name)
    field = table.schema.field(place)
    return table.set_column(place, field, pa.array(values, field.type))


def renamed(task: str, number: int) -> str:
    return task.replace("/trial", f"{number:03}/trial") if number else task


def wordy(task: str, steps: list[dict[str, Any]], words: int) -> Iterator[dict[str, Any]]:
    draw = random.Random(task)
    lengths = range(2, 9)
    for step in steps:
        more = " ".join("".join(draw.choices("etaoinshrdlu", k=draw.choice(lengths))) for _ in range(words))
        yield step | ({"output": f"{step['output']} {more}"} if step["output"] else {})


if __name__ == "__main__":
    main()
