r"""What K releases with discrete Gaussian noise lose together, rounded up.

One user moves each released count by at most 1, so the worst two neighbours see K numbers of the law N(0, s) against
K of the law N(1, s), s being `Gaussian.square`. The log-ratio of the two is linear in the number, hence that of all K
in their sum S: it is ``(K - 2S) / (2s)``. So the exact hockey-stick divergence takes the law of one sum, by Canonne,
Kamath and Steinke (2020), theorem 7, applied to the sum:

    delta(eps) = P(S > eps*s - K/2) - e^eps * P(S > eps*s + K/2),     S a sum of K discrete Gaussians around 0.

With a sensitivity of D instead of 1, numbers move by D: ``eps*s/D`` takes the place of ``eps*s`` and ``K*D`` that of K.

**The law of the sum.** Two discrete Gaussians of squares a and b add up to z with a probability that is the product of
``exp(-z^2 / (2(a+b)))`` and a sum over the integers x of ``exp(-(x - m)^2 / (2r))``, where m depends on z and
``1/r = 1/a + 1/b``. By Poisson's formula the sum is ``sqrt(2 pi r)`` times a number between 1-t and 1+t for every m,
with ``t = 2 * sum over k >= 1 of exp(-2 pi^2 r k^2)``. So every probability of the sum is that of one discrete Gaussian
of square a+b, times a factor between (1-t)/(1+t) and (1+t)/(1-t); and K of them are one of square K*s, up to the
product of the factors for r = s*k/(k+1), k = 1..K-1. From s = 1 on these come to at most 0.2 % for 100,000 releases;
from s = 2 on, to one in a million. The upper end is taken for the first probability and the lower end for the second.

**Tails of one discrete Gaussian** are summed term by term up to a width of 500. Beyond, sums of ``f(x) = exp(-x^2 /
(2v))`` are bounded by integrals: where f is convex (beyond the root of v), an integral is below its rule of trapezes
and above its rule of midpoints, and these rules are sums; where f is concave, the other way round.

**The state beside it.** Let the readings (of the state, and of all that `rerandomize` shows) be eps_s-private by
themselves. Given what was read, the releases are a mixture, over the paths that the user's bit may take, of Gaussian
releases whose counts differ by at most 1 each. The hockey-stick divergence is jointly convex, so that of two such
mixtures is at most delta(eps); and a reading y has ``P(y) <= e^eps_s P'(y)``. So the whole is (eps_s + eps, delta) for
a reading at a fixed moment.

**A moment that depends on the releases.** Draw the path a of one world's bit and, independently, the path b of the
other's. A reading shows a's bit at that moment; given it, b has that bit in its current block, from its last redraw on.
If b had that bit anyway, the path that a is compared with is b itself. If not, it is b with that block changed, and it
is decided by how many releases were made before the block began: 0 to K-1, since after K no release sees the block. So
a is compared with one of K + 1 paths. The outcomes that belong to each are disjoint, and each path has a divergence of
at most delta(eps). In all that is (K + 1)*delta(eps), whatever depends on earlier releases: the moment of the
reading, the times of releases, and everybody's events. `choices` is that number of paths. For counters up to t it is
t*(K + 1), since the counter that was read says where b's counter began. With J announced readings there is a reading in
each of J + 1 stretches, and each may be a 0 or a 1. When a stretch ends may depend on the releases, too, so the numbers
of releases before the J + 1 blocks are any that do not fall: ``2^(J+1) * C(K+J+1, J+1)`` paths.

The releases see a bit that is 1 with probability p1 only, which this bound does not use: `panprivacy.privacy.renyi`.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, expm1, floor, inf, lgamma, log, log1p, nextafter, pi, sqrt

import numpy as np

LEAST_SQUARE = Fraction(1)
"""Noise of less than one user's width is not drawn: the accounting is loose there."""

_SUMMED = 500.0  # the width up to which tails are summed term by term
_NEGLIGIBLE = 90.0  # e^-90: omitted terms of a sum are far below its rounding
_SLACK = 1e-11  # relative: more than all roundings of a delta together


@lru_cache(maxsize=4096)
def loss(square: Fraction, releases: int, delta: float, sensitivity: int = 1, log_choices: float = 0.0) -> float:
    """The epsilon that these releases lose together with this delta: never below the truth.

    `log_choices` is the logarithm of the number of paths among which an intruder who watches may choose.

    >>> round(loss(Fraction(100**2), 365, 1e-9), 4)
    1.0523
    """
    if not releases:
        return 0.0
    rho, wanted = releases * sensitivity**2 / (2 * float(square)), log(delta) - log_choices
    found = rho + 2 * sqrt(rho * -wanted)  # what concentrated privacy gives away

    def excess(epsilon: float) -> tuple[float, float]:
        """How far the logarithm of delta(epsilon) is above the wanted one, and how fast it falls."""
        value, slope = _log_delta_and_slope(epsilon, square, releases, sensitivity)
        return value - wanted, slope

    above, slope = excess(found)
    while above > 0:  # the bounds on a sum of little noise may ask for more
        found *= 1.01
        above, slope = excess(found)
    # The logarithm of delta(epsilon) is concave, so Newton's steps come down to the root and not past it.
    while above < -1e-7 and found > 0:
        nearer = max(found + above / slope, 0.0) if slope else 0.0
        above, slope = excess(nearer)
        if above > 0:  # but for roundings, and where the bounds are far apart
            return _least_between(nearer, found, lambda epsilon: excess(epsilon)[0])
        found = nearer
    return found


