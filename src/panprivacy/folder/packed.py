"""Packed sets of slots: what a process that looked ids up sends to the one that has the bits.

One format for folders, engines and the service; docs/scale.md describes it byte by byte. A set says which users are in
a batch, so whoever holds one wipes it.
"""

import struct
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import check_whole
from panprivacy.errors import CorruptState, InvalidValue
from panprivacy.folder.marks import Marks
from panprivacy.memory.scratch import Scratch

MAGIC, VERSION = b"PPslots\0", 1
LAYOUT = 16
"""Bytes of the fingerprint of a layout: it decides which user owns which slot."""

_HEAD = struct.Struct(f"<8sHBBI{LAYOUT}sQQQ")  # magic, version, form, bytes of times, 0, layout, first, slots, length
_CHECK = 8  # bytes of a checksum of all the rest
HEAD = _HEAD.size + _CHECK


class PackedSlots(NamedTuple):
    """A set of slots that was checked: complete, of this version, and unaltered."""

    layout: bytes
    first: int
    """The first slot that it covers."""
    end: int
    """The first slot behind those that it covers."""
    times: int
    """Bytes that tell how often a slot is touched: 0 where that makes no difference."""
    form: int
    marked: NDArray[np.uint8]

    def add_to(self, marks: Marks, first: int, end: int) -> None:
        """Mark these slots in marks of the slots from `first` up to `end`; nothing, if they do not fit."""
        if self.times != marks.TIMES or not first <= self.first <= self.end <= end:
            raise CorruptState("these slots are not those of this counter", code="not-marks")
        marks.add_packed(self.form, self.marked, self.first - first, self.end - first)


def fingerprint(layout: bytes) -> bytes:
    """What a packed set says of the layout that it was gathered for."""
    return sha256(layout).digest()[:LAYOUT]


def check_part(number: Any, parts: int) -> int:
    """The number of a part; `ValueError` if there is none of this number."""
    checked = check_whole(number, "the number of a part")
    if not 0 <= checked < parts:
        raise InvalidValue(f"there are parts 0 to {parts - 1}, and none of number {number}", code="no-such-shard")
    return checked


def part_bounds(number: int, parts: int, size: int) -> tuple[int, int]:
    """Which of `size` slots a part has: from the first up to the second."""
    return number * size // parts, (number + 1) * size // parts


def pack(marks: Marks, layout: bytes, first: int, end: int, scratch: Scratch) -> NDArray[np.uint8]:
    """The marks of the slots from `first` up to `end`, in scratch."""
    form, octets = marks.packed(first, end, HEAD, scratch)
    head = _HEAD.pack(MAGIC, VERSION, form, marks.TIMES, 0, layout, first, end - first, len(octets) - HEAD)
    octets[: _HEAD.size] = np.frombuffer(head, dtype=np.uint8)
    octets[_HEAD.size : HEAD] = _checksum(octets, scratch)
    return octets


def unpack(octets: NDArray[np.uint8]) -> PackedSlots:
    """Read a packed set where it lies; `CorruptState` if it is none, or cut off, or altered."""
    if len(octets) < HEAD or octets[: len(MAGIC)].tobytes() != MAGIC:
        raise CorruptState("this is no packed set of slots, or only its beginning", code="slots-altered")
    _, version, form, times, zero, layout, first, slots, length = _HEAD.unpack(octets[: _HEAD.size].tobytes())
    if version != VERSION:
        raise CorruptState(f"these slots are packed in version {version}; known is {VERSION}", code="slots-version")
    with Scratch() as scratch:
        whole = length == len(octets) - HEAD and zero == 0
        if not whole or not np.array_equal(_checksum(octets, scratch), octets[_HEAD.size : HEAD]):
            raise CorruptState("these slots were altered, or cut off: their checksum is another", code="slots-altered")
    return PackedSlots(layout, first, first + slots, times, form, octets[HEAD:])


def _checksum(octets: NDArray[np.uint8], scratch: Scratch) -> NDArray[np.uint8]:
    check = sha256(memoryview(octets[: _HEAD.size]))  # type: ignore[arg-type]
    check.update(memoryview(octets[HEAD:]))  # type: ignore[arg-type]
    digest = scratch.own(np.frombuffer(check.digest(), dtype=np.uint8))  # of few slots, it tells which they are
    return digest[:_CHECK]
