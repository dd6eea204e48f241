"""Batches of ids as people have them."""

import array
import traceback
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import panprivacy as pp
from feeding import refused, touched
from panprivacy import testing
from panprivacy.errors import PanPrivacyError
from panprivacy.memory.scratch import Scratch
from panprivacy.memory.threads import CHUNK
from panprivacy.testing import set_coins, table_of
from panprivacy.universe import columns
from panprivacy.universe.range import Range
from sources import Always

INTEGERS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4", ">u8", ">i2"]

# --- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", INTEGERS)
def test_every_integer_type_is_read_right(dtype: str) -> None:
    ids = np.array([0, 3, 100, 127], dtype=dtype)
    assert touched(1000, lambda est: est.update_many(ids)) == [0, 3, 100, 127]


@pytest.mark.parametrize("dtype", [d for d in INTEGERS if "i" in d])
@pytest.mark.parametrize("size", [10, 200, 70_000, 2**33])
def test_a_negative_number_of_any_width_is_outside_every_universe(dtype: str, size: int) -> None:
    """Read as unsigned, -1 of 8, 16 or 32 bits would be a user of a large universe."""
    ids = np.array([5, -1, 7, -2], dtype=dtype)
    with testing.refused("outside-universe", "-1", "-2"):
        Range(size).indices(ids, Scratch())


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"sample": 50}, {"shard": (1, 2)}], ids=str)
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("length", [3, CHUNK], ids=["looked up first", "bits put back"])
def test_whatever_finds_it_a_number_outside_is_refused_and_nothing_changes(
    options: dict[str, Any], dtype: str, length: int
) -> None:
    est = pp.Density(120, epsilon=1.0, **options)
    before = est.to_bytes()
    for bad in (-1, 120, 127):
        if bad > 0 or "i" in dtype:
            ids = np.append(np.full(length, 5), bad).astype(dtype)
            with testing.refused("outside-universe", bad):
                est.update_many(ids)
            assert est.to_bytes() == before


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (np.array([3, 2**63 + 5], dtype=np.uint64), str(2**63 + 5)),
        (np.array([3, 2**31], dtype=np.uint32), str(2**31)),
        ([3, 2**64], str(2**64)),
        ([2**63, -1], f"users {2**63}, -1 are"),
        ([-(2**70)], str(-(2**70))),
        (pl.Series([2**100], dtype=pl.Int128), str(2**100)),
        (np.array([10, 11, 12, 13, 14]), r"users 10, 11, 12 and 2 more are outside the universe 0\.\.9; nothing"),
    ],
)
def test_numbers_beyond_the_universe_are_named_and_change_nothing(ids: object, words: str) -> None:
    refused(10, ids, pp.OutsideUniverse, words)


@pytest.mark.slow
@pytest.mark.parametrize("bad_at", [0, CHUNK - 1, CHUNK, 3 * CHUNK])
@pytest.mark.parametrize("universe", [1000, 10_000_000], ids=["bits put back", "looked up first"])
def test_one_bad_id_anywhere_in_a_long_batch_leaves_every_byte_as_it_was(universe: int, bad_at: int) -> None:
    """A batch longer than the table is put back as it was; a shorter one is looked up before it is touched."""
    est = pp.Density(universe, 1.0)
    before = est.to_bytes()
    ids = np.arange(3 * CHUNK + 1) % 1000
    ids[bad_at] = -7
    for batch in (ids, ids.tolist(), pl.Series(ids), pa.chunked_array([ids[:CHUNK], ids[CHUNK:]])):
        with testing.refused("outside-universe", "user -7"):
            est.update_many(batch)
    assert est.to_bytes() == before


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([1.0, 2.0], r"ids came as floats \(float\), which merge large ids"),
        ([1, 2.0], "ids came as floats"),
        ([2**64, 1.0], "ids came as floats"),
        (np.array([1, np.nan]), r"ids came as floats \(float64\)"),
        (np.array([1e300], dtype=">f8"), "ids came as floats"),
        (np.array([1, 2], dtype=np.float32), r"ids came as floats \(float32\)"),
        (np.array([True, False]), "got bool"),
        ([True], "got bool"),
        ([5, True], "got a mixture with True or False"),
        ((5, True), "got a mixture with True or False"),
        ([5, np.True_], "got a mixture with True or False"),
        (["1"], "got text"),
        ([b"1"], "got bytes"),
        ([1, object()], "mixed objects"),
        ([1, "a"], "got text"),
        (np.array([1, 2], dtype="m8[s]"), "timedelta64"),
        (np.array([1, 2], dtype="M8[s]"), "datetime64"),
        (np.array([1, 2], dtype="m8[ns]"), "timedelta64"),
        (np.array([1, 2], dtype="M8[ns]"), "datetime64"),
        (np.array([1 + 1j]), "complex"),
        (np.zeros((2, 3), dtype=int), "one column"),
        (pl.DataFrame({"a": [1], "b": [2]}), "a DataFrame has 2 columns, and ids are one of them"),
        (np.array(3), "use update"),
        (np.int64(3), "use update"),
        (3, "use update"),
        ("12", "use update"),
        (b"12", "use update"),
        (None, "use update"),
        (pl.Series(["a"]), "got text"),
        (pl.Series([1.0]), "ids came as floats"),
        (pa.array([1.0], pa.float32()), "ids came as floats"),
        (pa.array([1.0]).dictionary_encode(), "ids came as floats"),
        (pl.Series([1], dtype=pl.Duration), "timedelta64"),
        (pa.array([True]), "bool"),
    ],
)
def test_what_is_not_a_column_of_integers_is_refused_in_words(ids: object, words: str) -> None:
    refused(10, ids, TypeError, words)


