"""PPDS repaired: the level is chosen before the stream, and the release has exact noise.

Its table is a list: the slots whose bit is 1, instead of a bit for each slot.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from math import sqrt
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from panprivacy.errors import CannotMerge, InvalidValue, PanPrivacyError
from panprivacy.estimators.density import Density
from panprivacy.memory.scratch import Scratch, bit_pages, wipe
from panprivacy.paper import kernels
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.pairs import Pair
from panprivacy.privacy.splitting import best_split
from panprivacy.registry import Traits
from panprivacy.table import Table
from panprivacy.table import kernels as table_kernels
from panprivacy.table.bits import Bits, Slots, drawn_words
from panprivacy.universe import Universe, universe_of

_NOBODY = 2**64 - 1
"""Fills the places of the list that no slot takes."""


@dataclass
class SparseTable(Bits):
    """The same bits as a `Table` of that size, kept as the ascending list of the slots whose bit is 1.

    The list has room for every slot, so its length tells nothing. The list is all that is kept: a hash table of the
    slots would also show in which order they came. A change spreads the list out into bits in scratch, sets those,
    and writes the list anew over the old one.

    Examples
    --------
    >>> table = SparseTable.empty(4)
    >>> table.redraw_one(3, True); table.redraw_one(1, True); table.redraw_one(3, False)
    >>> table.slots(), table.ones(), len(table.words)
    ([1], 1, 4)

    Notes
    -----
    The paper's M_DS, at a level that never changes. A slot takes 64 bits where `Table` takes one.
    """

    threaded = False
    repeatable = True

    size: int
    words: NDArray[np.uint64]

    @classmethod
    def drawn(cls, size: int, pair: Pair, coins: Coins) -> Self:
        """A table before the first event: every bit a flip of p0."""
        table = cls.empty(size)
        with Scratch() as scratch:
            bits = table._spread(scratch)
            for place, flips in drawn_words(size, pair.absent, coins):
                bits[place] = flips
            kernels.gather(bits, table.words)
        return table

    @classmethod
    def empty(cls, size: int) -> Self:
        """A table of zeros."""
        words = bit_pages(size)
        words.fill(_NOBODY)
        return cls(size, words)

    @classmethod
    def from_words(cls, size: int, words: NDArray[np.uint64]) -> Self:
        """A table that was saved."""
        table = cls.empty(size)
        if len(words) != size or not kernels.is_list(words, size):
            raise ValueError(f"these words are not an ascending list of slots below {size}")
        table.words[:] = words
        wipe(words)
        return table

    def redraw_one(self, slot: int, flip: bool, back: bool = False) -> None:  # noqa: ARG002 - for counters
        """Set one bit to a flip."""
        with Scratch() as scratch:
            slots, flips = scratch.empty("slots", 1, np.uint64), scratch.empty("flips", 1, np.uint8)
            slots[0], flips[0] = slot, flip
            self._set(slots, flips)

    def redraw(self, slots: Slots, threshold: int, coins: Coins, scratch: Scratch, *, back: bool = False) -> None:  # noqa: ARG002 - for counters
        """Redraw the bits of these slots, each with a coin of its own; `IndexError` if one is outside the table."""
        flips = scratch.empty("flips", len(slots), np.uint8)
        coins.draw(threshold, flips)
        self._set(slots, flips)

    def _set(self, slots: Slots, flips: NDArray[np.uint8]) -> None:
        with Scratch() as scratch:
            bits = self._spread(scratch)
            if not table_kernels.redraw(bits, np.uint64(self.size), slots, flips):
                raise IndexError(f"a slot is outside this table of {self.size}")
            kernels.gather(bits, self.words)

    def flip_each(self, threshold: int, coins: Coins) -> None:
        """Flip every bit with the same probability: randomised response on the whole table."""
        with Scratch() as scratch:
            bits = self._spread(scratch)
            for place, flips in drawn_words(self.size, threshold, coins):
                bits[place] ^= flips
            kernels.gather(bits, self.words)

    def count_ones(self, edges: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Write how many bits are 1 between each edge and the next one; the caller wipes the counts."""
        kernels.count_ones(self.words, edges, counts)

    def ones(self) -> int:
        """How many bits are 1."""
        return int(np.searchsorted(self.words, self.size))

    def slots(self) -> list[int]:
        """A copy of the list, for experiments: it is not wiped."""
        slots: list[int] = self.words[: self.ones()].tolist()
        return slots

    def _spread(self, scratch: Scratch) -> NDArray[np.uint64]:
        """The list as bits."""
        bits: NDArray[np.uint64] = scratch.empty("bits", Table.words_for(self.size), np.uint64)
        kernels.spread(self.words, np.uint64(self.size), bits)
        return bits


_RARELY = 4.0
"""By how many standard deviations the set is expected to stay below `sample`, even if everyone comes."""


class FixedLevelState(NamedTuple):
    """What FixedLevelPPDS keeps about users: the level, the key of the permutation, and the set."""

    level: int
    key: bytes | None
    places: tuple[int, ...]


