"""`cir status` and `cir doctor` as tables of at most 80 columns, or as JSON."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from pipeline.records.printing import WIDTH, Column, print_json, print_table, visible
from pipeline.terminal.doctor import Check

STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}


def duration(seconds: float | None) -> str:
    """Such as `2 h 05 min`, `3 min`, `40 s`; `-` where it isn't known."""
    if seconds is None:
        return "-"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"


def print_status(status: Mapping[str, Any], form: str) -> None:
    """A status, as `pipeline.terminal.status.status` returns it."""
    if form == "json":
        print_json(status)
        return
    states: list[Column] = [
        (name, lambda row, name=name: str(row[name] or "-"))
        for name in ("jobs", "done", "running", "failed", "missing", "episodes")
    ]
    columns: list[Column] = [("stage", lambda row: row["stage"]), *states]
    episodes, pace = status["episodes"], status["episodes_per_minute"]
    left = duration(status["seconds_left"]) if episodes["left"] else "none"
    note = f"episodes {episodes['done']} of {episodes['planned']}, {pace or '-'} a minute, time left to play: {left}"
    print_table(f"study {status['study']}", columns, status["stages"], note)
    console = Console(file=sys.stdout, width=WIDTH, highlight=False)
    for job in status["failed"]:
        console.print(Text(visible(f"failed: {job['rule']}, see {job['log']}"), style="bold red"), overflow="fold")
    if status["exclusions"]:
        console.print(Text("excluded so far", style="bold"))
        for row in status["exclusions"]:
            console.print(Text(visible(f"{row['count']:6} {row['what']}: {row['reason']}")), overflow="fold")


def print_checks(checks: Sequence[Check], form: str) -> None:
    """One line a check, and below it what to do."""
    if form == "json":
        print_json([asdict(check) for check in checks])
        return
    console = Console(file=sys.stdout, width=WIDTH, highlight=False)
    for check in checks:
        line = Text(f"{check.level:8}", style=STYLES[check.level]).append(
            f"{check.name}: {visible(check.found)}", "none"
        )
        console.print(line, overflow="fold")
        if check.todo:
            console.print(Text(f"         -> {visible(check.todo)}"), overflow="fold")
