"""What brokers implement: something that hands bodies to a counter, and is told when they are on disk."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from service_for_tests import FLU, settings_for
from test_readiness import until

from panprivacy.brokers import NO_ANSWER, NOT_YET
from panprivacy.brokers.consumer import Take
from panprivacy.brokers.settings import consumer_of
from panprivacy.ingest.bodies import Body, ContentType
from panprivacy.serve import server
from panprivacy.serve.service import Service
from panprivacy.settings import InvalidSettings
from panprivacy.testing import refused

SEEN: list[str] = []


class Three:
    """A source of three bodies, the last of which it hands over while it is closed."""

    stopped: str | None = None
    trouble: str | None = None
    lag: int | None = None

    def start(self, take: Take) -> None:
        self._take = take
        SEEN.extend(str(take(_body(user)).result(60)) for user in (1, 2))

    def close(self) -> None:
        SEEN.append(f"closed after {self._take(_body(3)).result(60)}")


def _body(user: int) -> Body:
    return Body.copied(f"[{user}]".encode(), ContentType.json)


def test_a_source_is_started_with_its_counter_and_closed_before_it(tmp_path: Path) -> None:
    SEEN.clear()
    with Service(replace(settings_for(tmp_path), sources={"flu": Three()})):
        assert SEEN == ["1", "1"]
    assert SEEN[-1] == "closed after 1"


@pytest.mark.parametrize("retired", [False, True])
def test_a_check_asks_the_broker_of_each_counter_that_is_not_retired(retired: bool, tmp_path: Path) -> None:
    source = {"kind": "redis", "servers": "127.0.0.1:1", "stream": "visits"}
    settings = settings_for(
        tmp_path, {"limits": {"memory": "64 GiB"}}, flu=FLU | {"source": source, "retired": retired}
    )
    settings = replace(settings, initialize=True)
    if retired:
        server.check_all(settings)
        return
    with pytest.raises(InvalidSettings) as raised:
        server.check_all(settings)
    assert raised.value.problems == (f"counters.flu.source: {NO_ANSWER}",)
    assert not (tmp_path / "states").exists()


def test_a_source_is_not_ready_before_its_broker_has_answered(tmp_path: Path) -> None:
    source = {"kind": "redis", "servers": "127.0.0.1:1", "stream": "visits"}
    service = Service(settings_for(tmp_path, flu=FLU | {"source": source}))
    table = service.settings.counters[0].source
    assert table is not None
    assert consumer_of(table, "flu", service.settings.counters[0].columns, print).trouble == NOT_YET
    with service:
        assert until(lambda: service.states["sources"]["flu"].reason == NO_ANSWER)


@pytest.mark.parametrize(("source", "key"), [({"kind": "four"}, "kind"), ({"kind": "redis"}, "servers")])
def test_a_source_that_cannot_be_is_said_by_its_key_before_anything_starts(
    source: dict[str, Any], key: str, tmp_path: Path
) -> None:
    with refused("invalid-settings", key):
        server.run(settings_for(tmp_path, flu=FLU | {"source": source}), None, print)
    assert not (tmp_path / "states").exists()
