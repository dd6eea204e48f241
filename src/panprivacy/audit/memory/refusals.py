"""Requests that the service refuses, and requests that are never finished: each has ids, which must leave nothing.

There is a request for every status that a sender can provoke. They are sent from many addresses. Some connections are
closed, some are reset, and some stay open.
"""

import errno
import io
import json
import os
import socket
import ssl
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import monotonic, sleep
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.audit.memory.batches import letters
from panprivacy.audit.memory.brokers import until
from panprivacy.audit.memory.estimators import EPSILON, RELEASES
from panprivacy.audit.memory.images import CannotImage
from panprivacy.estimators.base import Estimator
from panprivacy.state import StateFile

FEEDER, READER = "pp_the-auditor-feeds", "pp_the-auditor-reads"
"""Tokens of the service under audit: one for everything, one for reading only."""
ROWS = 10_000
"""Rows of a body that the service under audit has room for."""

MOST = 2**21  # bytes of a body, and of all bodies together
LONG = MOST // 2  # bytes of a body that goes straight from the socket to its place
IDS = 20  # in a request
SECONDS = 3.0  # for a body to come
_RATE = 100  # requests a second of one sender; twice as many may come at once
CONNECTIONS = 150
_NDJSON = "application/x-ndjson"
_EVENTS = "/counters/audited/events"
CUT_OFF = 0  # in the place of a status: the sender leaves without an answer
_EACH = 3  # times that a request is made
_SENDERS = 156 * 900  # addresses of as many signs as an id
_PATIENCE = 20.0  # seconds for an answer
_NOT_LINGERING = struct.pack("ii", 1, 0)
_FORGOTTEN = 3.0  # seconds after which a sender that sent too often is forgotten, and a quarter of them more
_CLOSED, _RESET, _OPEN = "closed", "reset", "open"
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
    plain = f'epsilon = {EPSILON}\nreleases = {RELEASES}\ncolumn = "user"\n'
    dense = f'kind = "density"\nuniverse = 1000\n{plain}'
    return (
        f'[service]\nport = 0\nfolder = "{folder}"\nanonymous = ["read"]\n{tls}'
        f"[limits]\nbody = {MOST}\nwaiting = {MOST}\nseconds = {SECONDS}\nrequests = {_RATE}\n"
        f"readers = {CONNECTIONS}\n"
        f'[tokens.feeder]\nhash = "sha256:{sha256(FEEDER.encode()).hexdigest()}"\nroles = ["admin"]\n'
        f'[tokens.reader]\nhash = "sha256:{sha256(READER.encode()).hexdigest()}"\nroles = ["read"]\n'
        f"[counters.audited]\n{kind}\n{plain}"
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
Make = Callable[[Ids], bytes]


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
    kind: str = _NDJSON,
    more: Sequence[str] = (),
    host: str = "localhost",
    body: bytes | None = None,
    length: int | None = None,
    rows: str = '{{"user": "{}"}}\n',
) -> bytes:
    sent = "".join(map(rows.format, ids)).encode() if body is None else body
    said = [f"content-length: {len(sent) if length is None else length}"] if length != -1 else []
    lines = [f"{method} {path} HTTP/1.1", f"host: {host}", f"content-type: {kind}", *said, *more]
    lines += [f"authorization: Bearer {token}"] if token else []
    return "\r\n".join([*lines, "", ""]).encode() + sent


def chunked(ids: Ids, path: str = _EVENTS, *, last: bytes = b"0\r\n\r\n", token: str = FEEDER) -> bytes:
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(row), row) for row in (b'{"user": "%s"}\n' % id_.encode() for id_ in ids))
    return post([], path, token=token, more=["transfer-encoding: chunked"], body=chunks + last, length=-1)


