"""Checks of records against each other: every input is the output that made it, down to games and config."""

from collections.abc import Mapping

from pipeline.audit.plan import Planned
from pipeline.audit.study import GAMES, Finding, Recorded, outside, same

STALE = "run the workflow again: what is stale is made anew"


def followed(study: Recorded) -> list[Finding]:
    """Inputs that no job made, or that were another file than the one that stands recorded now."""
    games = study.records.get("games")
    taken = {file.path: file for file in games.inputs} if games else {}
    findings = []
    for name, record in sorted(study.records.items()):
        for file in record.inputs:
            made = study.entry(file.path) or taken.get(file.path)
            if made is None:
                if outside(file.path) and games is None:
                    continue
                what = f"was read by {name}, and no record made it"
                findings.append(Finding("origin", file.path, what, "run the job that makes it, with its record"))
            elif made.sha256 != file.sha256:
                maker = study.makers.get(file.path, "games")
                what = f"{name} was made from sha256 {file.sha256[:12]}, {maker} has since made {made.sha256[:12]}"
                findings.append(Finding("stale", f"provenance/{name}.json", f"{file.path}: {what}", STALE))
    return findings


def as_planned(study: Recorded, plan: Mapping[str, Planned]) -> list[Finding]:
    """A record for each planned job and none besides; each with the function, params and files that the plan says."""
    findings = []
    broken = {finding.where for finding in study.unreadable}
    for name, job in plan.items():
        where = f"provenance/{name}.json"
        if (record := study.records.get(name)) is None:
            if not job.optional and where not in broken:
                what = f"the planned job {name} has no record"
                findings.append(Finding("record-missing", where, what, "restore the record, or run the workflow again"))
            continue
        if record.code.function != job.function:
            what = f"was made by {record.code.function}, the plan says {job.function}"
            findings.append(Finding("stale", where, what, STALE))
        for key, wanted in job.params.items():
            have = record.job.params.get(key)
            if key == "study" and isinstance(have, Mapping):
                # A study may be renamed together with its folder; what it found stays.
                have = {**have, "study": wanted["study"]}
            if not same(have, wanted):
                what = f"ran with another {key} than the study's config gives it{_difference(have, wanted)}"
                findings.append(Finding("stale", where, what, STALE))
        made = {file.path for file in record.outputs}
        for path in sorted(set(job.outputs) - made):
            findings.append(Finding("output", where, f"does not claim {path}, which {name} makes", STALE))
        for path in sorted(made - set(job.outputs)):
            if not path.startswith(job.besides or ("\0",)):
                findings.append(Finding("output", where, f"claims {path}, which {name} does not make", STALE))
    for name in sorted(set(study.records) - set(plan)):
        what = "the study's config plans no such job"
        findings.append(
            Finding("record-extra", f"provenance/{name}.json", what, "remove the record and what it claims")
        )
    return findings


def _difference(have: object, wanted: object, path: str = "") -> str:
    """The first nested key in which two values differ, as `: key have, planned wanted`."""
    if isinstance(have, Mapping) and isinstance(wanted, Mapping):
        for key in sorted({*have, *wanted}):
            if not same(have.get(key), wanted.get(key)):
                return _difference(have.get(key), wanted.get(key), f"{path}.{key}" if path else str(key))
    return f": {path or 'it'} was {have!r}, planned {wanted!r}" if len(f"{have!r}{wanted!r}") < 200 else f": {path}"


def same_code(study: Recorded) -> list[Finding]:
    """Commands whose code is another one now than it was when they ran."""
    from pipeline.provenance.code import code_digest

    ran: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for name, record in sorted(study.records.items()):
        ran.setdefault((record.code.function, record.code.digest, tuple(record.code.apart)), []).append(name)
    findings = []
    for (function, digest, apart), names in sorted(ran.items()):
        try:
            now = code_digest(function, apart)
        except (FileNotFoundError, KeyError):
            now = None
        if now != digest:
            what = f"{len(names)} record(s), the first {names[0]}, were made by code {digest[:12]}; here it is "
            what += f"{now[:12]}" if now else "no longer there"
            do = "check out the commit that ran (`cir trace` names it), or run the workflow again; --no-code leaves this check out"
            findings.append(Finding("code", function, what, do))
    return findings


def indexed_games(study: Recorded, rows: list[dict[str, str]]) -> list[Finding]:
    """Games whose sha256 in the games table is not the one that the games' record holds."""
    games = study.records["games"]
    kept = {file.path: file.sha256 for file in [*games.inputs, *games.outputs] if outside(file.path)}
    roots = {path.split("json_2.1.1")[0] for path in kept} or {GAMES}
    findings = []
    for row in rows:
        found = {sha for root in roots if (sha := kept.get(f"{root}{row['path']}"))}
        if found != {row["sha256"]}:
            what = f"{row['path']}: sha256 {row['sha256'][:12]} in the table, {' '.join(s[:12] for s in found) or 'none'} in the record"
            findings.append(Finding("game", "games/games.parquet", what, "index the games again"))
    return findings
