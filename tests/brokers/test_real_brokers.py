"""Kafka, NATS and Redis as they are: killed readers, killed brokers, bad messages, and who was counted in the end.

And what is in the memory of a consumer when its messages are counted: none of their ids.
"""

import io
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from consuming import CERTAIN, consuming, counted, wait_for
from servers import KINDS, Server, started, until

import panprivacy as pp
from commands import APP, PROGRAM
from imaged import image_of
from panprivacy.brokers import NO_ANSWER, NOT_LET_IN, Broker, Hopeless, Unreachable
from panprivacy.brokers.redis import Redis
from panprivacy.brokers.settings import read_source
from panprivacy.ingest import Columns, Kind
from panprivacy.serve.config import settings_of
from panprivacy.serve.service import Service

pytestmark = pytest.mark.slow

USERS = 4000


@pytest.fixture(scope="session")
def brokers() -> Iterator[dict[str, Server]]:
    """Those that run already; `server` starts the others."""
    running: dict[str, Server] = {}
    yield running
    for server in running.values():
        server.kill()


@pytest.fixture(params=list(KINDS))
def server(
    request: pytest.FixtureRequest, brokers: dict[str, Server], tmp_path_factory: pytest.TempPathFactory
) -> Server:
    """A broker of each kind."""
    kind: str = request.param
    if kind not in brokers:
        brokers[kind] = started(kind, tmp_path_factory.mktemp("brokers") / kind)
    return brokers[kind]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Where a command keeps what it counts."""
    return tmp_path / "flu.pp"


def _visits(users: range) -> list[bytes]:
    return [b'{"user": %d, "ward": "north"}' % user for user in users]


def _arguments(server: Server, topic: str, state: Path, more: str = "") -> tuple[str | int | Path, ...]:
    address = server.address(topic)
    address += f"{'&' if '?' in address else '?'}{more}" if more else ""
    return (address, "-c", "user", "-n", USERS, "-e", CERTAIN, "--state", state)


def _service_of(source: dict[str, Any], folder: Path) -> Service:
    counter = {"kind": "density", "universe": USERS, "epsilon": float(CERTAIN), "column": "user", "source": source}
    return Service(settings_of({"service": {"anonymous": ["read"]}, "counters": {"flu": counter}}, folder))


def test_nothing_is_lost_when_reader_and_broker_are_killed(server: Server, state: Path) -> None:
    """The reader is killed when it has counted some, and the broker while the next reader waits for more."""
    server.fill("killed", _visits(range(2000)))
    arguments = _arguments(server, "killed", state, "batch=50")
    with consuming(*arguments) as process:
        wait_for(state, 100)
        process.kill()
    assert counted(state)
    with consuming(*arguments) as process:
        wait_for(state, 1000)
        server.kill()
        server.start()
        server.fill("killed", _visits(range(2000, USERS)))
        wait_for(state, USERS)
        until(lambda: server.left("killed") == 0, "everything is acknowledged")
        process.send_signal(signal.SIGINT)
        _, notes = process.communicate(timeout=120)
        assert process.returncode == 0, notes
    assert counted(state) == list(range(USERS))


def test_the_service_counts_all_kinds_of_messages_and_passes_over_bad_ones(
    server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = io.BytesIO()
    pl.DataFrame({"user": list(range(1000, 1500))}).write_ipc_stream(out)
    bad = [b'{"user": "secret"}', b'{"user": 987654321}', b"\xff\xfe"]
    bare = [b"%d" % user for user in range(1500, 1600)]
    server.fill("mixed", [*_visits(range(1000)), *bad, out.getvalue(), *bare])
    with _service_of(server.source("mixed") | {"bad": "skip", "batch": 400}, tmp_path):
        until(lambda: len(counted(tmp_path / "states/flu.pp")) == 1600, "all are counted")
        until(lambda: server.left("mixed") == 0, "all are acknowledged")
    assert counted(tmp_path / "states/flu.pp") == list(range(1600))
    said = capfd.readouterr().err
    assert said.count("source skipped") in (1, 2, 3)
    assert "secret" not in said
    assert "987654321" not in said


def test_a_broker_says_how_many_messages_wait(server: Server) -> None:
    server.fill("waiting", _visits(range(2500)))
    table = read_source(server.source("waiting"), "source", Columns(("user",), Kind.integers), [])
    assert table is not None
    broker, fetched = table.broker("reader"), 0
    try:
        while fetched < 2500:
            messages = broker.fetch(100, 1.0)
            fetched += 0 if messages is None else len(messages.payloads)
            if fetched == 2000:
                until(lambda: broker.waiting() == 500, "it knows how many are left")
        until(lambda: broker.waiting() == 0, "none is left")
    finally:
        broker.close()


def test_a_bad_message_ends_the_command_in_one_line_and_stays_with_the_broker(server: Server, state: Path) -> None:
    server.fill("bad", [*_visits(range(10)), b'{"user": "secret"}', *_visits(range(10, 20))])
    with consuming(*_arguments(server, "bad", state), "-q") as process:
        _, said = process.communicate(timeout=120)
    assert process.returncode == 2
    (line,) = said.decode().splitlines()
    assert "it is no JSON object, bare id or Arrow stream with ids that are integers; " in line
    assert "--skip-bad would leave out" in line
    assert "secret" not in line
    assert server.left("bad") > 0
    with consuming(*_arguments(server, "bad", state), "--skip-bad") as process:
        wait_for(state, 20)
        until(lambda: server.left("bad") == 0, "it is acknowledged, too")
    assert counted(state) == list(range(20))


def test_a_topic_that_is_not_there_is_told_and_read_as_soon_as_it_is(server: Server, tmp_path: Path) -> None:
    with _service_of(server.source("later"), tmp_path) as service:
        until(lambda: str(service.states["sources"]["flu"].reason).endswith(" later"), "it is missed")
        assert service.states["sources"]["flu"].state == "unreachable"
        server.fill("later", _visits(range(100)))
        until(lambda: service.states["sources"]["flu"].is_ready, "it is there")
        until(lambda: server.left("later") == 0, "all are acknowledged")
    assert counted(tmp_path / "states/flu.pp") == list(range(100))


def test_a_check_tells_what_a_source_lacks_and_leaves_everything_as_it_is(server: Server) -> None:
    def broker(topic: str) -> Broker:
        table = read_source(server.source(topic), "source", Columns(("user",), Kind.integers), [])
        assert table is not None
        return table.broker("reader")

    with pytest.raises(Unreachable) as missing:
        broker("nowhere").check()
    assert str(missing.value).endswith(" nowhere")
    server.fill("checked", _visits(range(10)))
    broker("checked").check()
    assert server.left("checked") == 10
    server.kill()
    try:
        with pytest.raises(Unreachable) as silent:
            broker("checked").check()
        assert str(silent.value) == NO_ANSWER
    finally:
        server.start()


@pytest.mark.parametrize("server", ["redis"], indirect=True)
def test_a_check_knows_the_fields_of_a_stream_of_redis(server: Server) -> None:
    server.fill("fields", _visits(range(3)))
    address = f"127.0.0.1:{server.port}"
    Redis(address, "fields", "reader", {}, field="data").check()
    with pytest.raises(Hopeless) as wrong:
        Redis(address, "fields", "reader", {}, field="date").check()
    assert "'date'" in str(wrong.value)


@pytest.mark.parametrize("server", ["redis"], indirect=True)
def test_a_wrong_password_is_told_and_never_repeated(server: Server, tmp_path: Path) -> None:
    import redis

    server.fill("guarded", _visits(range(3)))
    with redis.Redis(port=server.port) as client:
        client.config_set("requirepass", "right")
        try:
            with pytest.raises(Unreachable) as refused:
                Redis(f"127.0.0.1:{server.port}", "guarded", "reader", {"password": "secret"}, field="data").check()
            assert str(refused.value) == NOT_LET_IN
            with _service_of(server.source("guarded") | {"options": {"password": "secret"}}, tmp_path) as service:
                until(lambda: service.states["sources"]["flu"].reason == NOT_LET_IN, "the password is refused")
                assert not service.states["sources"]["flu"].is_ready
            Redis(f"127.0.0.1:{server.port}", "guarded", "reader", {"password": "right"}, field="data").check()
        finally:
            client.config_set("requirepass", "")


@pytest.mark.parametrize("server", ["kafka"], indirect=True)
def test_a_second_reader_of_a_group_takes_over_and_the_first_ends_and_says_so(server: Server, state: Path) -> None:
    server.fill("twice", _visits(range(100)))
    second = state.with_name("second.pp")
    with consuming(*_arguments(server, "twice", state), "-q") as process:
        wait_for(state, 100)
        with consuming(*_arguments(server, "twice", second)):
            _, said = process.communicate(timeout=120)
            assert process.returncode == 2
            assert b"another consumer of the same group has taken over" in said
            server.fill("twice", _visits(range(100, 200)))
            wait_for(second, 100)
    assert counted(second) == list(range(100, 200))


@pytest.mark.parametrize("server", ["redis"], indirect=True)
def test_edges_of_a_graph_are_counted_in_parts_that_merge(server: Server, tmp_path: Path) -> None:
    ends = [(one, other) for one in range(20) for other in range(one)]
    server.fill("graph", [b'{"a": %d, "b": %d}' % pair for pair in ends])
    for part in range(2):
        address = f"{server.address('graph')}&group=part{part}"
        size = ("--nodes", 20, "--shard", f"{part}/2", "-e", CERTAIN, "--state", tmp_path / f"{part}.pp")
        with consuming(address, "--edges", "a,b", *size):
            wait_for(tmp_path / f"{part}.pp", len(ends) // 2)
    one, two = (pp.load(tmp_path / f"{part}.pp", detached=True) for part in range(2))
    assert pp.merge([one, two]).release().count == pytest.approx(len(ends), abs=1)


BATCHES, ROWS = 6, 500
IDS = [[f"patient-{os.urandom(9).hex()}" for _ in range(ROWS)] for _ in range(BATCHES)]
_BY_ROOT = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="the memory of a hardened process is read by root only"
)


def _found(pid: int) -> set[bytes]:
    return {token for part in image_of(pid) for token in re.findall(rb"patient-[0-9a-f]{18}", part)}


def _left(server: Server, topic: str, state: Path, *, hardened: bool) -> int:
    """How many ids are found after the last batch, which is left out, as of a pipe: a client's buffers may hold it."""
    server.fill(topic, [b"patient-%018d" % 0])
    arguments = (server.address(topic), "--ids", "text", "-e", 1, "--state", state)
    with consuming(*arguments, command=PROGRAM if hardened else APP) as process:
        until(state.exists, "the first message is counted")
        for batch in IDS:
            server.fill(topic, [user.encode() for user in batch])
            until(lambda: server.left(topic) == 0, "it is acknowledged")
        time.sleep(1)
        found = _found(process.pid)
    return sum(user.encode() in found for batch in IDS[:-1] for user in batch)


