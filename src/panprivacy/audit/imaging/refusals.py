"""Sending requests that are refused or never finished, from many addresses, over connections that end in all ways.

The first of each three connections is closed, the second is reset, the third stays open.
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
_PATIENCE = 20.0  # seconds for an answer
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER


class Refusals:
    """Makes all requests, and knows which ids they had, and from which addresses they came."""

    def __init__(self, port: int, *, encrypted: bool, seed: int = 1) -> None:
        self._port, self._encrypted = port, encrypted
        self._random = np.random.default_rng(seed)
        self._kept: list[socket.socket] = []
        self.sent: list[tuple[str, NDArray[np.bytes_]]] = []
        """The ids of each kind of request."""
        self.addresses: list[str] = []
        """Of all connections."""

    def send_all(self) -> None:
        """Make every request a few times."""
        slow = [self._begun(name, make) for name, make in self._slow() for _ in range(_EACH)]
        for request in REQUESTS:
            for turn in range(_EACH):
                self._make(request, turn)
        self._crowd()
        sleep(SECONDS)
        for name, connection in slow:
            _hear(name, connection, ((408,),))
            connection.close()
        self._busy()

    def close(self) -> None:
        """Close what stayed open."""
        for connection in self._kept:
            connection.close()

    def _make(self, request: Request, turn: int) -> None:
        connection = self._connected()
        connection.sendall(request.make(self._ids(request.name)))
        if request.end and not self._encrypted:
            connection.shutdown(socket.SHUT_WR)
        _hear(request.name, connection, request.statuses)
        self._leave(connection, turn)

    def _leave(self, connection: socket.socket, turn: int) -> None:
        if turn == 2:
            self._kept.append(connection)
            return
        if turn == 1:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
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
        for turn in range(_EACH):
            self._make(refused(name, 503, post), turn)
        self._leave(large, 1)

    def _crowd(self) -> None:
        """Have more connections than the service takes."""
        many = [self._connected() for _ in range(CONNECTIONS - len(self._kept))]
        for turn in range(_EACH):
            self._make(refused("503, crowd", 503, post), turn)
        for connection in many:
            connection.close()

    def _ids(self, name: str) -> Ids:
        drawn = letters(self._random, IDS)
        self.sent.append((name, drawn))
        return [text.decode() for text in drawn.tolist()]

    def _connected(self) -> socket.socket:
        first, second, third = (int(self._random.integers(*ends)) for ends in ((100, 256), (10, 100), (0, 10)))
        address = f"127.{first}.{second}.{third}"  # twelve signs, as ids have
        made = socket.create_connection(("127.0.0.1", self._port), _PATIENCE, source_address=(address, 0))
        self.addresses.append(address)
        if not self._encrypted:
            return made
        trusting = ssl.create_default_context()
        trusting.check_hostname = False
        trusting.verify_mode = ssl.CERT_NONE  # it is ours, and on this machine
        return trusting.wrap_socket(made)


def _hear(name: str, connection: socket.socket, expected: tuple[tuple[int, ...], ...]) -> None:
    """Read the answers to a request, all but the body of the last, and check their statuses."""
    with connection.makefile("rb") as answers:
        for number, statuses in enumerate(expected, 1):
            if CUT_OFF in statuses:
                return
            heard = _status(answers, whole=number < len(expected))
            if heard not in statuses:
                raise CannotImage(f"a request that should be refused, {name}: answered with {heard or 'nothing'}")


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
