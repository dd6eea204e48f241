"""Who is in a sample: the keyed permutation behind `UserSample`."""

from collections.abc import Callable
from hashlib import blake2b

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from checks import assert_binomial, assert_variance
from panprivacy.checks import KEY_BYTES
from panprivacy.memory.scratch import Scratch
from panprivacy.slots import kernels, users
from panprivacy.slots.users import AllUsers, UserSample, network
from panprivacy.universe import LARGEST_UNIVERSE

Ids = NDArray[np.uint64]


def key_of(number: int) -> bytes:
    """One of many unrelated keys."""
    return blake2b(number.to_bytes(4, "little"), digest_size=KEY_BYTES).digest()


def domain_of(universe: int) -> int:
    """How many slots a universe's permutation has."""
    shift, blocks = network(universe, bytes(KEY_BYTES))[:2].tolist()
    return int(blocks) << int(shift)


def permuted(ids: Ids, universe: int, key: bytes) -> Ids:
    """The place of every id, none left out."""
    return permuted_by(network(universe, key), ids)


def permuted_by(keyed: NDArray[np.uint32], ids: Ids) -> Ids:
    everywhere = 2**60
    slots, found = located(ids, keyed, everywhere, everywhere)
    assert found == len(ids)
    return slots[:-1]


def located(ids: Ids, keyed: NDArray[np.uint32], universe: int, size: int) -> tuple[Ids, int]:
    """Where the kernel puts those ids that fall below a size, and how many there are."""
    slots = np.empty(len(ids) + 1, dtype=np.uint64)
    window = np.empty(3 * kernels.WINDOW, dtype=np.uint32)
    return slots, int(kernels.locate(ids, keyed, universe, 0, size, slots, window))


# --- it is a permutation --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "universe", [*range(1, 40), 63, 64, 65, 127, 128, 129, 1000, 4095, 4096, 4097, 100_000, 262_145]
)
def test_every_slot_is_the_place_of_one_index(universe: int) -> None:
    domain = domain_of(universe)
    for number in range(3):
        places_taken = permuted(np.arange(domain, dtype=np.uint64), universe, key_of(number))
        assert np.array_equal(np.sort(places_taken), np.arange(domain, dtype=np.uint64))


@pytest.mark.parametrize("universe", [10**6, 10**7, 10**9, 2**40 + 1, LARGEST_UNIVERSE])
def test_large_universes_waste_under_a_tenth_of_a_percent_and_collide_nowhere(universe: int) -> None:
    assert universe <= domain_of(universe) <= 1.001 * universe
    ids = np.concatenate([np.arange(100_000), np.arange(universe - 100_000, universe)]).astype(np.uint64)
    taken = permuted(ids, universe, key_of(0))
    assert len(np.unique(taken)) == len(ids)
    assert taken.max() < domain_of(universe)


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
@pytest.mark.parametrize(("universe", "first", "size"), [(5000, 0, 700), (5000, 700, 900), (2**33, 2**20, 2**31)])
def test_one_index_has_the_slot_that_it_has_among_many(
    universe: int, first: int, size: int, dtype: type[np.unsignedinteger]
) -> None:
    slots = UserSample(universe, first, size, key_of(1))
    ids = np.arange(5000, dtype=dtype)
    alone = [slots.slot(int(index)) for index in ids]
    assert slots.select(ids, Scratch()).tolist() == [slot for slot in alone if slot >= 0]
    assert all(-1 <= slot < size for slot in alone)


@pytest.mark.parametrize(("universe", "size"), [(3, 1), (10, 9), (37, 20), (1000, 999), (5000, 1), (100_000, 777)])
def test_the_users_in_a_sample_are_counted_right(universe: int, size: int) -> None:
    for number in range(5):
        slots = UserSample(universe, 0, size, key_of(number))
        assert slots.users == len(slots.select(np.arange(universe, dtype=np.uint64), Scratch()))
        assert slots.users <= size
        assert slots.population == universe


def test_shards_of_a_sample_part_its_users_among_them() -> None:
    whole = UserSample(10_000, 0, 3_000, key_of(2))
    parts = [UserSample(10_000, first, 1_000, key_of(2)) for first in (0, 1_000, 2_000)]
    everyone = np.arange(10_000, dtype=np.uint64)
    joined = [slot + part.first for part in parts for slot in part.select(everyone, Scratch()).tolist()]
    assert sorted(joined) == sorted(whole.select(everyone, Scratch()).tolist())
    assert sum(part.users for part in parts) == whole.users


def test_every_user_has_a_slot_and_a_shard_has_those_of_its_block() -> None:
    everyone = np.arange(100, dtype=np.uint64)
    assert AllUsers(100, 0, 100).select(everyone, Scratch()) is everyone
    shard = AllUsers(100, 30, 20)
    assert shard.select(everyone, Scratch()).tolist() == list(range(20))
    assert [shard.slot(index) for index in (29, 30, 49, 50)] == [-1, 0, 19, -1]


