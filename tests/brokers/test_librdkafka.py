"""Messages of librdkafka in one block: every payload once, where it stood, and none of them left behind."""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from panprivacy.brokers import librdkafka
from panprivacy.brokers.kafka import Kafka
from panprivacy.brokers.librdkafka import KafkaBatch, gathered, name_of
from panprivacy.testing import refused


class _Message(ctypes.Structure):
    """rd_kafka_message_t, as the header of librdkafka has it."""

    _fields_ = [
        ("err", ctypes.c_int),
        ("topic", ctypes.c_void_p),
        ("partition", ctypes.c_int32),
        ("payload", ctypes.c_char_p),
        ("length", ctypes.c_size_t),
        ("key", ctypes.c_void_p),
        ("key_length", ctypes.c_size_t),
        ("offset", ctypes.c_int64),
        ("private", ctypes.c_void_p),
    ]


MESSAGES = [
    _Message(partition=0, payload=b'{"user": 1}', length=11, offset=7),
    _Message(err=-195, partition=0),
    _Message(partition=1, payload=None, length=0, offset=2**40),
    _Message(partition=1, payload=b"two\nlines", length=9, offset=2**40 + 1),
    _Message(err=82, partition=-1, payload=b"an error has words, too", length=23),
    _Message(partition=0, payload=b"", length=0, offset=8),
    _Message(partition=0, payload=b"\x00\xff", length=2, offset=9),
]
"""Two errors, one deletion, and one that is empty."""


def _gathered(messages: Sequence[_Message]) -> tuple[KafkaBatch, list[int]]:
    """What is gathered, and which messages were destroyed."""
    destroyed: list[int] = []
    destroy: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(destroyed.append)
    places = [ctypes.addressof(message) for message in messages]
    found = gathered(np.array(places, dtype=np.uint64), ctypes.cast(destroy, ctypes.c_void_p).value or 0)
    return found, [places.index(place) for place in destroyed]


def test_payloads_are_in_order_and_know_where_they_stood() -> None:
    found, _ = _gathered(MESSAGES)
    assert list(found.payloads) == [b'{"user": 1}', b"two\nlines", b"\x00\xff"]
    places = list(zip(found.partitions.tolist(), found.offsets.tolist(), strict=True))
    assert places == [(0, 7), (1, 2**40 + 1), (0, 9)]


def test_errors_are_told_apart_from_deletions() -> None:
    found, _ = _gathered(MESSAGES)
    assert [name_of(code) for code in found.errors] == ["_TRANSPORT", "FENCED_INSTANCE_ID"]


def test_each_message_is_destroyed_once_whatever_it_is() -> None:
    assert _gathered(MESSAGES)[1] == list(range(len(MESSAGES)))
    assert _gathered([])[1] == []


def test_messages_are_destroyed_also_if_there_is_no_memory_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise MemoryError

    destroyed: list[int] = []
    monkeypatch.setattr(librdkafka, "_copy", full)
    monkeypatch.setattr(librdkafka, "_destroy", lambda pointers, _: destroyed.extend(pointers.tolist()))
    with pytest.raises(MemoryError):
        _gathered(MESSAGES)
    assert destroyed == [ctypes.addressof(message) for message in MESSAGES]


def test_random_messages_come_out_as_they_went_in() -> None:
    draw = np.random.default_rng(5)
    payloads = [draw.bytes(int(size)) for size in draw.integers(1, 400, 500)]
    found, _ = _gathered([_Message(payload=each, length=len(each), offset=i) for i, each in enumerate(payloads)])
    assert list(found.payloads) == payloads
    assert list(found.payloads.part(100, 300)) == payloads[100:300]


@pytest.mark.parametrize("options", [{"no.such.option": "secret"}, {"fetch.wait.max.ms": "secret"}])
def test_an_option_that_librdkafka_does_not_take_is_named_and_its_value_is_not(options: dict[str, Any]) -> None:
    broker = Kafka("localhost:1", "visits", "flu", options)
    with refused("broker-hopeless", next(iter(options))) as raised:
        broker.fetch(1, 0.01)
    assert "secret" not in str(raised)
    broker.close()


def test_options_that_only_fail_together_are_refused_without_a_crash() -> None:
    broker = Kafka("localhost:1", "visits", "flu", {"session.timeout.ms": 6000, "max.poll.interval.ms": 100})
    with refused("broker-hopeless", "together"):
        broker.fetch(1, 0.01)
    broker.close()
