"""The streams of section 6, and streams with a structure that its experiments do not have."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ids: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Stream:
    """A way to draw a stream of ids from a universe 0..N-1.

    Examples
    --------
    >>> zipf = Stream("zipf", universe=100_000)
    >>> ids = zipf.draw(np.random.default_rng(1))
    >>> len(ids), round(zipf.density(ids), 2)
    (100000, 0.24)
    """

    name: str
    """A key of `KINDS`."""
    universe: int = 100_000
    """The number of users; uniform and Zipf streams have as many events."""

    def draw(self, generator: np.random.Generator) -> Ids:
        """Draw a stream."""
        return KINDS[self.name](self.universe, generator)

    def density(self, ids: Ids) -> float:
        """The truth: the share of the universe that is in the stream."""
        return int(np.count_nonzero(np.bincount(ids, minlength=self.universe))) / self.universe


def uniform(universe: int, generator: np.random.Generator) -> Ids:
    """Every event is of a user drawn uniformly: ``1 - 1/e`` of the users appear."""
    return generator.integers(0, universe, universe)


def zipf(universe: int, generator: np.random.Generator) -> Ids:
    """An event is of user r with probability proportional to ``1/(r + 1)``: about a quarter of the users appear."""
    # Sorted numbers are looked up twice as fast, the shuffle included.
    ids = np.searchsorted(_zipf_sums(universe), np.sort(generator.random(universe)), side="right")
    generator.shuffle(ids)
    return ids


@lru_cache(maxsize=4)
def _zipf_sums(universe: int) -> NDArray[np.float64]:
    sums = np.cumsum(1 / np.arange(1, universe + 1))
    return np.asarray(sums / sums[-1])


def random_half(universe: int, generator: np.random.Generator) -> Ids:
    """Half of the users, drawn at random, once each: no structure."""
    return generator.permutation(universe)[: universe // 2]


def even_ids(universe: int, generator: np.random.Generator) -> Ids:
    """Every user with an even id once, in random order."""
    return 2 * generator.permutation((universe + 1) // 2)


def one_block(universe: int, generator: np.random.Generator) -> Ids:
    """Half of the users, with consecutive ids from a random one on, once each in random order."""
    half = universe // 2
    return generator.integers(0, universe - half + 1) + generator.permutation(half)


KINDS: dict[str, Callable[[int, np.random.Generator], Ids]] = {
    "uniform": uniform,
    "zipf": zipf,
    "random half": random_half,
    "even ids": even_ids,
    "one block": one_block,
}
