"""An entry of Redis without the field that is asked for is a bad message, and never acknowledged in silence."""

from typing import Any

import pytest
from fakes import USERS, FakeCounter

from panprivacy.brokers.consumer import BrokerConsumer
from panprivacy.brokers.redis import Redis


class FakeClient:
    def __init__(self, entries: list[tuple[bytes, dict[bytes, bytes]]]) -> None:
        self.entries, self.given = entries, False
        self.acknowledged: list[bytes] = []

    def xreadgroup(self, *_: Any, **__: Any) -> list[Any]:
        given, self.given = self.given, True
        return [] if given else [[b"visits", self.entries]]

    def xinfo_groups(self, _stream: str) -> list[dict[str, Any]]:
        return [{"name": b"g", "lag": 0}]

    def xack(self, _stream: str, _group: str, *names: bytes) -> None:
        self.acknowledged += names

    def close(self) -> None:
        pass


@pytest.mark.slow
@pytest.mark.parametrize("skip", [False, True])
def test_an_entry_without_the_field_stops_the_source_or_is_told(skip: bool) -> None:
    entries = [(b"%d-0" % i, {b"data" if i % 2 else b"date": b'{"user": %d}' % i}) for i in range(6)]
    broker = Redis("localhost:1", "visits", "g", {}, field="data")
    broker._client = client = FakeClient(entries)
    told: list[tuple[str, str]] = []
    counter = FakeCounter()
    consumer = BrokerConsumer(broker, USERS, batch=10, skip_bad=skip, tell=lambda *said: told.append(said))
    consumer.start(counter.take)
    while not told:
        pass
    consumer.close()
    word, cause = told[-1] if skip else told[0]
    assert word == ("skipped" if skip else "stopped")
    assert "has no field 'data'" in cause
    assert len(client.acknowledged) == (6 if skip else 0)
