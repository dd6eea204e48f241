"""The chunks of a batch, worked on by several threads: each has scratch of its own, and wipes what it leaves.

Threads help where the work is done without the GIL, as the kernels and most of the keystream are: looking users up,
marking them, drawing coins. No two threads change one word: each has marks of its own (`table.gathered`), or a stretch
of the table (`table.parted`). So the law of the bits is that of one thread.

A new thread inherits what the registers of its maker hold, and one that ends pushes what its own hold to a stack that
is kept for the next. So stack and registers are wiped before the first and after the last.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from operator import index
from threading import Lock, Thread
from typing import Any, TypeVar

from panprivacy.memory import Scratch
from panprivacy.privacy.coins import CHUNK
from panprivacy.privacy.stack import wipe_stack

T = TypeVar("T")

MOST_THREADS = 256
_NOTHING: Any = object()
_most: int | None = None

LISTED, MIXED, NUMBERS = 2**15, 2**18, 2**20
"""Rows of a thread that take much longer than starting it: where a list is searched, a number is hashed or permuted, or
a number is the slot itself."""


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def use_threads(threads: int | None) -> None:
    """Say how many threads this process uses for a long batch; None, as it begins, for as many as there are cores.

    `update_many(ids, threads=1)` says so for one batch. A short batch is the work of one thread all the
    same, and so is one where more would not be quicker. The law of the bits does not depend on it.

    >>> import panprivacy as pp
    >>> pp.use_threads(1)
    >>> pp.use_threads(None)
    """
    global _most  # noqa: PLW0603 - a switch of the whole process
    _most = None if threads is None else check_threads(threads)


def check_threads(threads: Any) -> int:
    """How many threads to use: what `use_threads` said, or as many as there are cores, unless told.

    >>> check_threads(3)
    3
    """
    if threads is not None and not hasattr(threads, "__index__"):
        raise TypeError(f"threads are a whole number, such as 2, or None for all cores; got {threads!r}")
    checked = _most or cores() if threads is None else index(threads)
    if not 1 <= checked <= MOST_THREADS:
        raise ValueError(f"threads must be between 1 and {MOST_THREADS}, got {threads}")
    return checked


def cut(many: int, threads: int | None, worth: int) -> tuple[int, int]:
    """Into chunks of what size so many rows are cut, and how many threads have rows enough, which is `worth` each.

    >>> cut(1000, 2, worth=1000), cut(300_000, 2, worth=10_000), cut(10**8, 2, worth=10_000)
    ((262144, 1), (150000, 2), (262144, 2))
    """
    enough = many // worth
    if enough < 2:
        return CHUNK, 1
    wanted = min(check_threads(threads), enough)
    return (CHUNK if wanted == 1 else min(CHUNK, -(-many // wanted))), wanted


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
        wipe_stack()

    wipe_stack()
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
    """Wait for a thread to end, whoever loses patience: it works on what the caller will take back."""
    while thread.ident is not None and thread.is_alive():
        try:
            thread.join()
        except BaseException as error:
            failures.append(error)
