"""The loop and the output formula that Alg. 1 and Alg. 2 share."""

from typing import NamedTuple

from panprivacy import theory
from panprivacy.memory import Scratch
from panprivacy.paper.printed_pairs import PrintedPair
from panprivacy.paper.sample import drawn, members
from panprivacy.privacy.coins import Coins
from panprivacy.table import Table
from panprivacy.universe import Universe, universe_of
from panprivacy.universe.words import Words


class BitState(NamedTuple):
    """All that Dwork and OptBern keep: the sampled users, and one bit for each."""

    users: tuple[int, ...]
    bits: tuple[bool, ...]


class SampledBits:
    """A bit for every user of a random sample: drawn with p_init, redrawn with p_upd when the user appears."""

    def __init__(self, universe: int, sample: int, pair: PrintedPair, epsilon: float, coins: Coins) -> None:
        self._pair = pair
        self._epsilon = epsilon
        self._coins = coins
        self._sample = drawn(universe, sample, coins)
        self._table = Table.drawn(sample, pair.coins, coins)

    def redraw(self, indices: Words, remove: bool) -> None:
        """Redraw the bits of those of these users who are sampled, each with a coin of its own."""
        threshold = self._pair.coins.absent if remove else self._pair.coins.present
        with Scratch() as scratch:
            self._table.redraw(self._sample.select(indices, scratch), threshold, self._coins, scratch)

    def estimate(self) -> float:
        """The density that the share of ones tells, plus ``Laplace(1/(epsilon m))``."""
        share = self._table.ones() / self.size
        return self._coins.noisy_real(self._pair.density(share), 1 / (self._epsilon * self.size))

    @property
    def size(self) -> int:
        """The number of sampled users m."""
        return self._table.size

    @property
    def state(self) -> BitState:
        """All that is kept, in a form that can be compared."""
        return BitState(members(self._sample), tuple(self._table.bits(0, self.size).tolist()))


def sample_for(algorithm: str, universe: int | Universe, epsilon: float, alpha: float, beta: float) -> int:
    """The first line of the listings: m*, for which ``P(|estimate - density| >= alpha) <= beta`` is proved."""
    size, users = int(theory.sample_size(algorithm, epsilon, alpha, beta)), universe_of(universe).size
    if size > users:
        raise ValueError(
            f"an error below {alpha:g} with probability {1 - beta:g} is proved for {size} sampled users, and the "
            f"universe has {users}; give a sample instead, or allow a larger error"
        )
    return size
