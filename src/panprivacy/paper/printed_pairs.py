"""The printed pairs: two coins, and the estimate that undoes them."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor

from panprivacy import theory
from panprivacy.privacy import exact, pairs
from panprivacy.privacy.coins import ONE
from panprivacy.privacy.pairs import Pair


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
def dwork(epsilon: float) -> PrintedPair:
    """Alg. 1: 1/2 and ``1/2 + epsilon/4``; the density is ``4/epsilon * (share - 1/2)``."""
    p_init, p_upd = (float(p) for p in theory.dwork_pair(epsilon))
    return PrintedPair(pairs.dwork(epsilon), p_init, p_upd)


@lru_cache(maxsize=256)
def optbern(epsilon: float, c: float = 0.5) -> PrintedPair:
    """Alg. 2 and section 4.2: ``c(1 -+ tanh(epsilon/2))``; the density is ``(share - c + c tanh)/(2c tanh)``.

    Unlike `pairs.symmetric` this takes any c that leaves both coins below 1, private or not.
    """
    p_init, p_upd = (float(p) for p in theory.symmetric_pair(epsilon, c))
    if c <= 0.5:
        return PrintedPair(pairs.symmetric(epsilon, c), p_init, p_upd)
    share, scale = exact.logistic(epsilon), 2 * Fraction(c) * ONE
    coins = Pair(absent=ceil(scale * (1 - share)), present=min(floor(scale * share), ONE - 1))
    return PrintedPair(coins, p_init, p_upd)
