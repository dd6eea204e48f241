"""Server-sent events: releases as they are published, to as many readers as there are."""

import asyncio
import json
from collections.abc import Iterator, Sequence

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from panprivacy.serve.counter import Counter
from panprivacy.serve.http.board import Board

_PULSE = 20.0  # seconds after which a line without meaning tells that the reader is still there
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
                yield f"id: {counter.name}:{record['id']}\nevent: release\ndata: {said}\n\n".encode()
            self._seen[counter.name] = len(records)


def seen_by(request: Request, counters: Sequence[Counter]) -> dict[str, int]:
    """Up to which release of which counter a reader that comes back has seen everything."""
    name, _, number = request.headers.get("last-event-id", "").rpartition(":")
    if not (number.isdecimal() and any(counter.name == name for counter in counters)):
        return {}
    return {name: int(number)}


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
