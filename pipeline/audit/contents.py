"""Checks of files against records: every file has the content that its record says, and belongs to exactly one."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pipeline.audit.study import Finding, Recorded, outside
from pipeline.provenance.record import FOLDER, File
from pipeline.records.ledger import Content

# What no record claims: what the workflow says about itself, and the records.
UNCLAIMED = ("logs", "benchmarks", FOLDER)
BLOCK = 1 << 22  # bytes hashed at once: large enough that the threads, and not the interpreter, are busy
RESTORE = "restore it from a copy, or delete it and run the workflow again"


def content(path: Path) -> Content | None:
    """A file's content; None where there is none that can be read."""
    hasher, size = hashlib.sha256(), 0
    block = bytearray(BLOCK)
    view = memoryview(block)
    try:
        with open(path, "rb", buffering=0) as file:
            while count := file.readinto(block):
                hasher.update(view[:count])
                size += count
    except OSError:
        return None
    return Content(hasher.hexdigest(), size)


def contents(study: Recorded, workers: int | None = None) -> dict[str, Content | None]:
    """Content of every file that a record made, or took from outside, hashed now; those out of reach are left out."""
    names = {file.path for record in study.records.values() for file in record.outputs}
    names |= {file.path for record in study.records.values() for file in record.inputs if outside(file.path)}
    places = {name: place for name in sorted(names) if (place := study.place(name)) is not None}
    # Largest first, so that no thread is left with one at the end.
    queue = sorted(places, key=lambda name: -_size(places[name]))
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        hashed = pool.map(lambda name: content(places[name]), queue)
        return dict(zip(queue, hashed, strict=True))


def _size(place: Path) -> int:
    try:
        return place.stat().st_size
    except OSError:
        return 0


def as_recorded(study: Recorded, found: Mapping[str, Content | None]) -> list[Finding]:
    """Files that are missing, or hold another content than the record of their job says."""
    wanted: dict[str, tuple[str, File]] = {}
    for name, record in study.records.items():
        for file in [*(one for one in record.inputs if outside(one.path)), *record.outputs]:
            wanted.setdefault(file.path, (name, file))
    known = {file.sha256: path for path, (_, file) in wanted.items()}
    findings = []
    for path, (name, file) in sorted(wanted.items()):
        if path not in found:
            continue
        have = found[path]
        if have is None:
            what = f"is missing or can't be read; the record of {name} claims {file.bytes} bytes"
            findings.append(Finding("missing", path, what, RESTORE))
        elif have.sha256 != file.sha256:
            what = f"has sha256 {have.sha256[:12]}, {have.bytes} bytes; the record of {name} says {file.sha256[:12]}, {file.bytes}"
            if other := known.get(have.sha256):
                what += f"; it holds what belongs in {other}"
            findings.append(Finding("changed", path, what, RESTORE))
    return findings


def claimed_once(study: Recorded) -> list[Finding]:
    """Files that no record claims, and files that two claim."""
    claims: dict[str, list[str]] = {}
    for name, record in study.records.items():
        for file in record.outputs:
            claims.setdefault(file.path, []).append(name)
    findings = [
        Finding("claimed-twice", path, f"the records of {' and '.join(names)} claim it", "delete the record that is not the study's")
        for path, names in sorted(claims.items())
        if len(names) > 1
    ]  # fmt: skip
    for path in present(study.root):
        parts = path.split("/")
        stray = parts[0] not in UNCLAIMED and path not in claims
        if stray or (parts[0] == FOLDER and not path.endswith(".json")):
            what = "no record claims this file"
            findings.append(Finding("unclaimed", path, what, "remove it, or run the job that makes it with its record"))
    return findings


def present(root: Path) -> Iterable[str]:
    """Every file under a folder, relative to it, sorted."""
    for folder, inner, names in os.walk(root):
        inner.sort()
        # Snakemake leaves a mark of its own in a folder that is an output.
        for name in sorted(set(names) - {".snakemake_timestamp"}):
            yield Path(folder, name).relative_to(root).as_posix()
