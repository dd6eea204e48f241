"""The sparse-vector test: has the count drifted far from the last release?"""

import numpy as np
from numpy.typing import NDArray

from panprivacy.continual.shares import Shares
from panprivacy.memory import Scratch
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.noise import Laplace
from panprivacy.privacy.noisy_counts import add_kept_noise, reaches


class Watch:
    """Compares a distance with a bar, both behind noise, and keeps the threshold's noise as a walk.

    This is `AboveThreshold` (Dwork and Roth 2014, Alg. 1) made fit for an intruder: every test, also the first after a
    move and the first after a reading, is behind threshold noise that was not there before. The walk goes on when the
    published value moves: to begin it anew would cost another `threshold` each time and hide nothing more (Lyu, Su
    and Li 2017, Alg. 1, which scale the noise of the tests by the number of moves, as is done here).
    """

    def __init__(self, shares: Shares, bar: int, walk: int = 0) -> None:
        self.shares = shares
        self.bar = bar
        """The distance in counts at which to move."""
        self._walk = np.array([walk], dtype=np.int64)  # each step overwrites where it was before

    @property
    def walk(self) -> int:
        """The threshold's noise so far; all that a test leaves behind."""
        return self._walk.item()

    @walk.setter
    def walk(self, walk: int) -> None:
        self._walk[0] = walk

    def has_drifted(self, distance: NDArray[np.int64], coins: Coins) -> bool:
        """Test once. One user changes the distance, which is used up and which the caller wipes, by at most 1."""
        add_kept_noise(self._walk, Laplace(self.shares.threshold), coins)
        return self._reached(distance, coins)

    def _reached(self, distance: NDArray[np.int64], coins: Coins) -> bool:
        """Whether a distance, behind noise, reaches the bar where it stands now."""
        with Scratch() as scratch:
            threshold = scratch.own(self._walk.copy())
            threshold += self.bar
            return reaches(distance, threshold, Laplace(self.shares.test), coins)
