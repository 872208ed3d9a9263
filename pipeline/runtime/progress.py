"""Progress of long work on stderr: a bar with ETA in a terminal, a line now and then in a log."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")

QUIET_SECONDS = 2.0  # work that ends sooner says nothing
LOG_SECONDS = 30.0  # a log gets a line this often


def tracked(items: Iterable[Item], total: int, what: str, done: int = 0) -> Iterator[Item]:
    """Yield the items, showing how many of `total` are through and when the rest will be; `done` were finished before."""
    if sys.stderr.isatty():
        yield from _bar(items, total, what, done)
    else:
        yield from _lines(items, total, what, done)


def _bar(items: Iterable[Item], total: int, what: str, done: int) -> Iterator[Item]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    began = time.monotonic()
    # stdout carries data: rich would send what is printed there to its own console, which is stderr.
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as progress:
        task = progress.add_task(what, total=total, completed=done, visible=False)
        for item in items:
            yield item
            progress.update(task, advance=1, visible=time.monotonic() - began > QUIET_SECONDS)


def _lines(items: Iterable[Item], total: int, what: str, done: int) -> Iterator[Item]:
    began = last = time.monotonic()
    for count, item in enumerate(items, start=1):
        yield item
        now = time.monotonic()
        if now - last >= LOG_SECONDS:
            last = now
            left = (now - began) / count * (total - done - count)
            print(f"{what}: {done + count} of {total}, about {left:.0f} s left", file=sys.stderr, flush=True)
