r"""The exact law of a release of `Density` around the truth, and the probability of a large error.

``seen`` users of a universe of N have appeared. Of the ``users`` that own a bit, ``S ~ Hypergeometric(N, seen,
users)`` are among them; the table shows ``X ~ Binomial(S, p1) + Binomial(bits - S, p0)`` ones; a release says ``X + L``
with L discrete Laplace or Gaussian. Nothing here is replaced by a normal law or a bound. The sums are done in the
Fourier domain:

    E[z^X] = E[(p0 + p1 z)^S (p1 + p0 z)^(bits-S)],      z = e^(i theta), p0 = 1 - p1,

whose two factors have the same modulus, so that it is a power of one number times the characteristic function of S
at another frequency. Both die out as ``exp(-V (1 - cos theta))``, V being the variance, since binomial and
hypergeometric variables are sums of independent coins (the latter by Vatutin and Mikhailov 1982). So some dozens of
frequencies hold all but `e^-42` of the sum, whatever the size.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, exp, floor, pi, sqrt
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.errors import InvalidValue
from panprivacy.estimates.errors import ErrorModel, Reals
from panprivacy.privacy.noise import Laplace

Complexes: TypeAlias = NDArray[np.complex128]

_NEGLIGIBLE = 42.0  # e^-42 < 6e-19: omitted terms of a sum are smaller than one rounding of it


@dataclass(frozen=True)
class Design(ErrorModel):
    """What decides the error of one release: the table, whom it speaks for, and the noise.

    >>> from panprivacy.privacy.splitting import best_split
    >>> split = best_split(0.4, 1000)
    >>> every = Design(split.pair, bits=1000, users=1000, population=1000, noise=split.noise)
    >>> round(every.error_probability(500, Fraction(1, 4)), 6)
    0.037607
    """

    def __post_init__(self) -> None:
        if self.pair.p0 + self.pair.p1 != 1:
            raise InvalidValue(f"the law needs a symmetric pair, p0 = 1 - p1, got {self.pair}", code="design-pair")
        if self.pair.gap <= 0:
            raise InvalidValue(f"both coins of {self.pair} are alike and tell nothing", code="design-pair")
        if not 0 < self.users <= min(self.bits, self.population):
            raise InvalidValue(
                f"{self.users} users cannot own {self.bits} bits in a universe of {self.population}", code="design-size"
            )

    @property
    def gap(self) -> Fraction:
        """``p1 - p0``, exactly."""
        return self.pair.p1 - self.pair.p0

    def mean(self, seen: int) -> Fraction:
        """Expected number of ones when this many users of the universe have appeared."""
        return int(self.bits) * self.pair.p0 + Fraction(self.users * seen, self.population) * self.gap

    @property
    def moved(self) -> float:
        """By how much one more user seen moves the expected number of ones."""
        return float(self.users * self.gap / self.population)

    def variance(self, seen: Any) -> Any:
        """Variance of the noisy number of ones, for one number of users seen or an array of them."""
        share = seen / self.population
        coins = self.bit_variance(share) + self.noise.variance
        return coins + float(self.gap) ** 2 * self.sample_variance(share)

    def error_probability(self, seen: int, alpha: Fraction) -> float:
        """``P(|release.density - seen/population| >= alpha)``, with an absolute error below 1e-9.

        The released density lies in [0, 1], so an error of alpha upwards is possible only where
        ``seen/population + alpha <= 1``, and likewise downwards.
        """
        density, mean = Fraction(seen, self.population), self.mean(seen)
        half_width = self.users * self.gap * alpha
        ones = Ones(self, seen)
        above = ones.at_least(ceil(mean + half_width)) if density + alpha <= 1 else 0.0
        below = ones.at_most(floor(mean - half_width)) if density >= alpha else 0.0
        return min(max(above + below, 0.0), 1.0)


class Ones:
    """The number of ones in the table of a design, ready to be asked for tails."""

    def __init__(self, design: Design, seen: int) -> None:
        p0, p1, gap = float(design.pair.p0), float(design.pair.p1), float(design.gap)
        share = seen / design.population
        of_sample = design.sample_variance(share)
        of_bits = design.bit_variance(share)
        mean = design.mean(seen)
        self._center = round(mean)
        self._half = min(_half_width(of_bits + gap**2 * of_sample), design.bits + 1)
        # Gaussian noise is one more factor of the characteristic function; Laplace noise has tails too long for that.
        self._epsilon = float(design.noise.epsilon) if isinstance(design.noise, Laplace) else None
        of_noise = 0.0 if self._epsilon else design.noise.variance
        self._half += ceil(sqrt(2 * _NEGLIGIBLE * of_noise)) if of_noise else 0
        period = 2 * self._half + 1
        highest = np.arccos(max(1 - _NEGLIGIBLE / of_bits, -1.0))
        theta = 2 * pi / period * np.arange(min(self._half, floor(highest / (2 * pi) * period)) + 1)
        turn = np.arctan2(p0 * np.sin(theta), p1 + p0 * np.cos(theta))  # the angle of p1 + p0 z
        bend = turn - p0 * theta
        phi = theta - 2 * turn  # what one more seen user adds to the angle
        decay = 0.5 * design.bits * np.log1p(-4 * p0 * p1 * np.sin(theta / 2) ** 2)
        used = of_sample * (1 - np.cos(phi)) - decay < _NEGLIGIBLE
        self._theta = theta[used]
        angle = float(mean - self._center) * theta + (design.bits - 2 * design.users * share) * bend
        self._weights = np.exp(decay + 1j * angle)[used]
        if of_sample > 0:
            self._weights *= _sampled_cf(design, seen, phi[used])
        if of_noise:
            self._weights *= _gaussian_cf(of_noise, self._theta)
        self._weights[1:] *= 2  # the negative frequencies, whose weights are the conjugates
        self._weights /= period

    def at_least(self, threshold: int) -> float:
        """``P(X + L >= threshold)``.

        The sum over x of ``P(X = x) P(L >= threshold - x)`` as the sum over frequencies of what each contributes;
        ``P(L >= k) = a^k / (1+a)`` for ``k > 0`` and ``1 - a^(1-k) / (1+a)`` for ``k <= 0``, with ``a = e^-epsilon``.
        """
        low, high = -self._half, self._half
        k = threshold - self._center
        cut = min(max(k, low), high + 1)
        theta, eps = self._theta, self._epsilon
        if eps is None:
            return float(np.real(self._weights @ (np.exp(-1j * theta * cut) * _powers(-1j * theta, high + 1 - cut))))
        head = exp(-eps * (max(k - cut, 0) + 1)) * np.exp(1j * theta) * _powers(-eps + 1j * theta, cut - low)
        tail = exp(-eps * (max(cut - k, 0) + 1)) * _powers(-eps - 1j * theta, high + 1 - cut)
        whole = _powers(-1j * theta, high + 1 - cut)
        of_frequency = np.exp(-1j * theta * cut) * (whole + (head - tail) / (1 + exp(-eps)))
        return float(np.real(self._weights @ of_frequency))

    def at_most(self, threshold: int) -> float:
        """``P(X + L <= threshold)``."""
        return 1 - self.at_least(threshold + 1)


def _gaussian_cf(square: float, theta: Reals) -> Reals:
    """``E[exp(i theta L)]`` of a discrete Gaussian L, by Poisson's formula; from a square of 1 on two terms do."""
    whole = 1 + 2 * exp(-2 * pi**2 * square)
    return np.asarray(sum(np.exp(-square * (theta + 2 * pi * k) ** 2 / 2) for k in (-1, 0, 1)) / whole)


