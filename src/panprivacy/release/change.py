"""The law of the difference between two releases of one table: what untouched bits add to both cancels."""

from dataclasses import dataclass

from panprivacy.privacy.noise import Noise
from panprivacy.release.error import Error
from panprivacy.release.tracked import Tracked


@dataclass(frozen=True)
class Change(Tracked):
    r"""How much the number of ones of a table changes by events of one kind between two releases, o1 and then o2.

    Bits that nobody touched are the same in both, and cancel. A bit that was touched is another coin, so that

        Var(o1 - o2) = 2 b m p1 p0 + 2 V,        Cov(o1, o1 - o2) = b m p1 p0 + V,

    with b the share of the m users that was touched, and V the variance of the noise of a release.
    """

    noise: Noise

    def share(self, ones: int) -> float:
        """The share of the users that so many ones more, or fewer, stand for: exactly unbiased."""
        return ones / self.whole

    def error(self, touched: float, share: float) -> Error:
        """That of `share`, when this share of the users was touched, and that one is the truth."""
        bits = 2 * touched * self.users * self._coin / self.whole**2
        sampling = self.sample_variance(share) / self.users**2
        return Error(bits + sampling, 2 * self.noise.variance / self.whole**2, self.noise)

    def covariance(self, touched: float, share: float, before: float) -> Error:
        """With the estimate of the share before, of which the share that changed is a part."""
        bits = touched * self.users * self._coin / self.whole**2
        sampling = share * (1 - before) * self.unsampled / self.users
        return Error(bits + sampling, self.noise.variance / self.whole**2, self.noise)

    @property
    def _coin(self) -> float:
        """The variance of one bit, whichever coin drew it: p1 = 1 - p0."""
        return float(self.pair.p1 * self.pair.p0)
