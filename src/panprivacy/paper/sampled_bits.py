"""The loop and the output formula that Alg. 1 and Alg. 2 share."""

from typing import ClassVar, NamedTuple, Self

from panprivacy import theory
from panprivacy.memory import Scratch
from panprivacy.paper import flaws
from panprivacy.paper.printed import Printed
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


class SampledBits(Printed):
    """A bit for every user of a random sample: drawn with p_init, redrawn with p_upd when the user appears."""

    ALGORITHM: ClassVar[str]
    """What `panprivacy.theory` calls it."""

    def __init__(
        self, universe: int | Universe, epsilon: float, sample: int, pair: PrintedPair, coins: Coins | None
    ) -> None:
        super().__init__(universe, epsilon, coins)
        self._pair = pair
        self._sample = drawn(self._universe.size, sample, self._coins)
        self._table = Table.drawn(sample, pair.coins, self._coins)
        flaws.warn(self, depth=2)

    @classmethod
    def for_accuracy(
        cls, universe: int | Universe, epsilon: float, alpha: float, beta: float, *, coins: Coins | None = None
    ) -> Self:
        """The first line of the listing: m*, for which ``P(|estimate - density| >= alpha) <= beta`` is proved."""
        size, users = int(theory.sample_size(cls.ALGORITHM, epsilon, alpha, beta)), universe_of(universe).size
        if size > users:
            raise ValueError(
                f"an error below {alpha:g} with probability {1 - beta:g} is proved for {size} sampled users, and the "
                f"universe has {users}; give a sample instead, or allow a larger error"
            )
        return cls(universe, epsilon, size, coins=coins)  # type: ignore[call-arg]

    def _redraw(self, indices: Words, remove: bool) -> None:
        threshold = self._pair.coins.absent if remove else self._pair.coins.present
        with Scratch() as scratch:
            self._table.redraw(self._sample.select(indices, scratch), threshold, self._coins, scratch)

    def estimate(self) -> float:
        share = self._table.ones() / self.sample
        return self._coins.noisy_real(self._pair.density(share), 1 / (self._epsilon * self.sample))

    @property
    def sample(self) -> int:
        """The number of sampled users m."""
        return self._table.size

    @property
    def state(self) -> BitState:
        return BitState(members(self._sample), tuple(self._table.bits(0, self.sample).tolist()))
