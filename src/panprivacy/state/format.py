"""Estimators as bytes: magic, version, kind, parameters and ledger, bits, checksum.

The length depends on the parameters alone. There is no coin, no key of a coin, no id and no count of events inside.
A copy of the bits is one more reading of them, so they go from the table's own memory to where they are written,
and from where they are read into the memory that becomes the table.
"""

import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.errors import CorruptState
from panprivacy.memory.scratch import Scratch, bit_pages
from panprivacy.state.disk import STATE

MAGIC = STATE
VERSION = 1
"""The version of the layout. A state of another version is refused."""

_HEAD = struct.Struct("<8sHBBIQ")  # magic, version, kind, secure, bytes of parameters, words of bits
_CHECK = sha256().digest_size

Fill: TypeAlias = Callable[[memoryview, int], None]
"""Fills a buffer with the bytes of a state from a position on."""


class Snapshot(NamedTuple):
    """The parts of a saved state; `words` is the memory of the table, not a copy of it."""

    kind: int
    secure: bool
    parameters: bytes | bytearray
    words: NDArray[np.uint64]


class Content:
    """The bytes of a state, read off its parts where they are."""

    def __init__(self, *pieces: memoryview) -> None:
        self.pieces = pieces
        self.size: int = sum(len(piece) for piece in pieces)


@contextmanager
def content_of(parts: Snapshot) -> Iterator[Content]:
    """Lay the parts of a state out as bytes, for as long as the table keeps still."""
    start = _HEAD.pack(MAGIC, VERSION, *parts[:2], len(parts.parameters), len(parts.words)) + parts.parameters
    with Scratch() as scratch:
        scratch.own(np.frombuffer(start, dtype=np.uint8))  # some estimators keep noise among their parameters
        swapped = sys.byteorder == "big"
        words = scratch.own(parts.words.astype("<u8")) if swapped else parts.words
        with memoryview(start) as first, words.data.cast("B") as bits:
            check = sha256(first)
            check.update(bits)
            digest = check.digest()
            scratch.own(np.frombuffer(digest, dtype=np.uint8))  # of a small table, a digest tells all the bits
            with memoryview(digest) as last:
                yield Content(first, bits, last)


def seal(parts: Snapshot) -> bytes:
    """Put the parts of a state together."""
    with content_of(parts) as content:
        return b"".join(content.pieces)


def unseal(blob: bytes) -> Snapshot:
    """Take a state apart, refusing anything that was not sealed here."""
    with memoryview(blob) as given, given.cast("B") as view:

        def fill(buffer: memoryview, at: int) -> None:
            buffer[:] = view[at : at + len(buffer)]

        return read(len(view), fill)


def unseal_start(blob: bytes) -> Snapshot:
    """The parts of a state but its bits, from its first bytes; its checksum is not looked at."""
    kind, secure, parameters, _ = _head(blob)
    start = bytearray(blob[_HEAD.size : _HEAD.size + parameters])
    if len(start) != parameters:
        raise CorruptState("the state is truncated", code="state-truncated")
    return Snapshot(kind, bool(secure), start, np.zeros(0, dtype=np.uint64))


def sealed_size(blob: bytes) -> int:
    """How many bytes a state should have, by what it says itself."""
    *_, parameters, words = _head(blob)
    return _HEAD.size + parameters + 8 * words + _CHECK


def _head(start: bytes | bytearray) -> tuple[int, int, int, int]:
    """The kind of a state, whether it is secure, the bytes of its parameters and the words of its bits."""
    if len(start) < _HEAD.size:
        raise CorruptState(f"{len(start)} bytes are too short for a state", code="state-truncated")
    magic, version, kind, secure, parameters, words = _HEAD.unpack_from(start)
    if magic != MAGIC:
        raise CorruptState("these bytes are not a panprivacy state", code="not-a-state")
    if version != VERSION:
        raise CorruptState(
            f"this state has version {version}; this release reads version {VERSION}", code="state-version"
        )
    return kind, secure, parameters, words


def read(size: int, fill: Fill) -> Snapshot:
    """Read a state of `size` bytes, its bits straight into the memory of a table."""
    if size < _HEAD.size + _CHECK:
        raise CorruptState(f"{size} bytes are too short for a state", code="state-truncated")
    head = bytearray(_HEAD.size)
    fill(memoryview(head), 0)
    kind, secure, parameters, words = _head(head)
    expected = _HEAD.size + parameters + 8 * words + _CHECK
    if size != expected:
        raise CorruptState(
            f"the state should have {expected} bytes and has {size}: truncated or extended", code="state-truncated"
        )
    start = bytearray(parameters)
    fill(memoryview(start), _HEAD.size)
    bits = bit_pages(words)
    with bits.data.cast("B") as view, Scratch() as scratch:
        fill(view, _HEAD.size + parameters)
        found = scratch.empty("check", _CHECK, np.uint8)
        fill(memoryview(found), size - _CHECK)
        check = sha256(head)
        check.update(start)
        check.update(view)
        digest = scratch.own(np.frombuffer(check.digest(), dtype=np.uint8))
        if not np.array_equal(digest, found) or secure > 1:
            raise CorruptState("the checksum does not match: the state was altered", code="state-altered")
    if sys.byteorder == "big":
        bits.byteswap(inplace=True)
    return Snapshot(kind, bool(secure), start, bits)
