"""Real brokers for tests: where one is not installed, a test is skipped."""

from pathlib import Path

import pytest

from panprivacy.audit.memory import brokers
from panprivacy.audit.memory.brokers import KINDS, KafkaServer, NatsServer, Server, until

__all__ = ["KINDS", "KafkaServer", "Server", "started", "until"]


def started(kind: str, folder: Path) -> Server:
    """A broker that runs; where it is not installed, the test is skipped."""
    if reason := KINDS[kind].missing():
        pytest.skip(reason)
    server = brokers.started(kind, folder)
    if isinstance(server, NatsServer):
        server.redelivers_after = 1.0  # so that a test need not wait for what a killed reader had
    return server
