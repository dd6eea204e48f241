"""Alg. 3, pan-private distinct sampling (PPDS), and Distinct Sampling, the original, which is not private.

M_DS and L: a set of users that raises its level whenever it is full, and the hash that gives users their levels.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from panprivacy.errors import InvalidValue
from panprivacy.memory.threads import CHUNK
from panprivacy.paper import printed
from panprivacy.paper.density import dwork_pair, optbern_pair
from panprivacy.paper.printed import Printed
from panprivacy.privacy.coins import Coins, Flips
from panprivacy.universe import Universe
from panprivacy.universe.integers import Words


@dataclass(frozen=True)
class FMHash:
    """Give every user a level: level i to about one in ``2**(i+1)``.

    ``h(u) = (multiplier * u + offset) mod 2**bits`` with an odd multiplier, which sends the users to distinct
    numbers, and ``hash(u)`` = the number of trailing zeros of ``h(u)``. For ``h(u) = 0``, which has no lowest one,
    ``hash(u) = bits``: the paper's range ``0..Q`` needs it, and then ``P(hash(u) = Q) = 2**-Q``, not
    ``2**-(Q+1)``.

    Examples
    --------
    >>> plain = FMHash(multiplier=1, offset=0, bits=4)
    >>> [plain(u) for u in (12, 7, 8, 0)]
    [2, 0, 3, 4]

    Notes
    -----
    Section 5 of the paper ("Technical Details"). The users of level L or more are those with
    ``multiplier * u + offset`` divisible by ``2**L``: **an arithmetic progression** of ids with stride ``2**L``, not a
    random sample. A stream of all even ids is kept whole or not at all from level 1 on. Use it for reproduction only.
    """

    multiplier: int
    offset: int
    bits: int

    @classmethod
    def drawn(cls, universe: int, coins: Coins) -> "FMHash":
        """Draw the multiplier, odd, and the offset for the smallest Q >= 1 with ``universe <= 2**Q``."""
        bits = max((universe - 1).bit_length(), 1)
        return cls(2 * coins.randbelow(2 ** (bits - 1)) + 1, coins.randbelow(2**bits), bits)

    def __call__(self, user: int) -> int:
        """``hash(u)``, in 0..bits."""
        return int(self.levels(np.array([user]))[0])

    def levels(self, users: NDArray[np.integer]) -> NDArray[np.uint8]:
        """``hash(u)`` of many users."""
        number = users.astype(np.uint64) * np.uint64(self.multiplier) + np.uint64(self.offset)
        number &= np.uint64(2**self.bits - 1)
        below_lowest_one = (number & (~number + np.uint64(1))) - np.uint64(1)  # all ones if the number is zero
        return np.minimum(np.bitwise_count(below_lowest_one), np.uint8(self.bits))


_NEVER = 2**62  # a size that no set reaches
_NO_FLIPS: Flips = np.empty(0, dtype=np.bool_)


class LevelState(NamedTuple):
    """All that Distinct Sampling and PPDS keep."""

    hashing: FMHash
    level: int
    users: tuple[int, ...]


class LevelledSet:
    r"""The set M_DS of users whose hash is at least L, which halves who may enter whenever it holds `sample` users.

    An event of user u, by the body of Alg. 3's loops:

    - if ``hash(u) >= L``: let u be in the set if its coin says so, and not in it otherwise. (The listing removes a
      member "with probability 1 - p" and adds another "with probability p", which is the same coin.)
    - unless u was in the set before, and even if ``hash(u) < L``: if the set now has `sample` users or more, remove
      those with ``hash <= L`` and raise L by one. The check is an *if*: where no user is removed the set stays full
      until the next event of someone outside.

    The initialisation loops over all users with the same body, as no user is in the set before its turn.

    Notes
    -----
    The set is kept as a sorted array: any other table of ids would show in which order they came. L can reach
    ``bits + 1``, one more than the paper says, and then no user qualifies.
    """

    def __init__(self, hashing: FMHash, sample: int) -> None:
        if sample < 1:
            raise InvalidValue(f"sample must be at least 1, got {sample}", code="sample-range")
        self.hashing = hashing
        self.sample = sample
        self.level: int = 0
        self.users: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    @property
    def state(self) -> LevelState:
        """All that is kept, in a form that can be compared."""
        return LevelState(self.hashing, self.level, tuple(self.users.tolist()))

    def feed(self, ids: NDArray[np.integer], flip: Callable[[int], Flips]) -> None:
        """Process events; ``flip(n)`` draws n coins.

        Exactly one coin is drawn for each event that needs one. The level cannot rise before ``sample - |M_DS|``
        coins more are used, so that many are drawn at a time.
        """
        from panprivacy.paper import kernels

        ids = ids.astype(np.int64, copy=False)
        hashing = np.array([self.hashing.multiplier, self.hashing.offset, self.hashing.bits], dtype=np.uint64)
        # A table to look ids up in, with room for all that the set can hold: each user beyond `sample` - 1 enters with
        # a rise of the level, of which there are at most ``bits + 1``.
        room = min(self.sample + self.hashing.bits + 1, 2**self.hashing.bits)
        cells = np.full(2 << room.bit_length(), kernels.FREE, dtype=np.int64)
        kernels.put(self.users, cells)
        counters = np.array([0, len(self.users), self.level, min(self.sample, _NEVER)])
        kernels.sift(ids, _NO_FLIPS, cells, hashing, counters)
        while counters[kernels.AT] < len(ids):
            flips = flip(kernels.flips_ahead(ids, hashing, counters))
            kernels.sift(ids, flips, cells, hashing, counters)
        self.level = int(counters[kernels.LEVEL])
        self.users = np.sort(cells[cells != kernels.FREE])

    def fill(self, chosen: NDArray[np.int64], universe: int) -> None:
        """Fill the empty set as if all users ``0..universe-1`` had come in order, the coins of `chosen` saying yes.

        The shortcut of section 5: the level first, then everyone who qualifies, all at once. With ``t_L`` the user
        who makes it `sample` chosen ones of level L or more, the level rises from L at user ``max(t_L, one after the
        last rise)``: at most once at each user.
        """
        levels = self.hashing.levels(chosen)
        risen_at = -1
        while len(chosen) >= self.sample:
            risen_at = max(risen_at + 1, int(chosen[self.sample - 1]))
            if risen_at >= universe:
                break
            self.level += 1
            chosen, levels = chosen[levels >= self.level], levels[levels >= self.level]
        self.users = chosen.copy()


class LevelledSampling(Printed):
    """A set with a level, and what an algorithm makes of it."""

    def __init__(
        self, universe: int | Universe, epsilon: float, sample: int, hashing: FMHash | None, coins: Coins | None
    ) -> None:
        super().__init__(universe, epsilon, sample, coins)
        self._levelled = LevelledSet(hashing or FMHash.drawn(self.universe.size, self._coins), sample)

    @property
    def state(self) -> LevelState:
        """All that is kept, in a form that can be compared."""
        return self._levelled.state


class DistinctSampling(LevelledSampling):
    r"""Gibbons' Distinct Sampling (2001): the ids of those who came, thinned by half whenever they are too many.

    A user who appears enters the set if its hash is at least the level L. When the set holds `sample` users, L rises
    and users of the old level leave. The estimate is ``2^L |set| / |U|``, without noise.

    Parameters
    ----------
    universe
        As in `Dwork`.
    sample
        The size m at which the set is full.
    hashing, coins
        The hash; if left out, it is drawn from the coins. Nothing else is random.

    Examples
    --------
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
        super().__init__(universe, math.inf, sample, hashing, coins)
        printed.warn(self)

    def redraw(self, indices: Words, remove: bool) -> None:
        """Let users into the set, or take them out of it."""
        self._levelled.feed(indices, lambda n: np.full(n, not remove))

    def estimate(self) -> float:
        """``2^L |set| / |U|``."""
        return float(2**self._levelled.level * len(self._levelled.users) / self.universe.size)

    @property
    def known_flaws(self) -> tuple[str, ...]:
        return printed.IDS_IN_THE_CLEAR, printed.LINEAR_HASH, printed.ROUNDED_SAMPLE


