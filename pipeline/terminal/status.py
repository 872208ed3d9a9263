"""How far a study is, read from what lies on disk: outputs, logs, journals of unfinished jobs, Snakemake's own marks.

Nothing is asked of a running workflow and nothing is written, so this can be called at any time and from anywhere.
"""

import base64
import csv
import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.config.load import parse_study
from pipeline.config.models import Study
from pipeline.errors import BadInput
from pipeline.records.files import read_json
from pipeline.records.tables import read_table
from pipeline.terminal.plan import STAGES, Job, planned

STATES = ("done", "running", "failed", "missing")


@dataclass(frozen=True)
class Found:
    """What was found of one job. `episodes` are finished ones, `began` and `ended` seconds since the epoch, or None."""

    job: Job
    state: str
    episodes: int = 0
    began: float | None = None
    ended: float | None = None


def study_of(results: Path, study: Study | None) -> Study:
    """The study whose results these are: the given one, or what its job `study` recorded. Raises BadInput."""
    if study is not None:
        if study.study != results.resolve().name:
            raise BadInput(f"--study: is the study {study.study}, whose results stand in results/{study.study}")
        return study
    if not results.is_dir():
        raise BadInput(f"{results}: no such folder; expected a study's results, such as results/demo")
    path = results / "study.json"
    if not path.is_file():
        raise BadInput(
            f"{path}: not there yet, so what is planned isn't known; name the study's config: "
            f"cir status {results} --study config/{results.name}.yaml"
        )
    return parse_study(read_json(path), str(path))


def status(results: Path, study: Study, now: float | None = None) -> dict[str, Any]:
    """Jobs by stage and state, episodes, their pace, seconds left, exclusions by reason. Raises BadInput.

    The pace is episodes over the time in which at least one job was playing, pauses between runs left out. Seconds left
    are those of the episodes at that pace; None where it isn't known yet.
    """
    now = time.time() if now is None else now
    marks = Marks(results)
    found = [_look(results, job, marks, now) for job in planned(study)]
    playing = [one for one in found if one.job.cohort is not None]
    expected = {one.job.output: _expected(results, study, one.job) for one in playing}
    total = sum(expected.values())
    episodes = sum(one.episodes for one in playing)
    busy = covered([(one.began, one.ended) for one in playing if one.began is not None and one.ended is not None])
    timed = sum(one.episodes for one in playing if one.began is not None)
    pace = 60 * timed / busy if busy > 0 and timed else None
    left = sum(max(0, expected[one.job.output] - one.episodes) for one in playing if one.state != "done")
    return {
        "study": study.study,
        "jobs": {state: sum(one.state == state for one in found) for state in STATES},
        "stages": [_stage(stage, [one for one in found if one.job.stage == stage]) for stage in STAGES],
        "episodes": {"done": episodes, "planned": max(total, episodes), "left": left},
        "episodes_per_minute": None if pace is None else round(pace, 1),
        "seconds_left": math.ceil(60 * left / pace) if pace and left else (0 if not left else None),
        "failed": [{"rule": one.job.rule, "log": str(results / one.job.log)} for one in found if one.state == "failed"],
        "exclusions": exclusions(results, found),
    }


def _stage(stage: str, jobs: Sequence[Found]) -> dict[str, Any]:
    counts = {state: sum(one.state == state for one in jobs) for state in STATES}
    return {"stage": stage, "jobs": len(jobs)} | counts | {"episodes": sum(one.episodes for one in jobs)}


class Marks:
    """Snakemake's marks in the working directory (two folders above the results): what is being made, and by a live run."""

    def __init__(self, results: Path):
        """Read them once; without a `.snakemake` there are none."""
        work = results.resolve().parents[1]
        self.results = results.resolve().relative_to(work)
        state = work / ".snakemake"
        self.locked = any((state / "locks").glob("*"))
        self.begun: dict[str, float] = {}
        # A mark's path is the output's in base64, cut into folders named @… where it is long.
        for mark in (state / "incomplete").rglob("*"):
            if mark.is_file():
                coded = "".join(part.removeprefix("@") for part in mark.relative_to(state / "incomplete").parts)
                with suppress(ValueError, OSError):
                    self.begun[base64.urlsafe_b64decode(coded).decode()] = mark.stat().st_mtime

    def of(self, job: Job) -> float | None:
        """When the job that is unfinished began, or None."""
        return self.begun.get(str(self.results / job.output))


