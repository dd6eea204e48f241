"""What leaves of a `Density`: an estimate with its error, and what it cost."""

from dataclasses import asdict, dataclass
from typing import Any

from panprivacy.display import Card, grid_of, html_of, line_of, measured, warning_of
from panprivacy.privacy.budget import and_delta


@dataclass(frozen=True)
class Release:
    """An estimate of the density, with its error, that cost the stated part of the budget.

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
    level: float
    """Confidence level of the intervals."""
    universe: int
    """How many users the estimate speaks for."""
    number: int
    """Which of the planned releases this is, from 1."""
    epsilon_spent: float
    """Worst-case loss up to and with this release, one reading of the state included."""
    epsilon_remaining: float
    """What the releases still planned may spend."""
    delta_spent: float
    """The probability, at most, with which more than that was lost; 0 without Gaussian noise."""
    noise_stderr: float
    """Standard deviation of what the noise of this release added to the density."""
    secure: bool
    """False if the coins were not the operating system's: such a release protects nobody."""

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

    def to_dict(self) -> dict[str, Any]:
        """Everything in the release as plain numbers, for JSON."""
        counts = ("count", "count_stderr", "count_interval", "raw_count")
        return asdict(self) | {name: getattr(self, name) for name in counts}

    def card(self) -> Card:
        """What is shown of it."""
        interval = f"{100 * self.level:g}% interval"
        users = measured(self.count, self.count_stderr, self.count_interval, interval, 0)
        rows = (
            ("density", measured(self.density, self.density_stderr, self.density_interval, interval, 4)),
            ("users", f"{users}, of {self.universe:,}"),
            (
                "epsilon",
                f"{self.epsilon_spent:.4g} spent, {self.epsilon_remaining:.4g} left{and_delta(self.delta_spent)}",
            ),
        )
        return Card(f"Release {self.number}", rows, warning_of(self.secure))

    __str__ = line_of
    __rich__ = grid_of
    _repr_html_ = html_of
