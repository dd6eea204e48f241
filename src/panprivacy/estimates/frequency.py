r"""How often users appeared: the release of a `Counts`, and the law of its errors.

A user who appeared n times is at a counter c, uniform on 0..t-1, with a bit that is a flip of p1 if n > c and of p0
else. Let A_c be the ones less the zeros at c, of b counters of which m are users', g = p1 - p0, and P_c the share of
these m with n > c. Then

    E A_c = (g / t) (2 m P_c - b),      Var A_c = b (t - g^2) / t^2,
    Cov(A_c, A_d) = -(g^2 / t^2) (b - 2 m |P_c - P_d|).

The covariance is negative because a user who is at c is not at d: the product of the two is always 0, whatever the
product of their means. The variance does not depend on how often users came. The noise of the release is added to it.

Where the m are a sample of N users, drawn without replacement, as are those who are asked about a category, the shares
of the sample vary around those of all by ``(min(P_c, P_d) - P_c P_d) / m * (N - m) / (N - 1)``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from panprivacy.display import Rows
from panprivacy.estimates.errors import ErrorModel, Reals, interval_within
from panprivacy.estimates.estimate import GUESS, Estimate, Floats, Interval, Part, Series, Unit, numbers, series
from panprivacy.estimates.release import AnyRelease
from panprivacy.estimates.smoothing import ordered_shares

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_SHARES = 6  # that a line of a table has room for


@dataclass(frozen=True, kw_only=True)
class FrequencyRelease(AnyRelease):
    """Estimates of how often users appeared, with their errors, that cost the stated part of the budget.

    Shares are fractions of the universe. If only the mean was released, there are no shares. Where users have groups,
    the estimates are of all of them together, and `groups` has each. A release by category has groups only.

    Three sets of numbers answer three needs. A single number to quote: `at_least`, `exactly` and `mean`, each unbiased
    up to its range. Numbers to calculate with: `raw_at_least`, `raw_exactly` and `raw_mean` are exactly unbiased and
    add up, ``raw_mean == sum(raw_at_least)``, and those of groups to the total; some are negative. A histogram:
    `smoothed` adds up and is possible, and leans outwards where true shares are alike.
    """

    universe: int
    """How many users the estimates speak for."""
    up_to: int
    """How many appearances of a user count."""
    noise_stderr: float = field(default=nan, compare=False)  # nan is not equal to itself
    """Standard deviation of the noise in each share; without shares, in the mean; nan in a release by category."""

    mean: ClassVar[Part[float]]
    mean_stderr: ClassVar[Part[float]]
    mean_interval: ClassVar[Part[Interval]]
    raw_mean: ClassVar[Part[float]]
    mean, mean_stderr, mean_interval, raw_mean = numbers("mean")
    """How often a user appeared on average, more than `up_to` times counting as `up_to`.

    If only the mean was released, its standard error is the largest that is possible."""
    at_least: ClassVar[Part[Floats]]
    at_least_stderr: ClassVar[Part[Floats]]
    at_least_interval: ClassVar[Part[tuple[Interval, ...]]]
    raw_at_least: ClassVar[Part[Floats]]
    at_least, at_least_stderr, at_least_interval, raw_at_least = series("at_least")
    """Shares of the users who appeared at least once, twice, ... `up_to` times: ``at_least[j-1]``.

    Each is the raw, unbiased share, brought into [0, 1]. A share may come out above the share of fewer times."""
    exactly: ClassVar[Part[Floats]]
    exactly_stderr: ClassVar[Part[Floats]]
    exactly_interval: ClassVar[Part[tuple[Interval, ...]]]
    raw_exactly: ClassVar[Part[Floats]]
    exactly, exactly_stderr, exactly_interval, raw_exactly = series("exactly")
    """Shares of the users who appeared never, once, ... `up_to` - 1 times: ``exactly[j]``; the last one is of those who
    appeared `up_to` times or more. Each is the raw share, which is unbiased, brought into [0, 1]."""

    @property
    def smoothed(self) -> "SmoothedFrequencies":
        """Shares that fall with the number of times, and what follows from them: for histograms, since they add up.

        These are the shares nearest to the raw ones that never rise (isotonic regression). They err less in all, but
        where true shares are alike, the first of these is too high on average, and the last too low.
        """
        falling = ordered_shares(self.raw_at_least, [1.0] * len(self.at_least), rising=False)
        return SmoothedFrequencies(falling, tuple((-np.diff([1.0, *falling, 0.0])).tolist()), sum(falling))

    def _is_noise(self) -> bool:
        if self.at_least:
            return max(self.at_least_stderr) > GUESS
        return self.mean_stderr > GUESS * self.up_to

    def _plot_one(self, path: str | Path | None, ax: "Axes | None") -> "Axes":
        from panprivacy.estimates.plots import draw_frequency

        return draw_frequency(self, path, ax)

    def _rows(self) -> Rows:
        shares = self.shares("at_least").each()
        return (
            *super()._rows(),
            *((f"at least {times}", share.shown(self.interval_name)) for times, share in enumerate(shares, start=1)),
            ("users", f"{self.universe:,}, counted up to {self.up_to} times each"),
        )

    def shares(self, name: str) -> Series:
        """The shares of this name; none if only the mean was released."""
        found = self.estimates[name]
        assert isinstance(found, Series)
        return found

    def _more_cells(self) -> dict[str, str]:
        shares = {f"at least {times}": f"{share:.4f}" for times, share in enumerate(self.at_least[:_MOST_SHARES], 1)}
        return shares | {"of": f"{self.universe:,}"}

    def _more_words(self) -> str:
        shares = ", ".join(f"{times} {share:.4f}" for times, share in enumerate(self.at_least, start=1))
        least = f"; at least {shares} ± {max(self.at_least_stderr):.4f}" if shares else ""
        return f"{least}; of {self.universe:,} users"


class SmoothedFrequencies(NamedTuple):
    """Shares of a `FrequencyRelease` that never rise, and what follows from them."""

    at_least: tuple[float, ...]
    exactly: tuple[float, ...]
    """Differences of these shares: none is negative, and their sum is 1."""
    mean: float
    """The sum of these shares."""


# --- the law of the errors ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ShareErrors(ErrorModel):
    """The law of estimates of the shares of users who appeared more than c times; the last axis is c."""

    up_to: int = field(kw_only=True)

    @property
    def whole(self) -> Any:
        """How much more A_c is on average once all users have appeared more than c times."""
        return 2 * self.users * self.pair.gap / self.up_to

    def density(self, noisy_ones: Any) -> Any:
        """The share that a noisy A_c speaks for: ``b/(2 m) + t A_c / (2 m g)``, unbiased."""
        return noisy_ones / self.whole + self.bits / (2 * self.users)

    def bit_variance(self, share: Any) -> Any:  # noqa: ARG002 - the same for all shares
        """Variance of A_c by counters and coins."""
        return self.bits * (self.up_to - self.pair.gap**2) / self.up_to**2

    def covariance(self, larger: Any, smaller: Any) -> Any:
        """Covariance of the estimates of two true shares, P_c and a P_d that is not above it."""
        coins = -(self.bits - 2 * self.users * (larger - smaller)) / (4 * self.users**2)
        return coins + smaller * (1 - larger) * self.unsampled / self.users

    def difference_stderr(self, shares: Reals) -> Reals:
        """Standard errors of ``1 - P_0, P_0 - P_1, ...``, for true shares that fall along a row."""
        variance = np.square(self.stderr(shares))
        above, below = shares[:, :-1], shares[:, 1:]
        variance[:, 1:] += variance[:, :-1] - 2 * self.covariance(above, below)
        return np.asarray(np.sqrt(variance))

    def sum_stderr(self, shares: Reals) -> Reals:
        """Standard errors of the sums of all shares of a row, for true shares that fall along it.

        All covariances, added up: with t shares, ``sum of P_c - P_d over c < d`` is ``sum of (t-1-2c) P_c``, and the
        sum of all ``min(P_c, P_d)`` is ``sum of (2c+1) P_c``.
        """
        t, places = self.up_to, np.arange(self.up_to)
        apart = (shares * (t - 1 - 2 * places)).sum(axis=1, keepdims=True)
        between = -(self.bits * t * (t - 1) / 2 - 2 * self.users * apart) / (2 * self.users**2)
        squares = (shares * (2 * places + 1)).sum(axis=1, keepdims=True)
        sampled = (squares - shares.sum(axis=1, keepdims=True) ** 2) * self.unsampled / self.users
        alone = t * (self.bit_variance(0.0) / self.whole**2 + self.noise_stderr**2)
        return np.asarray(np.sqrt(alone + between + sampled))


@dataclass(frozen=True)
class MeanErrors(ErrorModel):
    """The law of the ones of all counters together, around the mean of min(n, t) / t."""

    def bit_variance(self, share: Any) -> Any:
        """The most that the ones can vary: it is this if all users appeared alike, and less if some did more.

        The bit of a user is 1 with probability ``q = p0 + g*min(n, t)/t``, and ``q(1 - q)`` is concave.
        """
        q, p0 = float(self.pair.p0) + self.pair.gap * share, float(self.pair.p0)
        return self.users * q * (1 - q) + (self.bits - self.users) * p0 * (1 - p0)

    def sample_variance(self, share: Any) -> Any:  # noqa: ARG002 - the same for all shares
        """None beside that: what users differ by, sampling adds at most as often as `bit_variance` leaves it out.

        If q has the variance v among all users, the bits of m vary by ``m v`` less than those of users who are alike,
        and the sum of q over a sample of them by ``m v (N - m) / (N - 1)``.
        """
        return 0.0


# --- from noisy counts to estimates ---------------------------------------------------------------------------------


_Columns: TypeAlias = tuple[Reals, Reals, Reals, Reals, Reals]
"""Values, standard errors, both ends of intervals and raw values, each with a row for each table."""


def frequencies(
    law: ShareErrors | MeanErrors, noisy: Any, level: float, up_to: int
) -> Iterator[tuple[dict[str, Estimate | Series], float]]:
    """For each row of noisy counts, the estimates of a `FrequencyRelease`, and the deviation of the noise in them."""
    raw = law.density(np.asarray(noisy))
    value = np.clip(raw, 0.0, 1.0)
    shares: _Columns = (value, law.stderr(value), *law.interval(raw, level), raw)
    if isinstance(law, MeanErrors):
        means: Sequence[Reals] = [up_to * each for each in shares]
        noises = law.noise_stderr * up_to
        at_least = exactly = [Series((), (), (), ())] * len(noisy)
    else:
        falling = np.array([ordered_shares(row, [1.0] * raw.shape[1], rising=False) for row in raw])
        means = _around(raw.sum(axis=1, keepdims=True), law.sum_stderr(falling), level, float(up_to))
        noises = law.noise_stderr
        never = _around(-np.diff(raw, axis=1, prepend=1.0), law.difference_stderr(falling), level, 1.0)
        at_least = _series(shares, 1)
        exactly = _series([np.hstack([each, last[:, -1:]]) for each, last in zip(never, shares, strict=True)], 0)
    each_noise = np.broadcast_to(noises, (len(noisy), 1))[:, 0].tolist()
    for mean, least, exact, noise in zip(_series(means, 0, "appearances"), at_least, exactly, each_noise, strict=True):
        yield {"mean": mean.each()[0], "at_least": least, "exactly": exact}, noise


def _around(raw: Reals, stderr: Reals, level: float, top: float) -> _Columns:
    """Estimates of numbers between 0 and `top`, with intervals of normal laws."""
    from scipy.special import ndtri

    arm = float(ndtri((1 + level) / 2)) * stderr
    return (np.clip(raw, 0.0, top), stderr, *interval_within(raw, arm, arm, top), raw)


def _series(found: Sequence[Reals], first: int, unit: Unit = "share") -> list[Series]:
    """The estimates of each row."""
    return [
        Series(tuple(value), tuple(stderr), tuple(zip(low, high, strict=True)), tuple(raw), unit, first)
        for value, stderr, low, high, raw in zip(*(each.tolist() for each in found), strict=True)
    ]