def _half_width(variance: float) -> int:
    """How far from its mean a sum of coins of this variance ever is: Bernstein's inequality at e^-42."""
    third = _NEGLIGIBLE / 3
    return ceil(third + sqrt(third**2 + 2 * _NEGLIGIBLE * variance))


def _powers(log_ratio: Complexes, terms: int) -> Complexes:
    """``1 + r + ... + r^(terms-1)`` for ``r = exp(log_ratio)``."""
    with np.errstate(invalid="ignore", divide="ignore"):
        total = np.expm1(terms * log_ratio) / np.expm1(log_ratio)
    return np.where(log_ratio == 0, float(terms), total)


def _sampled_cf(design: Design, seen: int, phi: Reals) -> Complexes:
    """``E[exp(i phi (S - E S))]`` for the S of the sampled users that are among the seen.

    Over a law this smooth every `stride`-th term is enough: by Poisson's summation formula the error is the
    characteristic function at frequencies beyond ``2 pi / stride - phi``, where it is below e^-42.
    """
    mean, variance = Fraction(design.users * seen, design.population), design.sample_variance(seen / design.population)
    center, half_width = round(mean), _half_width(variance)
    first, last = max(0, design.users + seen - design.population), min(design.users, seen)
    highest = np.arccos(max(1 - _NEGLIGIBLE / variance, -1.0)) + np.abs(phi).max()
    stride = max(1, floor(2 * pi / highest))
    points = np.arange(max(first - center, -half_width), min(last - center, half_width) + 1, stride) - float(
        mean - center
    )
    logs = log_hypergeometric(points, design.population, seen, design.users)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    angles = np.outer(phi, points)
    cosines: Reals = np.einsum("ij,j->i", np.cos(angles), weights)  # BLAS would start its threads for so little
    sines: Reals = np.einsum("ij,j->i", np.sin(angles), weights)
    return cosines + 1j * sines


