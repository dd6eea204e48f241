"""Compute cells on several cores."""

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from panprivacy.experiments.cells import Cell
from panprivacy.experiments.store import Store


def compute(cells: Sequence[Cell], store: Store, jobs: int, done: Callable[[Cell], None]) -> None:
    """Compute those cells that the store does not have; `done` is called for every cell, first for those it has.

    Interrupted (Ctrl-C), it keeps what is finished, cells under way included.
    """
    store.folder.mkdir(parents=True, exist_ok=True)
    missing = []
    for cell in cells:
        if store.has(cell):
            done(cell)
        else:
            missing.append(cell)
    # By hash, that is at random: quick and slow cells then alternate, and the time left can be told from the start.
    missing.sort(key=store.path)
    if jobs == 1:
        for cell in missing:
            store.finish(cell)
            done(cell)
    elif missing:
        _compute_in_parallel(missing, store, min(jobs, len(missing)), done)


def _compute_in_parallel(cells: Sequence[Cell], store: Store, jobs: int, done: Callable[[Cell], None]) -> None:
    # Processes start afresh: a fork would copy the threads of Polars in whatever state they are.
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=_leave_interrupts_to_the_parent)
    try:
        waiting = {pool.submit(store.finish, cell): cell for cell in cells}
        for future in as_completed(waiting):
            future.result()
            done(waiting[future])
    finally:
        pool.shutdown(cancel_futures=True)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
