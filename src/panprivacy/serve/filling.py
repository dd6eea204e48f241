"""The body of a request, written by the socket straight to where it will be read.

On the way through HTTP's parser every piece of a body becomes three Python objects, each of which is made, copied and
overwritten: that takes longer than to count it. So once the length of a body is known, and its beginning is here, its
connection is lent to a protocol that knows nothing but where the rest belongs.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from panprivacy.serve.refusals import Refused

FILL = "panprivacy.fill"
"""Where the scope of a request has the function that fills pages with the rest of its body."""


class Pages(Protocol):
    """Where a body goes."""

    @property
    def lacking(self) -> int:
        """How many bytes of the body are to come; 0 if nobody knows."""

    def next(self) -> memoryview:
        """Where the next bytes go; `Refused` if there is no room for them."""

    def note(self, size: int) -> None:
        """So many bytes have been written there."""


class Filling(asyncio.BufferedProtocol):
    """Takes the place of another protocol until pages are full, or cannot be filled.

    `give_back` is called at that very moment: the next byte of the connection is not ours any more.
    """

    def __init__(self, pages: Pages, lent_by: Any, give_back: Callable[[], None]) -> None:
        self._pages, self._lent_by, self._give_back = pages, lent_by, give_back
        self._next = pages.next()
        self.full: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Say where the next bytes go, as asyncio has it."""
        return self._next

    def buffer_updated(self, nbytes: int) -> None:
        """Note that so many have come, as asyncio has it."""
        self._pages.note(nbytes)
        try:
            if self._pages.lacking:
                self._next = self._pages.next()
            else:
                self._give_back()
                self._set()
        except Refused as refused:
            self._give_back()
            self._set(refused)

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass it on, as asyncio has it."""
        self._set(ConnectionError())
        self._lent_by.connection_lost(exc)

    def pause_writing(self) -> None:
        """Pass it on, as asyncio has it."""
        self._lent_by.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on, as asyncio has it."""
        self._lent_by.resume_writing()

    def _set(self, failure: BaseException | None = None) -> None:
        if self.full.done():  # nobody waits any more
            return
        if failure is None:
            self.full.set_result(None)
        else:
            self.full.set_exception(failure)