def long(ids: Ids, size: int) -> bytes:
    """Rows of some users, over and over."""
    rows = "".join(f'{{"user": "{id_}"}}\n' for id_ in ids).encode()
    return rows * (size // len(rows) + 1)


def _arrow(ids: Ids) -> bytes:
    """An Arrow stream of another column, and so of no use."""
    import polars as pl

    out = io.BytesIO()
    pl.DataFrame({"person": ids}).write_ipc_stream(out)
    return out.getvalue()


def refused(name: str, status: int, make: Make, *more: int, end: bool = False) -> Request:
    return Request(name, ((status, *more),), make, end)


def _unread() -> Iterator[Request]:
    """Requests that are answered before their body is read."""
    yield refused("401", 401, lambda ids: post(ids, token=""))
    yield refused("401, chunked", 401, lambda ids: chunked(ids, token=""))
    yield refused("401, long", 401, lambda ids: post([], token="", body=long(ids, LONG)))
    yield refused("401, a token that is not known", 401, lambda ids: post(ids, token="pp_nobody"))
    yield refused("403", 403, lambda ids: post(ids, token=READER))
    yield refused("403, of another site", 403, lambda ids: post(ids, more=["origin: https://example.org"]))
    yield refused("404", 404, lambda ids: post(ids, "/nowhere"))
    yield refused("404, no such counter", 404, lambda ids: post(ids, "/counters/nobody/events"))
    yield refused("405", 405, lambda ids: post(ids, method="PUT"))
    yield refused("400, a parameter", 400, lambda ids: post(ids, f"{_EVENTS}?acton=delete"))
    yield refused("400, an action", 400, lambda ids: post(ids, f"{_EVENTS}?action=count"))
    yield refused("410", 410, lambda ids: post(ids, "/counters/retired/events"))
    yield refused("413", 413, lambda ids: post(ids, length=MOST + 1))
    yield refused("415", 415, lambda ids: post(ids, kind="text/html"))
    yield refused("415, compressed", 415, lambda ids: post(ids, more=["content-encoding: gzip"]))
    yield refused("421", 421, lambda ids: post(ids, host="example.org"))
    yield refused("GET with a body", 200, lambda ids: post(ids, "/counters", method="GET"))
    yield refused("HEAD with a body", 200, lambda ids: post(ids, "/counters", method="HEAD"))
    yield refused("an upgrade", 401, lambda ids: post(ids, token="", more=["upgrade: websocket"]))
    yield refused("100-continue", 401, lambda ids: post(ids, token="", more=["expect: 100-continue"]))
    reads = lambda ids: post(ids[:1], "/counters", method="GET", token="")  # noqa: E731
    yield Request("429", ((200, 429),), reads, before=2 * _RATE)


def _read() -> Iterator[Request]:
    """Requests that are answered after their body is read, or part of it."""
    bad = '{{"user": "{}"}}\n'
    number, timed = '{{"user": 7, "note": "{}"', "1999-01-01"
    yield refused("400, a release", 400, lambda ids: post(ids, "/counters/listed/releases"))
    yield refused("400, ended early", 400, lambda ids: post(ids, length=LONG // 8), CUT_OFF, end=True)
    yield refused("413, chunked", 413, lambda ids: chunked([f"{id_}{'x' * 2**17}" for id_ in ids]), 503)
    yield refused("422, NDJSON", 422, lambda ids: post(ids, body=long(ids, 1000) + b'{"user": "'))
    yield refused("422, no column", 422, lambda ids: post(ids, rows='{{"person": "{}"}}\n'))
    yield refused("422, missing", 422, lambda ids: post(ids, rows='{{"user": null, "note": "{}"}}\n'))
    yield refused("422, JSON", 422, lambda ids: post(ids, kind="application/json", body=json.dumps([ids]).encode()))
    yield refused("422, no JSON", 422, lambda ids: post(ids, kind="application/json"))
    yield refused("422, CSV", 422, lambda ids: post(ids, kind="text/csv", body=("person\n" + "\n".join(ids)).encode()))
    yield refused(
        "422, Arrow", 422, lambda ids: post(ids, kind="application/vnd.apache.arrow.stream", body=_arrow(ids))
    )
    yield refused("422, no Arrow", 422, lambda ids: post(ids, kind="application/vnd.apache.arrow.stream"))
    yield refused("422, no integer", 422, lambda ids: post(ids, "/counters/listed/events", rows=bad))
    outside = '{{"user": 1234567, "note": "{}"}}\n'
    yield refused("422, outside", 422, lambda ids: post(ids, "/counters/listed/events", rows=outside), 204)
    rows = f'{number}, "clinic": "east"}}}}\n'
    yield refused("422, category", 422, lambda ids: post(ids, "/counters/sorted/events", rows=rows), 204)
    acts = f'{number}, "verb": "count"}}}}\n'
    yield refused("422, action", 422, lambda ids: post(ids, "/counters/acting/events", rows=acts), 204)
    when = f'{number}, "at": "{timed}"}}}}\n'
    yield refused("422, time", 422, lambda ids: post(ids, "/counters/timed/events", rows=when), 204)
    yield refused("422, deletion", 422, lambda ids: post(ids, f"{_EVENTS}?action=delete"), 204)
    row = f"{number}}}}}\n"
    yield refused("500", 500, lambda ids: post(ids, "/counters/failing/events", rows=row))
    yield refused("507", 507, lambda ids: post(ids, f"/counters/{_FULL}/events", rows=row))
    yield refused("422, long", 422, lambda ids: post([], body=long(ids, LONG) + b'{"user": "'))
    yield Request(
        "pipelined",
        ((401,), (404,), (422,), (200,)),
        lambda ids: (
            post(ids[:5], token="")
            + post(ids[5:10], "/nowhere")
            + post(ids[10:15], rows='{{"person": "{}"}}\n')
            + post(ids[15:], "/counters", method="GET")
        ),
    )


def _broken() -> Iterator[Request]:
    """Bytes that are no request, and requests that are never finished."""
    yield refused("400, no HTTP", 400, lambda ids: " ".join(ids).encode() + b"\r\n\r\n")
    yield refused("400, a header", 400, lambda ids: post(ids, more=[f"x y\0: {ids[0]}"]))
    yield refused("400, a chunk", 401, lambda ids: chunked(ids, last=b"zz\r\n", token=""), 400)
    yield refused("half of a head", CUT_OFF, lambda ids: post(ids, more=[f"x-user: {' '.join(ids)}"])[:200])
    yield refused("half of a body", CUT_OFF, lambda ids: post(ids, length=LONG // 8))
    yield refused("half of a refused body", CUT_OFF, lambda ids: post(ids, token="", length=LONG // 8))
    yield refused("half of a long body", CUT_OFF, lambda ids: post([], body=long(ids, LONG), length=LONG + 10**5))
    yield refused("half of the chunks", CUT_OFF, lambda ids: chunked(ids, last=b"ff\r\n"))
    yield refused("no answer heard", CUT_OFF, lambda ids: post(ids, "/nowhere") * 3 + chunked(ids) * 2)


def _heads() -> Iterator[Request]:
    """Ids where no id belongs: in addresses, in headers, and around chunks."""

    def query(ids: Ids) -> bytes:
        return post([], f"{_EVENTS}?user={'&user='.join(ids)}")

    yield refused("id in a query", 400, query)
    yield refused("id in a path", 404, lambda ids: post([], f"/{'/'.join(ids)}"))
    yield refused("id in a counter", 404, lambda ids: post([], f"/counters/{ids[0]}/events"))
    yield refused("id in a file", 404, lambda ids: post([], f"/static/{ids[0]}.js", method="GET"))
    yield refused("id in a file, twice", 404, lambda ids: post([], f"/static/{ids[0]}/{ids[1]}", method="GET"))
    yield refused("id in since", 400, lambda ids: post([], f"/counters/audited/releases?since={ids[0]}", method="GET"))
    yield refused("id in a host", 421, lambda ids: post([], host=f"{ids[0]}.example.org"))
    yield refused("id in an origin", 403, lambda ids: post([], more=[f"origin: https://{ids[0]}.org"]))
    yield refused("id in a token", 401, lambda ids: post([], token=ids[0]))
    yield refused("id in a type", 415, lambda ids: post([], kind=f"text/{ids[0]}"))
    many = [f"x-user: {'x' * 200}"] * 100
    yield refused("431", 431, lambda ids: post([], more=[*many, f"x-user: {' '.join(ids)}"]))
    spent = "/counters/spent/releases"
    yield refused("409", 409, lambda ids: post([], spent, more=[f"idempotency-key: {' '.join(ids[:15])}"]), 201)
    yield refused("id in a header", 401, lambda ids: post([], token="", more=[f"x-user: {' '.join(ids)}"]))
    cookies = "/counters/audited/stream"
    yield refused("id in a cookie", 404, lambda ids: post([], "/nowhere", more=[f"cookie: user={ids[0]}"]))
    yield refused(
        "id of an event", 200, lambda ids: post([], cookies, method="HEAD", more=[f"last-event-id: {ids[0]}"])
    )
    yield refused(
        "id in a trailer", 404, lambda ids: chunked(ids[:1], "/no", last=f"0\r\nx-user: {ids[1]}\r\n\r\n".encode())
    )
    yield refused(
        "id beside a chunk", 404, lambda ids: chunked(ids[:1], "/no", last=f"0;user={ids[1]}\r\n\r\n".encode())
    )


REQUESTS = (*_unread(), *_read(), *_broken(), *_heads())
"""All but those that need other connections at the same time, or much time: see `RefusedRequests`."""


class RefusedRequests:
    """Makes all requests, and knows which ids they had, and from which addresses they came."""

    def __init__(self, port: int, *, encrypted: bool, seed: int = 1, process: int | None = None) -> None:
        """`process` is the number of the service's process, where all are to be made."""
        self._port, self._process = port, process
        self._exceeded = 0.0
        self._trusting = trusting() if encrypted else None
        self._random = np.random.default_rng(seed)
        self._senders, self._made = self._random.permutation(_SENDERS), 0
        self._open: list[socket.socket] = []
        self.sent: list[tuple[str, NDArray[np.bytes_]]] = []
        """The ids of each kind of request."""
        self.addresses: list[str] = []
        """Of connections that are closed."""

    def send_all(self) -> None:
        """Make every request three times; the connections of the third are open, and idle, when this returns."""
        before = self._connections()
        slow = [self._begun(name, make) for name, make in self._slow() for _ in range(_EACH)]
        for request in REQUESTS:
            self._make(request, _CLOSED)
            self._make(request, _RESET)
        self._exceed_connections()
        for name, connection in slow:
            _hear(name, connection, ((408,),))
            connection.close()
        self._busy()
        until(lambda: self._connections() <= before, "all connections are closed")
        sleep(max(self._exceeded + _FORGOTTEN - monotonic(), 0))
        for request in REQUESTS:
            if all(CUT_OFF not in statuses for statuses in request.statuses):
                self._make(request, _OPEN)

    def _connections(self) -> int:
        """How many the service has."""
        opened = Path(f"/proc/{self._process}/fd").iterdir()
        return sum(_target(each).startswith("socket:") for each in opened)

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
        made = request.make(self._ids(request.name))
        for _ in range(request.before):
            connection.sendall(made)
            _hear(request.name, connection, request.statuses, whole=True)
            self._exceeded = monotonic()
        connection.sendall(made)
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

    def _exceed_connections(self) -> None:
        """Have more readers of event streams than the service has connections, so that others are refused."""
        reading: list[socket.socket] = []
        for end in (_CLOSED, _RESET):
            while self._make(refused("503, crowd", 503, post, 204), end) != 503:
                for _ in range(CONNECTIONS // 5):
                    name, connection = self._begun("stream", lambda _: post([], "/stream", method="GET"))
                    _hear(name, connection, ((200, 503),))
                    reading.append(connection)
        for connection in reading:
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


def _target(link: Path) -> str:
    """Where a link leads; nowhere if it is gone."""
    try:
        return os.readlink(link)  # noqa: PTH115 - of an open file, which has no path
    except FileNotFoundError:
        return ""


def trusting() -> ssl.SSLContext:
    """A context for clients that check no certificate: the service is ours, and on this machine."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _hear(name: str, connection: socket.socket, expected: tuple[tuple[int, ...], ...], *, whole: bool = False) -> int:
    """Read the answers to a request and check their statuses; the body of the last only if `whole`. Returns it."""
    heard = CUT_OFF
    with connection.makefile("rb") as answers:
        for number, statuses in enumerate(expected, 1):
            if CUT_OFF in statuses:
                break
            heard = _status(answers, whole=whole or number < len(expected))
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
