"""Files of a state: opened without following links, written whole, erased in place."""

import errno
import os
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from panprivacy.errors import PanPrivacyError

_OWNER_ONLY = 0o600
_ZEROS = bytes(2**20)
STATE, MERGED = b"panpriv\0", b"ppmerge\0"
"""What the files of this package begin with."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CANNOT_RESERVE = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class StateFileError(PanPrivacyError):
    """A state file cannot be read, written or locked; the message says which version is on disk."""


class StateInUse(StateFileError):
    """Another process is at this state."""


def open_own(path: Path, flags: int, *, beside: bool = True) -> int:
    """Open the state, or one of the files that are kept beside it.

    Others may be able to write into the folder. So a symbolic link is not followed, and a file beside the state that
    does not begin like ours is refused: it would be overwritten.
    """
    posix_locks()
    try:
        handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, _OWNER_ONLY)  # a pipe would keep us waiting
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise StateFileError(
                f"{path}: is a symbolic link where panprivacy keeps a file of its own; remove it", code="symbolic-link"
            ) from None
        raise
    try:
        if beside and not flags & os.O_EXCL:
            _check_ours(path, handle)
        if flags & os.O_CREAT:
            os.fchmod(handle, _OWNER_ONLY)  # whatever the umask is
    except BaseException:
        os.close(handle)
        raise
    return handle


def _check_ours(path: Path, handle: int) -> None:
    """Refuse a file with content that this package did not write."""
    if stat.S_ISREG(os.fstat(handle).st_mode):
        begins = os.pread(handle, len(STATE), 0)
        if not any(begins) or any(ours.startswith(begins) for ours in (STATE, MERGED)):
            return
    raise StateFileError(
        f"{path}: is not ours, where panprivacy keeps a file of its own; remove it", code="not-our-file"
    )


def write_all(handle: int, buffer: memoryview, at: int) -> None:
    """Write a whole buffer, from a position of the file on."""
    while buffer:
        written = os.pwrite(handle, buffer, at)
        buffer, at = buffer[written:], at + written


def replace_file(path: Path, content: bytes) -> None:
    """Write a small file whole or not at all: beside the old one first, which stays if the disk is full."""
    new = path.with_name(path.name + ".new")
    handle = open_own(new, os.O_WRONLY | os.O_CREAT, beside=False)
    try:
        os.ftruncate(handle, 0)
        write_all(handle, memoryview(content), 0)
        os.fsync(handle)
    except BaseException:
        os.close(handle)
        new.unlink()
        raise
    os.close(handle)
    new.replace(path)
    sync_folder(path.parent)


def read_all(handle: int, buffer: memoryview, at: int) -> None:
    """Fill a whole buffer, from a position of the file on."""
    while buffer:
        count = os.preadv(handle, [buffer], at)
        if not count:
            raise OSError(errno.EIO, "the file ended early")
        buffer, at = buffer[count:], at + count


def sync(handle: int) -> None:
    """Make what was written outlast a power cut."""
    getattr(os, "fdatasync", os.fsync)(handle)  # macOS has no fdatasync


def sync_folder(folder: Path) -> None:
    """Make new names, and names that are gone, outlast a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def overwrite(handle: int) -> None:
    """Put zeros in the place of all that is in a file."""
    _write_zeros(handle, os.fstat(handle).st_size)


def _write_zeros(handle: int, size: int) -> None:
    for at in range(0, size, len(_ZEROS)):
        write_all(handle, memoryview(_ZEROS)[: size - at], at)


def reserve(handle: int, size: int) -> None:
    """Take so much room on disk for a file, or fail now; where a file system cannot promise room, zeros take it."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(handle, 0, size)
        except OSError as error:
            if error.errno not in _CANNOT_RESERVE:
                raise
        else:
            return
    _write_zeros(handle, size)


def erase(path: Path, *, beside: bool = True) -> None:
    """Overwrite a file and delete it, if it is there: its blocks may belong to another file next."""
    try:
        handle = open_own(path, os.O_RDWR, beside=beside)
    except FileNotFoundError:
        return
    try:
        with no_reader(handle):
            try:
                overwrite(handle)
                sync(handle)
            except OSError as error:
                if error.errno not in _FULL:  # a full disk has no room for zeros where there never was a block
                    raise
        path.unlink()
    finally:
        os.close(handle)


def is_there(path: Path) -> bool:
    """Whether there is anything at a path, be it a link that leads nowhere."""
    return os.path.lexists(path)


def is_at(handle: int, path: Path) -> bool:
    """Whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False


def posix_locks() -> Any:
    """The module of locks on files; a system without it keeps no states, and all else works there."""
    try:
        import fcntl
    except ImportError:
        raise PanPrivacyError(
            "state files and folders need locks of POSIX, which this system lacks: use Linux, macOS or WSL, or "
            "to_bytes() and a place of your own",
            code="needs-posix",
        ) from None
    return fcntl


@contextmanager
def no_reader(handle: int) -> Iterator[None]:
    """Wait until no process reads an open file, and keep readers waiting."""
    fcntl = posix_locks()
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)


def no_writer(handle: int) -> None:
    """Wait until no process changes an open file in place, and keep it so until it is closed."""
    fcntl = posix_locks()
    fcntl.flock(handle, fcntl.LOCK_SH)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let signals that end a process wait until a change is whole."""
    caught: list[int] = []
    ours = threading.current_thread() is threading.main_thread()
    before = {
        number: signal.signal(number, lambda number, _: caught.append(number))
        for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))
        if ours and signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if caught:
        signal.raise_signal(caught[0])
