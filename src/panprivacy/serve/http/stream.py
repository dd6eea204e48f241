"""Server-sent events: releases as they are published, to as many readers as there are."""

import asyncio
import json
import re
from collections.abc import Iterator, Sequence

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from panprivacy.serve.counter import Counter
from panprivacy.serve.http.board import Board
from panprivacy.serve.refusals import Refused, Why

_PULSE = 20.0  # seconds after which a line without meaning tells that the reader is still there
_SEEN = re.compile(r"[a-z0-9_-]+:[0-9]{1,9}(,[a-z0-9_-]+:[0-9]{1,9})*", re.ASCII)
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # a proxy in front shall not gather what is to be seen at once
]


class EventStream:
    """An answer that goes on until its reader, or the service, goes."""

    def __init__(self, board: Board, counters: Sequence[Counter], since: dict[str, int]) -> None:
        self._board = board
        self._counters = counters
        self._seen = {
            counter.name: since.get(counter.name, len(counter.bulletin.records)) for counter in self._counters
        }

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, as ASGI has it."""
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await send({"type": "http.response.body", "body": b"retry: 3000\n\n", "more_body": True})
        gone = asyncio.ensure_future(_gone(receive))
        self._board.readers += 1
        try:
            while not (gone.done() or self._board.closed):
                news = self._board.news  # before looking: what comes while we write is news then
                written = b"".join(self._unseen()) or b": still here\n\n"
                await send({"type": "http.response.body", "body": written, "more_body": True})
                await asyncio.wait({gone, news}, timeout=_PULSE, return_when=asyncio.FIRST_COMPLETED)
            if not gone.done():
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._board.readers -= 1
            gone.cancel()

    def _unseen(self) -> Iterator[bytes]:
        for counter in self._counters:
            records, standing = counter.bulletin.records, counter.standing
            for record in records[self._seen[counter.name] :]:
                news = {"counter": counter.name, "next": standing["next"], "budget": standing["budget"]}
                said = json.dumps(news | {"release": record})
                self._seen[counter.name] = record["id"]
                yield f"id: {self._all_seen}\nevent: release\ndata: {said}\n\n".encode()
            self._seen[counter.name] = len(records)

    @property
    def _all_seen(self) -> str:
        """Up to where a reader has seen each counter: it says so when it comes back, and misses nothing of any."""
        return ",".join(f"{name}:{number}" for name, number in self._seen.items())


def seen_by(request: Request) -> dict[str, int]:
    """Up to which release of which counter a reader that comes back has seen everything."""
    said = request.headers.get("last-event-id", "")
    if said and not _SEEN.fullmatch(said):
        raise Refused(Why.bad_request, "Last-Event-ID is the id of an event of this stream")
    pairs = (each.split(":") for each in said.split(",") if each)
    return {name: int(number) for name, number in pairs}


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
