"""Static sampling: M, a random subset of the users, and which place each has in it."""

import numpy as np
from numpy.typing import NDArray

from panprivacy.memory import Scratch
from panprivacy.privacy.coins import Coins
from panprivacy.slots import Every
from panprivacy.universe.words import Words

_LARGEST_TABLE = 10**7  # users; a table of their places takes four bytes for each
_NOT_SAMPLED = -1


class Sample:
    """A uniform sample without replacement, in ascending order: its i-th user owns place i.

    Places are read off a table of the universe, or, where that would be too large, found by bisection, which takes
    fifty times as long.
    """

    def __init__(self, users: NDArray[np.int64], universe: int) -> None:
        self.users = users
        self._places: NDArray[np.int32] | None = None
        if universe <= _LARGEST_TABLE:
            self._places = np.full(universe, _NOT_SAMPLED, dtype=np.int32)
            self._places[users] = np.arange(len(users), dtype=np.int32)

    def select(self, indices: Words, scratch: Scratch) -> Words:  # noqa: ARG002 - like every choice of slots
        """The places of those users that are in the sample, in the order of the indices."""
        if self._places is None:
            # Without the last user in the list, whoever comes after it is compared with it and found to be another.
            places = np.searchsorted(self.users[:-1], indices.view(np.int64))
            return np.asarray(places[self.users[places] == indices.view(np.int64)], dtype=np.uint64)
        read = self._places[indices]
        return np.asarray(read[read != _NOT_SAMPLED], dtype=np.uint64)


def drawn(universe: int, size: int, coins: Coins) -> Sample | Every:
    """Sample this many users of a universe; a sample of all users needs no list."""
    if not 1 <= size <= universe:
        raise ValueError(f"sample must be between 1 and the universe of {universe}, got {size}")
    return Every(universe, 0, universe) if size == universe else Sample(coins.subset(universe, size), universe)


def members(sample: Sample | Every) -> tuple[int, ...]:
    """The users that are sampled."""
    return tuple(range(sample.size)) if isinstance(sample, Every) else tuple(sample.users.tolist())
