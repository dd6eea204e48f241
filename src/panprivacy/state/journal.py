"""A redo journal: what is to be changed in a file, on disk before the file is touched.

The file is compared with its new content block by block. The blocks that differ go into the journal with a checksum,
reach the disk, and only then go into the file. Whoever finds a whole journal writes its blocks into the file once more;
whoever finds half of one knows that the file was not touched. As soon as the file has them on disk, the journal is
overwritten with zeros: which blocks were changed last tells who may have come.

A journal that finds no room fails, and that must not tell how many blocks differ. So the room that it would take if all
of them did is reserved first, and what it does not need is given back.
"""

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import numpy as np

from panprivacy.memory import Scratch
from panprivacy.state.disk import (
    JOURNAL,
    erase,
    is_there,
    nobody_reads,
    open_own,
    overwrite,
    read_all,
    reserve,
    sync,
    sync_folder,
    write_all,
)
from panprivacy.state.sealed import Content

BLOCK = 4096
"""Bytes that are compared, and written, at a time."""
STRIDE = 256
"""Blocks that scratch has room for."""
MAGIC = JOURNAL
HEAD = struct.Struct("<8sQQ")  # magic, bytes of the file, bytes of what follows, without the checksum
STRETCH = struct.Struct("<QQ")  # where in the file, how many bytes
CHECK = sha256().digest_size


class Changes:
    """The stretches of a file that differ from its new content."""

    def __init__(self, flags: bytearray, size: int) -> None:
        self._flags = flags  # of each block, whether it differs
        self._size = size

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Where each stretch begins, and how many bytes it has: no more than scratch has room for."""
        start = self._flags.find(1)
        while start >= 0:
            end = self._flags.find(0, start, start + STRIDE)
            end = end if end >= 0 else min(start + STRIDE, len(self._flags))
            yield start * BLOCK, min(end * BLOCK, self._size) - start * BLOCK
            start = self._flags.find(1, end)


@contextmanager
def changes_in(handle: int, content: Content) -> Iterator[Changes]:
    """Compare a file with its new content, of the same length."""
    room = _room(content.size)
    flags = bytearray(-(-content.size // BLOCK))
    with Scratch() as scratch:
        differ = scratch.own(np.frombuffer(flags, dtype=np.bool_))
        new, old, bytes_differ = (
            scratch.empty(name, room, kind) for name, kind in (("new", "u1"), ("old", "u1"), ("differ", "?"))
        )
        for at in range(0, content.size, room):
            size = min(room, content.size - at)
            content.copy(at, memoryview(new)[:size])
            read_all(handle, memoryview(old)[:size], at)
            np.not_equal(new[:size], old[:size], out=bytes_differ[:size])
            rows = bytes_differ[: -(-size // BLOCK) * BLOCK]
            rows[size:] = False
            first = at // BLOCK
            np.logical_or.reduce(rows.reshape(-1, BLOCK), axis=1, out=differ[first : first + len(rows) // BLOCK])
        differ[-1] = True  # something is always written: the time of the file must not tell whether a bit has changed
        yield Changes(flags, content.size)


def _room(size: int) -> int:
    """Bytes of scratch for a file of this size."""
    return min(STRIDE, -(-size // BLOCK)) * BLOCK


def _most(size: int) -> int:
    """Bytes of the journal of a file of this size, whatever is changed in it."""
    return HEAD.size + size + STRETCH.size * -(-size // BLOCK) + CHECK


def apply(handle: int, content: Content, changes: Changes) -> None:
    """Write what differs into the file, while nobody reads it."""
    with Scratch() as scratch, nobody_reads(handle):
        buffer = memoryview(scratch.empty("blocks", _room(content.size), np.uint8))
        for at, size in changes:
            content.copy(at, buffer[:size])
            write_all(handle, buffer[:size], at)
        sync(handle)


class Journal:
    """The journal of one file; used for one change after the other, and erased when its owner is done."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def commit(self, content: Content, changes: Changes) -> None:
        """Put down what is to be changed; when this returns, it will be, whatever happens."""
        new = not is_there(self.path)
        handle = open_own(self.path, os.O_RDWR | os.O_CREAT)
        try:
            before = os.fstat(handle).st_size
            reserve(handle, _most(content.size))
            # What an earlier change left stays, to be erased: its zeros may not have reached the disk.
            os.ftruncate(handle, max(before, self._write(handle, content, changes)))
            sync(handle)
        finally:
            os.close(handle)
        if new:
            sync_folder(self.path.parent)

    @staticmethod
    def _write(handle: int, content: Content, changes: Changes) -> int:
        """Write it, and return where it ends."""
        follows = sum(STRETCH.size + size for _, size in changes)
        with Scratch() as scratch:
            buffer = memoryview(scratch.empty("stretch", STRETCH.size + _room(content.size), np.uint8))
            head = HEAD.pack(MAGIC, content.size, follows)
            check, at = sha256(head), len(head)
            write_all(handle, memoryview(head), 0)
            for start, size in changes:
                STRETCH.pack_into(buffer, 0, start, size)
                part = buffer[: STRETCH.size + size]
                content.copy(start, part[STRETCH.size :])
                check.update(part)
                write_all(handle, part, at)
                at += len(part)
            digest = scratch.own(np.frombuffer(check.digest(), dtype=np.uint8))
            write_all(handle, memoryview(digest), at)  # type: ignore[arg-type]
            return at + len(digest)

    def clear(self) -> None:
        """Overwrite it: the file has it all. The zeros need not be waited for: what they cover is the same version."""
        handle = open_own(self.path, os.O_RDWR)
        try:
            overwrite(handle)
        finally:
            os.close(handle)

    def erase(self) -> None:
        """Overwrite and delete it, whatever is in it."""
        erase(self.path)
