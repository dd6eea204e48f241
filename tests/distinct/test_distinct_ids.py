"""Any id, however it comes, has one hash; and the hashes are as good as random."""

from collections.abc import Callable
from itertools import pairwise
from math import sqrt
from typing import Any
from uuid import UUID

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from crowds import KEY, seeded
from numpy.typing import NDArray
from scipy import stats

import panprivacy as pp
from checks import ALARM, assert_variance
from panprivacy.memory.scratch import Scratch
from panprivacy.slots.users import Hashed
from panprivacy.testing import SeededCoins, refused
from panprivacy.universe.columns import batches, chunks
from panprivacy.universe.open import OpenUniverse

NUMBERS = [0, 1, 5, 117, 2**31 - 1, 2**62]
TEXTS = ["", "5", "ada", "grace", "é" * 40, "x" * 300]
UUIDS = [UUID(int=i * 2**120 + i) for i in range(6)]


def hashes(ids: Any, key: bytes = KEY) -> list[int]:
    """The hashes of a batch, as an estimator would make them."""
    anyone, found = OpenUniverse(key), []
    for pieces in batches(anyone.as_column(ids)):
        for chunk in chunks(pieces):
            found += anyone.indices(chunk, Scratch()).tolist()
    return found


def one_by_one(ids: Any) -> list[int]:
    """The hashes of single users."""
    return [OpenUniverse(KEY).index(user) for user in ids]


@pytest.mark.parametrize(
    "ways",
    [
        list,
        tuple,
        iter,
        np.array,
        lambda ids: np.array(ids, dtype=object),
        lambda ids: np.repeat(ids, 3)[::3],
        pl.Series,
        lambda ids: pl.concat([pl.Series(ids[:2]), pl.Series(ids[2:])], rechunk=False),
        pa.array,
        lambda ids: pa.chunked_array([ids[:3], ids[3:]]),
        lambda ids: pa.array(ids).dictionary_encode(),
    ],
)
@pytest.mark.parametrize("ids", [NUMBERS, TEXTS])
def test_an_id_has_the_same_hash_however_it_comes(ids: list[Any], ways: Callable[[list[Any]], Any]) -> None:
    assert hashes(ways(ids)) == one_by_one(ids)


def test_integers_of_128_bits_are_integers() -> None:
    assert hashes(pl.Series([1, 2], dtype=pl.Int128)) == one_by_one([1, 2])


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4", ">u8"])
def test_integers_of_all_types_are_alike(dtype: str) -> None:
    assert hashes(np.array([0, 1, 5, 117], dtype=dtype)) == one_by_one([0, 1, 5, 117])
    assert one_by_one(np.array([0, 1, 5, 117], dtype=dtype)) == one_by_one([0, 1, 5, 117])


@pytest.mark.parametrize(
    "ways", [list, lambda ids: np.array(ids, dtype="i2"), lambda ids: pl.Series(ids, dtype=pl.Int32)]
)
def test_a_negative_integer_is_its_twos_complement(ways: Callable[[list[int]], Any]) -> None:
    assert hashes(ways([-1, -300])) == one_by_one([2**64 - 1, 2**64 - 300])


def test_integers_across_the_whole_64_bits_can_be_mixed() -> None:
    assert hashes([2**64 - 1, -(2**63), 7]) == one_by_one([-1, 2**63, 7])
    assert hashes(np.array([2**64 - 1, 7], dtype=np.uint64)) == one_by_one([-1, 7])


@pytest.mark.parametrize(
    "ways",
    [
        lambda ids: [text.encode() for text in ids],
        lambda ids: pl.Series([text.encode() for text in ids]),
        lambda ids: pa.array([text.encode() for text in ids]),
        lambda ids: pl.Series(ids, dtype=pl.Categorical),
        lambda ids: pl.Series(ids, dtype=pl.Enum(ids)),
        lambda ids: np.array(ids, dtype=np.dtypes.StringDType()),
        lambda ids: np.array([text.encode() for text in ids]),
    ],
)
def test_text_is_its_bytes_in_utf_8(ways: Callable[[list[str]], Any]) -> None:
    assert hashes(ways(TEXTS)) == one_by_one(TEXTS)


@pytest.mark.parametrize("ways", [list, lambda ids: np.array(ids, dtype=object), lambda ids: [str(u) for u in ids]])
def test_a_uuid_is_its_canonical_text(ways: Callable[[list[UUID]], Any]) -> None:
    assert hashes(ways(UUIDS)) == one_by_one([str(u) for u in UUIDS]) == one_by_one(UUIDS)


def test_a_column_of_uuids_is_their_text_too() -> None:
    column = pa.array([u.bytes for u in UUIDS], pa.binary(16)).cast(pa.uuid())
    assert hashes(column) == one_by_one(UUIDS)


def test_a_number_and_its_digits_are_two_users() -> None:
    assert one_by_one([5]) != one_by_one(["5"])


def test_ids_of_several_kinds_may_come_in_one_list() -> None:
    mixed = [5, "5", b"ada", UUIDS[1], np.int8(5)]
    assert hashes(mixed) == one_by_one([5, "5", "ada", str(UUIDS[1]), 5])


@pytest.mark.parametrize("ids", [[True], [None], ["ada", None], [(1, 2)]])
def test_what_is_no_id_is_refused_and_changes_nothing(ids: Any) -> None:
    est = seeded(1)
    before = est.to_bytes(insecure=True)
    with refused("ids-type"):
        est.update_many(ids)
    with refused("ids-type"):
        est.update(ids[-1])
    assert est.to_bytes(insecure=True) == before


