"""Requests that the service refuses, and requests that are never finished: each has ids, which must leave nothing.

There is a request for every status that a sender can provoke. They are sent from many addresses. Some connections are
closed, some are reset, and some stay open.
"""

import errno
import json
import os
import socket
import ssl
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from http.client import parse_headers
from io import BufferedReader
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.audit.memory.batches import encoded, letters
from panprivacy.audit.memory.brokers import until
from panprivacy.audit.memory.estimators import EPSILON, RELEASES
from panprivacy.audit.memory.images import CannotImage
from panprivacy.estimators.base import Estimator
from panprivacy.state import StateFile

FEEDER, READER = "pp_the-auditor-feeds", "pp_the-auditor-reads"
"""Tokens of the service under audit: one for everything, one for reading only."""
ROWS = 10_000  # rows of a body that the service under audit has room for

MOST = 2**21  # bytes of a body, and of all bodies together
LONG = MOST // 2  # bytes of a body that goes straight from the socket to its place
IDS = 20  # in a request
SECONDS = 3.0  # for a body to come
_RATE = 100  # requests a second of one sender; twice as many may come at once
CONNECTIONS = 150
TYPES = {
    "CSV": "text/csv",
    "NDJSON": "application/x-ndjson",
    "Arrow": "application/vnd.apache.arrow.stream",
    "JSON": "application/json",
    "slots": "application/vnd.panprivacy.slots",
}
"""The content types of bodies."""
PLAN = f'epsilon = {EPSILON}\nreleases = {RELEASES}\ncolumn = "user"\n'  # settings of a counter
_EVENTS = "/counters/audited/events"
CUT_OFF = 0  # in the place of a status: the sender leaves without an answer
_SENDERS = 156 * 900  # addresses of as many signs as an id
_PATIENCE = 20.0  # seconds for an answer
_NOT_LINGERING = struct.pack("ii", 1, 0)
_FORGOTTEN = 3.0  # seconds after which a sender that sent too often is forgotten, and a quarter of them more
FAULTS = "panprivacy.audit.memory.refusals:plant_faults"
"""What makes one counter of the service fail, and the disk of another one."""
_FULL, _FAILING = "full", 997  # the counter whose disk is full, and the universe of the counter that fails


def plant_faults() -> None:
    """From now on, the disk takes no new state of one counter, and counting fails in another one."""
    write, update_many = StateFile.write, Estimator.update_many

    def write_or_not(file: StateFile, parts: Any) -> None:
        if file.path.stem == _FULL and file.exists:
            raise OSError(errno.ENOSPC, "no space is left")
        write(file, parts)

    def update_or_fail(est: Any, ids: Any, *more: Any, **options: Any) -> None:
        if est.universe.size == _FAILING:
            raise RuntimeError(str(ids))
        update_many(est, ids, *more, **options)

    StateFile.write = write_or_not  # type: ignore[assignment, method-assign]
    Estimator.update_many = update_or_fail  # type: ignore[assignment, method-assign]


def settings(kind: str, folder: Path, tls: str) -> str:
    """The file of a service with a counter `audited`, and with others that refuse for reasons of their own."""
    dense = f'kind = "density"\nuniverse = 1000\n{PLAN}'
    return (
        f'[service]\nport = 0\nfolder = "{folder}"\nanonymous = ["read"]\n{tls}'
        f"[limits]\nbody = {MOST}\nwaiting = {MOST}\nseconds = {SECONDS}\nrequests = {_RATE}\n"
        f"readers = {CONNECTIONS}\n"
        f'[tokens.feeder]\nhash = "sha256:{sha256(FEEDER.encode()).hexdigest()}"\nroles = ["admin"]\n'
        f'[tokens.reader]\nhash = "sha256:{sha256(READER.encode()).hexdigest()}"\nroles = ["read"]\n'
        f"[counters.audited]\n{kind}\n{PLAN}"
        f"[counters.listed]\n{dense}"
        f'[counters.sorted]\n{dense}by = "clinic"\ncategories = ["north", "south"]\n'
        f'[counters.acting]\n{dense}action = "verb"\n'
        f'[counters.timed]\n{dense}[counters.timed.schedule]\nevery = "1d"\ntime = "at"\n'
        f"[counters.retired]\n{dense}retired = true\n"
        f"[counters.{_FULL}]\n{dense}"
        f"[counters.failing]\n{dense.replace('1000', str(_FAILING))}"
        f"[counters.spent]\n{dense.replace(f'releases = {RELEASES}', 'releases = 1')}"
    )


