"""The listening socket: connections that are too many are closed as they come, before TLS and before any byte of them.

asyncio would log every connection for which there is no file, thousands a second.
"""

import errno
import os
import socket
from collections.abc import Callable
from typing import Any

from panprivacy.serve.logs import log

_NO_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_AT_ONCE = 100  # connections that are closed before others get their turn


class _Connection(socket.socket):
    """A connection that tells when it is closed."""

    closed: Callable[[], None] | None = None

    def close(self) -> None:
        """Close it."""
        super().close()
        told, self.closed = self.closed, None
        if told is not None:
            told()


class Listener(socket.socket):
    """Takes connections while fewer than `most` are open: the place of another listening socket."""

    def __init__(self, opened: socket.socket, most: int) -> None:
        super().__init__(opened.family, opened.type, opened.proto, opened.detach())
        self._most, self._open = most, 0
        self._spare = os.open(os.devnull, os.O_RDONLY)  # given up to take, and close, a connection without a file

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection, if it may be open."""
        for _ in range(_AT_ONCE):
            try:
                plain, address = super().accept()
            except OSError as error:
                if error.errno not in _NO_FILES:
                    raise
                self._refuse_without_file()
                continue
            if self._open < self._most:
                self._open += 1
                connection = _Connection(plain.family, plain.type, plain.proto, plain.detach())
                connection.closed = self._note_closed
                return connection, address
            plain.close()
            _note_refused()
        raise BlockingIOError

    def close(self) -> None:
        """Close it, and the spare file."""
        super().close()
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1

    def _refuse_without_file(self) -> None:
        os.close(self._spare)
        try:
            super().accept()[0].close()
        finally:
            self._spare = os.open(os.devnull, os.O_RDONLY)
        _note_refused()

    def _note_closed(self) -> None:
        self._open -= 1


def _note_refused() -> None:
    log("connections are closed unheard: too many are open", level="warning")
