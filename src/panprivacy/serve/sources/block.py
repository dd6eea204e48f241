"""The payloads of many messages in one piece of memory of our own, which is wiped when they are on disk."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from panprivacy.memory import Scratch, wipe

_NEWLINE = 10


class Block:
    """Payloads one after the other, a newline behind each: those that are lines of JSON are NDJSON as they lie.

    >>> block = Block.of([b'{"user": 1}', b'{"user": 2}', b'{"user": 3}'])
    >>> block.part(1, 3).octets.tobytes()
    b'{"user": 2}\\n{"user": 3}\\n'
    >>> block[2]
    b'{"user": 3}'
    """

    def __init__(self, octets: NDArray[np.uint8], starts: NDArray[np.int64]) -> None:
        self.octets = octets
        self.starts = starts
        """Where each payload starts, and where the next one would; the first one's start is that of the octets."""

    @classmethod
    def of(cls, payloads: Sequence[bytes]) -> "Block":
        """A copy of payloads that are Python's, which nobody can wipe."""
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
        """Overwrite the payloads, and how long each of them was."""
        wipe(self.octets)
        wipe(self.starts)