# --- it samples like one drawn at random ----------------------------------------------------------------------------

Sampler = Callable[[Ids, int, int, bytes], int]
"""How many of some ids a sample of a universe holds under a key."""

# Four rounds show their weakness where about half of the universe is sampled.
UNIVERSE, SAMPLE = 100_000, 50_000
KEYS = 2_500


def structured_sets() -> dict[str, Ids]:
    """Sets that a weak permutation keeps together."""
    shift = int(network(UNIVERSE, bytes(KEY_BYTES))[0])
    numbers = {
        "first block": np.arange(20_000),
        "middle block": np.arange(33_333, 53_333),
        "even numbers": np.arange(0, 40_000, 2),
        "multiples of 5": np.arange(0, UNIVERSE, 5),
        "one right half": np.arange(0, UNIVERSE, 2**shift),
        "two right halves": np.arange(0, UNIVERSE, 2 ** (shift - 1)),
    }
    return {name: ids.astype(np.uint64) for name, ids in numbers.items()}


def by_permutation(ids: Ids, universe: int, size: int, key: bytes) -> int:
    return located(ids, network(universe, key), universe, size)[1]


def by_linear_hash(ids: Ids, universe: int, size: int, key: bytes) -> int:
    """The paper's kind of hash: ``a*x + b`` modulo the number of slots."""
    a, b = np.frombuffer(key, dtype="<u8") >> np.uint64(40)
    return int(np.count_nonzero((ids * (a | np.uint64(1)) + b) % np.uint64(domain_of(universe)) < size))


def assert_samples_like_chance(sampler: Sampler, ids: Ids) -> None:
    """Assert that the number of sampled ids has mean, variance and middle half of its law, at 1e-6 each."""
    law = stats.hypergeom(domain_of(UNIVERSE), len(ids), SAMPLE)
    found = np.array([sampler(ids, UNIVERSE, SAMPLE, key_of(number)) for number in range(KEYS)])
    assert abs(found.mean() - law.mean()) < 4.9 * law.std() / np.sqrt(KEYS)
    assert_variance(found - law.mean(), law.var())
    low, high = law.interval(0.5)
    inside = int(np.count_nonzero((low <= found) & (found <= high)))
    assert_binomial(inside, KEYS, law.cdf(high) - law.cdf(low - 1))


@pytest.mark.slow
@pytest.mark.parametrize("name", structured_sets())
def test_as_many_of_a_structured_set_are_sampled_as_by_chance(name: str) -> None:
    assert_samples_like_chance(by_permutation, structured_sets()[name])


@pytest.mark.slow
def test_four_rounds_are_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "ROUNDS", 4)
    with pytest.raises(AssertionError, match="variance"):
        assert_samples_like_chance(by_permutation, structured_sets()["middle block"])


@pytest.mark.slow
@pytest.mark.parametrize("name", structured_sets())
def test_a_linear_hash_is_caught(name: str) -> None:
    with pytest.raises(AssertionError):
        assert_samples_like_chance(by_linear_hash, structured_sets()[name])


def variance_in_half(universe: int, rounds: int) -> tuple[NDArray[np.float64], float]:
    """How many of the first half of a small universe are in a sample of half of it, under many keys, and the variance
    that chance has."""
    half, domain = universe // 2, domain_of(universe)
    ids = np.arange(half, dtype=np.uint64)
    found = [located(ids, network(universe, key_of(number), rounds), universe, half)[1] for number in range(20_000)]
    return np.array(found) - half * half / domain, float(stats.hypergeom(domain, half, half).var())


@pytest.mark.slow
@pytest.mark.parametrize("universe", [16, 24, 100, 400, 1000])
def test_small_universes_are_permuted_well_enough(universe: int) -> None:
    """20,000 keys tell 5 % too much variance at 1e-6."""
    assert_variance(*variance_in_half(universe, users.rounds_for(universe)))


@pytest.mark.slow
def test_six_rounds_are_too_few_for_a_small_universe() -> None:
    with pytest.raises(AssertionError, match="variance"):
        assert_variance(*variance_in_half(24, users.ROUNDS))


@pytest.mark.slow
def test_every_user_is_as_likely_to_be_sampled() -> None:
    """400 users, 4,000 keys, at 1e-9 each."""
    everyone = np.arange(400, dtype=np.uint64)
    sampled = np.zeros(400, dtype=int)
    for number in range(4_000):
        sampled += permuted(everyone, 400, key_of(number)) < 100
    for times in sampled:
        assert_binomial(int(times), 4_000, 100 / domain_of(400), alarm=1e-9)


def test_keys_of_the_rounds_all_matter() -> None:
    """A flipped bit of any round's key moves most ids."""
    ids = np.arange(1000, dtype=np.uint64)
    base = network(1000, key_of(0))
    for word in range(2, len(base)):
        changed = base.copy()
        changed[word] ^= np.uint32(1 << 9)
        assert np.count_nonzero(permuted_by(base, ids) != permuted_by(changed, ids)) > 500
