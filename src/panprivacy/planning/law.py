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

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp, floor, pi, sqrt
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.planning.factorials import log_hypergeometric
from panprivacy.privacy.noise import Laplace, Noise
from panprivacy.release.tracked import Tracked

Reals: TypeAlias = NDArray[np.float64]
Complexes: TypeAlias = NDArray[np.complex128]

_NEGLIGIBLE = 42.0  # e^-42 < 6e-19: what is left out of a sum is smaller than one rounding of it


@dataclass(frozen=True)
class Design(Tracked):
    """What decides the error of one release: the table, whom it speaks for, and the noise.

    >>> from panprivacy.privacy.splitting import best_split
    >>> split = best_split(0.4, 1000)
    >>> every = Design(split.pair, bits=1000, users=1000, population=1000, noise=split.noise)
    >>> round(every.error_probability(500, Fraction(1, 4)), 6)
    0.037607
    """

    noise: Noise

    def __post_init__(self) -> None:
        if self.pair.p0 + self.pair.p1 != 1:
            raise ValueError(f"the law is that of a symmetric pair, p0 = 1 - p1, got {self.pair}")
        if self.pair.gap <= 0:
            raise ValueError(f"both coins of {self.pair} are alike and tell nothing")
        if not 0 < self.users <= min(self.bits, self.population):
            raise ValueError(f"{self.users} users cannot own {self.bits} bits in a universe of {self.population}")

    @property
    def gap(self) -> Fraction:
        """``p1 - p0``, exactly."""
        return self.pair.p1 - self.pair.p0

    def mean(self, seen: int) -> Fraction:
        """Expected number of ones when this many users of the universe have appeared."""
        return self.bits * self.pair.p0 + Fraction(self.users * seen, self.population) * self.gap

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
        reach = self.users * self.gap * alpha
        ones = Ones(self, seen)
        above = ones.at_least(ceil(mean + reach)) if density + alpha <= 1 else 0.0
        below = ones.at_most(floor(mean - reach)) if density >= alpha else 0.0
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
        self._half = min(_reach(of_bits + gap**2 * of_sample), design.bits + 1)
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


def _reach(variance: float) -> int:
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
    center, reach = round(mean), _reach(variance)
    first, last = max(0, design.users + seen - design.population), min(design.users, seen)
    highest = np.arccos(max(1 - _NEGLIGIBLE / variance, -1.0)) + np.abs(phi).max()
    stride = max(1, floor(2 * pi / highest))
    points = np.arange(max(first - center, -reach), min(last - center, reach) + 1, stride) - float(mean - center)
    logs = log_hypergeometric(points, design.population, seen, design.users)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    angles = np.outer(phi, points)
    cosines: Reals = np.einsum("ij,j->i", np.cos(angles), weights)  # BLAS would start its threads for so little
    sines: Reals = np.einsum("ij,j->i", np.sin(angles), weights)
    return cosines + 1j * sines
