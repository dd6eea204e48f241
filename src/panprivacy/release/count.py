"""What leaves a `DistinctCount`: an estimate of how many, and everything that may be said from it."""

from dataclasses import asdict, dataclass, replace
from math import hypot
from typing import Any

from panprivacy.display import Card, grid_of, html_of, line_of, measured, warning_of
from panprivacy.errors import PanPrivacyError
from panprivacy.privacy.budget import and_delta

_DENSITIES = ("density", "density_stderr", "density_interval", "raw_density")


@dataclass(frozen=True)
class CountRelease:
    """An estimate of the number of different users, with its error, that cost the stated part of the budget.

    What is called count is a number of users. A release that knows its universe also has densities: fractions of it.
    """

    count: float
    """The number of users that have appeared, not below 0 nor beyond the universe."""
    count_stderr: float
    """Standard error of the count."""
    count_interval: tuple[float, float]
    """Confidence interval for the count. It ends at infinity if the levels have no room for more users."""
    raw_count: float
    """The estimate before it was brought into its range; it may be negative."""
    level: float
    """Confidence level of the intervals."""
    universe: int | None
    """How many users there could be, if the release was told."""
    number: int
    """Which of the planned releases this is, from 1."""
    epsilon_spent: float
    """Worst-case loss up to and with this release, one reading of the state included."""
    epsilon_remaining: float
    """What the releases still planned may spend."""
    delta_spent: float
    """The probability, at most, with which more than that was lost; 0 without Gaussian noise."""
    noise_stderr: float
    """Standard deviation of what the noise of this release added to the count, about."""
    secure: bool
    """False if the coins were not the operating system's: such a release protects nobody."""

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

    def within(self, universe: int) -> "CountRelease":
        """The same release, knowing that there are only so many users: post-processing, at no cost.

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
        """Everything in the release as plain numbers, for JSON; without a universe its densities are None."""
        return asdict(self) | {name: getattr(self, name) if self.universe else None for name in _DENSITIES}

    def card(self) -> Card:
        """What is shown of it."""
        interval = f"{100 * self.level:g}% interval"
        known = f", of {self.universe:,}" if self.universe else ""
        users = measured(self.count, self.count_stderr, self.count_interval, interval, 0) + known
        rows = [
            ("users", users),
            (
                "epsilon",
                f"{self.epsilon_spent:.4g} spent, {self.epsilon_remaining:.4g} left{and_delta(self.delta_spent)}",
            ),
        ]
        if self.universe:
            density = measured(self.density, self.density_stderr, self.density_interval, interval, 4)
            rows.insert(1, ("density", density))
        return Card(f"Release {self.number}", tuple(rows), warning_of(self.secure))

    __str__ = line_of
    __rich__ = grid_of
    _repr_html_ = html_of
