"""Static sampling: M, a random subset of the users, and which place each has in it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from panprivacy import theory
from panprivacy.coins import Coins
from panprivacy.pairs import Pair
from panprivacy.slots import Every
from panprivacy.slots.places import Indices
from panprivacy.table import Table


class Sample:
    """A uniform sample without replacement, in ascending order: its i-th user owns place i.

    The users are looked up in a hash table of twice to four times their number, so the memory does not grow with
    the universe.
    """

    def __init__(self, users: NDArray[np.int64]) -> None:
        from panprivacy.paper import kernels

        self.users = users
        self._cells = np.full(2 << len(users).bit_length(), kernels.FREE, dtype=np.int64)
        self._ranks = np.zeros(len(self._cells), dtype=np.int64)
        self._marks = np.zeros(4 * len(self._cells), dtype=np.bool_)
        kernels.rank(users, self._cells, self._ranks, self._marks)

    def select(self, indices: Indices) -> Indices:
        """The places of those users that are in the sample, in the order of the indices."""
        from panprivacy.paper import kernels

        out = np.empty(len(indices) + 1, dtype=np.int64)
        ids = indices.astype(np.int64, copy=False)
        return out[: kernels.ranks_of(ids, self._cells, self._ranks, self._marks, out)]


def drawn(universe: int, size: int, coins: Coins) -> Sample | Every:
    """Sample this many users of a universe; all of them need no list."""
    if not 1 <= size <= universe:
        raise ValueError(f"sample must be between 1 and the universe of {universe}, got {size}")
    return Every(universe, 0, universe) if size == universe else Sample(coins.subset(universe, size))


def members(sample: Sample | Every) -> tuple[int, ...]:
    """Who is sampled."""
    return tuple(range(sample.size)) if isinstance(sample, Every) else tuple(sample.users.tolist())


class BitState(NamedTuple):
    """All that Dwork and OptBern keep: the sampled users, and one bit for each."""

    users: tuple[int, ...]
    bits: tuple[bool, ...]


class SampledBits:
    """A bit for every user of a random sample: drawn with p0, redrawn with p1 when the user appears.

    The loop that Alg. 1 and Alg. 2 share.
    """

    def __init__(self, universe: int, sample: int, pair: Pair, coins: Coins) -> None:
        self.pair = pair
        self._sample = drawn(universe, sample, coins)
        self._table = Table.drawn(sample, pair, coins)

    @property
    def size(self) -> int:
        """The paper's m."""
        return self._table.size

    def redraw(self, indices: Indices, remove: bool, coins: Coins) -> None:
        """Redraw the bits of those users that have one."""
        threshold = self.pair.absent if remove else self.pair.present
        self._table.redraw(self._sample.select(indices), threshold, coins)

    @property
    def share(self) -> float:
        """``(1/m) * sum of b_i``."""
        return self._table.ones() / self._table.size

    @property
    def state(self) -> BitState:
        """All that is kept, in a form that can be compared."""
        return BitState(members(self._sample), tuple(self._table.bits(0, self.size).tolist()))


def size_for(algorithm: str, universe: int, epsilon: float, alpha: float, beta: float) -> int:
    """m*, the smallest sample that the paper proves sufficient, if the universe has as many."""
    size = int(theory.sample_size(algorithm, epsilon, alpha, beta))
    if size > universe:
        raise ValueError(
            f"an error below {alpha:g} with probability {1 - beta:g} is proved for {size} sampled users, and the "
            f"universe has {universe}; give a sample instead, or allow a larger error"
        )
    return size
