"""Memory for what depends on people: bits that are in one place only, and scratch that is wiped.

An intruder reads freed memory as easily as memory in use. So the bits of a table live in pages of their own, which
no core dump, no forked child and, once locked, no swap file has a copy of, and which the kernel takes back whole.
Everything else that depends on a person is scratch. The function that made it overwrites it before it returns.
"""

import ctypes
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self, TypeVar
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import DTypeLike, NDArray

A = TypeVar("A", bound=np.ndarray[Any, Any])

# Numbers of Linux's madvise that Python has no names for. Where the system has none of them, nothing is lost but them.
_WIPE_ON_FORK, _KEEP_ON_FORK = 18, 19
_DONT_DUMP, _HUGE_PAGES, _SMALL_PAGES = 16, 14, 15
_LARGE = 2**22  # bytes from which on large pages spare the processor more than they cost

_areas: "WeakValueDictionary[int, mmap.mmap]" = WeakValueDictionary()  # by address: threads look up, and never iterate
_locking = False


def bit_pages(words: int) -> NDArray[np.uint64]:
    """Zeros for the bits of a table, in pages of their own.

    A core dump leaves these pages out, and a forked child finds zeros in them. They go back to the system, which
    clears them, as soon as the array is gone.

    >>> bit_pages(3)
    array([0, 0, 0], dtype=uint64)
    """
    area = _pages(max(8 * words, 1))
    if _locking:
        _lock(area)
    array = np.frombuffer(area, dtype=np.uint64, count=words)
    _areas[array.ctypes.data] = area
    return array


def pages(size: int, *, small: bool = False) -> NDArray[np.uint8]:
    """Zeros in pages of their own, as bits have them, for `size` bytes that come from outside.

    The system lends each page when it is first written to, and takes all of them back, cleared, when the array is gone.
    A large page is 2 MiB from its first byte on; with `small`, there are none until `use_large_pages` is called.

    >>> pages(3)
    array([0, 0, 0], dtype=uint8)
    """
    return np.frombuffer(_pages(max(size, 1), small=small), dtype=np.uint8, count=size)


def use_large_pages(array: NDArray[np.uint8]) -> None:
    """Let the system lend large pages for the part of an array of `pages` that is not written yet."""
    area = array.base.obj if isinstance(array.base, memoryview) else array.base  # NumPy has either
    if isinstance(area, mmap.mmap):
        _advise(area, _HUGE_PAGES)


def mask(rows: int) -> NDArray[np.bool_]:
    """A truth value for each row, such as whether its user is a stranger.

    NumPy keeps freed arrays of up to 1 KiB as they are; these pages go back to the system when the array is gone.

    >>> mask(3)
    array([False, False, False])
    """
    return pages(rows).view(np.bool_)


def moved(array: A) -> A:
    """Move the numbers of an array to pages of their own, and wipe the array.

    >>> made = np.array([5, 7]); moved(made), made
    (array([5, 7]), array([0, 0]))
    """
    there: Any = pages(array.nbytes).view(array.dtype).reshape(array.shape)
    there[:] = array
    wipe(array)
    moved_there: A = there
    return moved_there


def _pages(size: int, *, small: bool = False) -> mmap.mmap:
    private = getattr(mmap, "MAP_PRIVATE", None)
    if private is None:  # no POSIX system
        return mmap.mmap(-1, size)
    area = mmap.mmap(-1, size, flags=private | mmap.MAP_ANONYMOUS)
    size_advice = [_SMALL_PAGES] if small else [_HUGE_PAGES] if size >= _LARGE else []
    for advice in (_DONT_DUMP, _WIPE_ON_FORK, *size_advice):
        _advise(area, advice)
    return area


def _advise(area: mmap.mmap, advice: int) -> None:
    with suppress(OSError, ValueError):  # a system that has no such advice
        area.madvise(advice)


def lock_bits() -> str | None:
    """Keep the bits of all tables, present and future, out of swap; say why not, if the system does not let us."""
    global _locking  # noqa: PLW0603 - a switch of the whole process
    _locking = True
    areas = [area for each in _areas.valuerefs() if (area := each()) is not None]
    failures = [problem for area in areas if (problem := _lock(area))]
    return failures[0] if failures else None


def _lock(area: mmap.mmap) -> str | None:
    try:
        mlock = ctypes.CDLL(None, use_errno=True).mlock
    except (OSError, AttributeError, TypeError):  # Windows wants the name of a library
        return "this system has no mlock"
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    if mlock(ctypes.c_void_p(start), ctypes.c_size_t(len(area))) == 0:
        return None
    return os.strerror(ctypes.get_errno()).lower()


@contextmanager
def kept_on_fork(words: NDArray[np.uint64]) -> Iterator[None]:
    """Let a child that is forked meanwhile have these bits after all."""
    _advise(_area_of(words), _KEEP_ON_FORK)
    try:
        yield
    finally:
        wiped_on_fork(words)


def wiped_on_fork(words: NDArray[np.uint64]) -> None:
    """Let a forked child find zeros in the place of these bits, as is the rule."""
    _advise(_area_of(words), _WIPE_ON_FORK)


def are_bits(words: NDArray[np.uint64]) -> bool:
    """Whether these words are in pages of their own."""
    return words.ctypes.data in _areas


def _area_of(words: NDArray[np.uint64]) -> mmap.mmap:
    return _areas[words.ctypes.data]


def has_bits_beyond(words: NDArray[np.uint64], size: int) -> bool:
    """Whether one of the bits behind the first `size` ones is set in the last word, of which no copy is left.

    >>> has_bits_beyond(np.array([4], dtype=np.uint64), 2), has_bits_beyond(np.array([4], dtype=np.uint64), 3)
    (True, False)
    """
    if not size % 64:
        return False
    with Scratch() as scratch:
        last = scratch.own(words[-1:].copy())
        last >>= np.uint64(size % 64)
        return bool(last.any())


def wipe(array: np.ndarray[Any, Any]) -> None:
    """Overwrite an array with zeros, also a read-only array."""
    try:
        array.fill(0)
    except ValueError:  # read-only
        if not array.flags.c_contiguous:
            raise ValueError("an array with gaps that cannot be written to cannot be wiped") from None
        ctypes.memset(array.ctypes.data, 0, array.nbytes)


class Scratch:
    """Arrays that hold what depends on people; all of them are wiped where the `with` block ends, however it ends.

    >>> with Scratch() as scratch:
    ...     slots = scratch.empty("slots", 2, np.uint64)
    ...     slots[:] = 7, 9
    >>> slots
    array([0, 0], dtype=uint64)
    """

    def __init__(self) -> None:
        self._owned: list[np.ndarray[Any, Any]] = []
        self._named: dict[str, np.ndarray[Any, Any]] = {}

    def empty(self, name: str, n: int, dtype: DTypeLike) -> Any:
        """An array of this length with undefined contents; an earlier array of this name, if it is long enough."""
        known = self._named.get(name)
        if known is None or len(known) < n:
            if known is not None:
                self.own(known)
            known = self._named[name] = np.empty(n, dtype=dtype)
            return known
        return known[:n]

    def own(self, array: A) -> A:
        """Take over an array that another function made, to be wiped at the end. No other code may use it."""
        self._owned.append(array)
        return array

    def sweep(self) -> None:
        """Wipe the arrays of `own`, and forget them. Arrays with a name stay for the next use."""
        try:
            while self._owned:
                wipe(self._owned[-1])
                self._owned.pop()
        except ValueError:  # this one cannot be wiped: the others are, all the same
            self._owned.pop()
            self.sweep()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._owned += self._named.values()
        self._named.clear()
        self.sweep()
