"""Connections: closed where nobody asks for anything, or silent ones would keep others out; lent while a body comes."""

import asyncio
import json
from typing import Any

from httptools import HttpRequestParser
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from panprivacy.serve.config import Limits
from panprivacy.serve.filling import FILL, Filling, Pages
from panprivacy.serve.http.guard import PROBLEM, problem_of
from panprivacy.serve.refusals import Refused, Why


class _Connection(HttpToolsProtocol):
    """Waits for a request with all its headers; what is asked for then takes as long as it takes."""

    limits: Limits
    _waiting: asyncio.TimerHandle | None = None
    _over = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[FILL] = self._fill  # type: ignore[literal-required]

    def on_headers_complete(self) -> None:
        crowded = len(self.connections) > self.limits.readers
        self.app = _refuse_crowd if crowded else self.config.loaded_app
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def send_400_response(self, _msg: str) -> None:
        """Refuse what is not HTTP, as a problem like all others."""
        body = json.dumps(Refused(Why.bad_request, "this is not HTTP").problem())
        about = (f"content-type: {PROBLEM}", f"content-length: {len(body)}", "connection: close")
        self.transport.write("\r\n".join(("HTTP/1.1 400 Bad Request", *about, "", body)).encode())
        self.transport.close()

    # --- silence ------------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        self._stop_waiting()
        self._waiting = self.loop.call_later(self.limits.seconds, self._close_if_silent)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()

    def _close_if_silent(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()

    # --- bodies -------------------------------------------------------------------------------------------------

    async def _fill(self, pages: Pages) -> None:
        """Fill pages with the rest of the body whose beginning was received just now."""
        filling = Filling(pages, self, self._take_back)
        self.transport.set_protocol(filling)
        self.flow.resume_reading()
        try:
            await filling.full
        except BaseException:
            self._take_back()
            self._over, self.cycle.keep_alive = True, False
            raise
        self.cycle.more_body = False
        self.flow.resume_reading()

    def data_received(self, data: bytes) -> None:
        if not self._over:  # what is left of a body that is not wanted any more is no request
            super().data_received(data)

    def _take_back(self) -> None:
        self.flow.pause_reading()
        self.transport.set_protocol(self)
        self.parser = HttpRequestParser(self)  # the one before still waits for the body
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it


async def _refuse_crowd(scope: Scope, receive: Receive, send: Send) -> None:
    await problem_of(Refused(Why.busy, "too many connections", retry=1.0))(scope, receive, send)


def protocol_for(limits_: Limits) -> type[asyncio.Protocol]:
    """HTTP for uvicorn, within limits."""

    class Connection(_Connection):
        limits = limits_

    return Connection
