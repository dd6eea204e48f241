"""How much memory the process has, and refusals where it has too much: `limits.memory`."""

import ctypes
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from panprivacy.serve.config import Limits
from panprivacy.serve.logs import log
from panprivacy.settings import InvalidSettings

_STATM, _PAGE = Path("/proc/self/statm"), 4096
_CGROUP, _CGROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
_SHARE = 3 / 4  # of what there is: the default of `limits.memory`
_FRESH = 0.02  # seconds for which a reading is good
_TRIMMED = 1.0  # seconds between attempts to give freed memory back
_FULL = 7 / 8  # of the limit, from which on nothing new is taken: bodies under way grow
_SHORT = 64  # times as long may be the longest body
_UNFOLDED = 16  # bytes of memory that reading a byte of a body may take


def resident() -> int:
    """Bytes of memory that the process has; 0 where the system does not tell."""
    try:
        return int(_STATM.read_text().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


def available() -> int:
    """Bytes of memory that the process may have: the machine's, or its control group's."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    group = _CGROUPS
    with suppress(OSError):
        group /= _CGROUP.read_text().strip().rpartition("::/")[2]
    for each in (group, *group.parents):
        for name in ("memory.max", "memory/memory.limit_in_bytes"):
            with suppress(OSError, ValueError):  # no such file, or "max"
                found.append(int((each / name).read_text()))
    return min(found)


def chosen_limit(limits: Limits) -> int:
    """Bytes of memory that the process stays below: `limits.memory`, or else three quarters of the available memory.

    They have to be enough for the process as it starts, for bodies that wait, and for reading one.
    """
    least, there = resident() + limits.waiting + _UNFOLDED * limits.body, available()
    most = max(int(_SHARE * there), least) if limits.memory is None else limits.memory
    if most < least:
        said = f"limits.memory: must be at least {least:,} bytes with this limits.body and limits.waiting; lower these"
        raise InvalidSettings([said])
    if most > there:
        log("there is less memory than bodies may take: lower limits.body and limits.waiting", level="warning")
    return most


class MemoryLimit:
    """Tells whether the process may take more; without a limit it always may."""

    def __init__(self, most: int | None) -> None:
        self.most = most
        self._full = False
        self._read_at = self._trimmed_at = 0.0

    @property
    def is_full(self) -> bool:
        """Whether new connections and bodies are to be refused."""
        now = time.monotonic()
        if self.most is not None and now - self._read_at > _FRESH:
            before, self._full = self._full, resident() > _FULL * self.most
            if self._full and now - self._trimmed_at > _TRIMMED:
                self._trimmed_at = now
                with suppress(OSError, AttributeError):  # another C library
                    ctypes.CDLL(None).malloc_trim(0)
                self._full = resident() > _FULL * self.most
            if self._full and not before:
                log(
                    "the memory is nearly as much as limits.memory: connections and bodies are refused", level="warning"
                )
            self._read_at = now
        return self._full


class ReadingShare:
    """Lets bodies be read at once while together they are no longer than the longest body that is taken.

    Rows take more memory than the bytes they are read from. Counters read in threads of their own. A body that is short
    beside the longest waits for none.
    """

    def __init__(self, most: int) -> None:
        self._left = self._most = most
        self._freed = threading.Condition()

    def is_short(self, size: int) -> bool:
        """Whether a body of this size waits for none."""
        return size <= self._most // _SHORT

    @contextmanager
    def reading(self, size: int) -> Iterator[None]:
        """Wait for a turn, and read a body of this size."""
        size = 0 if self.is_short(size) else min(size, self._most)
        with self._freed:
            self._freed.wait_for(lambda: self._left >= size)
            self._left -= size
        try:
            yield
        finally:
            with self._freed:
                self._left += size
                self._freed.notify_all()
