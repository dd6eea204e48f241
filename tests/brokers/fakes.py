"""A broker and a counter in memory, so that what is between them can be tested in milliseconds."""

import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial

from panprivacy.brokers import Block, Messages, Unreachable
from panprivacy.brokers.consumer import BrokerConsumer
from panprivacy.ingest import Columns, Kind
from panprivacy.ingest.batch import ProblemType, Refused
from panprivacy.ingest.bodies import Body

USERS = Columns(("user",), Kind.integers)


class FakeBroker:
    """A list of payloads, given out in order; what was not acknowledged is given out again to the next reader."""

    name = "fake://broker/topic"

    def __init__(self, payloads: Sequence[bytes]) -> None:
        self.payloads = payloads
        self.acknowledged = 0
        self.unreachable = 0  # how many calls fail from now on
        self.closed = False
        self.given_out: list[Block] = []
        self._given = 0

    def again(self) -> "FakeBroker":
        """The same broker as the reader after a crash finds it."""
        self._given, self.closed = self.acknowledged, False
        return self

    def fetch(self, most: int, seconds: float) -> Messages | None:  # noqa: ARG002
        if self.unreachable:
            self.unreachable -= 1
            raise Unreachable("nobody answers")
        start, self._given = self._given, min(self._given + most, len(self.payloads))
        if start == self._given:
            threading.Event().wait(0.001)
            return None
        block = Block.of(self.payloads[start : self._given])
        self.given_out.append(block)
        return Messages(block, self._given, lambda number: f"message {start + number}")

    def waiting(self) -> int | None:
        return len(self.payloads) - self._given

    def check(self) -> None:
        if self.unreachable:
            raise Unreachable("nobody answers")

    def acknowledge(self, messages: Messages) -> None:
        assert messages.receipt > self.acknowledged, "in order"
        self.acknowledged = messages.receipt

    def close(self) -> None:
        self.closed = True


class FakeCounter:
    """Keeps the last action of each user."""

    def __init__(self, *, outside: int = 10**9, full_disks: int = 0, lag: float = 0.0) -> None:
        self.on_disk: dict[int, str] = {}
        self.bodies = 0
        self._outside = outside
        self._full_disks = full_disks
        """How many bodies are refused for now, from the second on."""
        self._lag = lag
        """Seconds until a body is answered, in which others come."""

    def take(self, body: Body) -> "Future[int]":
        lines = body.octets.tobytes().splitlines()
        body.wipe()
        self.bodies += 1
        future: Future[int] = Future()
        try:
            answer = partial(future.set_result, self._counted(lines))
        except Refused as refused:
            answer = partial(future.set_exception, refused)
        if self._lag:
            threading.Timer(self._lag, answer).start()
        else:
            answer()
        return future

    def _counted(self, lines: list[bytes]) -> int:
        if self.bodies > 1 and self._full_disks:
            self._full_disks -= 1
            raise Refused(ProblemType.disk, retry=0.001)
        try:
            rows = [json.loads(line) for line in lines]
        except ValueError:
            raise Refused(ProblemType.unreadable) from None
        if any(row["user"] >= self._outside for row in rows):
            raise Refused(ProblemType.outside)
        self.on_disk |= {row["user"]: row.get("action", "insert") for row in rows}
        return len(rows)


def pumped(broker: FakeBroker, counter: FakeCounter, *, batch: int = 10, skip_bad: bool = False) -> list[str]:
    """Read a broker until everything is acknowledged, or the pump stops; what it told."""
    payload_kind: list[str] = []
    done = threading.Event()

    def tell(word: str, cause: str) -> None:
        payload_kind.append(f"{word}: {cause}")
        if word == "stopped":
            done.set()

    pump = BrokerConsumer(broker, USERS, batch=batch, skip_bad=skip_bad, tell=tell)
    pump.start(counter.take)
    wait_until(lambda: broker.acknowledged == len(broker.payloads) or done.is_set())
    pump.close()
    assert broker.closed
    return payload_kind


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for what takes milliseconds."""
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)
