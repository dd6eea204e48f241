"""What strangers can make the service hold: heads, announced bodies, answers that are not read."""

import gc
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import pytest
from served import Served, served
from service_for_tests import FLU, client_of, settings_for

from panprivacy.serve.http.bodies import BodyBuffer, BodyQuota
from panprivacy.serve.service import Service

HOST = b"host: localhost\r\n"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Served]:
    with served(settings_for(tmp_path, {"limits": {"seconds": 1, "headers": "8 KiB"}})) as running:
        yield running


def connected(here: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", here.port), timeout=20)


def answered(here: Served, data: bytes) -> bytes:
    """What comes back until the service closes the connection; what it does not take is not sent."""
    with connected(here) as connection:
        found = b""
        with suppress(OSError):
            connection.sendall(data)
        with suppress(OSError):
            while piece := connection.recv(2**16):
                found += piece
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 2**20,
        b"GET / HTTP/1.1\r\n" + HOST + b"x: " + b"a" * 2**20,
        b"GET / HTTP/1.1\r\n" + HOST + b"a" * 2**20,
        b"GET / HTTP/1.1\r\n" + HOST + b"x: aaaaaaaaaa\r\n" * 2**16,
        b"GET / HTTP/1.1\r\n" + HOST + b"x:\r\n" * 101 + b"\r\n",
        b"GET / HTTP/1.1\r\n" + HOST + b"x: " + b"a" * 9000 + b"\r\n\r\n",
    ],
    ids=["address", "value", "name", "many", "101", "9 KiB"],
)
def test_a_head_that_is_too_long_is_refused(here: Served, head: bytes) -> None:
    assert answered(here, head).startswith((b"HTTP/1.1 431", b"HTTP/1.1 400"))


@pytest.mark.slow
def test_a_long_head_within_the_limit_is_served_also_behind_a_body(here: Served) -> None:
    get = b"GET /health HTTP/1.1\r\n" + HOST + b"x: " + b"a" * 7000 + b"\r\n"
    post = b"POST /counters/flu/events HTTP/1.1\r\n" + HOST
    body = b"[1" + b" " * 100_000 + b"]"
    post += b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    found = answered(here, post + get + b"connection: close\r\n\r\n")
    assert found.count(b"HTTP/1.1 204") == found.count(b"HTTP/1.1 200") == 1


@pytest.mark.slow
def test_of_many_requests_behind_each_other_a_few_are_answered_and_the_connection_is_closed(here: Served) -> None:
    request = b"GET /problems HTTP/1.1\r\n" + HOST + b"\r\n"
    few, many = answered(here, request * 5), answered(here, request * 500)
    assert few.count(b"HTTP/1.1 200") == 5
    assert many.count(b"HTTP/1.1 200") == 5
    assert many.count(b"connection: close") == 1


@pytest.mark.slow
def test_what_is_no_http_behind_a_request_is_not_answered_in_its_place(here: Served) -> None:
    found = answered(here, b"GET /live HTTP/1.1\r\n" + HOST + b"\r\n" + b"\x16\x03")
    assert found.startswith(b"HTTP/1.1 200")
    assert found.count(b"HTTP/1.1") == 1


def test_the_first_byte_of_an_announced_body_costs_a_page() -> None:
    with BodyQuota(2**30).reserve() as grow:
        before = resident()
        buffers = [BodyBuffer(2**26, 2**26, grow) for _ in range(100)]
        for buffer in buffers:
            buffer.add(b"x")
        assert resident() - before < 100 * 2**16


def test_a_body_below_16_kib_reserves_its_memory_at_once() -> None:
    quota = BodyQuota(2**20)
    with quota.reserve() as grow:
        buffer = BodyBuffer(10_000, 2**26, grow)
        assert quota.taken == 10_000
        buffer.add(b"x" * 10_000)
        assert quota.taken == 10_000


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.slow
def test_a_body_that_breaks_off_is_freed_without_the_collector_of_cycles(here: Served) -> None:
    head = b"POST /counters/flu/events HTTP/1.1\r\n" + HOST
    head += b"content-type: text/csv\r\ncontent-length: %d\r\n\r\n" % (40 * 2**20)
    bodies, size = 8, 30 * 2**20
    gc.collect()
    gc.disable()
    try:
        before = resident()
        for _ in range(bodies):
            with connected(here) as connection:
                connection.sendall(head + b"user\n" + bytes(size))
        end = time.monotonic() + 60  # seconds: the machine may be busy
        while resident() - before > bodies * size // 3 and time.monotonic() < end:
            time.sleep(0.05)
        assert resident() - before < bodies * size // 3
    finally:
        gc.enable()


