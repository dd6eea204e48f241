"""Connections: closed where nobody asks for anything, or silent ones would keep others out; lent while a body comes.

A connection of uvicorn keeps its last request until the next one comes, and refers to itself through it, so that only
Python's collector of cycles would free both. Here a request is forgotten as soon as its task is done: what was never
read of its body is wiped, and nothing refers to its address and its headers any more.
"""

import asyncio
import json
from functools import partial
from typing import Any

import numpy as np
from httptools import HttpRequestParser
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from panprivacy.memory import wipe
from panprivacy.serve.config import Limits
from panprivacy.serve.filling import FILL, Filling, Pages
from panprivacy.serve.http.guard import PROBLEM, problem_of
from panprivacy.serve.refusals import Refused, Why

_GOODBYE = 1.0  # seconds for a peer to agree that a connection is closed


class _Connection(HttpToolsProtocol):
    """Waits for a request with all its headers; what is asked for then takes as long as it takes."""

    limits: Limits
    _waiting: asyncio.TimerHandle | None = None
    _over = False
    _lost = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._socket_transport = getattr(getattr(transport, "_ssl_protocol", None), "_transport", transport)
        self._wait()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[FILL] = self._fill  # type: ignore[literal-required]

    def on_headers_complete(self) -> None:
        crowded = len(self.connections) > self.limits.readers
        self.app = partial(_served, self, _refuse_crowd if crowded else self.config.loaded_app)
        try:
            super().on_headers_complete()
        finally:
            self.app = self.config.loaded_app  # which does not refer to this connection

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if self.cycle.response_complete:
            self.headers = []  # some come behind a body

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._lost:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._stop_waiting()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        _forget_address(self._socket_transport)
        self.client = None
        self._forget_head()
        while self.pipeline:
            self.forget(self.pipeline.pop()[0])

    def send_400_response(self, _msg: str) -> None:
        """Refuse what is not HTTP, as a problem like all others."""
        body = json.dumps(Refused(Why.bad_request, "this is not HTTP").problem())
        about = (f"content-type: {PROBLEM}", f"content-length: {len(body)}", "connection: close")
        self.transport.write("\r\n".join(("HTTP/1.1 400 Bad Request", *about, "", body)).encode())
        self._close()

    # --- what is over -------------------------------------------------------------------------------------------

    def forget(self, cycle: Any) -> None:
        """Forget a request that is served, or never will be: what is left of its body, its address, its headers."""
        if cycle.body:
            wipe(np.frombuffer(cycle.body, dtype=np.uint8))
            cycle.body = bytearray()
        cycle.response_complete = True  # what still comes of the body is not kept
        cycle.on_response = _do_nothing
        if self.scope is cycle.scope:
            self._forget_head()
        cycle.scope.clear()

    def _forget_head(self) -> None:
        self.url, self.headers = b"", []
        self.scope = {}  # type: ignore[typeddict-item]

    # --- silence ------------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        self._stop_waiting()
        self._waiting = self.loop.call_later(self.limits.seconds, self._close_if_silent)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()

    def _close_if_silent(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self._close()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that is not used, as uvicorn does after some seconds."""
        if not self.transport.is_closing():
            self._close()

    def _close(self) -> None:
        """Close it when all is sent, and do not wait long for a peer to agree, as TLS would."""
        self._forget_head()
        self.transport.close()
        self.loop.call_later(_GOODBYE, self._cut_off_if_sent)

    def _cut_off_if_sent(self) -> None:
        if self._lost:
            return
        if self._socket_transport.get_write_buffer_size():
            self.loop.call_later(_GOODBYE, self._cut_off_if_sent)
        else:
            self.transport.abort()

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
        if self._lost:
            return
        self.flow.pause_reading()
        self.transport.set_protocol(self)
        if (tls := getattr(self.transport, "_ssl_protocol", None)) is not None:  # which keeps methods of the other one
            tls._app_protocol_get_buffer = tls._app_protocol_buffer_updated = None
        self.parser = HttpRequestParser(self)  # the one before still waits for the body
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it


async def _served(connection: _Connection, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve a request, and have it forgotten when its task is done."""
    cycle = receive.__self__  # type: ignore[attr-defined]
    task = asyncio.current_task()
    assert task is not None
    task.add_done_callback(lambda _: connection.forget(cycle))
    await app(scope, receive, send)


def _forget_address(transport: Any) -> None:
    """Take the address of its peer from a transport of asyncio's that is closed, and refers to itself by a method."""
    vars(transport).get("_extra", {}).clear()
    vars(transport).pop("_read_ready_cb", None)


def _do_nothing() -> None:
    """In the place of a function that is called no more."""


async def _refuse_crowd(scope: Scope, receive: Receive, send: Send) -> None:
    await problem_of(Refused(Why.busy, "too many connections", retry=1.0))(scope, receive, send)


def protocol_for(limits_: Limits) -> type[asyncio.Protocol]:
    """HTTP for uvicorn, within limits."""

    class Connection(_Connection):
        limits = limits_

    return Connection
