r"""The law of what a table of counters tells: how many users appeared at least 1, 2, ... t times, and the mean.

A user who appeared n times is at a counter c, uniform on 0..t-1, with a bit that is a flip of p1 if n > c and of p0
else. Let A_c be the ones less the zeros at c, m the users, g = p1 - p0, and P_c the share with n > c. Then

    E A_c = (m g / t) (2 P_c - 1),      Var A_c = m (t - g^2) / t^2,
    Cov(A_c, A_d) = -(m g^2 / t^2) (1 - 2 |P_c - P_d|),

the covariance being negative because a user who is at c is not at d: the product of the two is always 0, whatever the
product of their means. The variance is the same whoever came how often. The noise of the release comes on top.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import hypot, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from panprivacy.release.spread import Spread


@dataclass(frozen=True)
class ShareSpread(Spread):
    """The law of ``1/2 + t A_c / (2 m g)`` around the share of users who appeared more than c times."""

    up_to: int = field(kw_only=True)

    @property
    def whole(self) -> float:
        """How much more A_c is on average once everybody has appeared more than c times."""
        return 2 * self.users * self.pair.gap / self.up_to

    def density(self, noisy_ones: int) -> float:
        """The share that a noisy A_c speaks for."""
        return noisy_ones / self.whole + 0.5

    def bit_variance(self, share: Any) -> Any:  # noqa: ARG002 - it is the same for all shares
        """Variance of A_c by counters and coins."""
        return self.users * (self.up_to - self.pair.gap**2) / self.up_to**2

    def covariance(self, shares: Sequence[float]) -> NDArray[np.float64]:
        """Covariances of the estimates of all shares, these being the true ones."""
        each = np.asarray(shares)
        matrix = -(1 - 2 * np.abs(each[:, None] - each)) / (4 * self.users)
        np.fill_diagonal(matrix, self.stderr(0.5) ** 2)
        return np.asarray(matrix)


@dataclass(frozen=True)
class MeanSpread(Spread):
    """The law of the ones of all counters together, around the mean of min(n, t) / t, a share of t."""

    def bit_variance(self, share: Any) -> Any:
        """The most that the ones can vary: it is this if all users appeared alike, and less if some did more.

        The bit of a user is 1 with probability ``q = p0 + g*min(n, t)/t``, and ``q(1 - q)`` is concave.
        """
        q = float(self.pair.p0) + self.pair.gap * share
        return self.users * q * (1 - q)


class Estimate(NamedTuple):
    """A number within its range, its standard error, its interval, and what it was before it was brought there."""

    value: float
    stderr: float
    interval: tuple[float, float]
    raw: float


def shares_of(spread: ShareSpread, noisy: Sequence[int], level: float) -> list[Estimate]:
    """The shares of users who appeared at least 1, 2, ... t times: they fall, as shares of this kind do."""
    raw = [spread.density(excess) for excess in noisy]
    return [
        Estimate(value, spread.stderr(0.5), _with(value, spread.interval(each, level)), each)
        for value, each in zip(falling(raw), raw, strict=True)
    ]


def exactly_of(spread: ShareSpread, shares: Sequence[Estimate], level: float) -> list[Estimate]:
    """The shares of users who appeared exactly 0, 1, ... t-1 times: each is the difference of two that follow."""
    covariance = spread.covariance([share.value for share in shares])
    found = []
    for j in range(len(shares)):
        weights = np.zeros(len(shares))
        weights[j] = -1.0
        above, raw_above = 1.0, 1.0
        if j:
            weights[j - 1] = 1.0
            above, raw_above = shares[j - 1].value, shares[j - 1].raw
        stderr = sqrt(weights @ covariance @ weights)
        value, raw = above - shares[j].value, raw_above - shares[j].raw
        found.append(Estimate(value, stderr, _with(value, _bounded(raw, stderr, level, 1.0)), raw))
    return found


def mean_of(spread: ShareSpread, shares: Sequence[Estimate], level: float) -> Estimate:
    """The mean of min(n, t): the sum of all shares as they were before they were made to fall."""
    top = float(len(shares))
    raw = sum(share.raw for share in shares)
    stderr = sqrt(spread.covariance([share.value for share in shares]).sum())
    return Estimate(min(max(raw, 0.0), top), stderr, _bounded(raw, stderr, level, top), raw)


def mean_alone(spread: MeanSpread, noisy: int, level: float, up_to: int) -> Estimate:
    """The mean of min(n, t), of the ones alone."""
    raw = spread.density(noisy)
    value = min(max(raw, 0.0), 1.0)
    low, high = spread.interval(raw, level)
    return Estimate(value * up_to, spread.stderr(value) * up_to, (low * up_to, high * up_to), raw * up_to)


def falling(shares: Sequence[float]) -> list[float]:
    """The falling sequence within [0, 1] that is nearest to these shares: isotonic regression.

    Neighbours that rise are replaced by their mean, until none do. This is post-processing, which costs nothing, and
    never leads further away from shares that do fall.

    >>> falling([0.9, 0.5, 0.6, 0.2, -0.1])
    [0.9, 0.55, 0.55, 0.2, 0.0]
    """
    from scipy.optimize import isotonic_regression

    fallen: list[float] = np.clip(isotonic_regression(shares, increasing=False).x, 0.0, 1.0).tolist()
    return fallen


def _bounded(raw: float, stderr: float, level: float, top: float) -> tuple[float, float]:
    """The interval of a normal law for what is between 0 and `top`; beyond an end, as `Spread.interval` has it."""
    from scipy.special import ndtri

    end = min(max(raw, 0.0), top)
    arm = float(ndtri((1 + level) / 2)) * stderr
    low, high = end - arm, end + arm
    if raw < end:
        high = raw + hypot(arm, end - raw)
    elif raw > end:
        low = raw - hypot(arm, raw - end)
    return max(low, 0.0), min(high, top)


def _with(value: float, interval: tuple[float, float]) -> tuple[float, float]:
    """The interval of a raw share, stretched to what became of the share where that is outside."""
    return min(interval[0], value), max(interval[1], value)
