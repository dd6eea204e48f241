"""An estimate with its error, of a density or of a count: what a release is about, or one group in it."""

from dataclasses import dataclass, fields, replace
from math import hypot
from typing import Any, Self

from panprivacy.display import finite
from panprivacy.errors import PanPrivacyError

_COUNTS = ("count", "count_stderr", "count_interval", "raw_count")
_DENSITIES = ("density", "density_stderr", "density_interval", "raw_density")
GUESS = 12**-0.5
"""Standard deviation of a number that is drawn from 0 to 1: who errs more would do better to guess."""


@dataclass(frozen=True)
class EstimatedDensity:
    """An estimate of a density, with its error.

    What is called density is a fraction of the universe, and what is called count is a number of users.
    """

    density: float
    """The fraction of the universe that has appeared, within [0, 1]."""
    density_stderr: float
    """Standard error of the density, sampling included."""
    density_interval: tuple[float, float]
    """Confidence interval for the density."""
    raw_density: float
    """The unbiased estimate before it was brought into [0, 1]."""
    universe: int
    """How many users the estimate speaks for."""
    noise_stderr: float
    """Standard deviation of what the noise of this release added to the density."""

    @property
    def count(self) -> float:
        """The number of users that have appeared: density times universe."""
        return self.density * self.universe

    @property
    def count_stderr(self) -> float:
        """Standard error of the count."""
        return self.density_stderr * self.universe

    @property
    def count_interval(self) -> tuple[float, float]:
        """Confidence interval for the count."""
        low, high = self.density_interval
        return low * self.universe, high * self.universe

    @property
    def raw_count(self) -> float:
        """The unbiased estimate of the count; it may be negative, or beyond the universe."""
        return self.raw_density * self.universe

    @property
    def mostly_noise(self) -> bool:
        """Whether the standard error is above 0.29, that of a number that is drawn from 0 to 1: a guess is as good."""
        return self.density_stderr > GUESS

    def to_dict(self) -> dict[str, Any]:
        """Everything in it as plain numbers, for JSON."""
        return plain(self) | {name: getattr(self, name) for name in _COUNTS}


@dataclass(frozen=True)
class EstimatedCount:
    """An estimate of the number of different users, with its error.

    What is called count is a number of users. One that knows its universe also has densities: fractions of it.
    """

    count: float
    """The number of users that have appeared, not below 0 nor beyond the universe."""
    count_stderr: float
    """Standard error of the count."""
    count_interval: tuple[float, float]
    """Confidence interval for the count. It ends at infinity if the levels have no room for more users."""
    raw_count: float
    """The estimate before it was brought into its range; it may be negative."""
    universe: int | None
    """How many users there could be, if the release was told."""
    noise_stderr: float
    """Standard deviation of what the noise of this release added to the count, about."""

    @property
    def density(self) -> float:
        """The fraction of the universe that has appeared; needs ``release(universe=N)``."""
        return self.count / self._known_universe()

    @property
    def density_stderr(self) -> float:
        """Standard error of the density."""
        return self.count_stderr / self._known_universe()

    @property
    def density_interval(self) -> tuple[float, float]:
        """Confidence interval for the density."""
        low, high = self.count_interval
        return low / self._known_universe(), high / self._known_universe()

    @property
    def raw_density(self) -> float:
        """The estimate of the density before it was brought into its range."""
        return self.raw_count / self._known_universe()

    @property
    def mostly_noise(self) -> bool:
        """Whether the standard error is above the count itself."""
        return self.count_stderr > self.count

    def within(self, universe: int) -> Self:
        """The same estimate, knowing that there are only so many users: post-processing, at no cost.

        The interval of an estimate c beyond the universe N holds what a test against N, the likeliest count that
        remains, would let pass: n with ``(c-n)^2 - (c-N)^2 <= (c-low)^2``. It always has width.
        """
        if universe < 1:
            raise ValueError(f"a universe has at least one user, got {universe}")
        (low, high), most = self.count_interval, float(universe)
        if self.count > most:
            low = max(self.count - hypot(self.count - low, self.count - most), 0.0)
        return replace(self, universe=universe, count=min(self.count, most), count_interval=(low, min(high, most)))

    def _known_universe(self) -> int:
        if self.universe is None:
            raise PanPrivacyError("a density needs a universe: est.release(universe=N), or est.last.within(N)")
        return self.universe

    def to_dict(self) -> dict[str, Any]:
        """Everything in it as plain numbers, for JSON; None for what is not known: densities without a universe."""
        fields = plain(self) | {name: getattr(self, name) if self.universe else None for name in _DENSITIES}
        known: dict[str, Any] = finite(fields)
        return known


def plain(estimate: Any) -> dict[str, Any]:
    """The fields of an estimate by name, its group first; rows of groups as what they hold, if there are any."""
    found = {each.name: getattr(estimate, each.name) for each in fields(estimate)}
    rows, group = found.pop("groups", ()), found.pop("group", None)
    named = {} if group is None else {"group": group}
    return named | found | ({"groups": [row.to_dict() for row in rows]} if rows else {})
