"""The slots that users of a batch own, gathered in one process and taken by a shard in another."""

import struct
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.errors import CorruptState
from panprivacy.folder.bits import ShardedBits
from panprivacy.folder.marks import Marks
from panprivacy.folder.parts import NAME, Frame
from panprivacy.lazily import loaded
from panprivacy.memory import Scratch

_HEAD = struct.Struct(f"<{NAME}sI")  # the name of the folder, and the number of the shard


class Gathered:
    """The slots that a batch touches, in a process that holds no bits: `StateFolder.gather` makes one.

    It tells who is in the batch, and is wiped where the `with` block ends, with all that it has packed.
    """

    def __init__(self, frame: Frame, bits: ShardedBits, est: Any, turn: AbstractContextManager[Any]) -> None:
        self.marks = bits.cells.marks(bits.size)
        self._frame, self._bits, self._est = frame, bits, est
        self._turn = turn  # held while users are looked up
        self._scratch = Scratch()

    def add(self, ids: Any, categories: Any = None) -> None:
        """Gather the slots of these users; takes what `StateFolder.update_many` takes, and names an id that is none.

        What is refused leaves no mark; of an iterator, which is taken in chunks, the last chunk leaves none.
        """
        with self._turn, self._bits.fed_to(_Into(self.marks)):
            self._est.update_many(ids, categories)

    def packed(self, number: int) -> NDArray[np.uint8]:
        """What the shard of this number has to take, as bytes for `StateFolder.take`: its length tells how many it is.

        It is wiped with the rest; copies of it, sent elsewhere, are the caller's to wipe.
        """
        head = _HEAD.pack(self._frame.name, number)
        return self.marks.packed(*self._bits.bounds(number), head, self._scratch)

    def wipe(self) -> None:
        """Forget everything."""
        with self._scratch:
            self.marks.wipe()
        loaded("panprivacy.privacy.kernels").wipe_stack()


class _Into:
    """Marks slots, whatever is to be done with them."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self.restored_on_error = marks.restored_on_error

    def add(self, slots: NDArray[np.unsignedinteger], *, remove: bool) -> None:  # noqa: ARG002
        self._marks.add(slots)


def add_packed(marks: Marks, packed: Iterable[Any], frame: Frame, number: int) -> None:
    """Mark in one shard what `Gathered.packed` packed for it, in however many processes."""
    for each in packed:
        octets = np.frombuffer(each, dtype=np.uint8)
        if len(octets) <= _HEAD.size or _HEAD.unpack(octets[: _HEAD.size].tobytes()) != (frame.name, number):
            raise CorruptState(f"these slots are not those of shard {number} of this folder")
        marks.add_packed(octets[_HEAD.size :])
