"""What a crash has left of a journal: the file is completed from it, if it has to be, and the journal is erased."""

import os
from hashlib import sha256
from pathlib import Path

import numpy as np

from panprivacy.memory import Scratch
from panprivacy.state import redo
from panprivacy.state.disk import JOURNAL, STATE, erase, nobody_reads, open_own, read_all, sync, write_all

_ROOM = 2**20  # bytes that are read at a time
_CHECK = sha256().digest_size


def settle(journal: Path, file: Path) -> None:
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
            buffer = memoryview(scratch.empty("blocks", _ROOM, np.uint8))
            if _begins(journal) == JOURNAL:
                redo.replay(journal, target, buffer)
            elif _fits(journal, target) and not _is_whole(target, buffer) and _is_whole(journal, buffer):
                _copy(journal, target, buffer)
    finally:
        os.close(target)


def _begins(handle: int) -> bytes:
    return os.pread(handle, len(STATE), 0)


def _fits(journal: int, target: int) -> bool:
    """Whether the file may be one that this journal was written for: the first bytes of both are those of a state."""
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
    with nobody_reads(target):
        for at in range(0, size, len(buffer)):
            part = buffer[: size - at]
            read_all(journal, part, at)
            write_all(target, part, at)
        sync(target)
