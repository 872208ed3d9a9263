"""The lineage of an artifact, out of the records: as a tree to read, as JSON, as a graph for Graphviz."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.audit.study import Recorded, outside
from pipeline.errors import BadInput

SHORT = {
    "summary": "evaluation/summary.json",
    "page": "report/index.html",
    "report": "report/index.html",
    "printed": "report/summary.txt",
}
FEW = 2  # of many inputs that one rule made, shown
DIGITS = 8


def artifact(study: Recorded, named: str) -> str:
    """Name of the artifact that a user means: a path, or a file's name without its ending. Raises BadInput."""
    known = study.makers
    for name in (named, SHORT.get(named, named)):
        if name in known:
            return name
    place = Path(named).absolute()
    if place.is_relative_to(study.root) and (name := place.relative_to(study.root).as_posix()) in known:
        return name
    fitting = sorted(name for name in known if Path(name).stem == named or name.endswith(f"/{named}"))
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        shown = ", ".join(fitting[:5])
        raise BadInput(f"{named}: {len(fitting)} artifacts are called so, the first: {shown}; give the path")
    raise BadInput(
        f"{named}: no record of {study.root.name} claims such a file; `cir audit` lists files without a record"
    )


def lineage(study: Recorded, name: str) -> list[dict[str, Any]]:
    """The artifact and all that it was made from, each once, those that are used before what they are made from.

    JSON-able: artifact, sha256, bytes, job, command, code, commit, inputs. What no record made (games, or a file whose
    record is missing) has null for its job and no inputs.
    """
    found: dict[str, dict[str, Any]] = {}
    waiting = [(name, None)]
    for current, given in waiting:
        if current in found:
            continue
        found[current] = row = _row(study, current, given)
        inputs = study.records[row["job"]].inputs if row["job"] else []
        waiting.extend((file.path, file) for file in inputs)
    return list(found.values())


def _row(study: Recorded, name: str, given: Any) -> dict[str, Any]:
    file, job = study.entry(name) or given, study.makers.get(name)
    record = study.records[job] if job else None
    return {
        "artifact": name,
        "sha256": file.sha256,
        "bytes": file.bytes,
        "job": job,
        "command": record.job.command if record else None,
        "code": record.code.digest if record else None,
        "commit": record.environment.commit if record else None,
        "dirty": record.environment.dirty if record else None,
        "agent": record.agent if record else None,
        "seeds": record.seeds if record else {},
        "inputs": [one.path for one in record.inputs] if record else [],
    }


def tree(study: Recorded, name: str, everything: bool = False) -> Iterator[str]:
    """Lines of the lineage as a tree; of many inputs that one rule made the first few, unless `everything`."""
    rows = {row["artifact"]: row for row in lineage(study, name)}
    shown: set[str] = set()
    yield _line(rows[name])
    yield from _below(rows, name, "", shown, everything)
    if config := study.entry("study.json"):
        yield f"config: study.json  {config.sha256[:DIGITS]}"


def _below(rows: dict[str, dict[str, Any]], name: str, lead: str, shown: set[str], everything: bool) -> Iterator[str]:
    shown.add(name)
    groups: dict[str, list[str]] = {}
    for path in rows[name]["inputs"]:
        job = rows[path]["job"]
        groups.setdefault("game files" if outside(path) else (job or path).split("/")[0], []).append(path)
    entries: list[tuple[str, bool]] = []
    for kind, paths in groups.items():
        if kind == "game files" and not everything:
            # One name of a game says little, and they are long.
            entries.append((f"{len(paths)} game files, in record {rows[paths[0]]['job'] or 'games'}", False))
            continue
        few = FEW if not everything and len(paths) > FEW + 1 else len(paths)
        entries += [(path, True) for path in paths[:few]]
        if more := len(paths) - few:
            entries.append((f"… {more} more ({kind})", False))
    for number, (text, real) in enumerate(entries, start=1):
        last = number == len(entries)
        again = real and text in shown and bool(rows[text]["inputs"])
        yield f"{lead}{'└── ' if last else '├── '}{_line(rows[text]) if real else text}{'  (as above)' if again else ''}"
        if real and not again:
            yield from _below(rows, text, lead + ("    " if last else "│   "), shown, everything)


def _line(row: dict[str, Any]) -> str:
    text = f"{row['artifact']}  {row['sha256'][:DIGITS]}"
    if row["job"] is None:
        return text
    commit = f"commit {row['commit'][:DIGITS]}{'+' if row['dirty'] else ''}" if row["commit"] else "no commit"
    return f"{text}  cir {row['command']}  code {row['code'][:DIGITS]}  {commit}"


def dot(study: Recorded, name: str) -> Iterator[str]:
    """Lines of a Graphviz digraph: boxes are files, ellipses jobs; games stand as one box."""
    yield "digraph lineage {"
    yield '  rankdir="BT"; node [fontname="sans-serif", shape=box];'
    edges: dict[tuple[str, str], None] = {}
    for row in lineage(study, name):
        if outside(row["artifact"]):
            continue
        yield f"  {_quoted(row['artifact'])} [label={_quoted(row['artifact'] + chr(10) + row['sha256'][:DIGITS])}];"
        if row["job"]:
            job = f"job {row['job']}"
            yield f"  {_quoted(job)} [shape=ellipse, label={_quoted('cir ' + row['command'] + chr(10) + row['code'][:DIGITS])}];"
            edges[job, row["artifact"]] = None
            for path in row["inputs"]:
                edges["games" if outside(path) else path, job] = None
    for source, target in edges:
        yield f"  {_quoted(source)} -> {_quoted(target)};"
    yield "}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
