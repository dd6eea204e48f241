"""Connections of the service: how many there may be, what they keep of a request, and how a long body is read.

**Number.** Connections that are too many are closed as they come, before TLS and before any byte of them. asyncio would
log every connection for which there is no file, thousands a second.

**Forgetting.** A connection of uvicorn keeps its last request until the next one comes, and refers to itself through
it, so that only Python's collector of cycles would free both. Here a request is forgotten as soon as its task is done:
what was never read of its body is wiped, and nothing refers to its address and its headers any more. Silent connections
are closed, so that they keep no others out.

**Limits.** The head of a request has a largest size and number of headers. If many requests come behind one that is
being answered, the first few are answered, and the connection is closed. A reader that takes hardly anything of an
answer is cut off.

**Long bodies.** On the way through HTTP's parser every piece of a body becomes three Python objects, each of which is
made, copied and overwritten: that takes longer than counting it. So once the length of a body is known, and its
beginning is here, the connection is lent to a protocol that writes the rest where it will be read.

Forgetting and long bodies need internals of uvicorn, whose tested versions are bounds in pyproject.toml. With the
ordinary `receive` alone, 0.63 times as many ids a second come through in Arrow bodies of 10^6 ids, at 1.5 times the
processor time for each, and about as many in shorter bodies (`benchmarks/serve.py --against`, medians of 3 rounds on
two busy cores). Without the forgetting, ids of refused requests stay in memory: `tests/serve/refusal_leaks.py` puts it
back, and it is found.
"""

import asyncio
import errno
import json
import os
import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any

import numpy as np
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from panprivacy.ingest.batch import ProblemType, Refused, drop_frames
from panprivacy.memory.scratch import wipe
from panprivacy.serve.config import Limits
from panprivacy.serve.http.bodies import FILL, BodyBuffer
from panprivacy.serve.http.guard import PROBLEM, problem_of
from panprivacy.serve.logs import log
from panprivacy.serve.memory import MemoryLimit

_NO_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_AT_ONCE = 100  # connections that are closed before others get their turn
_UNHEARD = "connections are closed unheard: too many are open"
_A_TURN = 8  # connections that are taken in a turn of the event loop: a crowd would make each step of a request wait


class _CountedConnection(socket.socket):
    """A connection that its listener counts until it is closed."""

    listener: "Listener | None" = None

    def close(self) -> None:
        """Close it."""
        super().close()
        if self.listener is not None:
            self.listener.open -= 1
            self.listener = None


