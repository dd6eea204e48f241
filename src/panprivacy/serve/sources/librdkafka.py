"""librdkafka, the C library that confluent-kafka brings along: those of its public functions that a reader needs.

confluent-kafka makes objects of Python's for each message. In a process whose allocators overwrite what is freed,
that takes longer than all the rest, and nobody could wipe them. So batches are taken from the library as they are.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from panprivacy.errors import PanPrivacyError
from panprivacy.lazily import loaded
from panprivacy.serve.sources.messages import Hopeless

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
    "commit": (c_int, c_void_p, POINTER(_Partitions), c_int),
    "topic_partition_list_new": (POINTER(_Partitions), c_int),
    "topic_partition_list_add": (POINTER(_Partition), POINTER(_Partitions), c_char_p, c_int32),
    "topic_partition_list_destroy": (None, POINTER(_Partitions)),
    "err2name": (c_char_p, c_int),
    "consumer_close": (c_int, c_void_p),
    "destroy": (None, c_void_p),
}


class Failed(PanPrivacyError):
    """A function of the library has returned an error."""

    def __init__(self, code: int) -> None:
        super().__init__(name_of(code))


@cache
def _library() -> dict[str, Any]:
    """The functions; they are found through the module that is linked to the library, wherever that lies."""
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
    """A consumer of one topic. Calls come from one thread, which is also the one that is told of errors."""

    def __init__(self, settings: dict[str, Any], topic: str, note_error: Callable[[str], None]) -> None:
        """`note_error` is called with the name of an error while messages are waited for."""
        self._call = _library()
        self._gathered = loaded("panprivacy.serve.sources.gathering").gathered  # now: messages come from here on
        self._topic = topic.encode()
        self._on_error = _ON_ERROR(lambda _client, code, _reason, _opaque: note_error(name_of(code)))  # kept alive
        self._destroy = ctypes.cast(self._call["message_destroy"], c_void_p).value
        self._pointers = np.empty(0, np.uint64)
        self._client = self._made(settings)
        self._call["poll_set_consumer"](self._client)
        self._queue = self._call["queue_get_consumer"](self._client)
        with self._listed({_ANY: None}) as wanted:
            self._check(self._call["subscribe"](self._client, wanted))

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

    def fetch(self, most: int, seconds: float) -> Any:
        """What came in this time, or fewer seconds if that is `most`: `gathering.Gathered`."""
        if len(self._pointers) < most:
            self._pointers = np.empty(most, np.uint64)
        place = self._pointers.ctypes.data
        found = self._call["consume_batch_queue"](self._queue, int(seconds * 1000), place, most)
        return self._gathered(self._pointers[: max(found, 0)], self._destroy)

    def ends(self) -> Ends:
        """How far each partition was fetched, of those that were."""
        assigned = POINTER(_Partitions)()
        self._check(self._call["assignment"](self._client, byref(assigned)))
        try:
            self._check(self._call["position"](self._client, assigned))
            each = (assigned.contents.elements[i] for i in range(assigned.contents.count))
            return {part.partition: part.offset for part in each if part.offset >= 0}
        finally:
            self._call["topic_partition_list_destroy"](assigned)

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
