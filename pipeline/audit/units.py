"""One result a planned unit, counted from the tables themselves and from nothing that the stages computed."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from pipeline.audit.plan import factual_path, fork_path, trunk_path
from pipeline.audit.study import Finding, Recorded
from pipeline.config.models import Study
from pipeline.errors import BadInput
from pipeline.records.tables import read_rows

AGAIN = "run the stage that writes this table again"
CANDIDATES, COHORTS = "games/candidates.parquet", "games/cohorts.parquet"
PAIRS, EXCLUSIONS = "outcomes/pairs.parquet", "outcomes/exclusions.parquet"
UNIT = ("cohort", "task", "condition", "delay", "operator")


@dataclass
class Counted:
    """What was found, how many results of each kind were counted, and tables that could not be."""

    findings: list[Finding] = field(default_factory=list)
    covered: dict[str, int] = field(default_factory=dict)
    uncounted: list[str] = field(default_factory=list)


class Tables:
    """Reads columns of a study's tables; of those that are known to be damaged none is read, they are named already."""

    def __init__(self, study: Recorded, damaged: Collection[str], counted: Counted):
        """`damaged` are names of files that must not be relied on."""
        self.study, self.damaged, self.counted = study, damaged, counted

    def rows(self, name: str, columns: Iterable[str]) -> list[dict[str, Any]] | None:
        """Rows of a table, None where it can't be relied on."""
        if name in self.damaged or not (self.study.root / name).is_file():
            self.counted.uncounted.append(name)
            return None
        try:
            return read_rows(self.study.root / name, columns=columns)
        except BadInput as error:
            self.counted.findings.append(Finding("unreadable", name, str(error).rpartition(f"{name}: ")[2], AGAIN))
            self.counted.uncounted.append(name)
            return None


def counted_units(study: Recorded, config: Study, damaged: Collection[str]) -> Counted:
    """Count candidates, factual runs, trunks, branches, pairs and exclusions against what the config plans."""
    counted = Counted()
    tables = Tables(study, damaged, counted)
    drawn = tables.rows(CANDIDATES, ["cohort", "task"])
    settled = tables.rows(COHORTS, ["cohort", "task", "feasible"])
    if drawn is not None:
        candidates = _by_cohort(drawn)
        for cohort in sorted(config.cohorts):
            rows = tables.rows(name := factual_path(cohort), ["task"])
            _compare(
                counted, "factual runs", name, _keys(rows, "task"), [(task,) for task in candidates.get(cohort, ())]
            )
        if settled is not None:
            _compare(
                counted, "candidates", COHORTS, _keys(settled, "cohort", "task"), _keys(drawn, "cohort", "task") or []
            )
    if settled is not None:
        feasible = _by_cohort([row for row in settled if row["feasible"]])
        _sizes(counted, config, feasible)
        _played(counted, tables, config, feasible)
        out = [(row["cohort"], row["task"]) for row in settled if not row["feasible"]]
        _paired(counted, tables, config, feasible, out)
    return counted


def _by_cohort(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["cohort"], []).append(row["task"])
    return found


def _keys(rows: Iterable[Mapping[str, Any]] | None, *names: str) -> list[tuple[Any, ...]] | None:
    return None if rows is None else [tuple(row[name] for name in names) for row in rows]


def _sizes(counted: Counted, config: Study, feasible: Mapping[str, list[str]]) -> None:
    for cohort, section in config.cohorts.items():
        if (have := len(feasible.get(cohort, ()))) != section.size:
            what = f"cohort {cohort} has {have} feasible tasks, its size is {section.size}"
            counted.findings.append(Finding("units", COHORTS, what, AGAIN))


def _played(counted: Counted, tables: Tables, config: Study, feasible: Mapping[str, list[str]]) -> None:
    protocol = config.protocol
    for c, e in product(sorted(config.cohorts), protocol.conditions):
        tasks = feasible.get(c, [])
        rows = tables.rows(name := trunk_path(c, e), ["task", "condition"])
        _compare(counted, "trunks", name, _keys(rows, "task", "condition"), [(task, e) for task in tasks])
        for d, m in product(protocol.delays, protocol.operators):
            rows = tables.rows(name := fork_path(c, e, d, m), [*UNIT[1:]])
            _compare(counted, "branches", name, _keys(rows, *UNIT[1:]), [(task, e, d, m) for task in tasks])


def _paired(
    counted: Counted, tables: Tables, config: Study, feasible: Mapping[str, list[str]], out: list[tuple[str, str]]
) -> None:
    protocol = config.protocol
    wanted = [
        (cohort, task, *rest)
        for cohort, tasks in feasible.items()
        for task in tasks
        for rest in product(protocol.conditions, protocol.delays, protocol.operators)
    ]
    pairs, lost = tables.rows(PAIRS, UNIT), tables.rows(EXCLUSIONS, UNIT)
    if pairs is None or lost is None:
        return
    units = [*pairs, *(row for row in lost if row["condition"] is not None)]
    _compare(counted, "paired or excluded units", f"{PAIRS} and {EXCLUSIONS}", _keys(units, *UNIT), wanted)
    whole = [row for row in lost if row["condition"] is None]
    _compare(counted, "tasks left out", EXCLUSIONS, _keys(whole, "cohort", "task"), out)


def _compare(
    counted: Counted, kind: str, where: str, have: list[tuple[Any, ...]] | None, wanted: list[tuple[Any, ...]]
) -> None:
    """Each wanted key exactly once and nothing else; counts what is right."""
    if have is None:
        return
    found, planned = Counter(have), set(wanted)
    counted.covered[kind] = counted.covered.get(kind, 0) + len(planned & set(found))
    for word, keys in (
        ("lacks", planned - set(found)),
        ("holds unplanned", set(found) - planned),
        ("holds more than once", {key for key, count in found.items() if count > 1}),
    ):
        if keys:
            first = " ".join(str(part) for part in min(keys, key=str))
            what = f"{word} {len(keys)} of {len(planned)} planned {kind}, the first: {first}"
            counted.findings.append(Finding("units", where, what, AGAIN))
