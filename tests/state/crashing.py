"""A disk that fails at a step of our choice: the process dies there, the power goes, or there is no room left."""

import errno
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

_CALLS = (
    "open",
    "fchmod",
    "posix_fallocate",
    "pwrite",
    "ftruncate",
    "fdatasync",
    "fsync",
    "link",
    "replace",
    "unlink",
)
_SECTOR = 512
_close = os.close


class Crash(BaseException):
    """The process is dead: whatever it still tries raises this again."""


class Failure(StrEnum):
    """What goes wrong at the step."""

    crash = "crash"
    """The process dies before the call."""
    torn = "torn"
    """It dies in the middle of a write."""
    power = "power"
    """The power goes: of what was not synced, some sectors reach the disk."""
    full = "full"
    """There is no room left, now and later; what has its place on disk can be overwritten."""


class Disk:
    """Counts the calls that change a disk, and fails at one of them."""

    def __init__(self, failure: Failure, at: int, graveyard: Path) -> None:
        self.failure = failure
        self.at = at
        self.steps = 0
        self.failed = False
        self._graveyard = graveyard
        self._real: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in _CALLS}
        self._opened: list[int] = []
        self._unsynced: list[tuple[tuple[int, int], int, bytes, int]] = []  # file, copy of its handle, before, where
        self._random = random.Random(at)

    @contextmanager
    def used(self) -> Iterator["Disk"]:
        """Put this disk under everything, until the process is dead."""
        with pytest.MonkeyPatch.context() as patch:
            for name in _CALLS:
                patch.setattr(os, name, getattr(self, f"_{name}", self._other(name)))
            patch.setattr(os, "close", self._close)
            with suppress(Crash):
                yield self
        if self.failed and self.failure is Failure.power:
            self._lose_power()
        for handle in [*self._opened, *(entry[1] for entry in self._unsynced)]:  # as the kernel does; locks end here
            os.close(handle)

    def _step(self, *, writes: bool = False, grows: bool = False) -> bool:
        """Count a step; die if it is time, and tell whether to die in the middle of it."""
        self.steps += 1
        if self.failure is Failure.full:
            if grows and self.steps >= self.at:
                self.failed = True
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return False
        if self.failed or (self.steps == self.at and not (self.failure is Failure.torn and writes)):
            self.failed = True
            raise Crash
        return self.steps == self.at

    def _other(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self._step()
            return self._real[name](*arguments, **options)

        return call

    def _open(self, path: Any, flags: int, *mode: int) -> int:
        self._step()
        new = flags & os.O_CREAT and not os.path.lexists(path)
        handle: int = self._real["open"](path, flags, *mode)
        self._opened.append(handle)
        if new and not str(path).endswith(".lock"):  # a second name, under which we look at it when it is gone
            self._real["link"](path, self._graveyard / f"{len(list(self._graveyard.iterdir()))}{Path(path).suffix}")
        return handle

    def _close(self, handle: int) -> None:
        _close(handle)
        if handle in self._opened:
            self._opened.remove(handle)

    def _pwrite(self, handle: int, data: Any, at: int) -> int:
        torn = self._step(writes=True, grows=at + len(data) > os.fstat(handle).st_size)
        again = self._real["open"](f"/proc/self/fd/{handle}", os.O_RDWR)
        self._unsynced.append((_identity(handle), again, os.pread(again, len(data), at), at))
        written: int = self._real["pwrite"](handle, data[: len(data) // 2] if torn else data, at)
        if torn:
            self.failed = True
            raise Crash
        return written

    def _posix_fallocate(self, handle: int, at: int, size: int) -> None:
        self._step(grows=at + size > os.fstat(handle).st_size)
        self._real["posix_fallocate"](handle, at, size)

    def _fdatasync(self, handle: int) -> None:
        self._step()
        self._real["fdatasync"](handle)
        self._forget(handle)

    def _fsync(self, handle: int) -> None:
        self._step()
        self._real["fsync"](handle)
        self._forget(handle)

    def _forget(self, handle: int) -> None:
        for entry in [entry for entry in self._unsynced if entry[0] == _identity(handle)]:
            _close(entry[1])
            self._unsynced.remove(entry)

    def _lose_power(self) -> None:
        for _, handle, before, at in reversed(self._unsynced):
            for start in range(0, len(before), _SECTOR):
                if self._random.random() < 0.5:
                    os.pwrite(handle, before[start : start + _SECTOR], at + start)


def _identity(handle: int) -> tuple[int, int]:
    found = os.fstat(handle)
    return found.st_dev, found.st_ino
