"""Packed bits against a plain array of bits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from checks import assert_flips
from panprivacy.memory.scratch import Scratch
from panprivacy.memory.threads import CHUNK
from panprivacy.privacy.coins import ONE
from panprivacy.privacy.pairs import symmetric
from panprivacy.table import Table
from panprivacy.table import bits as table_module
from panprivacy.testing import SeededCoins
from sources import Always

SIZES = [1, 2, 63, 64, 65, 127, 128, 1000, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 77]
PAIR = symmetric(1.0)


def all_bits(table: Table) -> NDArray[np.bool_]:
    return table.bits(0, table.size)


def spare_bits(table: Table) -> int:
    """What the last word holds beyond the table's size."""
    return int(table.words[-1]) >> (table.size % 64) if table.size % 64 else 0


@pytest.mark.parametrize("size", SIZES)
def test_a_new_table_holds_flips_of_the_absent_coin(size: int) -> None:
    """The same flips in the same order, whatever the size of the chunks."""
    table = Table.drawn(size, PAIR, SeededCoins(1))
    coins = SeededCoins(1)
    expected = np.concatenate([coins.below(PAIR.absent, min(CHUNK, size - at)) for at in range(0, size, CHUNK)])
    assert np.array_equal(all_bits(table), expected)
    assert table.ones() == np.count_nonzero(expected)
    assert table.words.nbytes == 8 * -(-size // 64)
    assert spare_bits(table) == 0


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("outcome", [False, True])
def test_certain_coins_fill_the_table_and_nothing_beyond(size: int, outcome: bool) -> None:
    table = Table.drawn(size, PAIR, Always(outcome))
    assert table.ones() == size * outcome
    table.flip_each(PAIR.absent, Always(True))
    assert table.ones() == size * (not outcome)
    assert spare_bits(table) == 0


@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_redrawing_sets_each_slot_to_its_own_flip(
    dtype: type[np.unsignedinteger], far: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_module, "_FAR", 0 if far else 2**60)
    table = Table.drawn(120, PAIR, SeededCoins(1))
    expected = all_bits(table).copy()
    slots = np.array([0, 5, 63, 64, 119, 5, 5, 0], dtype=dtype)
    for slot, flip in zip(slots, SeededCoins(2).below(PAIR.present, len(slots)), strict=True):
        expected[slot] = flip  # of several flips for one slot, the last stays
    table.redraw(slots, PAIR.present, SeededCoins(2), Scratch())
    assert np.array_equal(all_bits(table), expected)
    table.redraw(slots[:0], PAIR.present, SeededCoins(2), Scratch())
    assert np.array_equal(all_bits(table), expected)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 199), st.booleans()), max_size=60))
def test_redrawing_one_by_one_is_redrawing_many(events: list[tuple[int, bool]]) -> None:
    one, expected = Table.empty(200), np.zeros(200, dtype=bool)
    for slot, flip in events:
        one.redraw_one(slot, flip)
        expected[slot] = flip
    assert np.array_equal(all_bits(one), expected)
    assert one.ones() == expected.sum()


@pytest.mark.parametrize("size", [1000, CHUNK + 100])
def test_flipping_each_bit_flips_with_its_probability(size: int) -> None:
    table = Table.drawn(size, PAIR, SeededCoins(1))
    before = all_bits(table).copy()
    table.flip_each(ONE // 8, SeededCoins(2))
    assert_flips(all_bits(table) ^ before, ONE // 8)
    assert spare_bits(table) == 0


@pytest.mark.parametrize("sizes", [(64, 64), (1, 1, 1), (63, 65, 2), (100, CHUNK + 3, 50)])
def test_tables_copied_behind_each_other_keep_their_bits(sizes: tuple[int, ...]) -> None:
    parts = [Table.drawn(size, PAIR, SeededCoins(size)) for size in sizes]
    assert np.array_equal(all_bits(Table.joined(parts)), np.concatenate([all_bits(part) for part in parts]))


@pytest.mark.parametrize(("size", "words"), [(64, 2), (65, 1), (1, 0)])
def test_saved_words_must_be_as_many_as_the_bits_need(size: int, words: int) -> None:
    with pytest.raises(ValueError, match=f"do not hold {size} bits"):
        Table.from_words(size, np.zeros(words, dtype=np.uint64))


def test_saved_words_must_be_zero_beyond_the_bits() -> None:
    with pytest.raises(ValueError, match="do not hold 3 bits"):
        Table.from_words(3, np.array([8], dtype=np.uint64))
    assert Table.from_words(3, np.array([7], dtype=np.uint64)).ones() == 3


def test_bits_are_put_back_where_they_were_if_anything_goes_wrong() -> None:
    table = Table.drawn(500, PAIR, SeededCoins(1))
    before, words = all_bits(table).copy(), table.words

    def interrupted() -> None:
        with table.restored_on_error():
            table.redraw(np.arange(500, dtype=np.uint64), PAIR.present, SeededCoins(2), Scratch())
            assert not np.array_equal(all_bits(table), before)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert np.array_equal(all_bits(table), before)
    assert table.words is words, "others hold a view of the words: they stay where they are"


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("bad", [100, 127, 128, 2**40, 2**64 - 1])
def test_a_slot_that_is_none_is_refused_and_nothing_is_written_there(
    monkeypatch: pytest.MonkeyPatch, far: bool, bad: int
) -> None:
    monkeypatch.setattr(table_module, "_FAR", 0 if far else 2**24)
    words = np.zeros(4, dtype=np.uint64)
    table = Table(100, words[1:3])
    with pytest.raises(IndexError, match="outside this table of 100"):
        table.redraw(np.array([3, bad, 5], dtype=np.uint64), 2**31, Always(True), Scratch())
    assert words.tolist() == [0, 1 << 3, 0, 0]
