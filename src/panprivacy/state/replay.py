"""What a crash has left of a journal: brought into the file if it is whole, and erased in any case."""

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import numpy as np

from panprivacy.memory import Scratch
from panprivacy.state.disk import erase, nobody_reads, open_own, read_all, sync, write_all
from panprivacy.state.journal import BLOCK, CHECK, HEAD, MAGIC, STRETCH, STRIDE


def settle(journal: Path, file: Path) -> None:
    """Bring the file up to date if there is a whole journal of it, and erase the journal."""
    try:
        handle = open_own(journal, os.O_RDWR)
    except FileNotFoundError:
        return
    try:
        _bring_up_to_date(file, handle)
    finally:
        os.close(handle)
    erase(journal)


def _bring_up_to_date(file: Path, journal: int) -> None:
    try:
        target = open_own(file, os.O_RDWR, beside=False)
    except FileNotFoundError:
        return
    try:
        with Scratch() as scratch:
            _replay(journal, target, memoryview(scratch.empty("blocks", STRIDE * BLOCK, np.uint8)))
    finally:
        os.close(target)


def _replay(journal: int, target: int, buffer: memoryview) -> None:
    size = os.fstat(target).st_size
    end = _whole_until(journal, size, buffer)
    if end is None:
        return
    stretches = list(_stretches(journal, end))
    if not _fits(journal, stretches, target, size, buffer):
        return
    with nobody_reads(target):
        for place, start, count in stretches:
            read_all(journal, buffer[:count], place)
            write_all(target, buffer[:count], start)
        sync(target)


def _stretches(journal: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Of each stretch: where it stands in the journal, where it goes in the file, and how many bytes it has."""
    at, head = HEAD.size, bytearray(STRETCH.size)
    while at < end:
        read_all(journal, memoryview(head), at)
        start, size = STRETCH.unpack(head)
        yield at + len(head), start, size
        at += len(head) + size


def _fits(journal: int, stretches: list[tuple[int, int, int]], target: int, size: int, buffer: memoryview) -> bool:
    """Whether the file is a sealed state once it has these stretches: it may be another one that took its place."""

    def read(at: int, into: memoryview) -> None:
        read_all(target, into, at)
        for place, start, count in stretches:
            begin, stop = max(start, at), min(start + count, at + len(into))
            if begin < stop:
                read_all(journal, into[begin - at : stop - at], place + begin - start)

    if any(start + count > size or count > len(buffer) for _, start, count in stretches):
        return False
    check, sealed = sha256(), max(size - CHECK, 0)
    for at in range(0, sealed, len(buffer)):
        part = buffer[: min(len(buffer), sealed - at)]
        read(at, part)
        check.update(part)
    read(sealed, buffer[: size - sealed])
    return check.digest() == buffer[: size - sealed]


def _whole_until(journal: int, size: int, buffer: memoryview) -> int | None:
    """Where the checksum of a journal begins, if it is a whole one, for a file of this size."""
    length = os.fstat(journal).st_size
    if length < HEAD.size + CHECK:
        return None
    read_all(journal, buffer[: HEAD.size], 0)
    magic, of, follows = HEAD.unpack_from(buffer)
    end = HEAD.size + follows
    if magic != MAGIC or of != size or end + CHECK > length:
        return None
    check = sha256()
    for at in range(0, end, len(buffer)):
        part = buffer[: min(len(buffer), end - at)]
        read_all(journal, part, at)
        check.update(part)
    read_all(journal, buffer[:CHECK], end)
    return end if check.digest() == buffer[:CHECK] else None