# --- hypergeometric probabilities -----------------------------------------------------------------------------------
#
# To ten digits or more at any size. Differences of logarithms of the factorials of a billion keep only five digits. As
# in Loader, "Fast and accurate computation of binomial probabilities" (2000), the large parts are therefore put
# together before they are computed:
#
#     ln n! = n ln n - n + rest(n),
#
# and the sum of ``n ln n`` over the four cells of the table (seen or not, sampled or not) is, up to a constant, the sum
# of ``e * ((1+t) ln(1+t) - t)``, where t is the share by which a cell exceeds its expectation e.


_SMALL_SHARE = 1e-3  # below it the series is exact to the last digit, and the formula is not
_SMALL_NUMBER = 24  # from here on so is Stirling's


def log_hypergeometric(excess: Reals, population: int, seen: int, users: int) -> Reals:
    """``ln P(S = E S + excess)`` for ``S ~ Hypergeometric(population, seen, users)``, up to a constant.

    >>> p = np.exp(log_hypergeometric(np.array([-1.0, 0.0, 1.0]), population=4, seen=2, users=2))
    >>> (p / p.sum()).round(6).tolist()
    [0.166667, 0.666667, 0.166667]
    """
    mean = users * seen / population
    neither = population - seen - users + mean
    total = np.zeros_like(excess)
    for expected, more in ((mean, excess), (seen - mean, -excess), (users - mean, -excess), (neither, excess)):
        total += expected * _divergence(more / expected) + _rest(np.maximum(expected + more, 0.0))
    return -total


def _divergence(t: Reals) -> Reals:
    """``(1+t) ln(1+t) - t``."""
    from scipy.special import xlog1py

    series = t**2 * (1 / 2 - t * (1 / 6 - t * (1 / 12 - t * (1 / 20 - t / 30))))
    return np.where(np.abs(t) < _SMALL_SHARE, series, xlog1py(1 + np.maximum(t, -1.0), np.maximum(t, -1.0)) - t)


def _rest(n: Reals) -> Reals:
    """``ln n! - n ln n + n``: Stirling's series, or the definition where n is small."""
    from scipy.special import gammaln, xlogy

    large = np.maximum(n, _SMALL_NUMBER)
    inverse = 1 / large**2
    series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse / 1680))) / large
    small = np.minimum(n, _SMALL_NUMBER)
    return np.where(
        n < _SMALL_NUMBER, gammaln(small + 1) - xlogy(small, small) + small, series + np.log(2 * pi * large) / 2
    )


# --- the density at which a design errs most ------------------------------------------------------------------------
#
# The error probability moves with the density in two ways. Slowly: sampling errs most at density 1/2, and the coins are
# skewed elsewhere. And in ripples: counts are whole numbers, so the least count that is an error of alpha lies up to
# one step beyond alpha, by an amount that changes with every user seen. Ripples can be ranked by taking the tails for
# smooth functions; then the few best are computed.


Guess: TypeAlias = Callable[[NDArray[np.int64]], NDArray[np.float64]]
"""About how probable an error is, for numbers of seen users."""

_EVERY_DENSITY_UP_TO = 512  # users: up to this size of a universe, all densities are tried
_BASES = 9  # numbers of seen users around which the ripples are looked at
_RUN = 2048  # neighbouring numbers of seen users that are ranked at a time
_COMPUTED = 16  # numbers of seen users, the highest ranked, whose probability is computed exactly
_RELIABLE = 1e-12  # a tail below it is all rounding error


class Worst(NamedTuple):
    """The largest probability of an error, and the number of seen users at which it is reached."""

    probability: float
    seen: int


class _Stretch(NamedTuple):
    """Numbers of seen users for which the same errors are possible."""

    low: int
    high: int
    upwards: bool
    downwards: bool


