"""Real brokers for tests: where one is not installed, a test is skipped."""

from pathlib import Path

import pytest

from panprivacy.audit.imaging import servers
from panprivacy.audit.imaging.servers import KINDS, KafkaServer, Server, until

__all__ = ["KINDS", "KafkaServer", "Server", "started", "until"]


def started(kind: str, folder: Path) -> Server:
    """A broker that runs; where it is not installed, the test is skipped."""
    if reason := servers.missing(kind):
        pytest.skip(reason)
    return servers.started(kind, folder)
