"""A file that takes the place of another: the first one of its name, or one of another length."""

import errno
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from panprivacy.state.disk import (
    StateFileError,
    erase,
    is_there,
    nobody_reads,
    open_own,
    overwrite,
    sync,
    sync_folder,
    write_all,
)
from panprivacy.state.sealed import Content

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK)  # what file systems without hard links say


@dataclass(frozen=True)
class Replacement:
    """Puts a new file in the place of `target`, and erases what was there.

    The new one is written as `new`, reaches the disk, and takes its place in one step (`rename`). Meanwhile `old` is a
    second name of what was there before, so that a crash does not leave its blocks where nobody finds them.
    """

    target: Path
    new: Path
    old: Path

    @property
    def unsettled(self) -> bool:
        """Whether a crash has left something."""
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
                    self.settle()
                raise
            self._erase_before(before)
        finally:
            if before is not None:
                os.close(before)

    def _write(self, content: Content) -> None:
        handle = open_own(self.new, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            at = 0
            for piece in content.pieces:
                write_all(handle, piece, at)
                at += len(piece)
            sync(handle)
        finally:
            os.close(handle)

    def _second_name(self) -> int | None:
        """Open what is there now, and give it a second name."""
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
            raise StateFileError(f"{self.target}: was written, and may not outlast a power cut: {error}") from None
        if handle is None:
            return
        try:
            with nobody_reads(handle):
                overwrite(handle)
                sync(handle)
            self.old.unlink(missing_ok=True)
        except OSError as error:
            raise StateFileError(
                f"{self.target}: was written, and what was there before is not erased: {error}"
            ) from None

    def settle(self) -> None:
        """Erase what a crash has left: a file that did not get its place, and one that lost it."""
        erase(self.new)
        if is_there(self.old):
            if self.target.exists() and os.path.samestat(self.old.lstat(), self.target.stat()):
                self.old.unlink()  # only a second name so far
            else:
                erase(self.old)
