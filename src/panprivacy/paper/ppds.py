"""Alg. 3, pan-private distinct sampling (PPDS), and Distinct Sampling, the original, which is not private."""

import math
from functools import partial
from typing import Literal

import numpy as np

from panprivacy.errors import InvalidValue
from panprivacy.memory.threads import CHUNK
from panprivacy.paper import printed
from panprivacy.paper.density import PrintedPair, dwork_pair, optbern_pair
from panprivacy.paper.levels import FMHash, LevelledSet, LevelState
from panprivacy.paper.printed import Printed
from panprivacy.privacy.coins import Coins, Flips
from panprivacy.universe import Universe
from panprivacy.universe.integers import Words


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
    and those of the old level leave. The estimate is ``2^L |set| / |U|``, without noise.

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
        self._levelled.feed(indices, _never if remove else _always)

    def estimate(self) -> float:
        """``2^L |set| / |U|``."""
        return float(2**self._levelled.level * len(self._levelled.users) / self.universe.size)

    @property
    def known_flaws(self) -> tuple[str, ...]:
        return printed.IDS_IN_THE_CLEAR, printed.LINEAR_HASH, printed.ROUNDED_SAMPLE


def _always(n: int) -> Flips:
    return np.ones(n, dtype=np.bool_)


def _never(n: int) -> Flips:
    return np.zeros(n, dtype=np.bool_)


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
        self._pair_name = pair
        self._pair = _printed_pair(pair, float(epsilon))
        if init not in _INITIALISATIONS:
            raise InvalidValue(
                f"init must be one of {', '.join(map(repr, _INITIALISATIONS))}, got {init!r}", code="init-choice"
            )

        super().__init__(universe, epsilon, sample, hashing, coins)
        _INITIALISATIONS[init](self._levelled, self.universe.size, self._pair.coins.absent, self._coins)
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


def _printed_pair(name: str, epsilon: float) -> PrintedPair:
    if name not in ("optbern", "dwork"):
        raise InvalidValue(f"pair must be 'optbern' or 'dwork', got {name!r}", code="pair-choice")
    return dwork_pair(epsilon) if name == "dwork" else optbern_pair(epsilon)


def _scan(empty: LevelledSet, universe: int, absent: int, coins: Coins) -> None:
    """The initialisation phase of Alg. 3."""
    for start in range(0, universe, CHUNK):
        empty.feed(np.arange(start, min(start + CHUNK, universe)), partial(coins.below, absent))


def _shortcut(empty: LevelledSet, universe: int, absent: int, coins: Coins) -> None:
    """The initialisation that section 5 describes in words."""
    chosen = sum(int(coins.below(absent, min(CHUNK, universe - i)).sum()) for i in range(0, universe, CHUNK))
    empty.fill(coins.subset(universe, chosen), universe)


_INITIALISATIONS = {"scan": _scan, "shortcut": _shortcut}
