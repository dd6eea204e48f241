"""What is settled before a size is chosen, and what a size then makes of it."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from panprivacy.checks import KEY_BYTES
from panprivacy.planning.law import Design
from panprivacy.privacy.budget import Split
from panprivacy.privacy.splitting import best_split
from panprivacy.slots.places import network


@dataclass(frozen=True)
class Terms:
    """What is settled before a size is chosen."""

    population: int
    epsilon: float
    releases: int = 1
    intrusions: int = 0
    delta: float | None = None
    """With one, noise is Gaussian; without, Laplace's."""

    def split(self, size: int) -> Split:
        """The split that `Density` makes of the budget for a table of this size."""
        with np.errstate(invalid="ignore"):  # where nothing is affordable the optimiser compares infinities
            return best_split(self.epsilon, size, self.releases, self.intrusions, self.delta)

    def design(self, size: int) -> Design:
        """The law of the last release, after all planned intrusions, from a table of this size."""
        split = self.split(size)
        users = owners(self.population, size)
        return Design(split.pair_after(self.intrusions), size, users, self.population, split.noise)

    def possible(self, size: int) -> Design | None:
        """The same, or None if the budget leaves no bit that tells anything."""
        try:
            return self.design(size)
        except ValueError:
            return None


def owners(population: int, size: int) -> int:
    """How many slots of a table belong to a user: all, or of a sample the expected number, rounded.

    `slots.Sampled` permutes a range slightly larger than the universe, so a few slots of a sample belong to no user.

    >>> owners(100_000, 100_000), owners(100_000, 5000)
    (100000, 4995)
    """
    if size >= population:
        return population
    shift, blocks = network(population, bytes(KEY_BYTES))[:2].tolist()
    return max(1, round(Fraction(size * population, blocks << shift)))
