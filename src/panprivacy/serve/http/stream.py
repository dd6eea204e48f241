"""Server-sent events: releases as they are published, to many readers at once."""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from panprivacy.ingest.batch import ProblemType, Refused
from panprivacy.serve.counter import Counter

_PULSE = 20.0  # seconds after which a comment is sent, which fails if the reader is gone
_BATCH = 2**16  # bytes of releases that are read at a time
_SEEN = re.compile(r"[a-z0-9_-]+:[0-9]{1,9}(,[a-z0-9_-]+:[0-9]{1,9})*", re.ASCII)
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # a proxy in front must not buffer the stream
]


class ReleaseNotifier:
    """Wakes all readers, on the event loop, when a counter publishes a release in its thread, or the service stops."""

    def __init__(self, counters: Mapping[str, Counter]) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news: asyncio.Future[None] | None = None
        self.readers = 0
        self.closed = False
        self.dismissals = 0
        """How often all readers were let go, to come back."""
        for counter in counters.values():
            self.add(counter)

    def add(self, counter: Counter) -> None:
        """Wake readers when this counter publishes a release, too."""
        counter.release_log.listeners.append(self._wake_soon)

    def close(self) -> None:
        """Let all readers go."""
        self.closed = True
        self._wake()

    def dismiss(self) -> None:
        """Let the present readers go: tokens have changed, and one that comes back has to show its own again."""
        self.dismissals += 1
        self._wake_soon()

    def _wake_soon(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if self._loop is not None and self._news is not None:
            news, self._news = self._news, self._loop.create_future()
            if not news.done():
                news.set_result(None)

    @property
    def news(self) -> "asyncio.Future[Any]":
        """Is done when there is something new; for readers of the running event loop."""
        if self._news is None:
            self._loop = asyncio.get_running_loop()
            self._news = self._loop.create_future()
        return self._news


class EventStream:
    """An answer that goes on until its reader or the service ends it, or tokens change."""

    def __init__(self, notifier: ReleaseNotifier, counters: Sequence[Counter], since: dict[str, int]) -> None:
        self._notifier = notifier
        self._counters = counters
        self._dismissals = notifier.dismissals
        self._seen = {
            counter.name: min(since.get(counter.name, len(counter.release_log)), len(counter.release_log))
            for counter in self._counters
        }

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, as ASGI has it."""
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await send({"type": "http.response.body", "body": b"retry: 3000\n\n", "more_body": True})
        gone = asyncio.ensure_future(_gone(receive))
        self._notifier.readers += 1
        try:
            while not (gone.done() or self._notifier.closed or self._notifier.dismissals != self._dismissals):
                news = self._notifier.news  # before looking: what comes while we write is news then
                written = False
                for event in self._unseen():  # one at a time: all that a reader has missed may be long
                    await send({"type": "http.response.body", "body": event, "more_body": True})
                    written = True
                if not written:
                    await send({"type": "http.response.body", "body": b": still here\n\n", "more_body": True})
                await asyncio.wait({gone, news}, timeout=_PULSE, return_when=asyncio.FIRST_COMPLETED)
            if not gone.done():
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._notifier.readers -= 1
            gone.cancel()

    def _unseen(self) -> Iterator[bytes]:
        """Events that were not sent. By their ids a reader says what it has seen of each counter when it comes back."""
        for counter in self._counters:
            while lines := counter.release_log.lines(self._seen[counter.name], _BATCH):
                status = counter.status
                news = {"counter": counter.name, "next": status["next"], "budget": status["budget"]}
                said = json.dumps(news)[:-1].encode()
                for line in lines:
                    self._seen[counter.name] += 1
                    seen = ",".join(f"{name}:{number}" for name, number in self._seen.items()).encode()
                    yield b'id: %s\nevent: release\ndata: %s, "release": %s}\n\n' % (seen, said, line)


def seen_by(request: Request) -> dict[str, int]:
    """Up to which release of which counter a reader that comes back has seen everything."""
    said = request.headers.get("last-event-id", "")
    if said and not _SEEN.fullmatch(said):
        raise Refused(ProblemType.bad_request, "Last-Event-ID is the id of an event of this stream")
    pairs = (each.split(":") for each in said.split(",") if each)
    return {name: int(number) for name, number in pairs}


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
