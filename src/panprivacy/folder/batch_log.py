"""Which batches a shard has taken: of every writer who numbers batches, the highest number.

A redraw may be made twice, an increment may not. So a batch for counters has an identity, the name of its writer and
a number that rises, and every shard notes it in the same write as the counters. A shard that has this number takes
nothing, one that has a lower number takes the batch, and one that has a higher number refuses: whether it has this
batch, too, or was never given it, cannot be known. Names and numbers are public: they say who feeds and how often, and
nothing about the users in a batch. They take the same room in every shard.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from operator import index
from typing import Any, NamedTuple, Self

from panprivacy.errors import InvalidType, InvalidValue, PanPrivacyError

MOST_WRITERS = 32
_HIGHEST = 2**62
_ASIDE = 2**63  # is added to a number that a new shard has not taken, and takes if it is fed again
_FORGOTTEN = _HIGHEST  # stands where a number was, in every shard, before a writer is forgotten in the first of them
_ENTRY = struct.Struct("<16sQ")  # what a writer's name hashes to, and the number of its last batch, plus 1; 0 is free


class LateBatch(PanPrivacyError):
    """A batch comes after one of the same writer with a higher number; where that was found, nothing was changed."""


class BatchId(NamedTuple):
    """The identity of a batch: the name of its writer, and a number above all earlier numbers of the writer."""

    writer: str
    number: int

    @classmethod
    def of(cls, given: Any) -> "BatchId | None":
        """Read what a caller says of a batch: nothing, or a name and a number.

        A number alone would name a batch of every writer, and all but the first of them would be left out.
        """
        if given is None:
            return None
        writer, number = given if isinstance(given, tuple) and len(given) == 2 else (None, True)
        if not isinstance(writer, str) or isinstance(number, bool) or not hasattr(number, "__index__"):
            raise InvalidType(
                f"a batch is the name of its writer and a number, ('till 3', 17), got {given!r}", code="batch-name"
            )
        if not 0 <= index(number) < _HIGHEST:
            raise InvalidValue(
                f"the number of a batch is at least 0 and below 2**62, got {number}", code="batch-number"
            )
        return cls(writer, index(number))

    def __str__(self) -> str:
        return f"batch {self.number} of {self.writer}"


@dataclass(frozen=True)
class BatchLog:
    """The last batch of every writer."""

    numbers: tuple[tuple[bytes, int], ...] = ()

    SIZE = MOST_WRITERS * _ENTRY.size

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote."""
        entries = _ENTRY.iter_unpack(data)
        return cls(tuple((writer, number - 1) for writer, number in entries if number))

    @classmethod
    def of_new(cls, logs: Iterable["BatchLog"]) -> "BatchLog":
        """The log of a new shard, in the place of a lost one, by those of the other shards.

        Whether the lost shard had the last batch that all others have is not known. The new one has none. So it takes
        that batch, if it is fed again, and the next one.
        """
        known = [dict(log.numbers) for log in logs]
        common = [writer for writer in known[0] if all(writer in each for each in known)] if known else []
        lowest = {writer: min(each[writer] % _ASIDE for each in known) for writer in common}
        return cls(tuple((writer, n if n == _FORGOTTEN else n + _ASIDE) for writer, n in lowest.items()))

    def to_bytes(self) -> bytes:
        """All of it, in a length that is always the same."""
        return b"".join(_ENTRY.pack(writer, number + 1) for writer, number in self.numbers).ljust(self.SIZE, b"\0")

    def number(self, writer: str) -> int | None:
        """The last batch of a writer; None if there was none."""
        noted = self._noted(writer)
        number = None if noted is None else noted % _ASIDE
        if number == _FORGOTTEN:
            raise PanPrivacyError(
                f"the writer {writer!r} was being forgotten, and that broke off: forget({writer!r}) once more, and "
                "then the name is free",
                code="writer-half-forgotten",
            )
        return number

    def has(self, batch: BatchId) -> bool:
        """Whether this batch was taken; `LateBatch` if a later one of the same writer was."""
        number = self.number(batch.writer)
        if number is not None and number > batch.number:
            raise LateBatch(
                f"{batch} comes too late: batch {number} of the same writer was fed before it, and numbers rise; "
                f"if {batch} was fed already, all is well, and if not, give it a number that is higher",
                code="late-batch",
            )
        return self._noted(batch.writer) == batch.number

    def before(self, batch: BatchId) -> "set[int | None]":
        """The batch of the same writer that came before this one, None for none; empty where that does not matter."""
        number = self.number(batch.writer)
        return set() if self.has(batch) or number == batch.number else {number}

    def _noted(self, writer: str) -> int | None:
        return dict(self.numbers).get(_hashed(writer))

    def with_batch(self, batch: BatchId) -> "BatchLog":
        """The same, and this batch."""
        numbers = dict(self.numbers) | {_hashed(batch.writer): batch.number}
        if len(numbers) > MOST_WRITERS:
            raise PanPrivacyError(
                f"this folder knows {MOST_WRITERS} writers and has no room for another: let {batch} go on under the "
                "name of one who has ended, or forget(writer) one of them",
                code="too-many-writers",
            )
        return BatchLog(tuple(numbers.items()))

    def leaving(self, writer: str) -> "BatchLog":
        """The same, and that a writer is about to be forgotten: until then nothing is taken under this name."""
        left = _hashed(writer)
        return BatchLog(tuple((known, _FORGOTTEN if known == left else number) for known, number in self.numbers))

    def without(self, writer: str) -> "BatchLog":
        """The same, with room for another writer."""
        return BatchLog(tuple(entry for entry in self.numbers if entry[0] != _hashed(writer)))


def _hashed(writer: str) -> bytes:
    return blake2b(writer.encode(), digest_size=16).digest()
