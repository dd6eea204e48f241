import os
import sys
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from checks import ALARM, assert_binomial, assert_flips, assert_independent
from panprivacy.privacy import coins
from panprivacy.privacy.coins import ONE, SystemCoins
from panprivacy.testing import SeededCoins
from sources import Always

BLOCK = coins.BLOCK
THRESHOLDS = [1, 2, 2**16, 2**20 + 77, 2**24 - 1, 2**24, 2**24 + 1, 2**31 - 1, 2**31, 2**31 + 2**23, 2**32 - 1]


Draw = Callable[[coins.Buffer], None]


def tying(high: int, low: Draw) -> Callable[[bytearray], Draw]:
    """A keystream of one block whose high bits are all the same, and whose low bits come from elsewhere."""

    def same(zeros: coins.Buffer) -> None:
        zeros[:] = bytes([high]) * len(zeros)

    def keystream(_: bytearray) -> Draw:
        steps = iter([same, same, low])  # the next key, the high bits, the low bits
        return lambda zeros: next(steps)(zeros)  # noqa: PLW0108 - a step a call

    return keystream


# --- probability ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_flips_of_the_system_have_their_thresholds_probability(threshold: int) -> None:
    assert_flips(SystemCoins().below(threshold, 2_000_000), threshold)


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_seeded_flips_have_their_thresholds_probability(threshold: int) -> None:
    assert_flips(SeededCoins(3).below(threshold, 2_000_000), threshold)


def test_a_probability_that_is_30_percent_off_is_rejected(seeded: SeededCoins) -> None:
    with pytest.raises(AssertionError):
        assert_flips(seeded.below(int(1.3 * 2**30), 10_000), 2**30)


@pytest.mark.parametrize("low", [0, 1, 2**16, 2**22, 2**23, 2**24 - 1])
@pytest.mark.parametrize("high", [1, 100, 2**8 - 1])
def test_where_high_bits_tie_the_low_ones_decide(monkeypatch: pytest.MonkeyPatch, high: int, low: int) -> None:
    monkeypatch.setattr(coins, "keystream", tying(high, coins.keystream(bytearray(32))))
    flips = SystemCoins().below(high * 2**24 + low, 2 * coins.SHORT)
    assert_binomial(int(flips.sum()), len(flips), low / 2**24)


NEAR_A_WORD = pytest.mark.parametrize(
    ("word", "threshold"),
    [
        (word, min(max(word + offset, 1), ONE - 1))
        for word in (0, 1, 2**16, 2**24 - 1, 2**24, 2**31, 2**32 - 1)
        for offset in (-1, 0, 1)
    ],
)


@NEAR_A_WORD
def test_one_flip_and_many_compare_the_same_word_with_the_threshold(
    monkeypatch: pytest.MonkeyPatch, word: int, threshold: int
) -> None:
    high, low = divmod(word, 2**24)

    def low_bits(buffer: coins.Buffer) -> None:
        buffer[:] = (low << 8).to_bytes(4, sys.byteorder) * (len(buffer) // 4)

    monkeypatch.setattr(coins, "keystream", tying(high, low_bits))
    monkeypatch.setattr(os, "urandom", lambda n: word.to_bytes(n, "big"))
    assert SystemCoins().flip(threshold) == (word < threshold)
    many = coins.SHORT + 3
    assert SystemCoins().below(threshold, many).tolist() == [word < threshold] * many


@NEAR_A_WORD
def test_a_short_batch_compares_words_of_the_system_with_the_threshold(
    monkeypatch: pytest.MonkeyPatch, word: int, threshold: int
) -> None:
    high, low = divmod(word, 2**24)
    steps = iter([bytes([high]) * 3, (low << 8).to_bytes(4, sys.byteorder) * 3])

    def fill(buffer: coins.Buffer) -> None:
        buffer[:] = next(steps)

    monkeypatch.setattr(coins, "fill_from_system", fill)
    assert SystemCoins().below(threshold, 3).tolist() == [word < threshold] * 3


@pytest.mark.parametrize("threshold", [2**31, 2**30 + 5])
def test_flips_of_short_batches_have_their_thresholds_probability(threshold: int) -> None:
    source = SystemCoins()
    assert_flips(np.concatenate([source.below(threshold, 1000) for _ in range(500)]), threshold)


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [2**31, 2**30 + 5])
def test_single_flips_have_their_thresholds_probability(threshold: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", np.random.default_rng(1).bytes)
    source = SystemCoins()
    assert_flips(np.array([source.flip(threshold) for _ in range(20_000)]), threshold)


# --- independence ---------------------------------------------------------------------------------------------------


def assert_blocks_differ(source: SystemCoins) -> None:
    flips = source.below(2**31, 3 * BLOCK + 17)
    first, second, third = (flips[i * BLOCK : (i + 1) * BLOCK] for i in range(3))
    pairs = ((first, second), (second, third), (first, third), (flips[:-1], flips[1:]), (flips[:-16], flips[16:]))
    for pair in pairs:
        assert_independent(*pair, 2**31, alarm=ALARM / len(pairs))


def test_flips_are_independent_across_blocks_and_neighbours() -> None:
    assert_blocks_differ(SystemCoins())


def test_a_key_that_is_never_replaced_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    keystream = coins.keystream
    monkeypatch.setattr(coins, "keystream", lambda _: keystream(bytearray(32)))
    with pytest.raises(AssertionError):
        assert_blocks_differ(SystemCoins())


def test_two_calls_never_share_their_coins() -> None:
    first, second = (coins.system.below(2**31, 200_000) for _ in range(2))
    assert_independent(first, second, 2**31)


@pytest.mark.usefixtures("operating_system")
@pytest.mark.parametrize("device", ["there", "missing", "cut short"])
def test_a_key_is_filled_to_its_end_with_bytes_that_never_come_again(
    monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    """Equal bytes, or four zeros at the end, come by chance once in 2**30."""

    def missing(*_: object) -> int:
        raise FileNotFoundError

    def cut_short(_: int, buffers: list[bytearray]) -> int:
        buffers[0][:5] = b"short"
        return 5

    if device == "missing":
        monkeypatch.setattr(os, "open", missing)
    elif device == "cut short":
        monkeypatch.setattr(os, "readv", cut_short)
    keys = [bytearray(32) for _ in range(3)]
    for key in keys:
        coins.fill_from_system(key)
    assert len({bytes(key) for key in keys}) == 3
    assert all(any(key[-4:]) for key in keys)
    assert not any(key.startswith(b"short") for key in keys)


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


@pytest.mark.slow
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