def _least_between(low: float, high: float, excess: Callable[[float], float]) -> float:
    """The least epsilon without excess between one that has some and one that has none."""
    from scipy.optimize import brentq

    found = float(brentq(lambda epsilon: max(excess(epsilon), -1e6), low, high, xtol=1e-13, rtol=1e-12))
    step = max(found * 1e-12, 1e-300)
    while excess(found) > 0:
        found, step = nextafter(found + step, inf), 2 * step
    return found


def log_choices(releases: int, redraws: int = 0, places: int = 1) -> float:
    """Logarithm of the number of paths among which an intruder who watches these releases may choose.

    >>> log_choices(0), round(exp(log_choices(365))), round(exp(log_choices(12, redraws=1)))
    (0.0, 366, 364)
    """
    if redraws:
        stretches = redraws + 1
        return stretches * log(2) + lgamma(releases + stretches + 1) - lgamma(stretches + 1) - lgamma(releases + 1)
    return log(places * (releases + 1)) if releases else 0.0


def log_delta(epsilon: float, square: Fraction, releases: int, sensitivity: int = 1) -> float:
    """Logarithm of an upper bound of delta(epsilon), for a square of at least `LEAST_SQUARE`."""
    return _log_delta_and_slope(epsilon, square, releases, sensitivity)[0]


def _log_delta_and_slope(epsilon: float, square: Fraction, releases: int, sensitivity: int) -> tuple[float, float]:
    """`log_delta`, and how fast it falls: delta(epsilon) by its second term, ``e^eps * P(S > eps*s + K/2)``."""
    if square < LEAST_SQUARE:
        raise ValueError(f"Gaussian noise has a square of at least {LEAST_SQUARE}, got {square}")
    moved = releases * sensitivity
    first = floor(Fraction(epsilon) * square / sensitivity - Fraction(moved, 2)) + 1
    factor = _factor_of_sum(float(square), releases)
    width = sqrt(releases * float(square))
    one = _log_tail(first, width, upper=True) + factor + _SLACK
    other = _log_tail(first + moved, width, upper=False) - factor - _SLACK + epsilon
    if other >= one:
        return -inf, 0.0
    value = one + log(-expm1(other - one))
    return value, exp(min(other - value, 700.0))


@lru_cache(maxsize=256)
def _factor_of_sum(square: float, releases: int) -> float:
    """Logarithm of the factor by which a sum's probabilities may differ from those of one discrete Gaussian."""
    if not _factor_of_two(square / 2):  # the largest of all is nothing that a float could hold
        return 0.0
    first = range(1, min(releases, 32))
    each = [_factor_of_two(square * k / (k + 1)) for k in first]
    return sum(each) + max(releases - 32, 0) * (each[-1] if each else 0.0)  # the factors fall with k


def _factor_of_two(narrowed: float) -> float:
    """``ln((1+t)/(1-t))``, with t from the geometric series that is above the one of squares."""
    ratio = exp(-2 * pi**2 * narrowed)
    t = 2 * ratio / (1 - ratio)
    return log1p(t) - log1p(-t)


def _log_tail(first: int, width: float, *, upper: bool) -> float:
    """Logarithm of a bound of ``P(X >= first)`` for a discrete Gaussian X of this width."""
    if first <= 0:  # by symmetry P(X >= first) = 1 - P(X >= 1 - first)
        return log1p(-min(exp(_log_tail(1 - first, width, upper=not upper)), 0.5))
    return _log_summed(first, width) if width <= _SUMMED else _log_integral(first, width, upper)


def _log_summed(first: int, width: float) -> float:
    """The sum itself, from its largest term on: terms below e^-90 of it are left out."""
    square = width**2
    # (first + n)^2 - first^2 > 2*square*90
    terms = floor(sqrt(first**2 + 2 * square * _NEGLIGIBLE)) - first + 1
    steps = np.arange(terms, dtype=np.float64)
    total = float(np.exp(-(2.0 * first * steps + steps**2) / (2 * square)).sum())
    return log(total) - first**2 / (2 * square) - _log_whole(width)


def _log_integral(first: int, width: float, upper: bool) -> float:
    """Integrals that are just above the sum, or just below it: where f is concave, between, and where it is convex."""
    from scipy.special import log_ndtr

    last_concave, first_convex = floor(width - 0.5), ceil(width + 0.5)
    start = max(first, first_convex)
    if upper:
        tail = float(log_ndtr((0.5 - start) / width))
    else:
        tail = float(np.logaddexp(log_ndtr(-start / width), _log_density(start, width) - log(2)))
    if first >= first_convex:
        return tail
    before = sum(exp(_log_density(x, width)) for x in range(max(first, last_concave + 1), first_convex))
    if first <= last_concave:
        low, high = (first, last_concave) if upper else (first - 0.5, last_concave + 0.5)
        before += exp(log_ndtr(-low / width)) - exp(log_ndtr(-high / width))
        if upper:
            before += (exp(_log_density(first, width)) + exp(_log_density(last_concave, width))) / 2
    return log(before + exp(tail))


def _log_density(x: float, width: float) -> float:
    """Logarithm of the normal density."""
    return -((x / width) ** 2) / 2 - log(width * sqrt(2 * pi))


def _log_whole(width: float) -> float:
    """Logarithm of the sum over all integers, by Poisson's formula."""
    ratio = exp(-2 * pi**2 * width**2)
    return log(width * sqrt(2 * pi)) + log1p(2 * ratio + 2 * ratio**4)