Ids = list[str]
Make = Callable[..., bytes]


@dataclass(frozen=True)
class Request:
    """A request, made of some ids, and the statuses that may answer it: a tuple for each answer."""

    name: str
    statuses: tuple[tuple[int, ...], ...]
    make: Make
    end: bool = False
    """Whether the sender ends its half of the connection behind it."""
    before: int = 0
    """How many requests like it are made before it, each answered before the next."""


def post(
    ids: Ids,
    path: str = _EVENTS,
    *,
    method: str = "POST",
    token: str = FEEDER,
    kind: str = "NDJSON",
    more: Sequence[str] = (),
    host: str = "localhost",
    body: bytes | None = None,
    length: int | None = None,
    rows: str = '{{"user": "{}"}}\n',
    size: int = 0,
    last: bytes = b"",
) -> bytes:
    """A request with a row for each id, over and over until they are `size` bytes; `last` ends them."""
    sent = "".join(map(rows.format, ids)).encode() if body is None else body
    sent = sent * (size // len(sent) + 1 if size else 1) + last
    said = [f"content-length: {len(sent) if length is None else length}"] if length != -1 else []
    lines = [f"{method} {path} HTTP/1.1", f"host: {host}", f"content-type: {TYPES.get(kind, kind)}", *said, *more]
    lines += [f"authorization: Bearer {token}"] if token else []
    return "\r\n".join([*lines, "", ""]).encode() + sent


def chunked(ids: Ids, path: str = _EVENTS, *, last: bytes = b"0\r\n\r\n", token: str = FEEDER) -> bytes:
    """The same with a chunk for each id."""
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(row), row) for row in (b'{"user": "%s"}\n' % id_.encode() for id_ in ids))
    return post([], path, token=token, more=["transfer-encoding: chunked"], body=chunks, last=last, length=-1)


def refused(name: str, status: int, make: Make = post, *others: int, end: bool = False, **how: Any) -> Request:
    """A request of `make(ids, **how)` that has one answer, with this status or one of the others."""
    return Request(name, ((status, *others),), partial(make, **how), end)


def _last(chunk: str, id_: str) -> bytes:
    return f"{chunk}{id_}\r\n\r\n".encode()


def _counter(name: str) -> str:
    return f"/counters/{name}/events"


