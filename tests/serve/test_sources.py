"""What brokers implement: something that hands bodies to a counter, and is told when they are on disk."""

from pathlib import Path
from typing import Any

import pytest
from service_for_tests import FLU, settings_for

from panprivacy.serve import server
from panprivacy.serve.bodies import Body, Form
from panprivacy.serve.config import BadConfig, CounterSettings
from panprivacy.serve.service import Service
from panprivacy.serve.sources import KINDS, Take

SEEN: list[str] = []


class Three:
    """A source of three bodies, the last of which it hands over while it is closed."""

    def start(self, take: Take) -> None:
        self._take = take
        SEEN.extend(str(take(_body(user)).result(10)) for user in (1, 2))

    def close(self) -> None:
        SEEN.append(f"closed after {self._take(_body(3)).result(10)}")


def _body(user: int) -> Body:
    return Body.copied(f"[{user}]".encode(), Form.json)


def three(settings: CounterSettings, table: dict[str, Any]) -> Three:
    """As a kind of source is registered."""
    if table.get("topic") is None:
        raise BadConfig([f"counters.{settings.name}.source.topic: which topic?"])
    return Three()


def test_a_source_is_started_with_its_counter_and_closed_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KINDS, "three", f"{__name__}:three")
    SEEN.clear()
    with Service(settings_for(tmp_path, flu=FLU | {"source": {"kind": "three", "topic": "visits"}})):
        assert SEEN == ["1", "1"]
    assert SEEN[-1] == "closed after 1"


@pytest.mark.parametrize(("source", "key"), [({"kind": "four"}, "kind"), ({"kind": "three"}, "topic")])
def test_a_source_that_cannot_be_is_said_by_its_key_before_anything_starts(
    source: dict[str, Any], key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KINDS, "three", f"{__name__}:three")
    with pytest.raises(BadConfig, match=rf"counters.flu.source.{key}: "):
        server.run(settings_for(tmp_path, flu=FLU | {"source": source}), None, print)
    assert not (tmp_path / "states").exists()
