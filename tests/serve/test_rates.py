"""Senders are remembered by a keyed hash, and no longer than it takes their bucket to fill up."""

from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path

import pytest
from service_for_tests import client_of, settings_for
from starlette.testclient import TestClient

from panprivacy.ingest.batch import Refused
from panprivacy.serve.http import AppContext, make_app
from panprivacy.serve.http.context import Rates, sender_address
from panprivacy.serve.service import Service

SENDER = "@203.0.113.77"


class Clock:
    """A clock that is set, and what is to be called when."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self._calls: list[tuple[float, Callable[[], None]]] = []
        monkeypatch.setattr("panprivacy.serve.http.context.time.monotonic", lambda: self.now)

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self._calls.append((self.now + seconds, call))

    def pass_to(self, now: float) -> None:
        while due := [each for each in self._calls if each[0] <= now]:
            first = min(due, key=lambda each: each[0])
            self._calls.remove(first)
            self.now = first[0]
            first[1]()
        self.now = now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_a_sender_is_forgotten_when_its_bucket_is_full_though_nobody_comes_any_more(clock: Clock) -> None:
    limit = Rates(10.0, clock.later)
    for _ in range(20):
        limit.check(SENDER)
    with pytest.raises(Refused):
        limit.check(SENDER)
    clock.pass_to(101.9)
    assert len(limit._left) == 1
    clock.pass_to(103.0)
    assert len(limit._left) == 0
    for _ in range(20):
        limit.check(SENDER)


def test_one_who_goes_on_is_remembered_and_others_are_not(clock: Clock) -> None:
    limit = Rates(1.0, clock.later)
    limit.check("@192.0.2.1")
    for second in range(20):
        clock.pass_to(101.0 + second)
        limit.check(SENDER)
        limit.check(f"@192.0.2.{100 + second}")
    assert len(limit._left) <= 4


def test_an_address_is_not_kept(clock: Clock) -> None:
    limit = Rates(10.0, clock.later)
    limit.check(SENDER)
    (kept,) = limit._left
    assert isinstance(kept, bytes)
    assert SENDER.encode() not in kept


def test_two_processes_hash_a_sender_differently(clock: Clock) -> None:
    one, other = Rates(10.0, clock.later), Rates(10.0, clock.later)
    one.check(SENDER)
    other.check(SENDER)
    assert set(one._left).isdisjoint(other._left)


@pytest.mark.parametrize(
    ("client", "forwarded", "known"),
    [
        ("192.0.2.9", "203.0.113.7", "192.0.2.9"),  # no proxy: it may say what it likes
        ("10.1.1.1", "203.0.113.7", "203.0.113.7"),
        ("10.1.1.1", "198.51.100.1, 203.0.113.7, 10.9.9.9", "203.0.113.7"),  # the first is made up
        ("10.1.1.1", "203.0.113.7, nonsense", "10.1.1.1"),
        ("10.1.1.1", "", "10.1.1.1"),
        ("::ffff:10.1.1.1", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
    ],
)
def test_the_address_of_a_sender_is_the_last_that_a_listed_proxy_has_seen(
    client: str, forwarded: str, known: str
) -> None:
    assert sender_address(client, forwarded, [ip_network("10.0.0.0/8")]) == known


def test_clients_behind_a_listed_proxy_do_not_share_a_limit(tmp_path: Path) -> None:
    said = {"proxies": ["127.0.0.1"], "limits": {"requests": 0.5}}
    with Service(settings_for(tmp_path, said)) as service:
        app = make_app(AppContext(service))
        client = TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 5))
        sent = [client.get("/live", headers={"x-forwarded-for": f"203.0.113.{i}"}).status_code for i in (1, 2, 1)]
    assert sent == [200, 200, 429]


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/nothing"), ("DELETE", "/counters"), ("GET", "/static/nothing"), ("GET", "/live")]
)
def test_whatever_is_asked_for_counts(method: str, path: str, tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path, {"limits": {"requests": 0.5}})) as client:
        found = [client.request(method, path).status_code for _ in range(2)]
    assert found[0] < 429
    assert found[1] == 429
