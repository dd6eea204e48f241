"""Distinct Sampling, the non-private original that PPDS was made from."""

import math
from dataclasses import dataclass

import numpy as np

from panprivacy.paper import flaws
from panprivacy.paper.hashing import FMHash
from panprivacy.paper.levels import LevelledSet, LevelState
from panprivacy.paper.printed import Printed
from panprivacy.privacy.coins import Coins, Flips
from panprivacy.universe import Universe
from panprivacy.universe.words import Words


class DistinctSampling(Printed):
    r"""Gibbons' Distinct Sampling (2001): the ids of those who came, thinned by half whenever they are too many.

    A user who appears enters the set if its hash is at least the level L. When the set holds `sample` users, L rises
    and those of the old level leave. The estimate is ``2^L |set| / |U|``, without noise.

    Parameters
    ----------
    universe
        The users there could be: a number N for ids 0..N-1, `pp.Users` or `pp.Edges`.
    sample
        The size m at which the set is full.
    hashing
        The hash, drawn if left out.
    coins
        Where the hash is drawn from; nothing else is random.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("ignore", flaws.NotPrivateAsPrinted)
    >>> est = DistinctSampling(universe=100_000, sample=5_000)
    >>> est.update_many(range(25_000))
    >>> abs(est.estimate() - 0.25) < 0.01
    True

    Notes
    -----
    Section 5, "Distinct Sampling: An Overview": PPDS with the coins 0 and 1. **Not private, and not meant to be.**
    A deletion takes a user out of the set; the level never falls.
    """

    def __init__(
        self,
        universe: int | Universe,
        sample: int,
        *,
        hashing: FMHash | None = None,
        coins: Coins | None = None,
    ) -> None:
        super().__init__(
            universe,
            math.inf,
            coins,
            lambda users, coins: PlainSet(LevelledSet(hashing or FMHash.drawn(users, coins), sample), users),
        )
        flaws.warn(self)

    @property
    def known_flaws(self) -> tuple[str, ...]:
        return flaws.IDS_IN_THE_CLEAR, flaws.LINEAR_HASH, flaws.ROUNDED_SAMPLE


@dataclass
class PlainSet:
    """The ids of users who came, in the clear."""

    levelled: LevelledSet
    universe: int

    @property
    def size(self) -> int:
        """The size m at which the set is full."""
        return self.levelled.sample

    @property
    def state(self) -> LevelState:
        """All that is kept, in a form that can be compared."""
        return self.levelled.state

    def redraw(self, indices: Words, remove: bool) -> None:
        """Let users into the set, or take them out of it."""
        self.levelled.feed(indices, _never if remove else _always)

    def estimate(self) -> float:
        """``2^L |set| / |U|``."""
        return float(2**self.levelled.level * len(self.levelled.users) / self.universe)


def _always(n: int) -> Flips:
    return np.ones(n, dtype=np.bool_)


def _never(n: int) -> Flips:
    return np.zeros(n, dtype=np.bool_)
