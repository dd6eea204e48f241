"""Static sampling: M, a random subset of the users, and which place each has in it."""

import numpy as np
from numpy.typing import NDArray

from panprivacy.memory import Scratch
from panprivacy.privacy.coins import Coins
from panprivacy.slots import Every
from panprivacy.universe.words import Words


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

    def select(self, indices: Words, scratch: Scratch) -> Words:
        """The places of those users that are in the sample, in the order of the indices."""
        from panprivacy.paper import kernels

        out: Words = scratch.empty("places", len(indices) + 1, np.uint64)
        ids = indices.view(np.int64)
        return out[: kernels.ranks_of(ids, self._cells, self._ranks, self._marks, out.view(np.int64))]


def drawn(universe: int, size: int, coins: Coins) -> Sample | Every:
    """Sample this many users of a universe; all of them need no list."""
    if not 1 <= size <= universe:
        raise ValueError(f"sample must be between 1 and the universe of {universe}, got {size}")
    return Every(universe, 0, universe) if size == universe else Sample(coins.subset(universe, size))


def members(sample: Sample | Every) -> tuple[int, ...]:
    """Who is sampled."""
    return tuple(range(sample.size)) if isinstance(sample, Every) else tuple(sample.users.tolist())
