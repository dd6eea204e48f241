"""Requests that the service refuses, and requests that are never finished: each has ids, which must leave nothing.

There is a request for every status that a sender can provoke. `refusals` sends them.
"""

import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from panprivacy.audit.imaging.subjects import EPSILON, RELEASES

FEEDER, READER = "pp_the-auditor-feeds", "pp_the-auditor-reads"
"""Tokens of the service under audit: one for everything, one that may not send events."""
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
    )


Ids = list[str]
Make = Callable[[Ids], bytes]


@dataclass(frozen=True)
class Request:
    """What is sent, made of some ids, and the statuses that may answer it: one for each answer."""

    name: str
    statuses: tuple[tuple[int, ...], ...]
    make: Make
    end: bool = False
    """Whether the sender ends its half of the connection behind it."""


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
    many = 2 * _RATE + 1
    yield Request(
        "429",
        (((200,),) * (many - 1) + ((429, 200),)),
        lambda ids: b"".join(post(ids[i % IDS :][:1], "/counters", method="GET", token="") for i in range(many)),
    )


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
    """What is no request, or never becomes one."""
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
"""All but those that need other connections at the same time, or much time: see `Refusals`."""
