"""Real brokers for tests: where one is not installed, a test is skipped."""

from pathlib import Path

import pytest

from panprivacy.audit.memory import brokers
from panprivacy.audit.memory.brokers import KINDS, KafkaServer, Server, until

__all__ = ["KINDS", "KafkaServer", "Server", "started", "until"]


def started(kind: str, folder: Path) -> Server:
    """A broker that runs; where it is not installed, the test is skipped."""
    if reason := brokers.missing(kind):
        pytest.skip(reason)
    return brokers.started(kind, folder)
