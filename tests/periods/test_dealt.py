"""Users dealt to parts: everybody is in one, each part is a random sample, and bits of a part can be turned over."""

import numpy as np
import pytest

from panprivacy.memory.scratch import Scratch
from panprivacy.privacy.coins import system
from panprivacy.privacy.pairs import symmetric
from panprivacy.slots.parts import PermutedParts, choose_parts
from panprivacy.slots.users import places_for
from panprivacy.table import Table

KEY = bytes(range(16))


@pytest.mark.parametrize("universe", [2, 3, 10, 999, 4096, 100_001])
@pytest.mark.parametrize("parts", [1, 2, 7])
def test_everybody_has_a_slot_in_exactly_one_part(universe: int, parts: int) -> None:
    dealt = PermutedParts(universe, 0, places_for(universe), KEY, parts=parts)
    with Scratch() as scratch:
        slots = np.array(dealt.select(np.arange(universe, dtype=np.uint64), scratch))
    assert len(np.unique(slots)) == universe == dealt.users
    assert slots.tolist()[:5] == [dealt.slot(user) for user in range(min(universe, 5))]
    for i in range(parts):
        part = dealt.part(i)
        inside = (slots >= part.first) & (slots < part.first + part.size)
        assert inside.sum() == part.users
    assert [dealt.part(0, k).size for k in (1, parts)] == [dealt.size // parts, dealt.size]


def test_neighbours_are_dealt_to_all_parts_alike() -> None:
    """A false alarm once in a million: 1,000 ids in 10 parts, each of 100 expected and 5.6 standard deviations."""
    dealt = PermutedParts(100_000, 0, places_for(100_000), KEY, parts=10)
    parts = np.array([dealt.slot(user) * 10 // dealt.size for user in range(1000)])
    assert (np.abs(np.bincount(parts, minlength=10) - 100) < 5.6 * np.sqrt(90)).all()


def test_bytes_bring_it_back_and_nonsense_is_refused() -> None:
    dealt = choose_parts(1000, 1000, 7, None, system, runs=[(i, i + 1) for i in range(7)])
    assert PermutedParts.from_bytes(dealt.to_bytes() + b"rest", 1000) == (dealt, b"rest")
    with pytest.raises(ValueError, match="are not possible for 10 users"):
        PermutedParts.from_bytes(dealt.to_bytes(), 10)


@pytest.mark.parametrize("size", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("start", [0, 1, 63, 64, 130, 199])
def test_bits_are_turned_over_from_a_place_on(size: int, start: int) -> None:
    if start >= size:
        return
    table = Table.drawn(size, symmetric(1.0), system)
    before = table.bits(0, size)
    table.invert(start)
    assert (table.bits(0, size) == np.concatenate([before[:start], ~before[start:]])).all()
    assert Table.from_words(size, table.words.copy()).size == size, "the bits beyond the size are zero"
