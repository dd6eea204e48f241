"""Sending requests that are refused or never finished, from many addresses, over connections that end in all ways.

Some are closed, some are reset, and some stay open.
"""

import socket
import ssl
import struct
from collections.abc import Iterator
from time import sleep
from typing import IO

import numpy as np
from numpy.typing import NDArray

from panprivacy.audit.imaging.crowd import letters
from panprivacy.audit.imaging.processes import CannotImage
from panprivacy.audit.imaging.refused import (
    CONNECTIONS,
    CUT_OFF,
    IDS,
    LONG,
    MOST,
    REQUESTS,
    SECONDS,
    Ids,
    Make,
    Request,
    chunked,
    long,
    post,
    refused,
)

_EACH = 3  # times that a request is made
_MANY = 10  # times as many connections as the service takes: enough to give up
_SENDERS = 156 * 900  # addresses of as many signs as an id
_PATIENCE = 20.0  # seconds for an answer
_NOT_LINGERING = struct.pack("ii", 1, 0)
_FORGOTTEN = 8.0  # seconds after which silent connections are closed, and a sender that may come again is forgotten
_CLOSED, _RESET, _OPEN = "closed", "reset", "open"


class Refusals:
    """Makes all requests, and knows which ids they had, and from which addresses they came."""

    def __init__(self, port: int, *, encrypted: bool, seed: int = 1) -> None:
        self._port = port
        self._trusting = _trusting() if encrypted else None
        self._random = np.random.default_rng(seed)
        self._senders, self._made = self._random.permutation(_SENDERS), 0
        self._open: list[socket.socket] = []
        self.sent: list[tuple[str, NDArray[np.bytes_]]] = []
        """The ids of each kind of request."""
        self.addresses: list[str] = []
        """Of connections that are closed."""

    def send_all(self) -> None:
        """Make every request three times; the connections of the third are open, and idle, when this returns."""
        slow = [self._begun(name, make) for name, make in self._slow() for _ in range(_EACH)]
        for request in REQUESTS:
            self._make(request, _CLOSED)
            self._make(request, _RESET)
        self._crowd()
        sleep(SECONDS)
        for name, connection in slow:
            _hear(name, connection, ((408,),))
            connection.close()
        self._busy()
        sleep(_FORGOTTEN)
        for request in REQUESTS:
            if all(CUT_OFF not in statuses for statuses in request.statuses):
                self._make(request, _OPEN)

    def send_quickly(self) -> None:
        """Make every request that needs no waiting once, and reset the connection."""
        for request in REQUESTS:
            self._make(request, _RESET)

    def close(self) -> None:
        """Close what stayed open."""
        for connection in self._open:
            connection.close()

    def _make(self, request: Request, end: str) -> int:
        """Make a request; returns the status of the last answer."""
        connection = self._connected(address=end != _OPEN)
        connection.sendall(request.make(self._ids(request.name)))
        if request.end and self._trusting is None:
            connection.shutdown(socket.SHUT_WR)
        heard = _hear(request.name, connection, request.statuses)
        self._leave(connection, end)
        return heard

    def _leave(self, connection: socket.socket, end: str) -> None:
        if end == _OPEN:
            self._open.append(connection)
            return
        if end == _RESET:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NOT_LINGERING)
        connection.close()

    def _slow(self) -> Iterator[tuple[str, Make]]:
        yield "408", lambda ids: post(ids, length=1000 + LONG // 8)
        yield "408, chunked", lambda ids: chunked(ids, last=b"ff\r\n")
        yield "408, a release", lambda ids: post(ids, "/counters/listed/releases", length=999)

    def _begun(self, name: str, make: Make) -> tuple[str, socket.socket]:
        connection = self._connected()
        connection.sendall(make(self._ids(name)))
        return name, connection

    def _busy(self) -> None:
        """Have a body take all the room, so that the next ones are refused."""
        name, large = self._begun("503, busy", lambda ids: post([], body=long(ids, MOST)[: MOST - 9], length=MOST))
        sleep(0.2)
        for end in (_CLOSED, _RESET):
            self._make(refused(name, 503, post), end)
        self._leave(large, _RESET)

    def _crowd(self) -> None:
        """Have more connections than the service takes; it closes those that say nothing for a while."""
        crowd: list[socket.socket] = []
        for end in (_CLOSED, _RESET):
            heard = 0
            while heard != 503 and len(crowd) < _MANY * CONNECTIONS:
                crowd += [self._connected() for _ in range(CONNECTIONS // 2)]
                heard = self._make(refused("503, crowd", 503, post, 204), end)
            if heard != 503:
                raise CannotImage(f"{len(crowd)} connections were not too many")
        for connection in crowd:
            connection.close()

    def _ids(self, name: str) -> Ids:
        drawn = letters(self._random, IDS)
        self.sent.append((name, drawn))
        return [text.decode() for text in drawn.tolist()]

    def _connected(self, *, address: bool = True) -> socket.socket:
        """Connect from an address of its own, which is noted if the connection will be closed."""
        number = int(self._senders[self._made])
        self._made += 1
        sender = f"127.{100 + number // 900}.{10 + number // 10 % 90}.{number % 10}"  # twelve signs, as ids have
        made = socket.create_connection(("127.0.0.1", self._port), _PATIENCE, source_address=(sender, 0))
        if address:
            self.addresses.append(sender)
        return self._trusting.wrap_socket(made) if self._trusting is not None else made


def _trusting() -> ssl.SSLContext:
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE  # it is ours, and on this machine
    return trusting


def _hear(name: str, connection: socket.socket, expected: tuple[tuple[int, ...], ...]) -> int:
    """Read the answers to a request, all but the body of the last, and check their statuses; returns the last."""
    heard = CUT_OFF
    with connection.makefile("rb") as answers:
        for number, statuses in enumerate(expected, 1):
            if CUT_OFF in statuses:
                break
            heard = _status(answers, whole=number < len(expected))
            if heard not in statuses:
                raise CannotImage(f"a request that should be refused, {name}: answered with {heard or 'nothing'}")
    return heard


def _status(answers: IO[bytes], *, whole: bool) -> int:
    """The status of the next answer; 0 if there is none."""
    try:
        first, length = answers.readline(), 0
        while (line := answers.readline().lower().strip()) != b"":
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        if whole:
            answers.read(length)
    except ConnectionError:
        return 0
    status = int(first.split()[1]) if first else 0
    return _status(answers, whole=whole) if status == 100 else status