def worst_case(design: Design, alpha: Fraction, *, quick: bool = False) -> Worst:
    """Find the number of seen users with the largest ``P(|release.density - truth| >= alpha)``.

    The result is the exact probability at one density, so the true worst case is never below it. Up to 512
    users all densities are tried, and it is the worst case. Beyond, it has been within a ten-thousandth of the worst
    case wherever all were tried for comparison, and mostly the same. `quick` looks around density 1/2 only.

    >>> from panprivacy.privacy.splitting import best_split
    >>> split = best_split(0.4, 4096)
    >>> design = Design(split.pair, 4096, 4096, 10**9, split.noise)
    >>> worst = worst_case(design, Fraction(1, 10))
    >>> round(worst.probability, 5), round(worst.seen / 10**9, 2)
    (0.04962, 0.5)
    """

    def at(seen: int) -> Worst:
        return Worst(design.error_probability(seen, alpha), seen)

    users = design.population
    if users <= _EVERY_DENSITY_UP_TO and not quick:
        return max(at(seen) for seen in range(users + 1))
    guesses: set[tuple[float, int]] = set()
    for stretch in _stretches(users, alpha)[: 1 if quick else None]:
        for base, part in _around(stretch, users, quick):
            guesses.update(_best_ripples(design, base, part, alpha))
    most = sorted(guesses, reverse=True)[: 2 if quick else _COMPUTED]
    return max(at(seen) for _, seen in most)


def _stretches(users: int, alpha: Fraction) -> list[_Stretch]:
    """Where errors in both directions are possible; then where only one is, the released density being in [0, 1]."""
    first_down, last_up = ceil(alpha * users), floor((1 - alpha) * users)
    stretches = [
        _Stretch(first_down, last_up, upwards=True, downwards=True),
        _Stretch(0, min(first_down - 1, last_up), upwards=True, downwards=False),
        _Stretch(max(last_up + 1, first_down), users, upwards=False, downwards=True),
    ]
    return [stretch for stretch in stretches if stretch.low <= stretch.high]


def _around(stretch: _Stretch, users: int, quick: bool) -> list[tuple[int, _Stretch]]:
    """Places to look around, each with the part of the stretch that is nearest to it."""
    middle = min(max(users // 2, stretch.low), stretch.high)
    spread = [] if quick else np.linspace(stretch.low, stretch.high, _BASES).astype(int).tolist()
    bases = sorted({middle, *spread})
    ends = [stretch.low, *((a + b) // 2 for a, b in pairwise(bases)), stretch.high]
    return [
        (base, stretch._replace(low=low, high=high)) for base, (low, high) in zip(bases, pairwise(ends), strict=True)
    ]


def _best_ripples(design: Design, base: int, stretch: _Stretch, alpha: Fraction) -> list[tuple[float, int]]:
    """Guess the largest error probabilities around a number of seen users, and say where they are."""
    guess = _guess_around(design, base, stretch, alpha)

    def top(middle: int, step: float) -> list[tuple[float, int]]:
        run = middle + np.rint(max(step, 1.0) * np.arange(-_RUN // 2, _RUN // 2 + 1)).astype(np.int64)
        run = run[(run >= stretch.low) & (run <= stretch.high)]
        values = guess(run)
        order = np.argsort(-values)[:_COMPUTED]
        return list(zip(values[order].tolist(), run[order].tolist(), strict=True))

    step = 1 / (_RUN * design.moved)  # the run then spans a whole ripple; where one user is more, it spans many
    best = top(base, step)
    return best + top(best[0][1], 3 * step / _RUN) if step > 1 else best


def _guess_around(design: Design, base: int, stretch: _Stretch, alpha: Fraction) -> Guess:
    """Take both tails near `base` for smooth functions of how far beyond alpha they start, which is what ripples.

    Where the variance is larger than at `base`, the tails are those of a smaller distance at `base`.
    """
    mean, half_width = design.mean(base), design.users * design.gap * alpha
    ones, variance = Ones(design, base), design.variance(base)
    top, bottom = ceil(mean + half_width), floor(mean - half_width)
    up, down = float(top - mean - half_width), float(mean - half_width - bottom)
    rising = _parabola(up, [ones.at_least(top + k) for k in (-1, 0, 1)])
    falling = _parabola(down, [ones.at_most(bottom - k) for k in (-1, 0, 1)])

    def guess(seen: NDArray[np.int64]) -> NDArray[np.float64]:
        shift = design.moved * (seen - base)
        nearer = float(half_width) * (1 - np.sqrt(variance / design.variance(seen)))
        known = np.abs(nearer) < 1  # further away, the three tails tell nothing
        nearer = np.where(known, nearer, 0.0)
        total = np.zeros(len(seen))
        if stretch.upwards:
            total += np.exp(rising((up - shift) % 1 - nearer))
        if stretch.downwards:
            total += np.exp(falling((down + shift) % 1 - nearer))
        return np.where(known, total, 0.0)

    return guess


def _parabola(middle: float, tails: list[float]) -> Callable[[Any], Any]:
    """The parabola through the logarithms of three neighbouring tails."""
    before, here, after = np.log(np.maximum(tails, _RELIABLE)).tolist()
    slope, bend = (after - before) / 2, (after - 2 * here + before) / 2

    def at(x: Any) -> Any:
        return here + (x - middle) * (slope + (x - middle) * bend)

    return at
