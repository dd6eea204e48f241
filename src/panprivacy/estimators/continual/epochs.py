r"""What many moves lose together if a delta is allowed: about the root of their number, not the number.

An *epoch* is all that is seen between two moves: some answers "not yet", then "moved", and the released count. As
in `continual.shares`, fix the two paths of a user's bit, and let the walk run one higher in the other world.
The walk's steps cost ``3*threshold``, the reading costs eps_state, and the last test before the reading costs ``test``,
all for certain. Let r be the ratio of all other probabilities in the two worlds. At every test the other world is no
likelier to move, and less likely by two counts of noise at most. So the two chances to move, p and q, have

    q <= p <= min(e^m * q, 1 - e^-m * (1 - q)),     m = 2*test.

**One epoch.** For l > 0 let V be the largest mean of r^l in the first world, over all ways to set the bars; each may
depend on what was seen. A move has r = p/q. A "not yet" has r = (1-p)/(1-q), and the epoch goes on. So V is the least
number from 1 on that, for all such p and q, is at least

    p*(p/q)^l + (1-p)*((1-p)/(1-q))^l * V.

This is convex in q, and at q = p at most V: only the smallest q counts. With it, since ``x^(1+l) / y^l`` is convex in
(x, y), it is convex in p on either side of the point at which both bounds on p hold. At p = 0 it is V, and at p = 1 it
is 1. So V is decided at that point, ``p = e^m/(1+e^m)`` and ``q = 1/(1+e^m)``: the worst epoch is a randomised response
that is asked until it says "moved". There

    ln V = (1+l)*m - ln(1 + e^m - e^(-l*m)).

**All of them.** A released count that differs by at most 1, behind Gaussian noise of square s, has a mean of r^l of at
most ``e^(l*(l+1)/(2s))`` (Canonne, Kamath and Steinke 2020, proposition 5), whatever came before it. So c epochs have
``ln E r^l <= c*(ln V + l*(l+1)/(2s))``, and by their proposition 12, for any l,

    eps(delta) = ln(E r^l)/l + ln(l/(1+l)) - ln(delta*(1+l))/l.

An epoch without a move at its end has r <= 1. Mixtures over paths lose no more, as in `panprivacy.privacy.gaussian`.

**A reading whose moment depends on what was seen.** As there, the first world's path is compared with the other's, in
which the block that is read may be changed from its beginning on. In the epoch in which that block began, r is at most
e^m whatever the paths are: every "not yet" has r <= 1, and the move at the end at most e^m. So that epoch costs ``m =
2*test`` for certain, and then only its number counts: there are c + 1 paths, and ``delta / (c + 1)`` for each.

**Why the tests keep Laplace noise.** With Gaussian noise p/q has no bound: the rarer a move, the more it tells. An
intruder who looks often enough sees rare things, so the loss would grow with the number of observations, and here it
must not.
"""

from fractions import Fraction
from functools import lru_cache
from math import exp, expm1, inf, log, log1p, nextafter, sqrt

_SLACK = 1e-11  # relative, and more than all roundings together


@lru_cache(maxsize=4096)
def loss(test: Fraction, square: Fraction, moves: int, delta: float) -> float:
    """The epsilon that these moves lose together with this delta, if they are watched: never below the truth.

    >>> loss(Fraction(1, 1000), Fraction(1000**2), 365, 1e-9) < 2 * 365 / 1000 / 2
    True
    """
    if not moves:
        return 0.0
    from scipy.optimize import minimize_scalar

    m, s = 2 * float(test), float(square)

    def bound(log_l: float) -> float:
        return loss_at(exp(log_l), m, s, moves, delta)

    middle = log(best_order(m, s, moves, delta))
    found = minimize_scalar(bound, bounds=(middle - 3, middle + 3), method="bounded")  # any order is valid
    return nextafter(max(float(found.fun), 0.0) * (1 + _SLACK) + 1e-15, inf)


def loss_at(order: float, m: float, square: float, moves: int, delta: float) -> float:
    """The epsilon by the moments of one order l."""
    moment = log_moment(order, m) / order + (order + 1) / (2 * square)
    return m + moves * moment - log1p(1 / order) - (log(delta / (moves + 1)) + log1p(order)) / order


def log_moment(order: float, m: float) -> float:
    """``ln V`` of one epoch, as ``l*m - ln(1 + e^-m * (1 - e^(-l*m)))``."""
    return order * m - log1p(-exp(-m) * expm1(-order * m))


def best_order(m: float, square: float, moves: int, delta: float) -> float:
    """The order that is about best: ``ln(E r^l)/l`` is about ``(l+1)*a``, with ``a = c*(m^2 + 1/(2s))``."""
    return sqrt(log((moves + 1) / delta) / (moves * (m**2 + 1 / (2 * square))))
