"""What is in the memory of a consumer when its messages are counted: none of their ids."""

import os
import re
import sys
import time
from pathlib import Path

import pytest
from consuming import consuming
from servers import Server, until

from imaged import image_of

BATCHES, ROWS = 6, 500
IDS = [[f"patient-{os.urandom(9).hex()}" for _ in range(ROWS)] for _ in range(BATCHES)]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux" or os.geteuid() != 0, reason="the memory of a hardened process is read by root only"
    ),
]


def _found(pid: int) -> set[bytes]:
    return {token for part in image_of(pid) for token in re.findall(rb"patient-[0-9a-f]{18}", part)}


def _left(server: Server, topic: str, state: Path, *, hardened: bool) -> int:
    """How many ids are found after the last batch, which is left out, as of a pipe: a client's buffers may hold it."""
    server.fill(topic, [b"patient-%018d" % 0])
    arguments = (server.address(topic), "--ids", "text", "-e", 1, "--state", state)
    with consuming(*arguments, program=hardened) as process:
        until(state.exists, "the first message is counted")
        for batch in IDS:
            server.fill(topic, [user.encode() for user in batch])
            until(lambda: server.left(topic) == 0, "it is acknowledged")
        time.sleep(1)
        found = _found(process.pid)
    return sum(user.encode() in found for batch in IDS[:-1] for user in batch)


def test_no_id_of_an_earlier_batch_is_in_the_memory_of_a_consumer(server: Server, state: Path) -> None:
    assert _left(server, "memory", state, hardened=True) == 0


@pytest.mark.parametrize("server", ["redis"], indirect=True)
def test_a_consumer_that_is_not_started_that_way_keeps_ids(server: Server, state: Path) -> None:
    """So the test above would find them."""
    assert _left(server, "careless", state, hardened=False) > 0
