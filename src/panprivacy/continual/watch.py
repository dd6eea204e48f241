"""The sparse-vector test: has the count drifted far from the last release?"""

from dataclasses import dataclass

from panprivacy.continual.shares import Shares
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.noise import Laplace


@dataclass
class Watch:
    """Compares a distance with a bar, both behind noise, and keeps the threshold's noise as a walk.

    This is `AboveThreshold` (Dwork and Roth 2014, Alg. 1) made fit for an intruder: every test, also the first after a
    move and the first after a reading, is behind threshold noise that was not there before. The walk goes on when the
    published value moves: to begin it anew would cost another `threshold` each time and hide nothing more (Lyu, Su
    and Li 2017, Alg. 1, which scale the noise of the tests by the number of moves, as is done here).
    """

    shares: Shares
    bar: int
    """The distance in counts at which to move."""
    walk: int = 0
    """The threshold's noise so far; all that a test leaves behind."""

    def has_drifted(self, distance: int, coins: Coins) -> bool:
        """Test once. One user changes the distance by at most 1."""
        self.walk = coins.noisy_inside(self.walk, Laplace(self.shares.threshold))
        return coins.reaches(distance, self.bar + self.walk, Laplace(self.shares.test))