class Listener(socket.socket):
    """Takes connections while fewer than `most` are open: the place of another listening socket."""

    def __init__(self, opened: socket.socket, most: int) -> None:
        super().__init__(opened.family, opened.type, opened.proto, opened.detach())
        self._most, self._taken = most, 0
        self.open = 0
        """How many connections are open."""
        self._spare = os.open(os.devnull, os.O_RDONLY)  # given up to take, and close, a connection without a file

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection, if it may be open; in a turn of the event loop, a few of those that wait."""
        if self._taken >= _A_TURN:
            self._taken = 0
            raise BlockingIOError
        for _ in range(_AT_ONCE):
            try:
                plain, address = super().accept()
            except OSError as error:
                if error.errno not in _NO_FILES:
                    self._taken = 0
                    raise
                self._refuse_without_file()
                continue
            if self.open < self._most:
                self.open += 1
                self._taken += 1
                connection = _CountedConnection(plain.family, plain.type, plain.proto, plain.detach())
                connection.listener = self
                return connection, address
            plain.close()
            log(_UNHEARD, level="warning")
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
        log(_UNHEARD, level="warning")


_GOODBYE = 1.0  # seconds for a peer to agree that a connection is closed
_SLICE = 2**12  # bytes of a head that are parsed at a time
_TAKEN = 2**16  # bytes that are taken from a socket at a time; asyncio would have 2**18 overwritten for each head
_PIECES = 4  # of long bodies that are read in a turn of the event loop
_MOST_HEADERS = 100
_MOST_BEHIND = 4  # requests that may wait behind one that is being answered
_LEAST_TAKEN = 2**15  # bytes of an answer that a reader takes in `limits.seconds`


class ReadingTurns:
    """Long bodies that are read at the same time: in a turn of the event loop, only some of them get a piece.

    So a turn stays short, and short requests do not wait for a crowd of long ones.
    """

    def __init__(self) -> None:
        self.bodies = 0
        """How many are being read."""
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def is_crowded(self) -> bool:
        """Whether a body has to wait for its turn after each piece."""
        return self.bodies > _PIECES

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call a function in a later turn."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._begin_turn)
        self._waiting.append(go_on)

    def _begin_turn(self) -> None:
        for _ in range(min(_PIECES, len(self._waiting))):
            self._waiting.popleft()()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._begin_turn)


class BufferFilling(asyncio.BufferedProtocol):
    """Takes the place of another protocol until a buffer is full, or cannot be filled.

    `give_back` is called at that very moment: the next byte of the connection belongs to the other protocol.
    """

    def __init__(self, buffer: BodyBuffer, lent_by: Any, give_back: Callable[[], None], turns: ReadingTurns) -> None:
        self._buffer, self._lent_by, self._give_back = buffer, lent_by, give_back
        self._turns = turns
        self._next = buffer.next()
        self.full: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Where asyncio shall write the next bytes."""
        return self._next

    def buffer_updated(self, nbytes: int) -> None:
        """Note that asyncio has written this many bytes."""
        self._buffer.note(nbytes)
        try:
            if self._buffer.lacking:
                self._next = self._buffer.next()
                if self._turns.is_crowded:
                    self._lent_by.flow.pause_reading()
                    self._turns.wait(self._lent_by.flow.resume_reading)
            else:
                self._give_back()
                self._set()
        except Refused as refused:
            self._give_back()
            self._set(refused)

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass it on."""
        self._set(ConnectionError())
        self._lent_by.connection_lost(exc)

    def pause_writing(self) -> None:
        """Pass it on."""
        self._lent_by.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._lent_by.resume_writing()

    def _set(self, failure: BaseException | None = None) -> None:
        if self.full.done():  # the request has been given up
            return
        if failure is None:
            self.full.set_result(None)
        else:
            self.full.set_exception(failure)


class _Connection(HttpToolsProtocol):
    """Waits a limited time for the headers of a request; the answer may take as long as it takes."""

    limits: Limits
    memory: MemoryLimit | None = None
    turns: ReadingTurns
    _waiting: asyncio.TimerHandle | None = None
    _watching: asyncio.TimerHandle | None = None
    _over = False
    _lost = False
    _in_head = True
    _head_size = _head_taken = _header_count = 0
    _give_up_at = 0.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._tls = getattr(transport, "_ssl_protocol", None)
        self._socket_transport = getattr(self._tls, "_transport", transport)
        self._socket_transport.max_size = _TAKEN
        self._waiting = self._restarted(None, self._close_if_silent)
        if self.memory is not None and self.memory.is_full:
            self._over = True
            transport.abort()

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= _MOST_BEHIND:
            raise Refused(ProblemType.busy)
        super().on_message_begin()
        self._in_head, self._head_size, self._head_taken, self._header_count = True, 0, 0, 0
        self.scope[FILL] = self._fill  # type: ignore[literal-required]

    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_count += 1
        self._count_head(len(name) + len(value))
        super().on_header(name, value)

    def _count_head(self, size: int) -> None:
        self._head_size += size
        if self._head_size > self.limits.headers or self._header_count > _MOST_HEADERS:
            raise Refused(ProblemType.headers)

    def on_headers_complete(self) -> None:
        self._in_head = False
        crowded = len(self.connections) > self.limits.readers
        refusal = problem_of(Refused(ProblemType.busy, "too many connections", retry=1.0)) if crowded else None
        self.app = partial(_served, self, refusal or self.config.loaded_app)
        try:
            super().on_headers_complete()
        finally:
            self.app = self.config.loaded_app  # which does not refer to this connection

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head, self._head_taken = True, 0
        if self.cycle.response_complete:
            self.headers = []  # trailers, which come behind a body

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._lost:
            self._waiting = self._restarted(self._waiting, self._close_if_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        for timer in (self._waiting, self._watching):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        _forget_address(self._socket_transport)
        self.client = None
        self._forget_filling()
        self._forget_head()
        while self.pipeline:
            self.forget(self.pipeline.pop()[0])

    def _refuse(self, refused: Refused) -> None:
        """Refuse anything but HTTP, and too long a head, with problem details.

        Behind a request that is being answered nothing is said: the answer would be taken for that of the other one.
        """
        self._over = True
        if self._in_head and self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False
            return
        if self.transport.is_closing():
            return
        body, status = json.dumps(refused.to_dict()), HTTPStatus(refused.type.status)
        about = (f"content-type: {PROBLEM}", f"content-length: {len(body)}", "connection: close")
        self.transport.write("\r\n".join((f"HTTP/1.1 {status} {status.phrase}", *about, "", body)).encode())
        self._close()

    # --- readers of answers -------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watching = self._restarted(self._watching, self._cut_off_if_slow, self._unsent)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._watching is not None:
            self._watching.cancel()

    def _cut_off_if_slow(self, before: int) -> None:
        if self._unsent > before - _LEAST_TAKEN:
            self.transport.abort()
        else:
            self._watching = self._restarted(None, self._cut_off_if_slow, self._unsent)

    def _restarted(
        self, timer: asyncio.TimerHandle | None, call: Callable[..., None], *given: int
    ) -> asyncio.TimerHandle:
        """A timer of `limits.seconds` in the place of another one."""
        if timer is not None:
            timer.cancel()
        return self.loop.call_later(self.limits.seconds, call, *given)

    @property
    def _unsent(self) -> int:
        """Bytes of answers that the peer has not taken."""
        unsent: int = self._socket_transport.get_write_buffer_size()
        return unsent if self._tls is None else unsent + self.transport.get_write_buffer_size()

    # --- forgetting ---------------------------------------------------------------------------------------------

    def forget(self, cycle: Any) -> None:
        """Forget a request that is served, or never will be: the rest of its body, its address, its headers."""
        if cycle.body:
            wipe(np.frombuffer(cycle.body, dtype=np.uint8))
            cycle.body = bytearray()
        cycle.response_complete = True  # so that what still comes of the body is not kept
        cycle.on_response = lambda: None
        if self.scope is cycle.scope:
            self._forget_head()
        cycle.scope.clear()

    def _forget_head(self) -> None:
        self.url, self.headers = b"", []
        self.scope = {}  # type: ignore[typeddict-item]

    # --- closing ------------------------------------------------------------------------------------------------

    def _close_if_silent(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self._close()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that is not used, as uvicorn does after some seconds."""
        if not self.transport.is_closing():
            self._close()

    def _close(self) -> None:
        """Close it when all is sent, without waiting long for the peer to agree, as TLS would."""
        self._forget_head()
        self.transport.close()
        self._give_up_at = self.loop.time() + self.limits.seconds
        self.loop.call_later(_GOODBYE, self._cut_off_if_sent)

    def _cut_off_if_sent(self) -> None:
        if self._lost:
            return
        if self._unsent and self.loop.time() < self._give_up_at:
            self.loop.call_later(_GOODBYE, self._cut_off_if_sent)
        else:
            self.transport.abort()

    # --- long bodies --------------------------------------------------------------------------------------------

    async def _fill(self, buffer: BodyBuffer) -> None:
        """Fill a buffer with the rest of the body whose beginning was received just now."""
        filling = BufferFilling(buffer, self, self._take_back, self.turns)
        self.transport.set_protocol(filling)
        self.flow.resume_reading()
        self.turns.bodies += 1
        try:
            await filling.full
        except BaseException:
            self._take_back()
            self._over, self.cycle.keep_alive = True, False
            raise
        finally:
            self.turns.bodies -= 1
        self.cycle.more_body = False
        self.flow.resume_reading()

    def data_received(self, data: bytes | bytearray) -> None:
        self._unset_keepalive_if_required()
        with memoryview(data) as left:
            at = 0
            while at < len(data) and not (self._over or self._lost):  # what follows a refusal is no request
                with left[at : at + _SLICE] if self._in_head else left[at:] as piece:
                    at += len(piece)
                    self._parse(piece)

    def _parse(self, piece: memoryview) -> None:
        try:
            self.parser.feed_data(piece)
            if self._in_head:  # it may be one long header, which the parser has not told of
                self._head_taken += min(len(piece), _SLICE)
                if self._head_taken > self.limits.headers + _SLICE:
                    raise Refused(ProblemType.headers)  # noqa: TRY301 - as the parser's callbacks do
        except HttpParserUpgrade:
            pass  # which nothing here does
        except HttpParserError as error:
            cause = error.__context__
            drop_frames(error)
            self._refuse(cause if isinstance(cause, Refused) else Refused(ProblemType.bad_request, "this is not HTTP"))
        except Refused as refused:
            drop_frames(refused)
            self._refuse(refused)

    def _take_back(self) -> None:
        if self._lost:
            return
        self.flow.pause_reading()
        self.transport.set_protocol(self)
        self._forget_filling()
        self.parser = HttpRequestParser(self)  # the old one still waits for the body
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it

    def _forget_filling(self) -> None:
        """Take from asyncio's TLS the methods of the protocol that the connection was lent to: they refer to it."""
        if self._tls is not None:
            self._tls._app_protocol_get_buffer = self._tls._app_protocol_buffer_updated = None


async def _served(connection: _Connection, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve a request, and forget it when its task is done."""
    cycle = receive.__self__  # type: ignore[attr-defined]
    task = asyncio.current_task()
    assert task is not None
    task.add_done_callback(lambda _: connection.forget(cycle))
    await app(scope, receive, send)


def _forget_address(transport: Any) -> None:
    """Take the peer's address from a closed transport of asyncio, and the methods by which it refers to itself.

    It has one such method, and from Python 3.12 on two.
    """
    getattr(transport, "_extra", {}).clear()
    for method in ("_read_ready_cb", "_write_ready"):
        vars(transport).pop(method, None)


def protocol_for(limits: Limits, memory: MemoryLimit | None = None) -> type[asyncio.Protocol]:
    """HTTP for uvicorn, within limits."""
    return type("Connection", (_Connection,), {"limits": limits, "memory": memory, "turns": ReadingTurns()})
