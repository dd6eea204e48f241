"""What leaves a `DistinctCount`: an estimate of how many, and everything that may be said from it."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from panprivacy.errors import PanPrivacyError

if TYPE_CHECKING:
    from rich.table import Table as RichTable


@dataclass(frozen=True)
class CountRelease:
    """An estimate of the number of different users, with its error, that cost the stated part of the budget."""

    count: float
    """The number of users that have appeared, not below 0 nor beyond the universe."""
    stderr: float
    """Standard error of the count."""
    interval: tuple[float, float]
    """Confidence interval for the count. It ends at infinity if the levels have no room for more users."""
    level: float
    """Confidence level of the interval."""
    raw_count: float
    """The estimate before it was brought into its range; it may be negative."""
    universe: int | None
    """How many users there could be, if the release was told."""
    number: int
    """Which of the planned releases this is, from 1."""
    epsilon_spent: float
    """Worst-case loss up to and with this release, one reading of the state included."""
    epsilon_remaining: float
    """What the releases still planned may spend."""
    secure: bool
    """False if the coins were not the operating system's: such a release protects nobody."""

    @property
    def density(self) -> float:
        """The fraction of the universe that has appeared; needs ``release(universe=N)``."""
        return self.count / self._known_universe()

    @property
    def density_interval(self) -> tuple[float, float]:
        """Confidence interval for the density."""
        low, high = self.interval
        return low / self._known_universe(), high / self._known_universe()

    def within(self, universe: int) -> "CountRelease":
        """The same release, knowing that there are only so many users: post-processing, at no cost."""
        if universe < 1:
            raise ValueError(f"a universe has at least one user, got {universe}")
        low, high = self.interval
        return replace(
            self,
            universe=universe,
            count=min(self.count, float(universe)),
            interval=(min(low, float(universe)), min(high, float(universe))),
        )

    def _known_universe(self) -> int:
        if self.universe is None:
            raise PanPrivacyError("a density needs a universe: est.release(universe=N), or est.last.within(N)")
        return self.universe

    def __str__(self) -> str:
        low, high = self.interval
        known = f" of {self.universe:,}" if self.universe else ""
        warning = "" if self.secure else "; NOT PRIVATE: seeded coins"
        return (
            f"{self.count:,.0f} ± {self.stderr:,.0f} users{known} ({100 * self.level:g}% interval {low:,.0f} to "
            f"{high:,.0f}); epsilon spent {self.epsilon_spent:.4g}, left {self.epsilon_remaining:.4g}{warning}"
        )

    def __rich__(self) -> "RichTable":
        from rich.table import Table

        low, high = self.interval
        grid = Table(title=f"Release {self.number}", show_header=False)
        grid.add_row("users", f"{self.count:,.0f} ± {self.stderr:,.0f}")
        grid.add_row(f"{100 * self.level:g}% interval", f"{low:,.0f} to {high:,.0f}")
        if self.universe:
            grid.add_row("density", f"{self.density:.4f} of {self.universe:,}")
        grid.add_row("epsilon", f"{self.epsilon_spent:.4g} spent, {self.epsilon_remaining:.4g} left")
        if not self.secure:
            grid.add_row("warning", "[bold red]not private: seeded coins")
        return grid