@pytest.mark.slow
def test_slow_readers_of_the_page_share_its_bytes_and_are_cut_off(here: Served) -> None:
    request = b"GET /static/plotly.min.js HTTP/1.1\r\n" + HOST + b"\r\n"
    answered(here, request[:-2] + b"connection: close\r\n\r\n")  # reads and packs it
    before = resident()
    with ExitStack() as stack:
        for _ in range(60):
            connection = stack.enter_context(connected(here))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(request)
        time.sleep(0.5)
        assert resident() - before < 60 * 2**20 // 2
        end = time.monotonic() + 30
        while here.server.server_state.connections and time.monotonic() < end:
            time.sleep(0.05)
        assert not here.server.server_state.connections


@pytest.mark.slow
def test_a_reader_that_takes_its_time_gets_all(here: Served) -> None:
    with connected(here) as connection:
        connection.sendall(b"GET /static/plotly.min.js HTTP/1.1\r\n" + HOST + b"connection: close\r\n\r\n")
        found = 0
        while piece := connection.recv(2**18):
            found += len(piece)
            time.sleep(0.05)
    assert found > 2**20


@pytest.mark.slow
def test_the_limit_of_requests_is_for_all_addresses(tmp_path: Path) -> None:
    for path in ("/", "/health", "/static/page.js", "/static/plotly.min.js", "/openapi.json", "/problems", "/counters"):
        with client_of(settings_for(tmp_path, {"limits": {"requests": 0.001}})) as client:
            assert [client.get(path).status_code for _ in range(3)] == [200, 429, 429], path


def test_the_list_of_releases_comes_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("panprivacy.serve.http.app._PAGE", 3000)
    with client_of(settings_for(tmp_path, flu=FLU | {"releases": 12})) as client:
        made = [client.post("/counters/flu/releases").json() for _ in range(12)]
        found: list[object] = []
        parts, more = 0, True
        while more:
            answer = client.get(f"/counters/flu/releases?since={len(found)}")
            assert len(answer.content) < 4500
            found += answer.json()["releases"]
            more, parts = answer.json()["more"], parts + 1
    assert found == made
    assert parts > 3


def test_a_release_is_spent_once_for_a_key(tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    keys = {"idempotency-key": "0b0f"}
    with client_of(settings) as client:
        first, again = (client.post("/counters/flu/releases", headers=keys) for _ in range(2))
        other = client.post("/counters/flu/releases", headers={"idempotency-key": "other"})
        assert client.post("/counters/flu/releases", headers={"idempotency-key": "x" * 256}).status_code == 400
    assert (first.status_code, first.json()) == (again.status_code, again.json())
    assert other.json()["id"] == 2
    with client_of(settings) as client:
        assert client.post("/counters/flu/releases", headers=keys).json() == first.json()
        assert client.get("/counters/flu").json()["budget"]["releases_left"] == 1
    kept = b"".join(path.read_bytes() for path in (tmp_path / "states").iterdir())
    assert b"0b0f" not in kept
    assert b"other" not in kept.replace(b"another", b"")


def test_senders_of_one_key_at_once_spend_one_release(tmp_path: Path) -> None:
    with Service(settings_for(tmp_path)) as service:
        made = [service.counter("flu").release(None, "key") for _ in range(5)]
        assert {each.result()["id"] for each in made} == {1}


def test_a_key_whose_release_could_not_be_spent_is_used_again(tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path, flu=FLU | {"releases": 1})) as client:
        assert client.post("/counters/flu/releases", headers={"idempotency-key": "a"}).status_code == 201
        assert client.post("/counters/flu/releases", headers={"idempotency-key": "b"}).status_code == 409
        assert client.post("/counters/flu/releases", headers={"idempotency-key": "b"}).status_code == 409
        assert client.post("/counters/flu/releases", headers={"idempotency-key": "a"}).json()["id"] == 1


@pytest.mark.slow
def test_many_bodies_at_once_are_still_counted(here: Served) -> None:
    body = b"user\n" + b"\n".join(b"%d" % user for user in np.arange(1000)) + b"\n"
    head = b"POST /counters/flu/events HTTP/1.1\r\n" + HOST + b"content-type: text/csv\r\nconnection: close\r\n"
    answers: list[bytes] = []

    def send() -> None:
        answers.append(answered(here, head + b"content-length: %d\r\n\r\n" % len(body) + body))

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(answer.startswith(b"HTTP/1.1 204") for answer in answers)
