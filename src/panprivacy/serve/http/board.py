"""Where readers wait for news: threads of counters pin releases, readers on the event loop are woken."""

import asyncio
from collections.abc import Mapping
from typing import Any

from panprivacy.serve.counter import Counter
from panprivacy.serve.published import Record


class Board:
    """Wakes all who wait when any counter publishes something, or when the service stops."""

    def __init__(self, counters: Mapping[str, Counter]) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news: asyncio.Future[None] | None = None
        self.readers = 0
        self.closed = False
        for counter in counters.values():
            counter.bulletin.hear(self._pinned)

    def open(self) -> None:
        """Begin to wake readers of the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._news = self._loop.create_future()

    def close(self) -> None:
        """Let all readers go."""
        self.closed = True
        self._wake()

    def _pinned(self, _record: Record) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if self._loop is not None and self._news is not None:
            news, self._news = self._news, self._loop.create_future()
            if not news.done():
                news.set_result(None)

    @property
    def news(self) -> "asyncio.Future[Any]":
        """Is done when there is something new."""
        assert self._news is not None
        return self._news
