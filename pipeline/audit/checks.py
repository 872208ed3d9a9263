"""The whole audit: every check on one study, and what they covered."""

from dataclasses import dataclass, field
from typing import Any

from pipeline.audit.contents import as_recorded, claimed_once, contents
from pipeline.audit.lineage import as_planned, followed, indexed_games, same_code
from pipeline.audit.plan import planned
from pipeline.audit.study import Finding, Recorded, config_of, outside
from pipeline.audit.units import Tables, counted_units
from pipeline.config.models import Study


@dataclass
class Audit:
    """Findings in the order of the checks, counts of what was covered, and what was not, in words."""

    findings: list[Finding] = field(default_factory=list)
    covered: dict[str, int] = field(default_factory=dict)
    not_covered: list[str] = field(default_factory=list)
    commits: dict[str, int] = field(default_factory=dict)

    def values(self) -> dict[str, Any]:
        """JSON-able."""
        rows = [{name: getattr(one, name) for name in ("check", "where", "what", "do")} for one in self.findings]
        return {
            "clean": not rows,
            "findings": rows,
            "covered": self.covered,
            "not_covered": self.not_covered,
            "commits": self.commits,
        }


def audited(study: Recorded, against: Study | None = None, code: bool = True, workers: int | None = None) -> Audit:
    """Run every check; `against` is a config to hold the records to instead of the study's own."""
    audit = Audit(findings=list(study.unreadable))
    found = contents(study, workers)
    audit.findings += (changed := as_recorded(study, found))
    audit.findings += claimed_once(study)
    audit.findings += followed(study)
    damaged = {finding.where for finding in changed}
    inner = [content for name, content in found.items() if content is not None and not outside(name)]
    audit.covered["records"] = len(study.records)
    audit.covered["files"] = len(inner)
    audit.covered["bytes"] = sum(content.bytes for content in inner)
    _games(study, audit, found, damaged)
    if (config := against or config_of(study)) is None:
        what = "neither the record of study nor study.json can be read, so nothing is known to be planned"
        audit.findings.append(Finding("study", "study.json", what, "restore study.json and its record"))
    else:
        plan = planned(config)
        audit.findings += as_planned(study, plan)
        counted = counted_units(study, config, damaged)
        audit.findings += counted.findings
        audit.covered |= counted.covered
        audit.not_covered += [f"units of {name}: the table is damaged or missing" for name in counted.uncounted]
        audit.not_covered += [
            f"{job.name}: optional, did not run"
            for job in plan.values()
            if job.optional and job.name not in study.records
        ]
    if code:
        audit.findings += same_code(study)
        audit.covered["commands whose code is the same"] = len({r.code.function for r in study.records.values()}) - len(
            {finding.where for finding in audit.findings if finding.check == "code"}
        )
    else:
        audit.not_covered.append("the code that ran against the code that is checked out (--no-code)")
    for record in study.records.values():
        ran = record.environment
        name = f"{ran.commit}{', with changes' if ran.dirty else ''}" if ran.commit else f"none: {ran.no_commit}"
        audit.commits[name] = audit.commits.get(name, 0) + 1
    return audit


def _games(study: Recorded, audit: Audit, found: dict[str, Any], damaged: set[str]) -> None:
    """Games: how many were hashed, how many were out of reach, and whether their table fits their record."""
    record = study.records.get("games")
    if record is None:
        audit.not_covered.append("games: their record is missing or damaged")
        return
    named = {file.path for file in [*record.inputs, *record.outputs] if outside(file.path)}
    audit.covered["game files"] = len(named & set(found))
    if absent := len(named - set(found)):
        audit.not_covered.append(f"{absent} game files: their folder is not here; name it with --games")
    rows = Tables(study, damaged, counted_nowhere := _Nowhere()).rows("games/games.parquet", ["path", "sha256"])
    if rows is not None:
        audit.findings += indexed_games(study, rows)
    audit.findings += counted_nowhere.findings


@dataclass
class _Nowhere:
    """Takes what Tables has to say where nothing is counted."""

    findings: list[Finding] = field(default_factory=list)
    uncounted: list[str] = field(default_factory=list)
