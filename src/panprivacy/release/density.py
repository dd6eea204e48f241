"""What leaves of a `Density`: an estimate with its error, and what it cost."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table as RichTable


@dataclass(frozen=True)
class Release:
    """An estimate of the density, with its error, that cost the stated part of the budget."""

    density: float
    """The fraction of the universe that has appeared, within [0, 1]."""
    count: float
    """The number of users that have appeared: density times universe."""
    stderr: float
    """Standard error of the density, sampling included."""
    interval: tuple[float, float]
    """Confidence interval for the density."""
    level: float
    """Confidence level of the interval."""
    raw_density: float
    """The unbiased estimate before it was brought into [0, 1]."""
    universe: int
    """How many users the estimate speaks for."""
    number: int
    """Which of the planned releases this is, from 1."""
    epsilon_spent: float
    """Worst-case loss up to and with this release, one reading of the state included."""
    epsilon_remaining: float
    """What the releases still planned may spend."""
    secure: bool
    """False if the coins were not the operating system's: such a release protects nobody."""

    @property
    def count_interval(self) -> tuple[float, float]:
        """Confidence interval for the count."""
        low, high = self.interval
        return low * self.universe, high * self.universe

    def __str__(self) -> str:
        low, high = self.interval
        warning = "" if self.secure else "; NOT PRIVATE: seeded coins"
        return (
            f"density {self.density:.4f} ± {self.stderr:.4f} ({100 * self.level:g}% interval {low:.4f} to {high:.4f}), "
            f"about {self.count:,.0f} of {self.universe:,} users; epsilon spent {self.epsilon_spent:.4g}, "
            f"left {self.epsilon_remaining:.4g}{warning}"
        )

    def __rich__(self) -> "RichTable":
        from rich.table import Table

        low, high = self.interval
        grid = Table(title=f"Release {self.number}", show_header=False)
        grid.add_row("density", f"{self.density:.4f} ± {self.stderr:.4f}")
        grid.add_row(f"{100 * self.level:g}% interval", f"{low:.4f} to {high:.4f}")
        grid.add_row("users", f"about {self.count:,.0f} of {self.universe:,}")
        grid.add_row("epsilon", f"{self.epsilon_spent:.4g} spent, {self.epsilon_remaining:.4g} left")
        if not self.secure:
            grid.add_row("warning", "[bold red]not private: seeded coins")
        return grid
