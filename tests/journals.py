"""A planted journal: only the blocks that change, as long as the longest change so far."""

import os
from pathlib import Path
from typing import Any

from panprivacy.state.disk import STATE, open_own, sync, write_all
from panprivacy.state.journal import Journal

_BLOCK = 4096


def of_changed_blocks(self: Journal, content: Any) -> None:
    """Write a journal that grows with the number of changed blocks; in the place of `Journal.commit`."""
    file = self.path.with_name(self.path.name.removeprefix(".").removesuffix(".journal"))
    changed = _changed(file, b"".join(content.pieces))
    handle = open_own(self.path, os.O_RDWR | os.O_CREAT)
    try:
        before = os.fstat(handle).st_size
        write_all(handle, memoryview(changed), 0)
        os.ftruncate(handle, max(before, len(changed)))
        sync(handle)
        write_all(handle, memoryview(bytes(len(changed))), 0)
    finally:
        os.close(handle)


def _changed(file: Path, new: bytes) -> bytes:
    """The magic of a state, and the blocks in which a file differs from its next version."""
    old = file.read_bytes()
    blocks = (slice(at, at + _BLOCK) for at in range(0, len(new), _BLOCK))
    return STATE + b"".join(new[block] for block in blocks if old[block] != new[block])
