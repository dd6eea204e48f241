"""How a state file is changed: the old state or the new one is whole, whenever the process or the power fails.

A state of the same length is written twice: to a *journal*, and, when that is on disk, over the file. After a crash one
of the two is whole. If it is the file, it stays as it is: the state before the write, or after it. If the file was
written in part, `recover` completes it from the journal.

Every write makes the same system calls: the same lengths at the same places, whatever has changed. The journal has the
length of the file from when it is made until it is deleted. So neither lengths, nor allocated blocks, nor times, nor
what a file system's own journal remembers of them depend on the bits. A journal of the changed blocks alone would be
shorter, and would tell how many blocks changed. Between two writes the journal has the same bytes as the file, so it is
no second version of the state.

A state of another length, or the first one, takes the place of the file by renaming (`Replacement`).
"""

import errno
import os
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from panprivacy.memory.scratch import Scratch
from panprivacy.state.disk import (
    STATE,
    StateFileError,
    erase,
    is_there,
    no_reader,
    open_own,
    overwrite,
    read_all,
    reserve,
    sync,
    sync_folder,
    write_all,
)
from panprivacy.state.format import Content

_STRIDE = 2**20  # bytes that are written or read at a time
_CHECK = sha256().digest_size
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK)  # what file systems without hard links say


# --- writing over a file ------------------------------------------------------------------------------------------


class Journal:
    """The journal of one file; used for one write after the other, and erased when its owner is done."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def commit(self, content: Content) -> None:
        """Put down what the file will be; when this returns, it will be that, whatever happens."""
        new = not is_there(self.path)
        handle = open_own(self.path, os.O_RDWR | os.O_CREAT)
        try:
            if new:
                reserve(handle, content.size)
            write_over(handle, content)
            sync(handle)
        finally:
            os.close(handle)
        if new:
            sync_folder(self.path.parent)

    def erase(self) -> None:
        """Overwrite and delete it, whatever is in it."""
        erase(self.path)


def apply(handle: int, content: Content) -> None:
    """Write a state over the one in a file, of the same length, while no process reads it."""
    with no_reader(handle):
        write_over(handle, content)
        sync(handle)


def write_over(handle: int, content: Content) -> None:
    """Write all of a state, in pieces whose lengths depend on its length alone."""
    at = 0
    for piece in content.pieces:
        for start in range(0, len(piece), _STRIDE):
            write_all(handle, piece[start : start + _STRIDE], at + start)
        at += len(piece)


# --- after a crash ------------------------------------------------------------------------------------------------


def recover(journal: Path, file: Path) -> None:
    """Complete a file that was written in part from its journal, and erase the journal."""
    try:
        handle = open_own(journal, os.O_RDWR)
    except FileNotFoundError:
        return
    try:
        _complete(file, handle)
    finally:
        os.close(handle)
    erase(journal)


def _complete(file: Path, journal: int) -> None:
    try:
        target = open_own(file, os.O_RDWR, beside=False)
    except FileNotFoundError:
        return
    try:
        with Scratch() as scratch:
            buffer = memoryview(scratch.empty("blocks", _STRIDE, np.uint8))
            if _may_belong(journal, target) and not _is_whole(target, buffer) and _is_whole(journal, buffer):
                _copy(journal, target, buffer)
    finally:
        os.close(target)


def _begins(handle: int) -> bytes:
    return os.pread(handle, len(STATE), 0)


def _may_belong(journal: int, target: int) -> bool:
    """Whether a journal may have been written for a file: both have one length, and begin like states."""
    same = os.fstat(journal).st_size == os.fstat(target).st_size
    return same and _begins(journal) == STATE == _begins(target)


def _is_whole(handle: int, buffer: memoryview) -> bool:
    """Whether a file is a state with its checksum."""
    end = os.fstat(handle).st_size - _CHECK
    if end < len(STATE):
        return False
    check = sha256()
    for at in range(0, end, len(buffer)):
        part = buffer[: end - at]
        read_all(handle, part, at)
        check.update(part)
    read_all(handle, buffer[:_CHECK], end)
    return check.digest() == buffer[:_CHECK]


def _copy(journal: int, target: int, buffer: memoryview) -> None:
    size = os.fstat(target).st_size
    with no_reader(target):
        for at in range(0, size, len(buffer)):
            part = buffer[: size - at]
            read_all(journal, part, at)
            write_all(target, part, at)
        sync(target)


# --- taking the place of a file -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Replacement:
    """Puts a new file in the place of `target`, and erases what was there.

    The new one is written as `new`, reaches the disk, and takes its place in one step (`rename`). Meanwhile `old` is a
    second name of what was there before, so that its blocks are found, and erased, after a crash.
    """

    target: Path
    new: Path
    old: Path

    @property
    def interrupted(self) -> bool:
        """Whether a crash has left a file."""
        return is_there(self.new) or is_there(self.old)

    def put(self, content: Content) -> None:
        """Replace the file; an `OSError` says that it is as it was."""
        before = None
        try:
            try:
                self._write(content)
                before = self._second_name()
                self.new.replace(self.target)
            except OSError:
                with suppress(OSError):
                    self.recover()
                raise
            self._erase_before(before)
        finally:
            if before is not None:
                os.close(before)

    def _write(self, content: Content) -> None:
        handle = open_own(self.new, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            write_over(handle, content)
            sync(handle)
        finally:
            os.close(handle)

    def _second_name(self) -> int | None:
        """Open the present file, and give it a second name."""
        try:
            handle = open_own(self.target, os.O_RDWR, beside=False)
        except FileNotFoundError:
            return None
        try:
            os.link(self.target, self.old)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                os.close(handle)
                raise
        return handle

    def _erase_before(self, handle: int | None) -> None:
        try:
            sync_folder(self.target.parent)
        except OSError as error:
            raise StateFileError(
                f"{self.target}: was written, and may not outlast a power cut: {error}", code="state-not-synced"
            ) from None
        if handle is None:
            return
        try:
            with no_reader(handle):
                overwrite(handle)
                sync(handle)
            self.old.unlink(missing_ok=True)
        except OSError as error:
            raise StateFileError(
                f"{self.target}: was written, and what was there before is not erased: {error}", code="old-state-left"
            ) from None

    def recover(self) -> None:
        """Erase the file that a crash has left: a new file that did not get its place, or an old file that lost it."""
        erase(self.new)
        if is_there(self.old):
            if self.target.exists() and os.path.samestat(self.old.lstat(), self.target.stat()):
                self.old.unlink()  # only a second name so far
            else:
                erase(self.old)
