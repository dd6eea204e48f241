import os
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from checks import assert_binomial, assert_flips, assert_independent
from panprivacy import coins
from panprivacy.coins import ONE, SystemCoins
from panprivacy.testing import SeededCoins
from sources import Always

BLOCK = coins._BLOCK
THRESHOLDS = [1, 2, 2**16 - 1, 2**16, 2**16 + 1, 2**20 + 77, 2**31 - 1, 2**31, 2**31 + 2**15, 2**32 - 2**16, 2**32 - 1]

Fill = Callable[[bytearray], None]

# --- probability ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("repeatable_system")
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_flips_of_the_system_have_their_thresholds_probability(threshold: int) -> None:
    assert_flips(SystemCoins().below(threshold, 2_000_000), threshold)


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_seeded_flips_have_their_thresholds_probability(threshold: int) -> None:
    assert_flips(SeededCoins(3).below(threshold, 2_000_000), threshold)


def test_a_probability_that_is_30_percent_off_is_rejected(seeded: SeededCoins) -> None:
    with pytest.raises(AssertionError):
        assert_flips(seeded.below(int(1.3 * 2**30), 10_000), 2**30)


@pytest.mark.usefixtures("repeatable_system")
@pytest.mark.parametrize("low", [0, 1, 2**14, 2**15, 2**16 - 1])
@pytest.mark.parametrize("high", [1, 40_000, 2**16 - 1])
def test_where_high_halves_tie_the_low_half_decides(monkeypatch: pytest.MonkeyPatch, high: int, low: int) -> None:
    def all_tie(key: bytearray, block: NDArray[np.uint8]) -> None:  # noqa: ARG001
        block[:-32].view(np.uint16)[:] = high

    monkeypatch.setattr(coins, "_encrypt_in_place", all_tie)
    flips = SystemCoins().below(high * 2**16 + low, 4_000)
    assert_binomial(int(flips.sum()), len(flips), low / 2**16)


@pytest.mark.parametrize("word", [0, 1, 2**16 - 1, 2**16, 2**31, 2**32 - 1])
@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_one_flip_and_many_compare_the_same_word_with_the_threshold(
    monkeypatch: pytest.MonkeyPatch, word: int, offset: int
) -> None:
    threshold = min(max(word + offset, 1), ONE - 1)
    high, low = divmod(word, 2**16)

    def high_half(key: bytearray, block: NDArray[np.uint8]) -> None:  # noqa: ARG001
        block[:-32].view(np.uint16)[:] = high

    def low_half_or_all(buffer: bytearray) -> None:
        buffer[:] = low.to_bytes(2, "big") if len(buffer) == 2 else word.to_bytes(4, "big") * (len(buffer) // 4)

    monkeypatch.setattr(coins, "_encrypt_in_place", high_half)
    monkeypatch.setattr(coins, "fill_from_system", low_half_or_all)
    monkeypatch.setattr(os, "urandom", lambda n: word.to_bytes(n, "big"))
    assert SystemCoins().flip(threshold) == (word < threshold)
    assert SystemCoins().below(threshold, 3).tolist() == [word < threshold] * 3


@pytest.mark.parametrize("threshold", [2**31, 2**30 + 5])
def test_single_flips_have_their_thresholds_probability(threshold: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", np.random.default_rng(1).bytes)
    source = SystemCoins()
    assert_flips(np.array([source.flip(threshold) for _ in range(20_000)]), threshold)


# --- independence ---------------------------------------------------------------------------------------------------


def assert_blocks_differ(source: SystemCoins) -> None:
    flips = source.below(2**31, 3 * BLOCK + 17)
    first, second, third = (flips[i * BLOCK : (i + 1) * BLOCK] for i in range(3))
    for pair in ((first, second), (second, third), (first, third), (flips[:-1], flips[1:]), (flips[:-16], flips[16:])):
        assert_independent(*pair, 2**31)


@pytest.mark.usefixtures("repeatable_system")
def test_flips_are_independent_across_blocks_and_neighbours() -> None:
    assert_blocks_differ(SystemCoins())


@pytest.mark.usefixtures("repeatable_system")
def test_a_key_that_is_never_replaced_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    encrypt = coins._encrypt_in_place

    def same_key(key: bytearray, block: NDArray[np.uint8]) -> None:  # noqa: ARG001
        encrypt(bytearray(32), block)

    monkeypatch.setattr(coins, "_encrypt_in_place", same_key)
    with pytest.raises(AssertionError):
        assert_blocks_differ(SystemCoins())


def test_two_calls_never_share_their_coins() -> None:
    first, second = (coins.system.below(2**31, 200_000) for _ in range(2))
    assert_independent(first, second, 2**31)


@pytest.mark.parametrize("n", [0, 1, 63, BLOCK - 1, BLOCK, BLOCK + 1])
def test_any_number_of_flips_can_be_had(n: int) -> None:
    flips = coins.system.below(2**31, n)
    assert flips.dtype == np.bool_
    assert flips.shape == (n,)


# --- subsets --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [SystemCoins(), SeededCoins(1), Always(False)], ids=["system", "seeded", "plain"])
@pytest.mark.parametrize(("universe", "size"), [(1, 0), (1, 1), (5, 5), (10, 9), (1000, 3), (1000, 700)])
def test_a_subset_has_its_size_is_sorted_and_holds_nobody_twice(source: coins.Coins, universe: int, size: int) -> None:
    chosen = source.subset(universe, size)
    assert len(chosen) == size
    assert np.all(np.diff(chosen) > 0)
    assert size == 0 or (chosen[0] >= 0 and chosen[-1] < universe)


@pytest.mark.usefixtures("repeatable_system")
@pytest.mark.parametrize("source", [SystemCoins(), SeededCoins(1)], ids=["system", "seeded"])
@pytest.mark.parametrize("size", [2, 4])
def test_every_subset_is_as_likely_as_any_other(source: coins.Coins, size: int) -> None:
    found = Counter(tuple(source.subset(6, size).tolist()) for _ in range(6_000))
    assert len(found) == 15
    assert stats.chisquare(list(found.values())).pvalue > 1e-6


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", [0, -1, ONE, ONE + 1])
@pytest.mark.parametrize("source", [SystemCoins(), SeededCoins(1)], ids=["system", "seeded"])
def test_a_coin_that_is_certain_is_refused(source: coins.Coins, threshold: int) -> None:
    with pytest.raises(ValueError, match="threshold"):
        source.below(threshold, 10)


def test_only_the_systems_coins_call_themselves_secure(seeded: SeededCoins) -> None:
    assert coins.system.secure
    assert not seeded.secure