@pytest.mark.parametrize("user", [2**64, -(2**63) - 1, UUIDS[5].int])
def test_an_integer_beyond_64_bits_is_refused_by_name(user: int) -> None:
    with refused("outside-universe", user):
        seeded(1).update(user)
    with refused("outside-universe", user):
        seeded(1).update_many([1, user])


def test_missing_ids_and_tables_are_refused() -> None:
    with refused("missing-ids"):
        seeded(1).update_many(pl.Series(["ada", None]))
    with refused("ids-shape"):
        seeded(1).update_many(np.zeros((3, 2), dtype=np.int64))


def test_another_key_is_another_hash() -> None:
    for ids in (NUMBERS, TEXTS):
        assert not set(hashes(ids)) & set(hashes(ids, bytes(16)))


def test_the_key_is_not_shown() -> None:
    assert repr(KEY) not in repr(OpenUniverse(KEY))


@pytest.mark.parametrize(("levels", "buckets"), [(1, 2), (2, 2), (29, 4096), (32, 1000), (17, 2**24)])
def test_single_and_many_hashes_find_the_same_cells(levels: int, buckets: int) -> None:
    slots = Hashed(levels, buckets)
    some = np.random.default_rng(1).integers(0, 2**64, 5000, dtype=np.uint64)
    some = np.concatenate([some, some << np.uint64(30), np.array([0, 2**64 - 1, 2**31, 2**32], dtype=np.uint64)])
    cells = slots.select(some, Scratch())
    assert cells.tolist() == [slots.slot(h) for h in some.tolist()]
    assert cells.max() < slots.size


# --- quality ----------------------------------------------------------------------------------------------------

PATTERNS: dict[str, NDArray[np.uint64]] = {
    "in a row": np.arange(100_000, dtype=np.uint64),
    "even": np.arange(100_000, dtype=np.uint64) * np.uint64(2),
    "multiples of 2^32": np.arange(100_000, dtype=np.uint64) << np.uint64(32),
    "high bits only": np.arange(2**16, dtype=np.uint64) << np.uint64(48),
    "two digits apart": (np.arange(100_000, dtype=np.uint64) % np.uint64(316)) * np.uint64(10**15)
    + np.arange(100_000, dtype=np.uint64) // np.uint64(316),
    "timestamps": np.uint64(1_700_000_000_000_000_000) + np.arange(100_000, dtype=np.uint64) * np.uint64(10**9),
}


def cell_chance(hashed: NDArray[Any]) -> float:
    """Probability of cells as uneven as these, by a chi-square test."""
    slots = Hashed(6, 50)
    shares = np.ldexp(1.0, -np.minimum(np.arange(1, 7), 5)) / 50
    seen = np.bincount(slots.select(hashed, Scratch()).astype(np.int64), minlength=slots.size)
    return float(stats.chisquare(seen, len(hashed) * np.repeat(shares, 50)).pvalue)


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_of_numbers_spread_evenly_over_the_cells(name: str) -> None:
    for key in range(10):
        anyone = OpenUniverse(key.to_bytes(16, "little"))
        assert cell_chance(anyone.indices(PATTERNS[name], Scratch())) > ALARM / 10


def test_numbered_texts_spread_evenly_over_the_cells() -> None:
    texts = pl.Series([f"user-{i}" for i in range(100_000)])
    for key in range(5):
        assert cell_chance(OpenUniverse(key.to_bytes(16, "little")).indices(texts, Scratch())) > ALARM / 10


def test_the_papers_linear_hash_would_not_pass() -> None:
    assert cell_chance(PATTERNS["even"] * np.uint64(0x9E3779B97F4A7C15)) < ALARM


def avalanche(ids: NDArray[np.uint64], hash_of: Callable[[NDArray[np.uint64]], NDArray[Any]]) -> float:
    """The largest deviation from 1/2 of how often a bit of the hash flips with a bit of the id, in standard errors."""
    plain = hash_of(ids)
    worst = 0.0
    for bit in range(64):
        changed = plain ^ hash_of(ids ^ np.uint64(1 << bit))
        flips = np.unpackbits(changed.view(np.uint8).reshape(-1, 8), axis=1).sum(axis=0)
        worst = max(worst, float(np.abs(flips - len(ids) / 2).max()) / sqrt(len(ids) / 4))
    return worst


@pytest.mark.slow
def test_every_bit_of_an_id_moves_every_bit_of_its_hash() -> None:
    # 4,096 pairs of bits, each within 6.5 standard errors but once in 1.2e10: a false alarm in 3 million.
    ids = np.random.default_rng(3).integers(0, 2**64, 30_000, dtype=np.uint64)

    def hash_of(some: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return OpenUniverse(KEY).indices(some, Scratch())

    assert avalanche(ids, hash_of) < 6.5
    assert avalanche(np.arange(30_000, dtype=np.uint64), hash_of) < 6.5


@pytest.mark.slow
def test_one_round_alone_would_leave_bits_unmoved() -> None:
    ids = np.random.default_rng(3).integers(0, 2**64, 30_000, dtype=np.uint64)
    assert avalanche(ids, lambda x: x * np.uint64(0x3C79AC492BA7B653)) > 100


@pytest.mark.slow
def test_real_ids_are_counted_as_the_model_says() -> None:
    """With hardly any noise in the way (epsilon 20), errors of real ids under many keys are the model's."""
    quotients = []
    for key in range(60):
        est = pp.DistinctCount(20.0, 1024, key=key.to_bytes(16, "little"), coins=SeededCoins(key))
        ids = list(PATTERNS.values())[key % len(PATTERNS)]
        est.update_many(ids)
        est.update_many(ids[::3])  # seen again: nothing changes
        quotients.append((est.release().raw_count - len(ids)) / est.count_stderr_at(len(ids)))
    assert_variance(quotients, 1.0)
    assert all(first != second for first, second in pairwise(quotients))
