"""Counters: beside each bit a counter that wraps, and the bit is redrawn only when it does."""

from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import check_whole, shown
from panprivacy.errors import InvalidValue, PanPrivacyError
from panprivacy.memory.scratch import Scratch
from panprivacy.memory.threads import CHUNK
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.pairs import Pair
from panprivacy.table import counter_kernels
from panprivacy.table.bits import Fields, Slots

LEAST_UP_TO, LARGEST_UP_TO = 2, 256
"""How far counters may count: a counter is at most a byte."""


def check_frequency(up_to: Any, only: object) -> int:
    """The largest count of a counter; refuse impossible values of `up_to` and `only`."""
    checked = check_whole(up_to, "up_to")
    if not LEAST_UP_TO <= checked <= LARGEST_UP_TO:
        at_all = "; who appeared at all is what pp.Density estimates" if checked == 1 else ""
        raise InvalidValue(
            f"up_to must be between {LEAST_UP_TO} and {LARGEST_UP_TO}, got {up_to}{at_all}", code="up-to-range"
        )
    if only not in (None, "mean"):
        raise InvalidValue(f'only="mean" releases the mean alone, got only={shown(only)}', code="only-choice")
    return checked


@dataclass
class Counters(Fields):
    r"""For every slot a counter c of 0..t-1, t being `up_to`, and a bit b: a field of 1 + ceil(log2 t) bits.

    c is drawn uniformly, b as a flip of p0. An event adds 1 to c; where that wraps to 0, b is redrawn from p1. Taking
    an event back subtracts 1; where that wraps to t-1, b is redrawn from p0. So after any number of either

        c is uniform,   and, given c, b is a flip of p1 if c < s and of p0 else,

    where s starts at 0 and goes up to t and down to 0 but never beyond: the counter shows nothing of s, the bit as
    much as a pair shows, and a field that starts at c = 0, or of which an older copy is left, everything.
    """

    repeatable = False
    KERNELS = ("table.counter_kernels",)

    def __post_init__(self) -> None:
        for back in (False, True):
            changes(self.up_to, back)

    @classmethod
    def drawn(cls, size: int, pair: Pair, coins: Coins, up_to: int = LEAST_UP_TO) -> Self:
        """A table in which no user has appeared: every counter uniform, every bit a flip of p0."""
        table = cls.empty(size, up_to)
        with Scratch() as scratch:
            for first in range(0, size, CHUNK):
                n = min(CHUNK, size - first)
                counters, flips = (scratch.empty(name, n, np.uint8) for name in ("counters", "flips"))
                coins.fill_below(up_to, counters)  # where a counter started is all that hides where it stands
                coins.draw(pair.absent, flips)
                counter_kernels.plant(table.words, table.width, first, counters, flips)
        return table

    # --- events -------------------------------------------------------------------------------------------------

    def redraw_one(self, slot: int, flip: bool, back: bool = False) -> None:
        """Count one event of a slot, or take one back; the flip is for the bit, if the counter wraps."""
        with Scratch() as scratch:
            slots, flips = scratch.empty("slot", 1, np.uint64), scratch.empty("flip", 1, np.uint8)
            slots[0], flips[0] = slot, flip
            self._count(slots, flips, back, scratch)

    def redraw(self, slots: Slots, threshold: int, coins: Coins, scratch: Scratch, *, back: bool = False) -> None:
        """Count an event of each of these slots, or take one back; `IndexError` if one is outside the table.

        A coin is drawn for every event, whether its counter wraps or not: how many were drawn says nothing.
        """
        flips = scratch.empty("flips", len(slots), np.uint8)
        coins.draw(threshold, flips)
        self._count(slots, flips, back, scratch)

    def _count(self, slots: Slots, flips: NDArray[np.uint8], back: bool, scratch: Scratch) -> None:
        places = scratch.empty("places", counter_kernels.WINDOW + counter_kernels.AHEAD, np.uint64)
        table = changes(self.up_to, back)
        if not counter_kernels.count(self.words, self.size, self.width, table, slots, flips, places):
            raise IndexError(f"a slot is outside this table of {self.size}")

    def redraw_often(
        self, slots: Slots, times: Any, threshold: int, coins: Coins, scratch: Scratch, *, back: bool = False
    ) -> None:
        """Count each of these slots as often as `times` says: with the law of `redraw` on repeated slots."""
        flips = scratch.empty("flips", len(slots), np.uint8)
        coins.draw(threshold, flips)
        if not counter_kernels.count_often(self.words, self.size, self.width, self.up_to, slots, times, flips, back):
            raise IndexError(f"a slot is outside this table of {self.size}")

    def flip_each(self, threshold: int, coins: Coins) -> NoReturn:  # noqa: ARG002 - whatever the probability
        """Refuse: a counter cannot be hidden again, since what its bit says depends on where it stands."""
        raise PanPrivacyError(
            "counters cannot be redrawn: a bit tells something only beside the counter it has", code="no-rerandomize"
        )

    # --- counts and copies ---------------------------------------------------------------------------------------

    def count_excesses(self, edges: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """For the slots between each edge and the next one, write `up_to` numbers; the caller wipes them.

        The number for c says how many more of the bits at counters that stand at c are 1 than are 0.
        """
        counts.fill(0)
        for i, (start, end) in enumerate(pairwise(edges.tolist())):
            sums = counts[i * self.up_to : (i + 1) * self.up_to]
            if not counter_kernels.tally(self.words, start, end, self.width, sums):
                raise ValueError(f"a counter is beyond {self.up_to - 1}")

    def count_ones(self, edges: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Write how many bits are 1 between each edge and the next one, whatever their counters."""
        with Scratch() as scratch:
            excesses = scratch.empty("excesses", len(counts) * self.up_to, np.int64)
            self.count_excesses(edges, excesses)
            np.add.reduce(excesses.reshape(len(counts), self.up_to), axis=1, out=counts)
        counts += np.diff(edges)
        counts //= 2

    def check(self) -> None:
        """Refuse counters that are beyond the last place."""
        with Scratch() as scratch:
            excesses = scratch.empty("excesses", self.up_to, np.int64)
            self.count_excesses(np.array([0, self.size]), excesses)

    def place(self, source: "Counters", first: int, places: NDArray[np.uint64]) -> None:
        """Copy the fields of another table from `first` on, one to each of these places."""
        counter_kernels.place_fields(self.words, source.words, self.width, first, places)

    def fields(self) -> list[tuple[int, int]]:
        """A copy of all counters and bits, for tests: it is not wiped."""
        octets, used = self.words.astype("<u8").view(np.uint8), self.size * self.width
        each = np.unpackbits(octets, bitorder="little", count=used).reshape(self.size, self.width).astype(np.int64)
        counters = each[:, 1:] @ (1 << np.arange(self.width - 1))
        return list(zip(counters.tolist(), each[:, 0].tolist(), strict=True))


@cache
def changes(up_to: int, back: bool) -> NDArray[np.uint16]:
    """Which bits of a field an event turns, for every field and, from `FLIP` on, every field whose flip is 1.

    >>> changes(4, False)[[0, 6, 7]]  # counters 0, 3 and 3: a step, and two wraps, one of a bit that was 1
    array([2, 6, 7], dtype=uint16)
    """
    flips = counter_kernels.FLIP
    turned = np.zeros(2 * flips, dtype=np.uint16)
    for flip, counter, bit in product(range(2), range(up_to), range(2)):
        wraps = counter == (0 if back else up_to - 1)
        moved = (counter + (-1 if back else 1)) % up_to
        field = counter << 1 | bit
        turned[flip * flips + field] = field ^ (moved << 1 | (flip if wraps else bit))
    turned.flags.writeable = False
    return turned