_SPENT, _STREAM = "/counters/spent/releases", "/counters/audited/stream"
_OTHER, _CUT = '{{"person": "{}"}}\n', b'{"user": "'
_NUMBER = '{{"user": 7, "note": "{}"'
REQUESTS = (
    # Answered before their body is read.
    refused("401", 401, token=""),
    refused("401, chunked", 401, chunked, token=""),
    refused("401, long", 401, token="", size=LONG),
    refused("401, a token that is not known", 401, token="pp_nobody"),
    refused("403", 403, token=READER),
    refused("403, of another site", 403, more=["origin: https://example.org"]),
    refused("404", 404, path="/nowhere"),
    refused("404, no such counter", 404, path=_counter("nobody")),
    refused("405", 405, method="PUT"),
    refused("400, a parameter", 400, path=f"{_EVENTS}?acton=delete"),
    refused("400, an action", 400, path=f"{_EVENTS}?action=count"),
    refused("410", 410, path=_counter("retired")),
    refused("413", 413, length=MOST + 1),
    refused("415", 415, kind="text/html"),
    refused("415, compressed", 415, more=["content-encoding: gzip"]),
    refused("421", 421, host="example.org"),
    refused("GET with a body", 200, path="/counters", method="GET"),
    refused("HEAD with a body", 200, path="/counters", method="HEAD"),
    refused("an upgrade", 401, token="", more=["upgrade: websocket"]),
    refused("100-continue", 401, token="", more=["expect: 100-continue"]),
    Request("429", ((200, 429),), lambda ids: post(ids[:1], "/counters", method="GET", token=""), before=2 * _RATE),
    # Answered when their body, or part of it, is read.
    refused("400, a release", 400, path="/counters/listed/releases"),
    refused("400, ended early", 400, post, CUT_OFF, length=LONG // 8, end=True),
    refused("413, chunked", 413, lambda ids: chunked([f"{id_}{'x' * 2**17}" for id_ in ids]), 503),
    refused("422, NDJSON", 422, size=1000, last=_CUT),
    refused("422, no column", 422, rows=_OTHER),
    refused("422, missing", 422, rows='{{"user": null, "note": "{}"}}\n'),
    refused("422, JSON", 422, lambda ids: post([], kind="JSON", body=json.dumps([ids]).encode())),
    refused("422, no JSON", 422, kind="JSON"),
    refused("422, CSV", 422, lambda ids: post([], kind="CSV", body=("person\n" + "\n".join(ids)).encode())),
    refused("422, Arrow", 422, lambda ids: post([], kind="Arrow", body=encoded("Arrow", {"person": np.array(ids)}))),
    refused("422, no Arrow", 422, kind="Arrow"),
    refused("422, no integer", 422, path=_counter("listed")),
    refused("422, outside", 422, post, 204, path=_counter("listed"), rows='{{"user": 1234567, "note": "{}"}}\n'),
    refused("422, category", 422, post, 204, path=_counter("sorted"), rows=f'{_NUMBER}, "clinic": "east"}}}}\n'),
    refused("422, action", 422, post, 204, path=_counter("acting"), rows=f'{_NUMBER}, "verb": "count"}}}}\n'),
    refused("422, time", 422, post, 204, path=_counter("timed"), rows=f'{_NUMBER}, "at": "1999-01-01"}}}}\n'),
    refused("422, deletion", 422, post, 204, path=f"{_EVENTS}?action=delete"),
    refused("500", 500, path=_counter("failing"), rows=f"{_NUMBER}}}}}\n"),
    refused("507", 507, path=_counter(_FULL), rows=f"{_NUMBER}}}}}\n"),
    refused("422, long", 422, size=LONG, last=_CUT),
    Request(
        "pipelined",
        ((401,), (404,), (422,), (200,)),
        lambda ids: (
            post(ids[:5], token="")
            + post(ids[5:10], "/nowhere")
            + post(ids[10:15], rows=_OTHER)
            + post(ids[15:], "/counters", method="GET")
        ),
    ),
    # Bytes that are no request, and requests that are never finished.
    refused("400, no HTTP", 400, lambda ids: " ".join(ids).encode() + b"\r\n\r\n"),
    refused("400, a header", 400, lambda ids: post(ids, more=[f"x y\0: {ids[0]}"])),
    refused("400, a chunk", 401, chunked, 400, last=b"zz\r\n", token=""),
    refused("half of a head", CUT_OFF, lambda ids: post(ids, more=[f"x-user: {' '.join(ids)}"])[:200]),
    refused("half of a body", CUT_OFF, length=LONG // 8),
    refused("half of a refused body", CUT_OFF, token="", length=LONG // 8),
    refused("half of a long body", CUT_OFF, size=LONG, length=LONG + 10**5),
    refused("half of the chunks", CUT_OFF, chunked, last=b"ff\r\n"),
    refused("no answer heard", CUT_OFF, lambda ids: post(ids, "/nowhere") * 3 + chunked(ids) * 2),
    # Ids where no id belongs: in addresses, in headers, and around chunks.
    refused("id in a query", 400, lambda ids: post([], f"{_EVENTS}?user={'&user='.join(ids)}")),
    refused("id in a path", 404, lambda ids: post([], f"/{'/'.join(ids)}")),
    refused("id in a counter", 404, lambda ids: post([], _counter(ids[0]))),
    refused("id in a file", 404, lambda ids: post([], f"/static/{ids[0]}.js", method="GET")),
    refused("id in a file, twice", 404, lambda ids: post([], f"/static/{ids[0]}/{ids[1]}", method="GET")),
    refused("id in since", 400, lambda ids: post([], f"/counters/audited/releases?since={ids[0]}", method="GET")),
    refused("id in a host", 421, lambda ids: post([], host=f"{ids[0]}.example.org")),
    refused("id in an origin", 403, lambda ids: post([], more=[f"origin: https://{ids[0]}.org"])),
    refused("id in a token", 401, lambda ids: post([], token=ids[0])),
    refused("id in a type", 415, lambda ids: post([], kind=f"text/{ids[0]}")),
    refused("431", 431, lambda ids: post([], more=[f"x-user: {'x' * 200}"] * 100 + [f"x-user: {' '.join(ids)}"])),
    refused("409", 409, lambda ids: post([], _SPENT, more=[f"idempotency-key: {' '.join(ids[:15])}"]), 201),
    refused("id in a header", 401, lambda ids: post([], token="", more=[f"x-user: {' '.join(ids)}"])),
    refused("id in a cookie", 404, lambda ids: post([], "/nowhere", more=[f"cookie: user={ids[0]}"])),
    refused("id of an event", 200, lambda ids: post([], _STREAM, method="HEAD", more=[f"last-event-id: {ids[0]}"])),
    refused("id in a trailer", 404, lambda ids: chunked(ids[:1], "/no", last=_last("0\r\nx-user: ", ids[1]))),
    refused("id beside a chunk", 404, lambda ids: chunked(ids[:1], "/no", last=_last("0;user=", ids[1]))),
)
"""All but those that need other connections at the same time, or much time: see `RefusedRequests`."""
_SLOW = (
    refused("408", 408, length=1000 + LONG // 8),
    refused("408, chunked", 408, chunked, last=b"ff\r\n"),
    refused("408, a release", 408, path="/counters/listed/releases", length=999),
)


class RefusedRequests:
    """Makes all requests, and knows which ids they had, and from which addresses they came."""

    def __init__(self, port: int, *, encrypted: bool, process: int | None = None) -> None:
        """`process` is the number of the service's process, where all are to be made."""
        self._port, self._process = port, process
        self._exceeded = 0.0
        self._trusting = trusting() if encrypted else None
        self._random = np.random.default_rng(1)
        self._senders, self._made = self._random.permutation(_SENDERS), 0
        self._open: list[socket.socket] = []
        self.sent: list[tuple[str, NDArray[np.bytes_]]] = []
        """The ids of each kind of request."""
        self.addresses: list[str] = []
        """Of connections that are closed."""

    def send_all(self) -> None:
        """Make every request three times; the connections of the third are open, and idle, when this returns."""
        before = self._connections()
        slow = [(request, self._begin(request)) for request in _SLOW for _ in range(3)]
        for request in REQUESTS:
            self._make(request, "closed")
            self._make(request, "reset")
        self._exceed_connections()
        for request, connection in slow:
            _hear(request, connection)
            connection.close()
        self._busy()
        until(lambda: self._connections() <= before, "all connections are closed")
        sleep(max(self._exceeded + _FORGOTTEN - monotonic(), 0))
        for request in REQUESTS:
            if all(CUT_OFF not in statuses for statuses in request.statuses):
                self._make(request, "open")

    def _connections(self) -> int:
        """How many the service has."""
        found = 0
        for link in Path(f"/proc/{self._process}/fd").iterdir():
            with suppress(FileNotFoundError):
                found += os.readlink(link).startswith("socket:")  # noqa: PTH115 - of an open file, which has no path
        return found

    def send_quickly(self) -> None:
        """Make every request that needs no waiting once, and reset the connection."""
        for request in REQUESTS:
            self._make(request, "reset")

    def close(self) -> None:
        """Close what stayed open."""
        for connection in self._open:
            connection.close()

    def _make(self, request: Request, end: str) -> int:
        """Make a request, and close its connection, reset it or leave it open; returns the last status."""
        connection = self._begin(request, address=end != "open")
        heard = _hear(request, connection)
        if end == "open":
            self._open.append(connection)
        else:
            _close(connection, reset=end == "reset")
        return heard

    def _begin(self, request: Request, *, address: bool = True) -> socket.socket:
        """Send a request from an address of its own, which is noted if the connection will be closed."""
        number = int(self._senders[self._made])
        self._made += 1
        sender = f"127.{100 + number // 900}.{10 + number // 10 % 90}.{number % 10}"  # twelve signs, as ids have
        connection = socket.create_connection(("127.0.0.1", self._port), _PATIENCE, source_address=(sender, 0))
        if address:
            self.addresses.append(sender)
        if self._trusting is not None:
            connection = self._trusting.wrap_socket(connection)
        ids = letters(self._random, IDS)
        self.sent.append((request.name, ids))
        made = request.make([text.decode() for text in ids.tolist()])
        for _ in range(request.before):
            connection.sendall(made)
            _hear(request, connection, whole=True)
            self._exceeded = monotonic()
        connection.sendall(made)
        if request.end and self._trusting is None:
            connection.shutdown(socket.SHUT_WR)
        return connection

    def _busy(self) -> None:
        """Have a body take all the room, so that the next ones are refused."""
        large = self._begin(refused("503, busy", CUT_OFF, size=MOST - 1000, length=MOST))
        sleep(0.2)
        for end in ("closed", "reset"):
            self._make(refused("503, busy", 503), end)
        _close(large, reset=True)

    def _exceed_connections(self) -> None:
        """Have more readers of event streams than the service has connections, so that others are refused."""
        stream = Request("stream", ((200, 503),), lambda _: post([], "/stream", method="GET"))
        reading: list[socket.socket] = []
        for end in ("closed", "reset"):
            while self._make(refused("503, crowd", 503, post, 204), end) != 503:
                for _ in range(CONNECTIONS // 5):
                    reading.append(self._begin(stream))
                    _hear(stream, reading[-1])
        for connection in reading:
            connection.close()


def _close(connection: socket.socket, *, reset: bool) -> None:
    if reset:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NOT_LINGERING)
    connection.close()


def trusting() -> ssl.SSLContext:
    """A context for clients that check no certificate: the service is ours, and on this machine."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _hear(request: Request, connection: socket.socket, *, whole: bool = False) -> int:
    """Read the answers to a request and check their statuses; the body of the last only if `whole`. Returns it."""
    heard = CUT_OFF
    with connection.makefile("rb") as answers:
        for number, statuses in enumerate(request.statuses, 1):
            if CUT_OFF in statuses:
                break
            heard = _status(answers, whole=whole or number < len(request.statuses))
            if heard not in statuses:
                said = heard or "nothing"
                raise CannotImage(f"a request that should be refused, {request.name}: answered with {said}")
    return heard


def _status(answers: BufferedReader, *, whole: bool) -> int:
    """The status of the next answer; 0 if there is none."""
    try:
        first, headers = answers.readline(), parse_headers(answers)
        if whole:
            answers.read(int(headers["content-length"] or 0))
    except ConnectionError:
        return 0
    status = int(first.split()[1]) if first else 0
    return _status(answers, whole=whole) if status == 100 else status
