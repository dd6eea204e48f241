"""Brokers as sources of events: Kafka, NATS JetStream and Redis streams.

`settings` reads the table or the address of a source. `consumer` fetches messages and hands them to a counter, as
bodies that `payloads` makes of them. `kafka`, `nats` and `redis` are the clients. A message is acknowledged when the
state that contains it is on disk.

Below is what they have in common: messages, and a `Broker`, which gives some of them and is told which are on disk.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from panprivacy.errors import PanPrivacyError
from panprivacy.memory.scratch import Scratch, wipe

_NEWLINE = 10
NOT_YET = "the broker has not answered yet"
NO_ANSWER = "the broker does not answer"
NOT_LET_IN = "the broker refuses this user or password"
NOT_ALLOWED = "the broker does not let this user read it"


class Unreachable(PanPrivacyError):
    """The broker does not answer, or has no such topic or stream; it is asked again after a while."""

    CODE = "broker-unreachable"


class Hopeless(PanPrivacyError):
    """The broker will never deliver this topic or stream, or a message can never be counted; it is not quoted."""

    CODE = "broker-hopeless"


class Block:
    """Payloads of many messages in one piece of memory, a newline behind each; wiped when they are on disk.

    Payloads that are lines of JSON are NDJSON as they lie.

    >>> block = Block.of([b'{"user": 1}', b'{"user": 2}', b'{"user": 3}'])
    >>> block.part(1, 3).octets.tobytes()
    b'{"user": 2}\\n{"user": 3}\\n'
    >>> block[2]
    b'{"user": 3}'
    """

    def __init__(self, octets: NDArray[np.uint8], starts: NDArray[np.int64]) -> None:
        self.octets = octets
        self.starts = starts
        """Where each payload starts, and where the next one would; the octets begin at the first start."""

    @classmethod
    def of(cls, payloads: Sequence[bytes]) -> "Block":
        """A copy of payloads that are Python objects, which cannot be wiped."""
        joined = bytearray(b"\n").join([*payloads, b""])
        starts = np.fromiter(accumulate((len(each) + 1 for each in payloads), initial=0), np.int64, len(payloads) + 1)
        return cls(np.frombuffer(joined, dtype=np.uint8), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, number: int) -> bytes:
        start, end = self.starts[number : number + 2] - self.starts[0]
        return self.octets[start : end - 1].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        return (self[number] for number in range(len(self)))

    def part(self, start: int, end: int) -> "Block":
        """Some of the payloads, in the same memory."""
        first, last = self.starts[start] - self.starts[0], self.starts[end] - self.starts[0]
        return Block(self.octets[first:last], self.starts[start : end + 1])

    @property
    def of_lines(self) -> bool:
        """Whether each payload is one line."""
        with Scratch() as scratch:
            return int(np.count_nonzero(scratch.own(self.octets == _NEWLINE))) == len(self)

    def wipe(self) -> None:
        """Overwrite the payloads and their lengths."""
        wipe(self.octets)
        wipe(self.starts)


@dataclass(frozen=True)
class Messages:
    """Some messages, in the order of the broker, none of them empty.

    A message is named by its `place`, which says nothing of what it holds.
    """

    payloads: Block
    """What they hold; wiped when they are acknowledged."""
    receipt: Any
    """What the broker needs to acknowledge them all."""
    place: Callable[[int], str]
    """Where the message of this number is: a partition and an offset, or what this broker has instead."""


class Broker(Protocol):
    """One topic, stream or consumer. All calls come from one thread, and connect where that is needed.

    Messages that were not acknowledged are given out again, at the latest to the next reader after a crash.
    """

    @property
    def name(self) -> str:
        """Its address, without credentials."""

    def fetch(self, most: int, seconds: float) -> Messages | None:
        """Some messages as soon as there are any, None if the broker has none. Raises `Unreachable` and `Hopeless`."""

    def waiting(self) -> int | None:
        """How many messages are not fetched yet; None, or `Unreachable`, if the broker does not say."""

    def check(self) -> None:
        """Ask whether there is something to read, without reading it. Raises `Unreachable` and `Hopeless`."""

    def acknowledge(self, messages: Messages) -> None:
        """Have the broker never give these out again. Raises `Unreachable`: then it may."""

    def close(self) -> None:
        """Disconnect; what was acknowledged before stays acknowledged."""