# Two deep, though classes here are one deep: it is a Density in all but the table that holds its bits. A part would
# have to be given every verb, property, display and the bytes of Density again, each to say the same.
class FixedLevelPPDS(Density):
    r"""Pan-private distinct sampling that is private: a set of ids at a level that never changes.

    A keyed permutation gives every user a place; those with a place below ``n = ceil(|U| / 2^level)`` qualify. A
    qualifying user is in the set with probability p0 before it appears and ``p1 = 1 - p0`` after. A release publishes
    the size of the set plus exact discrete Laplace noise, scaled to ``(noisy - n p0) / (q (p1 - p0))`` with q the
    exact number of qualifying users. An intruder who reads the whole state once, at any moment, and sees
    all releases, learns at most `epsilon` about any one user, however often that user appears.

    Parameters
    ----------
    universe
        The users there could be: a number N for ids 0..N-1, `pp.Users` or `pp.Edges`.
    epsilon
        **The total budget**, unlike in the printed algorithms.
    sample
        The size m that the set is planned for. It may outgrow it: with probability below 1 in 30,000 if everyone
        comes, and hardly ever otherwise. The memory is for all who qualify, at most twice as much.
    releases, intrusions, key, coins
        As in `Density`.

    Examples
    --------
    >>> est = FixedLevelPPDS(universe=100_000, epsilon=1.0, sample=10_000)
    >>> est.update_many(range(25_000))
    >>> r = est.release()
    >>> abs(r.density - 0.25) < 0.07, est.level, est.known_flaws
    (True, 3, ())

    Notes
    -----
    Alg. 3 with these repairs: the level depends on ``|U|``, m and p1 alone; the permutation replaces the linear hash;
    q replaces ``|U|/2^L``; noise is added to the size of the set, which one user changes by at most 1, before it
    is scaled. The set then is a table of independent bits, one for each qualifying user, so the loss is that of
    `Density`, ``eps_state + ln(1 + p1 (e^R - 1))``, and so is everything else: this class is `Density` with its ones
    kept as a list of places. So that its length tells nothing, the list has room for every qualifying user, 64 bits
    each, where `Density` takes one bit: it tracks 64 times as many in the same memory and is the better choice.
    """

    KIND: ClassVar[int] = 3
    TRAITS = Traits(small={"sample": 2}, example={"sample": 1000})
    TABLE: ClassVar[type[Bits]] = SparseTable
    _table: SparseTable  # type: ignore[assignment]

    def __init__(
        self,
        universe: int | Universe,
        epsilon: float,
        sample: int,
        *,
        releases: int = 1,
        intrusions: int = 0,
        key: bytes | None = None,
        coins: Coins | None = None,
    ) -> None:
        if sample < 1:
            raise InvalidValue(f"sample must be at least 1, got {sample}", code="sample-range")
        size = universe_of(universe).size
        level = fitting_level(size, sample, float(epsilon), releases, intrusions)
        super().__init__(
            universe,
            epsilon,
            sample=qualifying(size, level),
            releases=releases,
            intrusions=intrusions,
            key=key,
            coins=coins,
        )

    @classmethod
    def _merged(cls, parts: Sequence[Self], *, overlapping: bool) -> Self:  # noqa: ARG003
        """Refuse: a list of places has no shards."""
        raise CannotMerge(
            "a FixedLevelPPDS keeps its bits as a list of places, and has no shards to be merged", code="not-mergeable"
        )

    def grow(self, more: Any) -> None:  # noqa: ARG002
        """Refuse: the level was chosen for the universe as it was."""
        raise PanPrivacyError(
            "a FixedLevelPPDS cannot grow: its level was chosen for this universe; use pp.Density", code="cannot-grow"
        )

    @property
    def level(self) -> int:
        """The level: one user in ``2**level`` qualifies. It was chosen before the stream and never changes."""
        sizes = (qualifying(self._universe.size, level) for level in count())
        return next(level for level, size in enumerate(sizes) if size <= self._slots.size)

    @property
    def claimed_epsilon(self) -> float:
        """The total pan-privacy, which is the budget; the exact auditor confirms it."""
        return self.epsilon

    @property
    def known_flaws(self) -> tuple[str, ...]:
        """No flaw is known: the exact auditor confirms the claim."""
        return ()

    @property
    def state(self) -> FixedLevelState:
        """All that is kept about users, in a form that can be compared."""
        return FixedLevelState(self.level, getattr(self._slots, "key", None), tuple(self._table.slots()))


def qualifying(universe: int, level: int) -> int:
    """``ceil(universe / 2**level)``: how many places qualify."""
    return -(-universe >> level)


def fitting_level(universe: int, sample: int, epsilon: float, releases: int, intrusions: int) -> int:
    """The lowest level at which the set keeps within `sample`, even if everyone comes.

    The size of the set is then about normal with mean ``n p1`` and variance ``n p1 p0``, n users qualifying: four
    standard deviations are left. p1 follows from the split of epsilon that is best for n.
    """
    last = (universe - 1).bit_length()
    for level in range(last):
        size = qualifying(universe, level)
        if size <= 2 * sample:  # p1 is above 1/2: with more than that, no split fits
            p1 = float(best_split(epsilon, size, releases, intrusions).pair.p1)
            if size * p1 + _RARELY * sqrt(size * p1 * (1 - p1)) <= sample:
                return level
    return last
