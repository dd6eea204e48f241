"""Whom the bits of a table speak for, and how much the number of ones varies: the one home of these formulas."""

from dataclasses import dataclass
from typing import Any

from panprivacy.privacy.pairs import Pair


@dataclass(frozen=True)
class Tracked:
    """A table of `bits`, of which `users` are somebody's, a sample without replacement of a `population`.

    Where many tables are spoken of at once, the three are arrays: see `Spreads`.

    >>> from panprivacy.privacy.pairs import symmetric
    >>> tracked = Tracked(symmetric(1.0), bits=1000, users=1000, population=1000)
    >>> round(tracked.whole, 1), round(tracked.bit_variance(0.5), 1), tracked.sample_variance(0.5)
    (462.1, 196.6, 0.0)
    """

    pair: Pair
    bits: int
    users: int
    population: int

    @property
    def whole(self) -> float:
        """How many more ones there are on average once everybody has appeared."""
        return self.users * self.pair.gap

    def bit_variance(self, share: Any) -> Any:
        """Variance of the number of ones by the coins alone, when this share of the users has appeared."""
        p0, p1 = float(self.pair.p0), float(self.pair.p1)
        seen = share * self.users
        return (self.bits - seen) * p0 * (1 - p0) + seen * p1 * (1 - p1)

    def sample_variance(self, share: Any) -> Any:
        """Variance of the number of tracked users among those who appeared: sampling without replacement."""
        return self.users * share * (1 - share) * self.unsampled

    @property
    def unsampled(self) -> Any:
        """What sampling without replacement leaves of the variance of sampling with it; 0 if everybody is tracked."""
        return (self.population - self.users) / (self.population - 1 + (self.population == 1))
