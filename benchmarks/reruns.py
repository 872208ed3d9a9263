"""What runs again after a change or a kill, counted on a whole study in folders of its own.

    python benchmarks/reruns.py [changes] [kills] [--study config/demo.yaml] [--kills 20] [--seed 0] [--json FILE]

The study is finished once without interruption. `changes` then changes one thing at a time in a copy of it and runs again:
seconds, jobs, episodes generated. `kills` runs it afresh, sends SIGKILL to the whole process group at random moments, starts
again each time, and compares with the first run. Without either word both are done. Exits 1 where an episode that was
finished was generated again, or a byte differs.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from math import ceil
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from pipeline.config.load import load_study
from pipeline.config.models import Study

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("Snakefile", "rules", "config", "profiles", "envs", "report", "pipeline")
COMPARED = ("*.parquet", "summary.json", "router.json", "index.html")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "what", nargs="*", choices=["changes", "kills", []], metavar="changes|kills", help="what to do; both without it"
    )
    parser.add_argument("--study", type=Path, default=ROOT / "config/demo.yaml", help="the study's config")
    parser.add_argument("--kills", type=int, default=20, help="number of SIGKILLs")
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        study = Checkout(Path(folder, "whole"), arguments.study)
        started = time.time()
        study.run()
        seconds, figures, wrong = time.time() - started, {}, []
        if "changes" in arguments.what or not arguments.what:
            rows = [counted(study, "first run", started, set()), *changes(study, Path(folder))]
            wrong += [row["what"] for row in rows if row["generated"] != row["new in the store"]]
            show("changes", rows)
            figures["changes"] = rows
        if "kills" in arguments.what or not arguments.what:
            rows, found = kills(study, seconds, arguments, Path(folder, "killed"))
            wrong += found
            show("kills", rows)
            figures["kills"] = rows
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    if wrong:
        sys.exit(f"not as it should be: {', '.join(wrong)}")


class Checkout:
    """A folder with the workflow, the package and one study's results; everything runs in it."""

    def __init__(self, folder: Path, study: Path):
        folder.mkdir(parents=True)
        for name in PARTS:
            source = ROOT / name
            skip = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, folder / name, ignore=skip) if source.is_dir() else shutil.copy(source, folder)
        shutil.copy(study, folder / "study.yaml")
        self.folder, self.config = folder, load_study(study)

    @property
    def results(self) -> Path:
        """Where the study's results stand."""
        return self.folder / "results" / self.config.study

    def copy(self, folder: Path) -> "Checkout":
        """The same with all its results, modification times kept."""
        subprocess.run(["cp", "-a", str(self.folder), str(folder)], check=True)
        other = object.__new__(Checkout)
        other.folder, other.config = folder, self.config
        return other

    def start(self, *arguments: str, overlays: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """Start Snakemake in a process group of its own."""
        command = ["snakemake", "--profile", "profiles/local", *arguments, "--configfile", "study.yaml", *overlays]
        environment = os.environ | {"PYTHONPATH": str(self.folder)}
        with open(self.folder / "log.txt", "ab") as log:
            return subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def run(self, *arguments: str, overlays: Sequence[str] = ()) -> None:
        """Run Snakemake to its end; exits with the end of its log where it fails."""
        if self.start(*arguments, overlays=overlays).wait():
            sys.exit("\n".join((self.folder / "log.txt").read_text().splitlines()[-40:]))

    def records(self, since: float) -> list[dict[str, Any]]:
        """Records of the jobs that began since then."""
        found = [json.loads(path.read_text()) for path in sorted((self.results / "provenance").rglob("*.json"))]
        return [record for record in found if began(record) >= since]

    def episodes(self) -> dict[str, float]:
        """Keys in the store, with the time each entry was written."""
        store = self.folder / "results" / "store" / "episodes"
        return {path.stem: path.stat().st_mtime for path in store.rglob("*.episode")}

    def hashes(self) -> dict[str, str]:
        """sha256 of every result by its place; records tell hosts and times, so they are not among them."""
        paths = {path for pattern in COMPARED for path in self.results.rglob(pattern)}
        return {str(path.relative_to(self.results)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def began(record: dict[str, Any]) -> float:
    """When a job began, in seconds since 1970."""
    return datetime.fromisoformat(record["run"]["started"]).timestamp()


def generated(records: Sequence[dict[str, Any]]) -> int:
    """Episodes that these jobs played."""
    return sum(record["run"]["notes"].get("store", {}).get("generated", 0) for record in records)


def counted(study: Checkout, what: str, started: float, before: set[str]) -> dict[str, Any]:
    """One row: what a run since `started` took and generated."""
    seconds, records = time.time() - started, study.records(started)
    return {
        "what": what,
        "seconds": round(seconds, 1),
        "jobs": len(records),
        "generated": generated(records),
        "new in the store": len(set(study.episodes()) - before),
    }


def changes(study: Checkout, folder: Path) -> list[dict[str, Any]]:
    """One row a change, each on its own copy of the finished study."""
    rows = []
    for number, (what, values, edit) in enumerate(possible(study.config)):
        copy = study.copy(folder / f"change{number}")
        (copy.folder / "change.yaml").write_text(yaml.safe_dump(values))
        edit(copy.folder)
        before, started = set(copy.episodes()), time.time()
        copy.run(overlays=["change.yaml"] if values else [])
        rows.append(counted(copy, what, started, before))
        shutil.rmtree(copy.folder)
    return rows


def possible(study: Study) -> list[tuple[str, dict[str, Any], Callable[[Path], Any]]]:
    """What is changed: its name, values laid over the config, an edit of the code."""
    name, cohort = next((name, one) for name, one in study.cohorts.items() if one.role == "fit")
    more = study.games.generate.splits.get(cohort.split, 0) + ceil(10 * (1 + cohort.reserve))
    delay = next(d for d in range(1, 100) if d not in study.protocol.delays)

    def nothing(_: Path) -> None:
        pass

    def feature(folder: Path) -> None:
        with open(folder / "pipeline/router/features.py", "a") as file:
            file.write("\nPROBE = 1\n")

    return [
        ("nothing", {}, nothing),
        ("lambda", {"router": {"lambda": study.router.lambda_ + 1}}, nothing),
        ("the bootstrap's seed", {"statistics": {"seed": study.statistics.seed + 1}}, nothing),
        ("a feature's code", {}, feature),
        (f"delay {delay} added", {"protocol": {"delays": [*study.protocol.delays, delay]}}, nothing),
        (
            "ten tasks added",
            {"games": {"generate": {"splits": {cohort.split: more}}}, "cohorts": {name: {"size": cohort.size + 10}}},
            nothing,
        ),
    ]


def kills(
    whole: Checkout, seconds: float, arguments: argparse.Namespace, folder: Path
) -> tuple[list[dict[str, Any]], list[str]]:
    """One row a kill and one for the end; what is wrong by name.

    A moment is a number of finished episodes: by the clock, kills that follow one another closely would all fall into the
    stage that a restart repeats.
    """
    rng = random.Random(arguments.seed)
    moments = sorted(rng.randrange(len(whole.episodes())) for _ in range(arguments.kills))
    study, rows, seen, wrong = Checkout(folder, arguments.study), [], {}, []
    for number, moment in enumerate(moments):
        process, began_at = study.start(), time.time()
        while process.poll() is None and len(study.episodes()) < moment:
            time.sleep(0.2)
        time.sleep(rng.uniform(0, 3))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        else:
            wrong.append(f"kill {number + 1} came after the end")
        lived = round(time.time() - began_at, 1)
        time.sleep(1)  # workers end by themselves once they see that their job is gone
        study.run("--unlock")
        now = study.episodes()
        rows.append({"what": f"kill {number + 1}", "lived": lived, "episodes": len(now)})
        # Whoever plays a finished episode again finds its entry there and leaves it; whoever writes it anew changes it.
        wrong += [f"{key} was written again" for key, written in seen.items() if now.get(key) != written]
        seen = now
    study.run()
    same = study.hashes() == whole.hashes()
    wrong += [] if same else ["the results differ from an uninterrupted run's"]
    twice = again(study)
    wrong += [f"{count} finished episodes generated again" for count in (twice,) if count]
    rows.append({"what": "the end", "lived": None, "episodes": len(study.episodes())})
    rows.append({"what": "uninterrupted", "lived": round(seconds, 1), "episodes": len(whole.episodes())})
    rows.append(
        {
            "what": f"files compared, {'identical' if same else 'different'}",
            "lived": None,
            "episodes": len(study.hashes()),
        }
    )
    rows.append({"what": "finished episodes generated again", "lived": None, "episodes": twice})
    return rows, wrong


def again(study: Checkout) -> int:
    """Finished episodes that a later job played again: what the jobs say they generated beyond what is new since they began."""
    written, count = study.episodes(), 0
    for record in study.records(0):
        store = record["run"]["notes"].get("store")
        if store is None:
            continue
        keys = {key for file in record["outputs"] for key in keys_of(study.results / file["path"])}
        count += store["generated"] - sum(written[key] >= began(record) for key in keys)
    return count


def keys_of(path: Path) -> set[str]:
    """Episode keys that a table names."""
    import pyarrow.parquet as pq

    if path.suffix != ".parquet" or "episode_key" not in pq.read_schema(path).names:
        return set()
    return set(pq.ParquetFile(path).read(["episode_key"]).column(0).drop_null().to_pylist())


def show(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print a table."""
    table = Table(title=title)
    for column in rows[0]:
        table.add_column(column, justify="left" if column == "what" else "right")
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
