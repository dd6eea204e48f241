"""Journals of an earlier form, which had only the blocks that change: what a killed writer left of one is replayed."""

import os
import struct
from collections.abc import Iterator
from hashlib import sha256

from panprivacy.state.disk import JOURNAL, nobody_reads, read_all, sync, write_all

_HEAD = struct.Struct("<8sQQ")  # magic, bytes of the file, bytes of what follows, without the checksum
_STRETCH = struct.Struct("<QQ")  # where in the file, how many bytes
_CHECK = sha256().digest_size


def replay(journal: int, target: int, buffer: memoryview) -> None:
    """Bring the blocks of a whole journal into the file, if it then is a whole state."""
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
    at, head = _HEAD.size, bytearray(_STRETCH.size)
    while at < end:
        read_all(journal, memoryview(head), at)
        start, size = _STRETCH.unpack(head)
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
    check, sealed = sha256(), max(size - _CHECK, 0)
    for at in range(0, sealed, len(buffer)):
        part = buffer[: min(len(buffer), sealed - at)]
        read(at, part)
        check.update(part)
    read(sealed, buffer[: size - sealed])
    return check.digest() == buffer[: size - sealed]


def _whole_until(journal: int, size: int, buffer: memoryview) -> int | None:
    """Where the checksum of a journal begins, if it is a whole one, for a file of this size."""
    length = os.fstat(journal).st_size
    if length < _HEAD.size + _CHECK:
        return None
    read_all(journal, buffer[: _HEAD.size], 0)
    magic, of, follows = _HEAD.unpack_from(buffer)
    end = _HEAD.size + follows
    if magic != JOURNAL or of != size or end + _CHECK > length:
        return None
    check = sha256()
    for at in range(0, end, len(buffer)):
        part = buffer[: min(len(buffer), end - at)]
        read_all(journal, part, at)
        check.update(part)
    read_all(journal, buffer[:_CHECK], end)
    return end if check.digest() == buffer[:_CHECK] else None