class PPDS(LevelledSampling):
    r"""Pan-private distinct sampling: a set of ids that adapts whom it samples to how many there are, as printed.

    A user is in the set with probability p_init before it appears and p_upd after, if its hash is at least the
    level L. When the set holds `sample` users, L rises and half of them leave. The estimate is

        ``(2^L |set| / |U| - p_init) / (p_upd - p_init) + Laplace(2^L / (epsilon |U|))``.

    Parameters
    ----------
    universe
        As in `Dwork`.
    epsilon
        The paper's budget; the theorem asks for at most 1/2 and claims ``2 * epsilon``.
    sample
        The size m at which the set is full. With more than ``|U|`` it never is, and PPDS is OptBern with every user
        sampled. With ``|U|`` itself it still is if every user's coin says yes.
    pair
        ``"optbern"``, as in the listing, or ``"dwork"``: "the modification to the sampling step is independent".
    init
        ``"scan"`` goes through all users, as in the listing. ``"shortcut"`` draws how many users are chosen, a
        binomial number, then who, and then the level that results: the same distribution, in about half of ``|U|``
        steps. (The paper inserts exactly ``p_init * |U|`` users, which is another distribution.)
    hashing, coins
        The hash, drawn from the coins if left out, and the source of all randomness.

    Examples
    --------
    >>> est = PPDS(universe=100_000, epsilon=0.5, sample=10_000)
    >>> est.update_many(range(25_000))
    >>> est.state.level, len(est.state.users) < 10_000
    (3, True)

    Notes
    -----
    Alg. 3; Thm 5.1 and 5.2 are in `panprivacy.theory`. The body of its loops is `LevelledSet`. **Not private as
    printed**: see `known_flaws`, and use `FixedLevelPPDS` or, better, `panprivacy.Density`.
    """

    alternative = "panprivacy.paper.FixedLevelPPDS or panprivacy.Density"

    def __init__(
        self,
        universe: int | Universe,
        epsilon: float,
        sample: int,
        pair: Literal["optbern", "dwork"] = "optbern",
        *,
        init: Literal["scan", "shortcut"] = "scan",
        hashing: FMHash | None = None,
        coins: Coins | None = None,
    ) -> None:
        if pair not in ("optbern", "dwork"):
            raise InvalidValue(f"pair must be 'optbern' or 'dwork', got {pair!r}", code="pair-choice")
        if init not in ("scan", "shortcut"):
            raise InvalidValue(f"init must be one of 'scan', 'shortcut', got {init!r}", code="init-choice")
        self._pair_name = pair
        self._pair = (dwork_pair if pair == "dwork" else optbern_pair)(float(epsilon))
        super().__init__(universe, epsilon, sample, hashing, coins)
        users, absent = self.universe.size, self._pair.coins.absent
        chunks = [range(start, min(start + CHUNK, users)) for start in range(0, users, CHUNK)]
        if init == "scan":
            for chunk in chunks:
                self._levelled.feed(np.arange(chunk.start, chunk.stop), partial(self._coins.below, absent))
        else:
            chosen = sum(int(self._coins.below(absent, len(chunk)).sum()) for chunk in chunks)
            self._levelled.fill(self._coins.subset(users, chosen), users)
        printed.warn(self)

    def redraw(self, indices: Words, remove: bool) -> None:
        """Draw anew who of these users is in the set."""
        pair = self._pair.coins
        self._levelled.feed(indices, partial(self._coins.below, pair.absent if remove else pair.present))

    def estimate(self) -> float:
        """The size of the set as a share of those who qualify, the coins undone, plus the printed noise."""
        scale = 2**self._levelled.level / self.universe.size
        return self._coins.noisy_real(self._pair.density(scale * len(self._levelled.users)), scale / self.epsilon)

    @property
    def known_flaws(self) -> tuple[str, ...]:
        noise = printed.noise_too_small(self._pair_name, self.epsilon)
        at_a_level = f"Even at a level that never rises, with m = |U|/2**L: {noise}"
        return printed.LEVEL_LEAKS, at_a_level, printed.LINEAR_HASH, printed.ROUNDED_SAMPLE
