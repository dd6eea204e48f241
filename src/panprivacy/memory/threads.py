"""Several threads work on the chunks of a batch: each has scratch of its own, and wipes it.

Threads help where the work is done without the GIL, as kernels and most of the keystream are: looking users up, marking
slots, drawing coins.

A new thread inherits the registers of the thread that starts it, and a thread that ends pushes its registers to a stack
that is kept for the next one. So stack and registers are wiped before the first thread starts and when each one ends.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from operator import index
from threading import Lock, Thread
from typing import Any, TypeVar

from panprivacy.checks import shown
from panprivacy.errors import InvalidType, InvalidValue
from panprivacy.memory import intrinsics
from panprivacy.memory.scratch import Scratch

T = TypeVar("T")

CHUNK = 262_144
"""Events worked on, or coins drawn, at a time in long work."""

MOST_THREADS = 256
_NOTHING: Any = object()
_most: int | None = None


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def use_threads(threads: int | None) -> None:
    """Set the number of threads that a long batch uses in this process; None, the default, is one for each core.

    `update_many(ids, threads=1)` says so for one batch. A short batch is the work of one thread all the
    same, and so is one where more would not be quicker. The law of the bits does not depend on it.

    >>> import panprivacy as pp
    >>> pp.use_threads(1)
    >>> pp.use_threads(None)
    """
    global _most  # noqa: PLW0603 - a switch of the whole process
    _most = None if threads is None else check_threads(threads)


def check_threads(threads: Any) -> int:
    """The number of threads to use: the given one, else the one of `use_threads`, else one for each core.

    >>> check_threads(3)
    3
    """
    if threads is not None and not hasattr(threads, "__index__"):
        raise InvalidType(
            f"threads are a whole number, such as 2, or None for all cores; got {shown(threads)}", code="threads-type"
        )
    checked = _most or cores() if threads is None else index(threads)
    if not 1 <= checked <= MOST_THREADS:
        raise InvalidValue(f"threads must be between 1 and {MOST_THREADS}, got {threads}", code="threads-range")
    return checked


def each(chunks: Iterator[T], work: Callable[[T, Scratch], None], threads: int) -> None:
    """Do some work on every chunk; of several failures the first is raised, when all threads have stopped.

    >>> seen = []
    >>> each(iter(range(100)), lambda chunk, _: seen.append(chunk), threads=3)
    >>> sorted(seen) == list(range(100))
    True
    """
    if threads == 1:
        with Scratch() as scratch:
            for chunk in chunks:
                work(chunk, scratch)
                scratch.sweep()
        return
    next_one, failures = Lock(), list[BaseException]()

    def run() -> None:
        try:
            with Scratch() as scratch:
                while not failures:
                    with next_one:
                        chunk = next(chunks, _NOTHING)
                    if chunk is _NOTHING:
                        return
                    work(chunk, scratch)
                    scratch.sweep()
        except BaseException as error:
            failures.append(error)

    def run_and_wipe() -> None:
        run()
        intrinsics.wipe_stack()

    intrinsics.wipe_stack()
    others = [Thread(target=run_and_wipe, daemon=True) for _ in range(threads - 1)]
    try:
        with suppress(RuntimeError):  # the system has no more threads: those that there are do the work
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
    """Wait for a thread to end, also after Ctrl-C: it works on arrays that the caller will wipe."""
    while thread.ident is not None and thread.is_alive():
        try:
            thread.join()
        except BaseException as error:
            failures.append(error)
