"""Many independent units in worker processes; a worker that dies takes at most its own unit with it."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

Unit = TypeVar("Unit")
Result = TypeVar("Result")

IN_FLIGHT = 2  # units handed out per worker: one running, one waiting


class WorkerDied:
    """Stands for the result of a unit whose worker process was killed twice."""


def run_units(
    units: Sequence[Unit],
    work: Callable[[Unit], Result],
    setup: Callable[..., None],
    arguments: tuple[Any, ...],
    workers: int,
) -> Iterator[tuple[Unit, Result | WorkerDied]]:
    """Yield (unit, result) as they finish, from `workers` processes that each called `setup(*arguments)` once.

    Processes, not threads: the translation library keeps globals. When a worker dies (out of memory, a crash in the
    engine) the units that were in flight run again one at a time; a unit that kills its worker then too is yielded with
    WorkerDied. Exceptions of `work` propagate.
    """
    waiting = list(reversed(units))
    suspects: list[Unit] = []
    while waiting or suspects:
        alone = bool(suspects)
        with _pool(1 if alone else workers, setup, arguments) as pool:
            running: dict[Future[Result], Unit] = {}
            try:
                while suspects or running if alone else waiting or running:
                    limit = 1 if alone else workers * IN_FLIGHT
                    source = suspects if alone else waiting
                    while source and len(running) < limit:
                        # Taken off the queue only once it is handed out: a pool that has just broken refuses.
                        running[pool.submit(work, source[-1])] = source[-1]
                        source.pop()
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        result = future.result()
                        yield running.pop(future), result
            except BrokenProcessPool:
                yield from _after_death(running, suspects, alone)


def _after_death(running: dict[Any, Any], suspects: list[Any], alone: bool) -> Iterator[tuple[Any, WorkerDied]]:
    """Sort out a broken pool: finished units keep their result, lost ones become suspects, a second death is final."""
    for future, unit in running.items():
        if future.done() and future.exception() is None:
            yield unit, future.result()
        elif alone:
            print(f"a worker process died twice on {unit}; it has no result", file=sys.stderr)
            yield unit, WorkerDied()
        else:
            suspects.append(unit)
    if not alone:
        print(f"a worker process died; {len(suspects)} units run again one at a time", file=sys.stderr)


def _pool(workers: int, setup: Callable[..., None], arguments: tuple[Any, ...]) -> ProcessPoolExecutor:
    # spawn: a forked child would inherit the locks of Arrow's threads in an unknown state.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(setup, arguments))


def _begin(setup: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """First call in a worker: how it ends when its job does.

    A job that is killed can't end its workers, so each ends itself when its parent is gone. Ctrl-C, which a terminal
    sends to all of them, ends a worker silently: the job says it once.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
    setup(*arguments)
