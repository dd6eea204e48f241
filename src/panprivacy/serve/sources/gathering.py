"""From the messages of librdkafka to one block, without an object of Python's for each."""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
# mypy: disable-error-code="call-arg, attr-defined"
from dataclasses import dataclass

import numpy as np
from numba import carray, njit, types
from numpy.typing import NDArray

from panprivacy.instructions import call, pointer_to
from panprivacy.serve.sources.block import Block

# Words of 8 bytes in rd_kafka_message_t, a structure of the public interface, on any machine that numba compiles for.
_ERROR, _PARTITION, _PAYLOAD, _LENGTH, _OFFSET, _WORDS = 0, 2, 3, 4, 7, 8
_HALF = 2**32 - 1  # the bits of a word that a number of 32 bits takes
_NEWLINE = 10


@dataclass(frozen=True)
class Gathered:
    """The payloads of the messages that have one, and where they stood; the others are errors and deletions."""

    payloads: Block
    partitions: NDArray[np.int64]
    offsets: NDArray[np.int64]
    errors: list[int]


def gathered(pointers: NDArray[np.uint64], destroy: int) -> Gathered:
    """Copy messages into memory of our own and have them destroyed by the function at an address, also after an error.

    The C library frees them, and in a process that was started hardened it overwrites what it frees.
    """
    n = len(pointers)
    try:
        starts, (partitions, offsets, errors) = np.zeros(n + 1, np.int64), np.empty((3, n), np.int64)
        kept, failed = _measure(pointers, starts, partitions, offsets, errors)
        octets = np.empty(starts[kept], np.uint8)
        _copy(pointers, octets)
    finally:
        _destroy(pointers, destroy)
    return Gathered(
        Block(octets, starts[: kept + 1]), partitions[:kept], offsets[:kept], errors[:failed].astype(np.int32).tolist()
    )


@njit(nogil=True, inline="always")
def _message(address):
    return carray(pointer_to(address), (_WORDS,), np.int64)


@njit(nogil=True, inline="always")
def _has_payload(message):
    return (message[_ERROR] & _HALF) == 0 and message[_PAYLOAD] != 0 and message[_LENGTH] > 0


@njit(
    types.UniTuple(types.int64, 2)(
        types.uint64[::1], types.int64[::1], types.int64[::1], types.int64[::1], types.int64[::1]
    ),
    nogil=True,
    cache=True,
)
def _measure(pointers, starts, partitions, offsets, errors):
    """Note where payloads will start, where they stood, and errors; return how many there are of both."""
    kept = failed = 0
    for i in range(len(pointers)):
        message = _message(pointers[i])
        if _has_payload(message):
            starts[kept + 1] = starts[kept] + message[_LENGTH] + 1
            partitions[kept] = message[_PARTITION] & _HALF
            offsets[kept] = message[_OFFSET]
            kept += 1
        elif (message[_ERROR] & _HALF) != 0:
            errors[failed] = message[_ERROR] & _HALF
            failed += 1
    return kept, failed


@njit(types.void(types.uint64[::1], types.uint8[::1]), nogil=True, cache=True)
def _copy(pointers, octets):
    """Write the payloads one after the other, a newline behind each."""
    at = 0
    for i in range(len(pointers)):
        message = _message(pointers[i])
        if _has_payload(message):
            payload = carray(pointer_to(np.uint64(message[_PAYLOAD])), (message[_LENGTH],), np.uint8)
            for j in range(len(payload)):
                octets[at + j] = payload[j]
            at += len(payload) + 1
            octets[at - 1] = _NEWLINE


@njit(types.void(types.uint64[::1], types.uint64), nogil=True, cache=True)
def _destroy(pointers, destroy):
    for i in range(len(pointers)):
        call(destroy, pointers[i])
