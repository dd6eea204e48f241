r"""The law of what a table of counters tells: how many users appeared at least 1, 2, ... t times, and the mean.

A user who appeared n times is at a counter c, uniform on 0..t-1, with a bit that is a flip of p1 if n > c and of p0
else. Let A_c be the ones less the zeros at c, of b counters of which m are somebody's, g = p1 - p0, and P_c the share
of these m with n > c. Then

    E A_c = (g / t) (2 m P_c - b),      Var A_c = b (t - g^2) / t^2,
    Cov(A_c, A_d) = -(g^2 / t^2) (b - 2 m |P_c - P_d|),

the covariance being negative because a user who is at c is not at d: the product of the two is always 0, whatever the
product of their means. The variance is the same whoever came how often. The noise of the release comes on top.

Where the m are a sample of N users, drawn without replacement, as those are who are asked about a category, the shares
of the sample vary around those of all by ``(min(P_c, P_d) - P_c P_d) / m * (N - m) / (N - 1)``.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from panprivacy.release.normal_laplace import Reals
from panprivacy.release.spread import Spread
from panprivacy.release.spreads import Spreads
from panprivacy.release.tracked import Tracked


@dataclass(frozen=True)
class _Places(Tracked):
    """How much the A_c vary; shares are in the last axis where there are many."""

    up_to: int = field(kw_only=True)

    @property
    def whole(self) -> Any:
        """How much more A_c is on average once everybody has appeared more than c times."""
        return 2 * self.users * self.pair.gap / self.up_to

    def share(self, excess: Any) -> Any:
        """The share that a noisy A_c speaks for: ``b/(2 m) + t A_c / (2 m g)``, unbiased."""
        return excess / self.whole + self.bits / (2 * self.users)

    def bit_variance(self, share: Any) -> Any:  # noqa: ARG002 - it is the same for all shares
        """Variance of A_c by counters and coins."""
        return self.bits * (self.up_to - self.pair.gap**2) / self.up_to**2

    def covariance(self, larger: Any, smaller: Any) -> Any:
        """Covariance of the estimates of two shares, P_c and a P_d that is not above it, these being the true ones."""
        coins = -(self.bits - 2 * self.users * (larger - smaller)) / (4 * self.users**2)
        return coins + smaller * (1 - larger) * self.unsampled / self.users


@dataclass(frozen=True)
class ShareSpread(_Places, Spread):
    """The law of the estimate of a share around the share of users who appeared more than c times."""

    def density(self, noisy_ones: int) -> float:
        """The share that a noisy A_c speaks for."""
        return float(self.share(noisy_ones))


@dataclass(frozen=True, eq=False)
class ShareSpreads(_Places, Spreads):
    """`ShareSpread` of many tables at once: a row for each, with the places of its counters in columns."""

    def densities(self, noisy_ones: Any) -> Reals:
        """The shares that noisy A_c speak for."""
        return np.asarray(self.share(np.asarray(noisy_ones)))

    def difference_stderr(self, shares: Reals) -> Reals:
        """Standard errors of ``1 - P_0, P_0 - P_1, ...``, these shares, which fall along a row, being the true ones."""
        variance = np.square(self.stderr(shares))
        above, below = shares[:, :-1], shares[:, 1:]
        variance[:, 1:] += variance[:, :-1] - 2 * self.covariance(above, below)
        return np.asarray(np.sqrt(variance))

    def sum_stderr(self, shares: Reals) -> Reals:
        """Standard errors of the sums of all shares of a row, these, which fall along it, being the true ones.

        All covariances, added up: with t shares, ``sum of P_c - P_d over c < d`` is ``sum of (t-1-2c) P_c``, and the
        sum of all ``min(P_c, P_d)`` is ``sum of (2c+1) P_c``.
        """
        t, places = self.up_to, np.arange(self.up_to)
        apart = (shares * (t - 1 - 2 * places)).sum(axis=1, keepdims=True)
        between = -(self.bits * t * (t - 1) / 2 - 2 * self.users * apart) / (2 * self.users**2)
        squares = (shares * (2 * places + 1)).sum(axis=1, keepdims=True)
        sampled = (squares - shares.sum(axis=1, keepdims=True) ** 2) * self.unsampled / self.users
        alone = t * (self.bit_variance(shares) / self.whole**2 + self.noise_stderr**2)
        return np.asarray(np.sqrt(alone + between + sampled))


@dataclass(frozen=True)
class _Ones(Tracked):
    """How much the ones of all counters together vary around the mean of min(n, t) / t, a share of t."""

    def bit_variance(self, share: Any) -> Any:
        """The most that the ones can vary: it is this if all users appeared alike, and less if some did more.

        The bit of a user is 1 with probability ``q = p0 + g*min(n, t)/t``, and ``q(1 - q)`` is concave.
        """
        q, p0 = float(self.pair.p0) + self.pair.gap * share, float(self.pair.p0)
        return self.users * q * (1 - q) + (self.bits - self.users) * p0 * (1 - p0)

    def sample_variance(self, share: Any) -> Any:  # noqa: ARG002 - whatever it is
        """None beside that: what users differ by, sampling adds at most as often as `bit_variance` leaves it out.

        If q has the variance v among all users, the bits of m vary by ``m v`` less than those of users who are alike,
        and the sum of q over a sample of them by ``m v (N - m) / (N - 1)``.
        """
        return 0.0


@dataclass(frozen=True)
class MeanSpread(_Ones, Spread):
    """The law of the ones of all counters together, around the mean of min(n, t) / t."""


@dataclass(frozen=True, eq=False)
class MeanSpreads(_Ones, Spreads):
    """`MeanSpread` of many tables at once: a row for each, with one column."""
