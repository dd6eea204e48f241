"""`Counts` with a bug each."""

from typing import Any

import numpy as np

from exact_counts import OtherNoise
from panprivacy import Counts
from panprivacy.memory.scratch import Scratch
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.noise import Laplace
from panprivacy.table import Counters


class StartsAtZero(Counts):
    """Counters that begin where everybody knows."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._table = Counters.empty(self._slots.size, self.up_to)


class PublishesThePlaces(Counts):
    """Says, without noise, how many users stand at each place of the counters: no bit is in it."""

    def release(self, level: float = 0.95) -> Any:
        places = [counter for counter, _ in self._table.fields()]
        return super().release(level), np.bincount(places, minlength=self.up_to).tolist()


class NoiseForOne(OtherNoise, Counts):
    """Draws noise as if a user moved the counts by 1 in all."""

    drawn = staticmethod(lambda booked: Laplace(2 * booked.epsilon))


class _KeptOnes(Counters):
    def redraw_one(self, slot: int, flip: bool, back: bool = False) -> None:
        super().redraw_one(slot, bool(self.fields()[slot][1]) or flip, back=back)


class KeepsTheBit(Counts):
    """Redraws a bit at a wrap only if it is 0."""

    TABLE = _KeptOnes
    update_many = None  # type: ignore[assignment]


class KeepsWhereItBegan(Counts):
    """Keeps the counters as they were drawn."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.began = [counter for counter, _ in self._table.fields()]


class _OneOfEach(Counters):
    def redraw(self, slots: Any, threshold: int, coins: Coins, scratch: Scratch, *, back: bool = False) -> None:
        super().redraw(np.unique(slots), threshold, coins, scratch, back=back)


class OnceABatch(Counts):
    """Counts a user who is twice in a batch once."""

    TABLE = _OneOfEach


class _RedrawnAlways(Counters):
    def redraw(self, slots: Any, threshold: int, coins: Coins, scratch: Scratch, *, back: bool = False) -> None:
        super().redraw(slots, threshold, coins, scratch, back=back)
        for slot in slots.tolist():
            counter = self.fields()[slot][0]
            for event in range(self.up_to):  # all around, so that it wraps once
                wraps = (counter + event + 1) % self.up_to == 0
                self.redraw_one(slot, wraps and coins.flip(threshold))


class RedrawsAtEveryEvent(Counts):
    """Redraws the bit at every event, as a `Density` does: private, and wrong."""

    TABLE = _RedrawnAlways
