"""Alg. 1 and Alg. 2, Dwork and OptBern: a bit for every user of a random sample, drawn by a printed pair of coins."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray

from panprivacy import theory
from panprivacy.errors import InvalidValue
from panprivacy.memory.scratch import Scratch
from panprivacy.paper import printed
from panprivacy.paper.printed import Printed
from panprivacy.privacy import exact, pairs
from panprivacy.privacy.coins import ONE, Coins
from panprivacy.privacy.pairs import Pair
from panprivacy.slots import AllUsers
from panprivacy.table import Table
from panprivacy.universe import Universe, universe_of
from panprivacy.universe.integers import Words

_LARGEST_TABLE = 10**7  # users; a table of their places takes four bytes for each
_NOT_SAMPLED = -1


@dataclass(frozen=True)
class PrintedPair:
    """The coins f_init and f_upd of an algorithm, with the formula that turns a share of ones into a density."""

    coins: Pair
    p_init: float
    p_upd: float

    def density(self, share: float) -> float:
        """``(share - p_init) / (p_upd - p_init)``, which is what Alg. 1-3 return before noise."""
        return (share - self.p_init) / (self.p_upd - self.p_init)


@lru_cache(maxsize=256)
def dwork_pair(epsilon: float) -> PrintedPair:
    """Alg. 1: 1/2 and ``1/2 + epsilon/4``; the density is ``4/epsilon * (share - 1/2)``."""
    p_init, p_upd = (float(p) for p in theory.dwork_pair(epsilon))
    return PrintedPair(pairs.dwork(epsilon), p_init, p_upd)


@lru_cache(maxsize=256)
def optbern_pair(epsilon: float, c: float = 0.5) -> PrintedPair:
    """Alg. 2 and section 4.2: ``c(1 -+ tanh(epsilon/2))``; the density is ``(share - c + c tanh)/(2c tanh)``.

    Unlike `pairs.symmetric` this takes any c that leaves both coins below 1, private or not.
    """
    p_init, p_upd = (float(p) for p in theory.symmetric_pair(epsilon, c))
    if c <= 0.5:
        return PrintedPair(pairs.symmetric(epsilon, c), p_init, p_upd)
    share, scale = exact.logistic(epsilon), 2 * Fraction(c) * ONE
    coins = Pair(absent=ceil(scale * (1 - share)), present=min(floor(scale * share), ONE - 1))
    return PrintedPair(coins, p_init, p_upd)


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
            # Without the last user in the list: users after it are compared with it, and found to be others.
            places = np.searchsorted(self.users[:-1], indices.view(np.int64))
            return np.asarray(places[self.users[places] == indices.view(np.int64)], dtype=np.uint64)
        read = self._places[indices]
        return np.asarray(read[read != _NOT_SAMPLED], dtype=np.uint64)


def draw_sample(universe: int, size: int, coins: Coins) -> Sample | AllUsers:
    """Sample this many users of a universe; a sample of all users needs no list."""
    if not 1 <= size <= universe:
        raise InvalidValue(f"sample must be between 1 and the universe of {universe}, got {size}", code="sample-range")
    return AllUsers(universe, 0, universe) if size == universe else Sample(coins.subset(universe, size), universe)


def sampled_users(sample: Sample | AllUsers) -> tuple[int, ...]:
    """The users that are sampled."""
    return tuple(range(sample.size)) if isinstance(sample, AllUsers) else tuple(sample.users.tolist())


class BitState(NamedTuple):
    """All that Dwork and OptBern keep: the sampled users, and one bit for each."""

    users: tuple[int, ...]
    bits: tuple[bool, ...]


class SampledDensity(Printed):
    """Alg. 1 or 2: a bit for every user of a sample, drawn with p_init, redrawn with p_upd when the user appears."""

    ALGORITHM: ClassVar[str]
    """Its name in `panprivacy.theory`."""

    def __init__(
        self, universe: int | Universe, epsilon: float, sample: int, pair: PrintedPair, coins: Coins | None
    ) -> None:
        super().__init__(universe, epsilon, sample, coins)
        self._pair = pair
        self._sample = draw_sample(self.universe.size, sample, self._coins)
        self._table = Table.drawn(sample, pair.coins, self._coins)

    def redraw(self, indices: Words, remove: bool) -> None:
        """Redraw the bits of the sampled users among these, each with a coin of its own."""
        threshold = self._pair.coins.absent if remove else self._pair.coins.present
        with Scratch() as scratch:
            self._table.redraw(self._sample.select(indices, scratch), threshold, self._coins, scratch)

    def estimate(self) -> float:
        """The density that the share of ones tells, plus ``Laplace(1/(epsilon m))``."""
        share = self._table.ones() / self.sample
        return self._coins.noisy_real(self._pair.density(share), 1 / (self.epsilon * self.sample))

    @property
    def state(self) -> BitState:
        """All that is kept, in a form that can be compared."""
        return BitState(sampled_users(self._sample), tuple(self._table.bits(0, self.sample).tolist()))

    @classmethod
    def for_accuracy(
        cls, universe: int | Universe, epsilon: float, alpha: float, beta: float, *, coins: Coins | None = None
    ) -> Self:
        """Sample m* users, for whom ``P(|estimate - density| >= alpha) <= beta`` is proved: line 1 of the listings."""
        size, users = int(theory.sample_size(cls.ALGORITHM, epsilon, alpha, beta)), universe_of(universe).size
        if size > users:
            raise InvalidValue(
                f"an error below {alpha:g} with probability {1 - beta:g} is proved for {size} sampled users, and the "
                f"universe has {users}; give a sample instead, or allow a larger error",
                code="sample-too-large",
            )
        build: Any = cls
        return cast("Self", build(universe, epsilon, size, coins=coins))


class Dwork(SampledDensity):
    r"""The density estimator of Dwork et al. (2010), as the paper prints it.

    Every user of a random sample of m owns a bit, at first Bernoulli(1/2); an appearance redraws it as
    Bernoulli(1/2 + epsilon/4). The estimate is

        (4/epsilon) * (share of ones - 1/2) + Laplace(1/(epsilon m)).

    Parameters
    ----------
    universe
        The users there could be: a number N for ids 0..N-1, `pp.Users` or `pp.Edges`.
    epsilon
        The paper's budget, in (0, 2); the theorems ask for at most 1/2 and claim ``2 * epsilon``.
    sample
        Number of sampled users m. `for_accuracy` takes the printed inputs (alpha, beta) instead.
    coins
        The source of randomness.

    Examples
    --------
    >>> est = Dwork(universe=100_000, epsilon=0.5, sample=50_000)
    >>> est.claimed_epsilon
    1.0
    >>> est.known_flaws[0][-56:]
    'state and output together lose 3.829 where 1 is claimed.'

    Notes
    -----
    Alg. 1; Thm 3.1-3.3 are in `panprivacy.theory`. **Not private as printed**: see `known_flaws`, and use
    `panprivacy.Density`.
    """

    ALGORITHM: ClassVar[str] = "dwork"

    def __init__(self, universe: int | Universe, epsilon: float, sample: int, *, coins: Coins | None = None) -> None:
        super().__init__(universe, epsilon, sample, dwork_pair(float(epsilon)), coins)
        printed.warn(self)

    @property
    def known_flaws(self) -> tuple[str, ...]:
        spent = theory.actual_epsilon(theory.dwork_pair(self.epsilon))  # section 4.1 of the paper
        unused = (
            f"The state spends only {spent:.4f} of the {self.epsilon:g} it is given, so the estimate errs more than"
        )
        return printed.noise_too_small("dwork", self.epsilon), f"{unused} it must."


class OptBern(SampledDensity):
    r"""Dwork's estimator with the pair of coins that uses all of the state's budget, as the paper prints it.

    Every user of a random sample of m owns a bit, at first Bernoulli(p_init); an appearance redraws it as
    Bernoulli(p_upd), with ``p_init = c(1 - tanh(epsilon/2))`` and ``p_upd = c(1 + tanh(epsilon/2))``. The estimate is

        (share of ones - p_init) / (p_upd - p_init) + Laplace(1/(epsilon m)).

    Parameters
    ----------
    universe, sample, coins
        As in `Dwork`.
    epsilon
        The paper's budget; the theorems ask for at most 1/2 and claim ``2 * epsilon``.
    c
        Centre of the pair. The listing has 1/2; section 4.2 allows up to 4/5, **which is not private**.

    Examples
    --------
    >>> print(OptBern(100, 0.5, 10, c=0.8).known_flaws[0])
    c = 0.8 is above 1/2, and the state alone then loses 4.579 where 0.5 is claimed.

    Notes
    -----
    Alg. 2; Thm 4.1-4.3 are in `panprivacy.theory`. **Not private as printed**: see `known_flaws`, and use
    `panprivacy.Density`, which is this with noise of the right size.
    """

    ALGORITHM: ClassVar[str] = "optbern"

    def __init__(
        self, universe: int | Universe, epsilon: float, sample: int, c: float = 0.5, *, coins: Coins | None = None
    ) -> None:
        self._c = float(c)
        super().__init__(universe, epsilon, sample, optbern_pair(float(epsilon), self._c), coins)
        printed.warn(self)

    @property
    def known_flaws(self) -> tuple[str, ...]:
        noise = printed.noise_too_small("optbern", self.epsilon, self._c)
        if self._c <= 0.5:
            return (noise,)
        # Section 4.2 of the paper allows c up to 4/5; its condition on R(0) is printed with c instead of 1 - c.
        loss = theory.actual_epsilon(theory.symmetric_pair(self.epsilon, self._c))
        centre = f"c = {self._c:g} is above 1/2, and the state alone then loses {loss:.3f}"
        return f"{centre} where {self.epsilon:g} is claimed.", noise
