"""The chunks of a batch, worked on by several threads: each has scratch of its own, and wipes what it leaves.

Threads help where the work is done without the GIL, as the kernels and the keystream do. What they do to a table they
do one at a time, so no two threads touch one word.
"""

import os
from collections.abc import Callable, Iterator
from operator import index
from threading import Lock, Thread
from typing import Any, TypeVar

from panprivacy.lazily import loaded
from panprivacy.memory import Scratch

T = TypeVar("T")

MOST_THREADS = 256
_NOTHING: Any = object()


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_threads(threads: Any) -> int:
    """How many threads to use: as many as there are cores unless told.

    >>> check_threads(3)
    3
    """
    checked = cores() if threads is None else index(threads)
    if not 1 <= checked <= MOST_THREADS:
        raise ValueError(f"threads must be between 1 and {MOST_THREADS}, got {threads}")
    return checked


def each(chunks: Iterator[T], work: Callable[[T, Scratch], None], threads: int) -> None:
    """Do some work on every chunk; of several failures the first is raised, when all threads have stopped.

    >>> seen = []
    >>> each(iter(range(100)), lambda chunk, _: seen.append(chunk), threads=3)
    >>> sorted(seen) == list(range(100))
    True
    """
    turn, failures = Lock(), list[BaseException]()

    def run() -> None:
        try:
            with Scratch() as scratch:
                while not failures:
                    with turn:
                        chunk = next(chunks, _NOTHING)
                    if chunk is _NOTHING:
                        return
                    work(chunk, scratch)
                    scratch.sweep()
        except BaseException as error:
            failures.append(error)

    def run_and_wipe() -> None:
        run()
        loaded("panprivacy.privacy.kernels").wipe_stack()

    others = [Thread(target=run_and_wipe, daemon=True) for _ in range(threads - 1)]
    try:
        for other in others:
            other.start()
        run()
    except BaseException as error:  # Ctrl-C between two steps
        failures.append(error)
    for other in others:
        _join(other, failures)
    if failures:
        raise failures[0]


def _join(thread: Thread, failures: list[BaseException]) -> None:
    """Wait for a thread to end, whoever loses patience: it works on what the caller will take back."""
    while thread.ident is not None and thread.is_alive():
        try:
            thread.join()
        except BaseException as error:
            failures.append(error)
