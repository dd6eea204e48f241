"""A journal: the whole next state of a file, on disk before the file is touched.

A state is written twice: into the journal, and, when that is on disk, into the file. After a crash one of the two is
whole. If it is the file, the file stays as it is: the state from before the write, or the one after it. If the file is
written in part, the journal completes it.

Every write of a state makes the same system calls: the same lengths at the same places, whatever has changed. The
journal has the length of the file from its first byte to its last, from when it is made until it is deleted. So neither
lengths, nor allocated blocks, nor times, nor what a file system's own journal remembers of them depend on the bits. A
journal of the changed blocks alone would be shorter, and would tell how many blocks changed.

Between two writes the journal has the same bytes as the file. So it is no second version of the state.
"""

import os
from pathlib import Path

from panprivacy.state.disk import (
    erase,
    is_there,
    nobody_reads,
    open_own,
    reserve,
    sync,
    sync_folder,
    write_all,
)
from panprivacy.state.sealed import Content

_STRIDE = 2**20  # bytes that are written at a time


def apply(handle: int, content: Content) -> None:
    """Write a state over the one in a file, of the same length, while nobody reads it."""
    with nobody_reads(handle):
        write_over(handle, content)
        sync(handle)


def write_over(handle: int, content: Content) -> None:
    """Write all of a state, in pieces whose lengths depend on its length alone."""
    at = 0
    for piece in content.pieces:
        for start in range(0, len(piece), _STRIDE):
            write_all(handle, piece[start : start + _STRIDE], at + start)
        at += len(piece)


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