@pytest.mark.parametrize(
    "ids",
    [
        pl.Series([1, None]),
        pa.array([1, None]),
        pa.chunked_array([[1], [None]]),
        np.ma.masked_array([1, 2], [False, True]),
    ],
)
def test_missing_ids_are_refused(ids: object) -> None:
    refused(10, ids, ValueError, "1 id is missing")


@pytest.mark.parametrize("user", [True, 1.5, "1", None, np.True_, np.float32(0.5), float("nan"), float("inf"), (1,)])
def test_one_user_that_is_no_integer_is_refused(user: object) -> None:
    with pytest.raises(PanPrivacyError) as caught:
        pp.Density(10, 1.0).update(user)
    assert caught.value.code in {"float-ids", "ids-type"}


BATCHES = {
    "list": lambda ids: ids,
    "tuple": tuple,
    "set": set,
    "deque": deque,
    "keys of a dictionary": lambda ids: dict.fromkeys(ids).keys(),
    "generator": iter,
    "map": lambda ids: map(int, ids),
    "array": lambda ids: array.array("i", ids),
    "memoryview": lambda ids: memoryview(array.array("q", ids)),
    "objects": lambda ids: np.array(ids, dtype=object),
    "reversed": lambda ids: np.array(ids)[::-1],
    "read-only": lambda ids: np.frombuffer(np.array(ids).tobytes(), dtype=np.int64),
    "strided": lambda ids: np.array([ids, ids]).T[:, 0],
    "polars": pl.Series,
    "polars in chunks": lambda ids: pl.concat([pl.Series(ids[:2]), pl.Series(ids[2:])], rechunk=False),
    "polars of 128 bits": lambda ids: pl.Series(ids, dtype=pl.Int128),
    "arrow": pa.array,
    "arrow in chunks": lambda ids: pa.chunked_array([ids[:1], [], ids[1:]], type=pa.int64()),
    "arrow slice": lambda ids: pa.array([0, *ids])[1:],
}


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("name", BATCHES)
def test_any_container_of_ids_touches_the_same_bits(name: str, sampled: bool) -> None:
    ids = [5, 2, 9, 9, 998]
    options = {"sample": 900, "key": bytes(16)} if sampled else {}
    found = []
    for feed in (lambda e: e.update_many(BATCHES[name](ids)), lambda e: [e.update(user) for user in ids]):
        est = pp.Density(1000, 1.0, coins=Always(False), **options)  # type: ignore[arg-type]
        set_coins(est, Always(True))
        feed(est)
        found.append(table_of(est).words.tolist())
    assert found[0] == found[1]
    assert sum(word.bit_count() for word in found[0]) >= 3


EMPTY = [[], (), np.array([]), np.empty((0,), dtype=np.int8), pl.Series([]), pl.Series([], dtype=pl.String), iter(())]


@pytest.mark.parametrize("ids", [*EMPTY, pa.array([], type=pa.int64()), pa.chunked_array([], type=pa.string())])
def test_an_empty_batch_changes_nothing(ids: pp.Ids) -> None:
    est = pp.Density(1000, 1.0)
    before = est.to_bytes()
    est.update_many(ids)
    assert est.to_bytes() == before


def test_long_chunks_of_a_column_of_text_are_pieces_and_short_ones_are_joined() -> None:
    short, long = pl.Series(["ada"]), pl.Series(["ada"]).new_from_index(0, columns._SHORT)
    for parts, lengths in (([long, long], [len(long)] * 2), ([short] * 3, [3]), ([long, short], [len(long) + 1])):
        pieces = columns.pieces_of(pl.concat(parts, rechunk=False))
        assert pieces is not None
        assert [len(piece) for piece in pieces] == lengths
        assert all(piece.n_chunks() == 1 for piece in pieces)  # type: ignore[attr-defined]


@pytest.mark.slow
def test_an_iterator_is_taken_in_batches_and_keeps_those_before_the_bad_one() -> None:
    """An iterator cannot be walked twice: what came before the batch with the bad id has been taken."""
    long = columns.ITERATOR_BATCH

    def stream() -> Iterator[int]:
        yield from (i % 500 for i in range(long))
        yield from (500, 501, -1)

    def feed(est: pp.Density) -> None:
        with pytest.raises(pp.OutsideUniverse):
            est.update_many(stream())

    assert touched(1000, feed) == list(range(500))


# --- universes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("universe", "code"),
    [
        (0, "universe-size"),
        (-5, "universe-size"),
        (2**44 + 1, "universe-size"),
        (10.0, "universe-type"),
        ("10", "universe-type"),
        ([1], "universe-type"),
    ],
)
def test_what_is_no_universe_is_refused(universe: object, code: str) -> None:
    with testing.refused(code):
        pp.Density(universe, 1.0)  # type: ignore[arg-type]


def test_a_universe_may_be_any_integer() -> None:
    assert pp.Density(np.int32(50), 1.0).users == 50  # type: ignore[arg-type]
    assert pp.Density(1, 1.0).users == 1


def test_an_exception_that_is_kept_keeps_no_batch() -> None:
    """The frames of its traceback would hold the ids of a batch that came from an iterator."""
    est = pp.Density(1000, 1.0)
    with pytest.raises(pp.OutsideUniverse) as caught:
        est.update_many(iter([*range(500), 1000]))
    frames = [frame for frame, _ in traceback.walk_tb(caught.tb)]
    kept = [value for frame in frames for value in frame.f_locals.values() if isinstance(value, list)]
    assert not any(isinstance(item, list) or 499 in kept_list for kept_list in kept for item in kept_list)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
