"""Packed counters against a plain list of counters and bits."""

import math
import time
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

import panprivacy as pp
from checks import assert_binomial, assert_flips
from exact_counts import excesses_of, ones_of
from panprivacy.audit.enumeration.outcomes import EveryOutcome
from panprivacy.memory.scratch import Scratch
from panprivacy.memory.threads import CHUNK
from panprivacy.privacy.coins import system
from panprivacy.privacy.pairs import symmetric
from panprivacy.table import Counters
from panprivacy.table.bits import width_of
from panprivacy.testing import SeededCoins, refused
from sources import Always

PAIR = symmetric(1.0)
UP_TOS = [2, 3, 5, 8, 16, 100, 256]

Fields = list[tuple[int, int]]


def plainly(fields: Fields, slots: list[int], flips: list[int], up_to: int, *, back: bool) -> Fields:
    """What events do, without packing."""
    fields = list(fields)
    for slot, flip in zip(slots, flips, strict=True):
        counter, bit = fields[slot]
        wraps = counter == (0 if back else up_to - 1)
        fields[slot] = ((counter + (-1 if back else 1)) % up_to, flip if wraps else bit)
    return fields


@pytest.mark.parametrize("back", [False, True], ids=["on", "back"])
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
@pytest.mark.parametrize("up_to", UP_TOS)
def test_events_move_counters_and_redraw_bits_at_a_wrap(
    up_to: int, dtype: type[np.unsignedinteger], back: bool
) -> None:
    table = Counters.drawn(197, PAIR, SeededCoins(1), up_to)
    slots = np.random.default_rng(up_to).integers(0, 197, 3000).astype(dtype)
    flips = SeededCoins(2).below(PAIR.present, 3000)
    expected = plainly(table.fields(), slots.tolist(), flips.tolist(), up_to, back=back)
    with Scratch() as scratch:
        table.redraw(slots, PAIR.present, SeededCoins(2), scratch, back=back)
    assert table.fields() == expected
    table.redraw_one(7, True, back=back)
    assert table.fields() == plainly(expected, [7], [1], up_to, back=back)
    tally = Counter[int]()
    for counter, bit in table.fields():
        tally[counter] += 2 * bit - 1
    assert excesses_of(table) == tuple(tally[place] for place in range(up_to))
    assert ones_of(table) == sum(bit for _, bit in table.fields())


@pytest.mark.parametrize("up_to", UP_TOS)
def test_a_field_takes_one_bit_and_those_of_its_counter(up_to: int) -> None:
    table = Counters.drawn(1001, PAIR, SeededCoins(3), up_to)
    assert width_of(up_to) == 1 + int(np.ceil(np.log2(up_to)))
    assert table.words.nbytes == 8 * -(-1001 * width_of(up_to) // 64)


@pytest.mark.slow
@pytest.mark.parametrize("up_to", [3, 8])
def test_a_new_table_is_uniform_counters_and_flips_of_the_absent_coin(up_to: int) -> None:
    """False alarms: 1e-6 or rarer."""
    size = CHUNK + 77
    for coins in (system, SeededCoins(4)):
        fields = np.array(Counters.drawn(size, PAIR, coins, up_to).fields())
        for place in range(up_to):
            at = fields[fields[:, 0] == place]
            assert_binomial(len(at), size, 1 / up_to)
            assert_flips(at[:, 1] == 1, PAIR.absent)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 10, 100, 255, 256])
def test_bytes_below_a_number_are_uniform(n: int) -> None:
    """Every value within 6 standard deviations, which happens less often than once in a million for all of them."""
    drawn = np.full(400_000, 255, dtype=np.uint8)
    for coins in (system, SeededCoins(n)):
        coins.fill_below(n, drawn)
        found = np.bincount(drawn, minlength=n)
        assert len(found) == n
        spread = (400_000 * (1 / n) * (1 - 1 / n)) ** 0.5
        assert np.abs(found - 400_000 / n).max() <= 6 * spread


