"""The parts of a state folder as sealed states: one frame, without bits, and shards, without a ledger."""

import struct
from dataclasses import dataclass, field, replace
from operator import index
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from panprivacy.errors import CorruptState, PanPrivacyError
from panprivacy.folder.cells import AnyTable, Cells
from panprivacy.folder.noted import BatchId, Noted
from panprivacy.state import Sealed

NAME = 16
"""Bytes of the name that all parts of one folder share, drawn when it is made."""

_FRAME = struct.Struct(f"<{NAME}sIB")  # name, shards, kind of the estimator
_SHARD = struct.Struct(f"<{NAME}sIIQ")  # name, number, redraws, bits

FRAME_KIND, SHARD_KIND = 8, 9
MOST_SHARDS = 65_536


@dataclass(frozen=True)
class Frame:
    """What all shards have in common: which estimator it is, its public parameters, and its ledger."""

    name: bytes
    shards: int
    kind: int
    secure: bool
    parameters: bytes
    """The ledger and the parameters of the estimator, as in a state of its own."""

    @classmethod
    def of(cls, parts: Sealed) -> Self:
        """Read a frame."""
        if parts.kind != FRAME_KIND or len(parts.parameters) < _FRAME.size:
            raise CorruptState("this is not the ledger of a state folder")
        name, shards, kind = _FRAME.unpack_from(parts.parameters)
        if not 1 <= shards <= MOST_SHARDS:
            raise CorruptState(f"a folder of {shards} shards is impossible")
        return cls(name, shards, kind, parts.secure, parts.parameters[_FRAME.size :])

    def sealed(self) -> Sealed:
        """The bytes of it."""
        head = _FRAME.pack(self.name, self.shards, self.kind)
        return Sealed(FRAME_KIND, self.secure, head + self.parameters, np.zeros(0, dtype=np.uint64))

    def of_estimator(self, words: NDArray[np.uint64]) -> Sealed:
        """The same as a state of the estimator."""
        return Sealed(self.kind, self.secure, self.parameters, words)

    def checked(self, number: int) -> int:
        """The number of a shard; `ValueError` if there is none of this number."""
        if isinstance(number, bool) or not hasattr(number, "__index__"):
            raise TypeError(f"shards have whole numbers, 0 to {self.shards - 1}, got {number!r}")
        if not 0 <= index(number) < self.shards:
            raise ValueError(f"there are shards 0 to {self.shards - 1}, and none of number {number}")
        return index(number)

    def bounds(self, number: int, size: int) -> tuple[int, int]:
        """Which of the slots a shard has: from the first up to the second."""
        return number * size // self.shards, (number + 1) * size // self.shards


@dataclass(frozen=True)
class Shard:
    """The bits of some slots, how often they have been rerandomised, and which batches they have."""

    name: bytes
    number: int
    redraws: int
    secure: bool
    table: AnyTable
    noted: Noted = field(default_factory=Noted)

    @classmethod
    def of(cls, parts: Sealed, cells: Cells) -> Self:
        """Read a shard; its words become its table."""
        if parts.kind != SHARD_KIND or len(parts.parameters) != _SHARD.size + Noted.SIZE:
            raise CorruptState("this is not a shard of a state folder")
        name, number, redraws, size = _SHARD.unpack_from(parts.parameters)
        noted = Noted.of(parts.parameters[_SHARD.size :])
        try:
            return cls(name, number, redraws, parts.secure, cells.table(size, parts.words), noted)
        except ValueError as error:
            raise CorruptState(f"the shard contradicts itself: {error}") from None

    def sealed(self) -> Sealed:
        """The bytes of it, its bits where they are."""
        head = _SHARD.pack(self.name, self.number, self.redraws, self.table.size)
        return Sealed(SHARD_KIND, self.secure, head + self.noted.to_bytes(), self.table.words)

    def redrawn(self) -> "Shard":
        """The same, rerandomised once more."""
        return replace(self, redraws=self.redraws + 1)

    def noting(self, batch: BatchId | None) -> "Shard":
        """The same, with a batch that it has now."""
        return self if batch is None else replace(self, noted=self.noted.with_batch(batch))

    def leaving(self, writer: str) -> "Shard":
        """The same, and that a writer is about to be forgotten."""
        return replace(self, noted=self.noted.leaving(writer))

    def without(self, writer: str) -> "Shard":
        """The same, without what it knows of a writer's batches."""
        return replace(self, noted=self.noted.without(writer))


class Alone:
    """What a part of a folder is by itself: nothing that could be loaded."""

    @staticmethod
    def from_sealed(parts: Sealed, universe: Any = None) -> NoReturn:  # noqa: ARG004
        """Refuse."""
        raise PanPrivacyError(
            "this is a part of a state folder: name the folder, as in panprivacy show DIR/, or open it, "
            "pp.StateFolder(url)"
        )
