"""Packed sets of slots: gathered without a store, checked before anything is marked, united, and redrawn once."""

import hashlib
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import panprivacy as pp
from panprivacy.folder.batches import Combiner
from panprivacy.testing import CertainCoins, refused, table_of

SIZE, KEY = 1000, bytes(range(16))
MAKE: dict[str, Callable[[], Any]] = {
    "density": lambda: pp.Density(universe=SIZE, epsilon=1.0, coins=CertainCoins()),
    "counts": lambda: pp.Counts(universe=SIZE, epsilon=1.0, up_to=8, coins=CertainCoins()),
    "distinct": lambda: pp.DistinctCount(epsilon=1.0, buckets=256, key=KEY, coins=CertainCoins()),
    "users": lambda: pp.Density(universe=pp.Users([f"u{i}" for i in range(70)]), epsilon=1.0, coins=CertainCoins()),
    "categories": lambda: pp.Density(universe=SIZE, epsilon=1.0, categories=["a", "b"], key=KEY, coins=CertainCoins()),
}


def ids_of(kind: str, numbers: list[int]) -> list[Any]:
    return [f"u{number % 70}" for number in numbers] if kind == "users" else numbers


def bits_of(est: Any) -> bytes:
    return bytes(table_of(est).words.tobytes())


def packed_of(est: Any, *batches: list[Any], parts: int = 1, category: Any = None) -> list[bytes]:
    with pp.gather(est.layout(), est.universe, parts=parts) as gathered:
        for ids in batches:
            gathered.add(ids, category)
        return [gathered.packed(number).tobytes() for number in range(gathered.parts)]


def take(est: Any, *bodies: bytes, remove: bool = False) -> None:
    combiner = Combiner()
    for body in bodies:
        combiner.take(np.frombuffer(body, dtype=np.uint8), est, remove=remove)
    combiner.redraw(est)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKE)
@settings(max_examples=20)
@given(
    batches=st.lists(st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=400), min_size=1, max_size=3),
    parts=st.integers(1, 5),
)
def test_what_is_gathered_and_combined_is_as_good_as_fed(kind: str, batches: list[list[int]], parts: int) -> None:
    est, fed, category = MAKE[kind](), MAKE[kind](), "a" if kind == "categories" else None
    assert est.layout() == fed.layout()
    bodies = []
    for batch in batches:
        ids = ids_of(kind, batch)
        fed.update_many(ids, category)
        bodies += packed_of(est, ids, parts=parts, category=category)
    take(est, *bodies)
    assert bits_of(est) == bits_of(fed)


def test_the_format_is_the_documented_one() -> None:
    """docs/reference/formats.md has these bytes; a change of them is a new version."""
    est = MAKE["density"]()
    (body,) = packed_of(est, [900, 3, 17, 3])
    head = struct.unpack("<8sHBBI16sQQQ", body[:56])
    assert head == (b"PPslots\0", 1, 0, 0, 0, hashlib.sha256(est.layout()).digest()[:16], 0, SIZE, 12)
    assert body[56:64] == hashlib.sha256(body[:56] + body[64:]).digest()[:8]
    assert struct.unpack("<3I", body[64:]) == (3, 17, 900)
    (many,) = packed_of(est, list(range(0, SIZE, 2)))
    assert many[10] == 1
    assert many[64:] == bytes([0b01010101] * 125) + bytes(3)
    counts = MAKE["counts"]()
    (body,) = packed_of(counts, [900, 3, 3])
    assert (body[10], body[11]) == (0, 2)
    assert struct.unpack("<IHIH", body[64:]) == (3, 2, 900, 1)


def sealed(body: bytes, **fields: Any) -> bytes:
    """A body with other fields, and the right checksum of them."""
    names = ("magic", "version", "form", "times", "zero", "layout", "first", "slots", "length")
    head = dict(zip(names, struct.unpack("<8sHBBI16sQQQ", body[:56]), strict=True))
    marked: bytes = fields.pop("marked", body[64:])
    start = struct.pack("<8sHBBI16sQQQ", *(head | {"length": len(marked)} | fields).values())
    return start + hashlib.sha256(start + marked).digest()[:8] + marked


