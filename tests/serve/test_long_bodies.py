"""Bodies that go straight from the socket to their pages: whole, within limits, and the connection is HTTP's again."""

import asyncio
import io
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import polars as pl
import pytest
from served import Served, served
from service_for_tests import FLU, settings_for

from panprivacy.serve.http.app import SharedResponse
from panprivacy.serve.http.connections import ReadingTurns

USERS = 300_000
CERTAIN = FLU | {"universe": USERS, "epsilon": 60.0}  # where one user more or less is seen
LIMITS = {"body": "4 MiB", "waiting": "4 MiB"}


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Served]:
    with served(settings_for(tmp_path, {"limits": LIMITS, "count_events": True}, flu=CERTAIN)) as running:
        yield running


def stream_of(first: int, stop: int) -> bytes:
    """Some users as an Arrow stream: 8 bytes each."""
    out = io.BytesIO()
    pl.DataFrame({"user": np.arange(first, stop)}).write_ipc_stream(out)
    return out.getvalue()


def head(length: int, *more: str) -> bytes:
    lines = [
        "POST /counters/flu/events HTTP/1.1",
        "host: 127.0.0.1",
        "content-type: application/vnd.apache.arrow.stream",
        f"content-length: {length}",
        *more,
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def connected(here: Served) -> "closing[socket.socket]":
    return closing(socket.create_connection(("127.0.0.1", here.port), timeout=60))


def until(connection: socket.socket, said: bytes, times: int = 1) -> bytes:
    """What is answered, up to where something has been said so often, or the connection is closed."""
    heard = b""
    while heard.count(said) < times and (piece := connection.recv(10_000)):
        heard += piece
    return heard


def density(here: Served) -> float:
    return float(here.service.counter("flu").release().result()["release"]["density"])


def waiting(here: Served) -> float:
    """How many bytes of bodies the service says are waiting."""
    with urlopen(f"{here.address}metrics") as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("panprivacy_waiting_bytes "))


@pytest.mark.slow
def test_a_long_body_is_counted_whole_and_so_is_what_follows_it_at_once(here: Served) -> None:
    parts = [stream_of(0, 100_000), stream_of(100_000, 100_010), stream_of(200_000, USERS)]
    with connected(here) as connection:
        connection.sendall(b"".join(head(len(part)) + part for part in parts))
        assert until(connection, b"HTTP/1.1 204", times=3).count(b"HTTP/1.1 204") == 3
    assert density(here) == pytest.approx(2 / 3, abs=0.001)
    assert waiting(here) == 0


@pytest.mark.slow
def test_a_sender_that_asks_first_is_told_to_go_on(here: Served) -> None:
    body = stream_of(0, USERS)
    with connected(here) as connection:
        connection.sendall(head(len(body), "expect: 100-continue"))
        assert until(connection, b"\r\n\r\n").startswith(b"HTTP/1.1 100")
        connection.sendall(body)
        assert until(connection, b"\r\n\r\n").startswith(b"HTTP/1.1 204")
    assert density(here) == pytest.approx(1.0, abs=0.001)


@pytest.mark.slow
def test_a_long_body_that_does_not_come_in_time_is_refused(tmp_path: Path) -> None:
    body = stream_of(0, USERS)
    settings = settings_for(tmp_path, {"limits": LIMITS | {"seconds": 1}, "count_events": True}, flu=CERTAIN)
    with served(settings) as here, connected(here) as connection:
        connection.sendall(head(len(body)) + body[:-1])
        answer = until(connection, b"}")
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"connection: close" in answer
        assert density(here) == pytest.approx(0.0, abs=0.001)
        assert waiting(here) == 0


@pytest.mark.slow
def test_a_sender_of_too_much_reads_that_it_is_too_much(here: Served) -> None:
    with connected(here) as connection:
        connection.sendall(head(20_000_000))
        connection.sendall(bytes(20_000_000))
        answer = until(connection, b"}")
        assert answer.startswith(b"HTTP/1.1 413")
        assert b"connection: close" in answer


@pytest.mark.slow
def test_a_sender_that_hangs_up_leaves_nothing_waiting(here: Served) -> None:
    body = stream_of(0, USERS)
    with connected(here) as connection, connected(here) as other:
        connection.sendall(head(len(body)) + body[: len(body) // 2])
        connection.close()
        other.sendall(head(len(body)) + body)
        assert until(other, b"\r\n\r\n").startswith(b"HTTP/1.1 204")
    assert waiting(here) == 0


@pytest.mark.slow
def test_a_long_body_is_refused_where_there_is_no_room_for_the_rest_of_it(here: Served) -> None:
    body = stream_of(0, USERS)
    with connected(here) as connection, connected(here) as other:
        connection.sendall(head(len(body)) + body[:-1])
        while waiting(here) < len(body):
            pass
        other.sendall(head(len(body)) + body[:2_000_000])
        other.sendall(body[2_000_000:])  # who is not heard out would find the connection broken
        answer = until(other, b"}")
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"/problems#busy" in answer
        connection.sendall(body[-1:])
        assert until(connection, b"\r\n\r\n").startswith(b"HTTP/1.1 204")
    assert waiting(here) == 0


def test_a_crowd_of_long_bodies_takes_turns() -> None:
    read: list[int] = []

    async def turns() -> list[int]:
        waiting, after = ReadingTurns(), []
        for number in range(10):
            waiting.wait(lambda number=number: read.append(number))  # type: ignore[misc]
        for _ in range(4):
            await asyncio.sleep(0)
            after.append(len(read))
        return after

    assert asyncio.run(turns()) == [4, 8, 10, 10]
    assert read == list(range(10))


@pytest.mark.parametrize(("bodies", "crowded"), [(4, False), (5, True)])
def test_a_few_long_bodies_are_read_without_waiting(bodies: int, crowded: bool) -> None:
    turns = ReadingTurns()
    turns.bodies = bodies
    assert turns.is_crowded is crowded


def test_a_file_is_sent_in_pieces_between_which_others_have_their_turn() -> None:
    sent: list[int] = []

    async def send(message: Any) -> None:
        sent.append(len(message.get("body", b"")))

    async def receive() -> Any:
        """Nothing comes."""

    async def pieces_while(other: int) -> int:
        answering = asyncio.create_task(SharedResponse(bytes(2**20))({"method": "GET"}, receive, send))
        for _ in range(other):
            await asyncio.sleep(0)
        found = len(sent)
        await answering
        return found

    assert asyncio.run(pieces_while(5)) <= 7
    assert sum(sent) == 2**20
