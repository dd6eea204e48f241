"""The lock of a state: one writer at a time."""

import errno
import os
from contextlib import suppress
from pathlib import Path

from panprivacy.state.disk import is_at, open_own


class Busy(OSError):
    """Another process holds the lock."""


def taken(path: Path) -> int:
    """Lock a file, or raise `Busy` at once; the lock ends with its process, however that ends."""
    import fcntl

    while True:
        handle = open_own(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise Busy(error.errno, "another process is using this state") from None
            raise
        if is_at(handle, path):
            return handle
        os.close(handle)


def give_back(path: Path, handle: int) -> None:
    """Delete the file while it is still locked: whoever opened it meanwhile sees that it is gone, and tries again."""
    with suppress(OSError):
        path.unlink()
    os.close(handle)
