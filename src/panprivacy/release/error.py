"""What an estimate errs by: a part that is about normal, and a part by the noise of releases."""

from dataclasses import dataclass
from math import hypot, isfinite, nan, sqrt

from panprivacy.privacy.noise import Laplace, Noise
from panprivacy.release.normal_laplace import normal_laplace_cdf

_FAR = 50.0  # standard errors: no law here leaves a probability that a float could tell from 0 beyond


@dataclass(frozen=True)
class Error:
    """The variances of the two parts, or, of two errors together, their covariances.

    The noise of several releases is taken for that of one with the same variance. Its tails are heavier than those of a
    sum, so what is said of several is on the safe side.

    >>> from fractions import Fraction
    >>> round(Error(1.0, 0.0, Laplace(Fraction(1))).reach(0.95), 4)
    1.96
    """

    normal: float
    """Of bits and sampling."""
    released: float
    """Of the noise of releases."""
    noise: Noise

    @property
    def stderr(self) -> float:
        """Standard deviation."""
        return sqrt(self.normal + self.released)

    def less(self, share: float, other: "Error", both: "Error") -> "Error":
        """The error of this estimate less a share of another one, with the covariances of both."""
        normal, released = (
            mine - 2 * share * common + share**2 * others
            for mine, common, others in (
                (self.normal, both.normal, other.normal),
                (self.released, both.released, other.released),
            )
        )
        return Error(max(normal, 0.0), max(released, 0.0), self.noise)

    def reach(self, level: float) -> float:
        """The distance that the error stays within with this probability."""
        from scipy.optimize import brentq
        from scipy.special import ndtri

        tail = (1 + level) / 2
        if not isinstance(self.noise, Laplace) or not self.released:
            return float(ndtri(tail)) * self.stderr
        sigma, scale = sqrt(self.normal), sqrt(self.released / 2)
        far = _FAR * self.stderr
        return float(brentq(lambda x: normal_laplace_cdf(x, sigma, scale) - tail, 0.0, far, xtol=1e-12 * far))

    def interval(self, raw: float, level: float) -> tuple[float, float]:
        """Around an estimate of a share, within [0, 1].

        One beyond an end has what a test against that end, the likeliest share that remains, would let pass, as in
        `Spread.interval`.
        """
        end, reach = min(max(raw, 0.0), 1.0), self.reach(level)
        low = raw - hypot(reach, raw - end) if raw > end else end - reach
        high = raw + hypot(reach, end - raw) if raw < end else end + reach
        return max(low, 0.0), min(high, 1.0)


@dataclass(frozen=True)
class Ratio:
    """A share of a share, such as of a cohort those who came back, within [0, 1]; nan if the whole may be nobody."""

    value: float
    stderr: float
    interval: tuple[float, float]


def ratio_of(part: float, whole: float, errors: tuple[Error, Error, Error], level: float) -> Ratio:
    r"""The ratio of two estimates, the first of a part of the second, by Fieller's theorem (1954).

    The interval holds the ratios q that a test of ``part - q*whole = 0`` would let pass: an equation of the second
    degree in q. If the whole cannot be told from nobody, every ratio passes, and the interval says so.

    `errors` are those of the part and of the whole, and their covariances.
    """
    of_part, of_whole, of_both = errors
    if whole <= 0:
        return Ratio(nan, nan, (0.0, 1.0))
    part = min(max(part, 0.0), whole)
    value = part / whole
    around = of_part.less(value, of_whole, of_both)
    stderr = around.stderr / whole
    square = (around.reach(level) / around.stderr) ** 2
    variance, covariance = of_whole.stderr**2, of_both.normal + of_both.released
    a = whole**2 - square * variance
    if a <= 0:
        return Ratio(value, stderr, (0.0, 1.0))
    middle = (part * whole - square * covariance) / a
    arm = sqrt(max(middle**2 - (part**2 - square * of_part.stderr**2) / a, 0.0))
    assert isfinite(middle)
    return Ratio(value, stderr, (max(middle - arm, 0.0), min(middle + arm, 1.0)))
