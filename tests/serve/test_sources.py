"""What brokers implement: something that hands bodies to a counter, and is told when they are on disk."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from service_for_tests import FLU, settings_for

from panprivacy.brokers.consumer import Take
from panprivacy.ingest.bodies import Body, ContentType
from panprivacy.serve import server
from panprivacy.serve.service import Service
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


@pytest.mark.parametrize(("source", "key"), [({"kind": "four"}, "kind"), ({"kind": "redis"}, "servers")])
def test_a_source_that_cannot_be_is_said_by_its_key_before_anything_starts(
    source: dict[str, Any], key: str, tmp_path: Path
) -> None:
    with refused("invalid-settings", key):
        server.run(settings_for(tmp_path, flu=FLU | {"source": source}), None, print)
    assert not (tmp_path / "states").exists()
