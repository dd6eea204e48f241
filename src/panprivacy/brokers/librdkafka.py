"""librdkafka, the C library inside confluent-kafka: the public functions that a reader needs, called through ctypes.

confluent-kafka's own `consume` makes Python objects of each message. They cannot be wiped, and in a hardened process,
whose allocators overwrite freed memory, they take longer than all the rest. So messages are copied from the library's
memory into one `Block`, and given back to the library, by one call for a batch.

`benchmarks/brokers.py`, a million messages, two rounds on two busy cores, as shares of a bare `consume` loop with the
same settings: this reader 3.2 (JSON objects) and 2.8 (bare ids), the same service on confluent-kafka's `consume` 0.21
and 0.26.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False
# mypy: disable-error-code="call-arg, attr-defined"
import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numba import carray, njit, types
from numpy.typing import NDArray

from panprivacy.brokers import Block, Hopeless
from panprivacy.errors import PanPrivacyError
from panprivacy.memory.intrinsics import call, pointer_to

Ends: TypeAlias = dict[int, int]
"""Of each partition, the offset after the last message."""

_CONSUMER = 1  # rd_kafka_type_t
_ANY = -1  # partition
_SAID = 512  # bytes of a message about an error

_ON_ERROR = CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_void_p)


class _Partition(ctypes.Structure):
    _fields_ = [
        ("topic", c_char_p),
        ("partition", c_int32),
        ("offset", c_int64),
        ("metadata", c_void_p),
        ("metadata_size", c_size_t),
        ("opaque", c_void_p),
        ("err", c_int),
        ("private", c_void_p),
    ]


class _Partitions(ctypes.Structure):
    _fields_ = [("count", c_int), ("size", c_int), ("elements", POINTER(_Partition))]


_FUNCTIONS: dict[str, tuple[Any, ...]] = {  # what each returns, and takes
    "conf_new": (c_void_p,),
    "conf_set": (c_int, c_void_p, c_char_p, c_char_p, c_char_p, c_size_t),
    "conf_set_error_cb": (None, c_void_p, _ON_ERROR),
    "conf_destroy": (None, c_void_p),
    "new": (c_void_p, c_int, c_void_p, c_char_p, c_size_t),
    "poll_set_consumer": (c_int, c_void_p),
    "subscribe": (c_int, c_void_p, POINTER(_Partitions)),
    "queue_get_consumer": (c_void_p, c_void_p),
    "queue_destroy": (None, c_void_p),
    "consume_batch_queue": (c_ssize_t, c_void_p, c_int, c_void_p, c_size_t),
    "message_destroy": (None, c_void_p),
    "assignment": (c_int, c_void_p, POINTER(POINTER(_Partitions))),
    "position": (c_int, c_void_p, POINTER(_Partitions)),
    "query_watermark_offsets": (c_int, c_void_p, c_char_p, c_int32, POINTER(c_int64), POINTER(c_int64), c_int),
    "get_watermark_offsets": (c_int, c_void_p, c_char_p, c_int32, POINTER(c_int64), POINTER(c_int64)),
    "commit": (c_int, c_void_p, POINTER(_Partitions), c_int),
    "committed": (c_int, c_void_p, POINTER(_Partitions), c_int),
    "topic_partition_list_new": (POINTER(_Partitions), c_int),
    "topic_partition_list_add": (POINTER(_Partition), POINTER(_Partitions), c_char_p, c_int32),
    "topic_partition_list_destroy": (None, POINTER(_Partitions)),
    "err2name": (c_char_p, c_int),
    "consumer_close": (c_int, c_void_p),
    "destroy": (None, c_void_p),
}


class Failed(PanPrivacyError):
    """A function of the library returned an error."""

    def __init__(self, code: int) -> None:
        super().__init__(name_of(code))


@cache
def _library() -> dict[str, Any]:
    """The functions, found through the module of confluent-kafka that is linked to the library."""
    from confluent_kafka import cimpl

    linked, found = ctypes.CDLL(cimpl.__file__), {}
    for name, (returns, *takes) in _FUNCTIONS.items():
        try:
            function = getattr(linked, f"rd_kafka_{name}")
        except AttributeError:
            raise Hopeless("this build of confluent-kafka hides librdkafka: install its wheel") from None
        function.restype, function.argtypes = returns, takes
        found[name] = function
    return found


def name_of(code: int) -> str:
    """The name of an error: ``_TRANSPORT``, ``FENCED_INSTANCE_ID``.

    >>> name_of(82)
    'FENCED_INSTANCE_ID'
    """
    name: bytes = _library()["err2name"](code)
    return name.decode()


class Reader:
    """A consumer of one topic. All calls come from one thread, and errors are told in that thread."""

    def __init__(self, settings: dict[str, Any], topic: str, note_error: Callable[[str], None]) -> None:
        """`note_error` is called with the name of an error while messages are waited for."""
        self._call = _library()
        self._topic = topic.encode()
        self._on_error = _ON_ERROR(lambda _client, code, _reason, _opaque: note_error(name_of(code)))  # kept alive
        self._destroy: int = ctypes.cast(self._call["message_destroy"], c_void_p).value or 0
        self._pointers = np.empty(0, np.uint64)
        self._client = self._made(settings)
        self._call["poll_set_consumer"](self._client)
        self._queue = self._call["queue_get_consumer"](self._client)

    def subscribe(self) -> None:
        """Join the group, and be given the partitions of the topic."""
        with self._listed({_ANY: None}) as wanted:
            self._check(self._call["subscribe"](self._client, wanted))

    def check_topic(self, seconds: float) -> None:
        """Ask where the first partition begins and ends, without joining the group; raises `Failed`."""
        low, high = c_int64(), c_int64()
        ask = self._call["query_watermark_offsets"]
        code = ask(self._client, self._topic, 0, byref(low), byref(high), int(seconds * 1000))
        self.fetch(1, 0.1)  # there are no messages; errors of the connection are told
        self._check(code)

    def _made(self, settings: dict[str, Any]) -> int:
        said = ctypes.create_string_buffer(_SAID)
        configuration = self._call["conf_new"]()
        self._call["conf_set_error_cb"](configuration, self._on_error)
        for key, value in settings.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if self._call["conf_set"](configuration, key.encode(), text.encode(), said, _SAID):
                self._call["conf_destroy"](configuration)
                raise Hopeless(f"librdkafka takes no option {key} of this value")  # which may be a password
        client: int | None = self._call["new"](_CONSUMER, configuration, said, _SAID)
        if client is None:
            self._call["conf_destroy"](configuration)
            raise Hopeless("librdkafka does not take these options together")
        return client

    def fetch(self, most: int, seconds: float) -> "KafkaBatch":
        """What came in this time, or earlier if that is `most` messages."""
        if len(self._pointers) < most:
            self._pointers = np.empty(most, np.uint64)
        place = self._pointers.ctypes.data
        found = self._call["consume_batch_queue"](self._queue, int(seconds * 1000), place, most)
        return gathered(self._pointers[: max(found, 0)], self._destroy)

    def ends(self) -> Ends:
        """How far each partition was fetched, of those that were."""
        with self._assigned() as assigned:
            self._check(self._call["position"](self._client, assigned))
            each = (assigned.contents.elements[i] for i in range(assigned.contents.count))
            return {part.partition: part.offset for part in each if part.offset >= 0}

    def waiting(self) -> int:
        """How many messages are behind those that were fetched, as the library knows from its last answers."""
        found, low, high = 0, c_int64(), c_int64()
        for partition, end in self.ends().items():
            if not self._call["get_watermark_offsets"](self._client, self._topic, partition, byref(low), byref(high)):
                found += max(high.value - end, 0)
        return found

    def answers(self, seconds: float) -> bool:
        """Whether the broker has given this reader partitions, and answers now."""
        with self._assigned() as assigned:
            committed = self._call["committed"]
            return bool(assigned.contents.count and committed(self._client, assigned, int(seconds * 1000)) == 0)

    def commit(self, ends: Ends, *, wait: bool) -> None:
        """Have the broker remember how far was read; raises `Failed`."""
        with self._listed(ends) as offsets:
            self._check(self._call["commit"](self._client, offsets, int(not wait)))

    def close(self) -> None:
        """Leave the group, and free all that was fetched."""
        self._call["queue_destroy"](self._queue)
        self._call["consumer_close"](self._client)
        self._call["destroy"](self._client)

    @contextmanager
    def _assigned(self) -> Iterator[Any]:
        assigned = POINTER(_Partitions)()
        self._check(self._call["assignment"](self._client, byref(assigned)))
        try:
            yield assigned
        finally:
            self._call["topic_partition_list_destroy"](assigned)

    @contextmanager
    def _listed(self, ends: "dict[int, int] | dict[int, None]") -> Iterator[Any]:
        listed = self._call["topic_partition_list_new"](len(ends))
        try:
            for partition, offset in ends.items():
                added = self._call["topic_partition_list_add"](listed, self._topic, partition)
                if offset is not None:
                    added.contents.offset = offset
            yield listed
        finally:
            self._call["topic_partition_list_destroy"](listed)

    @staticmethod
    def _check(code: int) -> None:
        if code:
            raise Failed(code)


# --- From messages of the library to one block -----------------------------------------------------------------------

# Words of 8 bytes in rd_kafka_message_t, a structure of the public interface, on any machine that numba compiles for.
_ERROR, _PARTITION, _PAYLOAD, _LENGTH, _OFFSET, _WORDS = 0, 2, 3, 4, 7, 8
_HALF = 2**32 - 1  # the bits of a word that a number of 32 bits takes
_NEWLINE = 10


@dataclass(frozen=True)
class KafkaBatch:
    """The payloads of the messages that have one, and where they stood; the others are errors and deletions."""

    payloads: Block
    partitions: NDArray[np.int64]
    offsets: NDArray[np.int64]
    errors: list[int]


def gathered(pointers: NDArray[np.uint64], destroy: int) -> KafkaBatch:
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
    return KafkaBatch(
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