def test_a_remainder_of_bytes_alone_would_not_be_uniform() -> None:
    biased = np.random.default_rng(5).integers(0, 256, 400_000) % 100
    found = np.bincount(biased)
    assert np.abs(found - 4000).max() > 6 * 4000**0.5


def state_law(up_to: int, events: str) -> dict[tuple[int, int], Fraction]:
    """The exact law of one field after events, `+` on and `-` back."""
    coins = EveryOutcome()

    def run() -> tuple[int, int]:
        table = Counters.drawn(1, PAIR, coins, up_to)
        for event in events:
            table.redraw_one(0, coins.flip(PAIR.absent if event == "-" else PAIR.present), back=event == "-")
        return table.fields()[0]

    law: dict[tuple[int, int], Fraction] = {}
    for outcome in coins.outcomes(run):
        law[outcome.value] = law.get(outcome.value, Fraction(0)) + outcome.weight
    return law


def saturating(up_to: int, events: str) -> int:
    count = 0
    for event in events:
        count = max(count - 1, 0) if event == "-" else min(count + 1, up_to)
    return count


def streams(longest: int) -> Iterator[str]:
    for length in range(longest + 1):
        yield from map("".join, product("+-", repeat=length))


@pytest.mark.slow
@pytest.mark.parametrize("up_to", [2, 3])
def test_a_field_has_the_law_of_a_count_that_stays_between_0_and_up_to(up_to: int) -> None:
    """Counter uniform, bit of p1 exactly below the count: for every stream of insertions and deletions."""
    for events in streams(5):
        count = saturating(up_to, events)
        for (counter, bit), weight in state_law(up_to, events).items():
            p = PAIR.p1 if counter < count else PAIR.p0
            assert weight == Fraction(1, up_to) * (p if bit else 1 - p)


def test_what_is_saved_is_checked() -> None:
    table = Counters.drawn(10, PAIR, SeededCoins(6), 5)
    words = table.words.copy()
    assert Counters.from_words(10, words.copy(), 5).fields() == table.fields()
    with pytest.raises(ValueError, match="do not hold 11 counters"):
        Counters.from_words(11, words[:0], 5)
    words[0] |= 15  # a counter of 7
    with pytest.raises(ValueError, match="a counter is beyond 4"):
        Counters.from_words(10, words, 5)
    words[0] |= np.uint64(1) << np.uint64(63)
    with pytest.raises(ValueError, match="do not hold 10 counters"):
        Counters.from_words(10, words, 5)


def test_tables_that_are_joined_keep_their_fields() -> None:
    parts = [Counters.drawn(size, PAIR, SeededCoins(size), 5) for size in (3, 70, 1, 129)]
    expected = [field for part in parts for field in part.fields()]
    assert Counters.joined(parts).fields() == expected


def test_a_slot_outside_is_refused_and_no_counter_is_redrawn() -> None:
    table = Counters.drawn(5, PAIR, Always(False), 4)
    with Scratch() as scratch, pytest.raises(IndexError, match="outside this table of 5"):
        table.redraw(np.array([5], dtype=np.uint64), PAIR.present, Always(True), scratch)
    with refused("no-rerandomize"):
        table.flip_each(PAIR.absent, Always(True))


def nanoseconds(est: pp.Density | pp.Counts, ids: NDArray[np.uint64]) -> float:
    """Of the processor, for an event: the best of some rounds."""
    best = math.inf
    for _ in range(5):
        start = time.thread_time()
        est.update_many(ids)
        best = min(best, time.thread_time() - start)
    return best / len(ids) * 1e9


@pytest.mark.slow
def test_an_event_takes_no_multiple_of_what_it_takes_a_density() -> None:
    """It is half as much again. Kernels that count references to the table at each event took 18 times as much."""
    ids = np.random.default_rng(1).integers(0, 10**6, 10**6, dtype=np.uint64)
    assert nanoseconds(pp.Counts(10**6, 1.0), ids) < 5 * nanoseconds(pp.Density(10**6, 1.0), ids)
