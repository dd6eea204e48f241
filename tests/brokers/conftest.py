"""Brokers that run for all tests of a process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import KINDS, Server, started


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