@pytest.mark.parametrize(
    ("altered", "code"),
    [
        (lambda body: b"", "slots-altered"),  # noqa: ARG005
        (lambda body: body[:63], "slots-altered"),
        (lambda body: body[:-1], "slots-altered"),
        (lambda body: body + b"\0", "slots-altered"),
        (lambda body: body[:70] + bytes([body[70] ^ 1]) + body[71:], "slots-altered"),
        (lambda body: sealed(body, magic=b"PPslot2\0"), "slots-altered"),
        (lambda body: sealed(body, zero=1), "slots-altered"),
        (lambda body: sealed(body, version=2), "slots-version"),
        (lambda body: sealed(body, layout=bytes(16)), "other-layout"),
        (lambda body: sealed(body, times=2), "not-marks"),
        (lambda body: sealed(body, form=2), "not-marks"),
        (lambda body: sealed(body, first=1), "not-marks"),
        (lambda body: sealed(body, first=2**64 - 1), "not-marks"),
        (lambda body: sealed(body, slots=SIZE + 1), "not-marks"),
        (lambda body: sealed(body, slots=900), "not-marks"),
        (lambda body: sealed(body, marked=struct.pack("<2I", 5, SIZE)), "not-marks"),
        (lambda body: sealed(body, marked=struct.pack("<2I", 17, 3)), "not-marks"),
        (lambda body: sealed(body, marked=struct.pack("<2I", 3, 3)), "not-marks"),
        (lambda body: sealed(body, marked=b"abc"), "not-marks"),
        (lambda body: sealed(body, form=1), "not-marks"),
        (lambda body: sealed(body, form=1, marked=bytes(125) + b"\1\0\0"), "not-marks"),
    ],
)
def test_a_body_that_is_wrong_is_refused_and_marks_nothing(altered: Callable[[bytes], bytes], code: str) -> None:
    est = MAKE["density"]()
    before, (body,) = bits_of(est), packed_of(est, [900, 3, 17])
    combiner = Combiner()
    with refused(code):
        combiner.take(np.frombuffer(altered(body), dtype=np.uint8), est)
    combiner.redraw(est)
    assert bits_of(est) == before
    take(est, body)
    assert bits_of(est) != before


def test_deletions_follow_the_insertions_that_came_before() -> None:
    est = MAKE["density"]()
    absent = bits_of(est)
    (body,) = packed_of(est, [1, 2, 3])
    combiner = Combiner()
    for remove in (False, True):
        combiner.take(np.frombuffer(body, dtype=np.uint8), est, remove=remove)
    combiner.redraw(est)
    assert bits_of(est) == absent


def test_a_layout_tells_nothing_of_releases_and_stays_the_same() -> None:
    est = pp.Density(universe=SIZE, epsilon=1.0, releases=2)
    before = est.layout()
    est.update_many(range(300))
    est.release()
    assert est.layout() == before
    assert len(before) < 300
    est.grow(2 * SIZE)
    assert est.layout() != before


def test_what_was_gathered_is_wiped_with_the_block() -> None:
    est = MAKE["density"]()
    with pp.gather(est.layout()) as gathered:
        gathered.add([1, 2, 3])
        packed, words = gathered.packed(), table_of(gathered.marks).words
        assert packed.any()
        assert words.any()
    assert not packed.any()
    assert not words.any()
    with refused("batch-over"):
        gathered.add([1])


@pytest.mark.parametrize("parts", [0, -1, SIZE + 1])
def test_impossible_numbers_of_parts_are_refused(parts: int) -> None:
    with refused("shards-range"), pp.gather(MAKE["density"]().layout(), parts=parts):
        pass


def test_estimators_with_periods_of_their_own_are_not_gathered_for() -> None:
    est = pp.Retention(universe=SIZE, epsilon=1.0)
    with refused("unknown-kind"), pp.gather(est.layout()):
        pass
    with refused("not-in-folder"):
        take(est, b"")


@pytest.mark.parametrize("kind", MAKE)
def test_sets_one_behind_the_other_are_taken_together(kind: str) -> None:
    est, fed, category = MAKE[kind](), MAKE[kind](), "a" if kind == "categories" else None
    batches = [ids_of(kind, [3, 17, 60]), ids_of(kind, []), ids_of(kind, [*range(0, 64, 2)] * 2)]
    for batch in batches:
        fed.update_many(batch, category)
    take(est, b"".join(packed_of(est, batch, category=category)[0] for batch in batches))
    assert bits_of(est) == bits_of(fed)


@pytest.mark.parametrize("kind", ["density", "counts"])
@pytest.mark.parametrize("wrong", ["cut", "altered", "layout", "not rising", "tail", "length", "many"])
def test_of_several_sets_none_is_taken_if_one_is_wrong(kind: str, wrong: str) -> None:
    est, other = MAKE[kind](), MAKE["users"]()
    (first,), (second,) = packed_of(est, [3, 17]), packed_of(est, [20, 21, 900])
    before, combiner = bits_of(est), Combiner()
    body = {
        "cut": first + second[:-1],
        "altered": first + second[:-1] + b"\xff",
        "layout": first + packed_of(other, ["u3"])[0],
        "not rising": first + sealed(second, marked=bytes(8)[: 6 if kind == "counts" else 4] * 2),  # slots do not rise
        "tail": first + second + b"\0",
        "length": first + sealed(second, length=2**64 - 1),
        "many": first * 1001,
    }[wrong]
    with pytest.raises(pp.CorruptState):
        combiner.take(np.frombuffer(body, dtype=np.uint8), est)
    assert not combiner.waits
    combiner.take(np.frombuffer(packed_of(est, [500])[0], dtype=np.uint8), est)
    combiner.redraw(est)
    fed = MAKE[kind]()
    fed.update_many([500])
    assert bits_of(est) == bits_of(fed) != before
