"""Alg. 3: pan-private distinct sampling."""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from panprivacy.paper import flaws, printed_pairs
from panprivacy.paper.hashing import FMHash
from panprivacy.paper.levels import LevelledSet, LevelState
from panprivacy.paper.printed import Printed
from panprivacy.privacy.coins import CHUNK, Coins
from panprivacy.universe import Universe
from panprivacy.universe.words import Words


class PPDS(Printed):
    r"""Pan-private distinct sampling: a set of ids that adapts whom it samples to how many there are, as printed.

    A user is in the set with probability p_init before it appears and p_upd after, if its hash is at least the
    level L. When the set holds `sample` users, L rises and half of them leave. The estimate is

        (2^L |set| / |U| - p_init) / (p_upd - p_init) + Laplace(2^L / (epsilon |U|)).

    Parameters
    ----------
    universe
        The users there could be: a number N for ids 0..N-1, `pp.Users` or `pp.Edges`.
    epsilon
        The paper's budget; the theorem asks for at most 1/2 and claims ``2 * epsilon``.
    sample
        The size m at which the set is full. With more than |U| it never is, and PPDS is OptBern with every user
        sampled. With |U| itself it still is if every user's coin says yes.
    pair
        ``"optbern"``, as in the listing, or ``"dwork"``: "the modification to the sampling step is independent".
    init
        ``"scan"`` goes through all users, as in the listing. ``"shortcut"`` draws how many users are chosen, a
        binomial number, then who, and then the level that results: the same distribution, in about half of |U|
        steps instead of |U|. (The paper inserts exactly ``p_init * |U|`` users, which is another distribution.)
    hashing
        The hash, drawn if left out.
    coins
        The source of randomness.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("ignore", flaws.NotPrivateAsPrinted)
    >>> est = PPDS(universe=100_000, epsilon=0.5, sample=10_000)
    >>> est.update_many(range(25_000))
    >>> abs(est.estimate() - 0.25) < 0.15
    True
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
            raise ValueError(f"init must be one of {', '.join(map(repr, _INITIALISATIONS))}, got {init!r}")

        def drawn(users: int, coins: Coins) -> DrawnSet:
            levelled = LevelledSet(hashing or FMHash.drawn(users, coins), sample)
            _INITIALISATIONS[init](levelled, users, self._pair.coins.absent, coins)
            return DrawnSet(levelled, users, self._pair, float(epsilon), coins)

        super().__init__(universe, epsilon, coins, drawn)
        flaws.warn(self)

    @property
    def known_flaws(self) -> tuple[str, ...]:
        noise = flaws.noise_too_small(self._pair_name, self._epsilon)
        at_a_level = f"Even at a level that never rises, with m = |U|/2**L: {noise}"
        return flaws.LEVEL_LEAKS, at_a_level, flaws.LINEAR_HASH, flaws.ROUNDED_SAMPLE


@dataclass
class DrawnSet:
    """A set that users are in by chance: with p_init before they appear, and with p_upd after."""

    levelled: LevelledSet
    universe: int
    pair: printed_pairs.PrintedPair
    epsilon: float
    coins: Coins

    @property
    def size(self) -> int:
        """The size m at which the set is full."""
        return self.levelled.sample

    @property
    def state(self) -> LevelState:
        """All that is kept, in a form that can be compared."""
        return self.levelled.state

    def redraw(self, indices: Words, remove: bool) -> None:
        """Draw anew who of these users is in the set."""
        coins = self.pair.coins
        self.levelled.feed(indices, partial(self.coins.below, coins.absent if remove else coins.present))

    def estimate(self) -> float:
        """The size of the set as a share of those who qualify, the coins undone, plus the printed noise."""
        scale = 2**self.levelled.level / self.universe
        return self.coins.noisy_real(self.pair.density(scale * len(self.levelled.users)), scale / self.epsilon)


def _printed_pair(name: str, epsilon: float) -> printed_pairs.PrintedPair:
    if name not in ("optbern", "dwork"):
        raise ValueError(f"pair must be 'optbern' or 'dwork', got {name!r}")
    return printed_pairs.dwork(epsilon) if name == "dwork" else printed_pairs.optbern(epsilon)


def _scan(empty: LevelledSet, universe: int, absent: int, coins: Coins) -> None:
    """The initialisation phase of Alg. 3."""
    for start in range(0, universe, CHUNK):
        empty.feed(np.arange(start, min(start + CHUNK, universe)), partial(coins.below, absent))


def _shortcut(empty: LevelledSet, universe: int, absent: int, coins: Coins) -> None:
    """The initialisation that section 5 describes in words."""
    chosen = sum(int(coins.below(absent, min(CHUNK, universe - i)).sum()) for i in range(0, universe, CHUNK))
    empty.fill(coins.subset(universe, chosen), universe)


_INITIALISATIONS = {"scan": _scan, "shortcut": _shortcut}