def _look(results: Path, job: Job, marks: Marks, now: float) -> Found:
    output, begun = results / job.output, marks.of(job)
    if begun is not None or not output.is_file():
        state = "missing"
        if begun is not None and marks.locked:
            state = "running"
        elif begun is None and _failed(results, job):
            state = "failed"
        kept, last = _journal(output)
        running = state == "running"
        return Found(job, state, kept, begun if running else None, (last or now) if running else None)
    if job.cohort is None:
        return Found(job, "done")
    seconds, ended = _seconds(results / job.benchmark), output.stat().st_mtime
    return Found(job, "done", _rows(output), None if seconds is None else ended - seconds, ended)


def _failed(results: Path, job: Job) -> bool:
    """A job that ended without its output: it left a log, and no time later than that (Snakemake times what succeeds)."""
    log, benchmark = results / job.log, results / job.benchmark
    if not log.is_file():
        return False
    return not benchmark.is_file() or log.stat().st_mtime > benchmark.stat().st_mtime + 1


def _journal(output: Path) -> tuple[int, float | None]:
    """Finished episodes of an unfinished job, and when the last one was: whole lines of its journal but the first."""
    path = output.with_name(f".{output.name}.journal")
    try:
        return max(0, path.read_bytes().count(b"\n") - 1), path.stat().st_mtime
    except OSError:
        return 0, None


def _rows(path: Path) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path).metadata.num_rows
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"{path}: is no readable Parquet file ({error}); delete it and run its stage again") from error


def _seconds(benchmark: Path) -> float | None:
    try:
        with open(benchmark, newline="", encoding="utf-8") as file:
            return float(list(csv.DictReader(file, delimiter="\t"))[-1]["s"])
    except (OSError, IndexError, KeyError, TypeError, ValueError):
        return None


def _expected(results: Path, study: Study, job: Job) -> int:
    """Episodes that a job will have: a cohort's candidates for factual runs, its size for the rest."""
    cohort = study.cohorts[job.cohort or ""]
    if job.rule != "factual":
        return cohort.size
    candidates = results / "games/candidates.parquet"
    if candidates.is_file():
        return read_table(candidates, ["cohort"]).column("cohort").to_pylist().count(job.cohort)
    return math.ceil(cohort.size * (1 + cohort.reserve))


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Length of the union of spans, in their unit."""
    length, reached = 0.0, -math.inf
    for began, ended in sorted(spans):
        length += max(0.0, ended - max(began, reached))
        reached = max(reached, ended)
    return length


def exclusions(results: Path, found: Sequence[Found]) -> list[dict[str, Any]]:
    """What fell out so far, by reason: tasks of the settled cohorts, trunks and branches; the most frequent first.

    A task is counted once, however many branches it would have had; a branch only where its trunk was not lost.
    """
    counts: Counter[tuple[str, str]] = Counter()
    settled = results / "games/cohorts.parquet"
    if settled.is_file():
        counts.update(("task", reason) for reason in _reasons(settled))
    for one in found:
        if one.job.rule in ("trunk", "fork") and one.state == "done":
            what = "trunk" if one.job.rule == "trunk" else "branch"
            counts.update(
                (what, reason)
                for reason in _reasons(results / one.job.output)
                if not (what == "branch" and reason.startswith("trunk: "))
            )
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [{"what": what, "reason": reason, "count": count} for (what, reason), count in ordered]


def _reasons(path: Path) -> list[str]:
    return [reason for reason in read_table(path, ["excluded"]).column("excluded").to_pylist() if reason is not None]