@_BY_ROOT
def test_no_id_of_an_earlier_batch_is_in_the_memory_of_a_consumer(server: Server, state: Path) -> None:
    assert _left(server, "memory", state, hardened=True) == 0


@_BY_ROOT
@pytest.mark.parametrize("server", ["redis"], indirect=True)
def test_a_consumer_that_is_not_started_that_way_keeps_ids(server: Server, state: Path) -> None:
    """So the test above would find them."""
    assert _left(server, "careless", state, hardened=False) > 0


@pytest.mark.parametrize("server", ["redis"], indirect=True)
def test_releases_go_by_the_clock_and_by_the_times_of_events(server: Server, state: Path) -> None:
    """Events that come late, as after a crash, count in the period that is open."""
    days = [b'{"user": %d, "at": "2026-01-0%d"}' % (user, day) for user, day in enumerate((1, 1, 2, 1, 3))]
    server.fill("timed", days)
    arguments = ("-c", "user", "-n", 100, "-e", CERTAIN, "--releases", 3, "--json")
    daily = ("--release-every", "1d", "--time", "at", "--start", "2026-01-01", "--ahead", 1)
    with consuming(server.address("timed"), *arguments, *daily, "--state", state) as process:
        wait_for(state, 5)
        process.send_signal(signal.SIGTERM)
        out, notes = process.communicate(timeout=120)
    assert process.returncode == 0, notes
    # Rows of one batch have no order; where user 3 comes in a later batch, the second day has that user.
    assert [round(json.loads(line)["count"]) for line in out.splitlines()[:2]] in ([3, 4], [2, 4])
    often = state.with_name("often.pp")
    with consuming(server.address("timed"), *arguments, "--release-every", "100ms", "--state", often) as process:
        assert process.stdout is not None
        assert "density" in json.loads(process.stdout.readline())
