"""What an observer says: the published density now, and where its budget goes."""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from panprivacy.continual.shares import Shares
from panprivacy.privacy.accounting import Spending, spent_under

if TYPE_CHECKING:
    from rich.table import Table as RichTable


@dataclass(frozen=True)
class Observation:
    """The published density at one moment, and how far it can be from the truth."""

    density: float
    """The published fraction of the universe that has appeared."""
    interval: tuple[float, float]
    """Holds the true density, at all planned observations together, with probability `level`."""
    level: float
    """One minus the beta of the accuracy statement."""
    moved: bool
    """Whether the published density moved at this observation."""
    number: int
    """Which observation this is, from 1."""
    moves_left: int
    """How often it may still move; at 0 it stands still for good."""
    universe: int
    """How many users the density speaks for."""
    epsilon_spent: float
    """Worst-case loss up to now, and of any number of observations until the next move."""
    secure: bool
    """False if the coins were not the operating system's: such an observation protects nobody."""

    @property
    def count(self) -> float:
        """The number of users that have appeared: density times universe."""
        return self.density * self.universe

    def __str__(self) -> str:
        low, high = self.interval
        what = "moved" if self.moved else "unmoved"
        warning = "" if self.secure else "; NOT PRIVATE: seeded coins"
        return (
            f"density {self.density:.4f} ({100 * self.level:g}% band {low:.4f} to {high:.4f}), about {self.count:,.0f} "
            f"of {self.universe:,} users; {what} at observation {self.number:,}, {self.moves_left} moves left; "
            f"epsilon spent {self.epsilon_spent:.4g}{warning}"
        )

    def __rich__(self) -> "RichTable":
        from rich.table import Table

        low, high = self.interval
        grid = Table(title=f"Observation {self.number:,}", show_header=False)
        grid.add_row("density", f"{self.density:.4f}")
        grid.add_row(f"{100 * self.level:g}% band", f"{low:.4f} to {high:.4f}")
        grid.add_row("users", f"about {self.count:,.0f} of {self.universe:,}")
        grid.add_row("moves", f"{'now; ' if self.moved else ''}{self.moves_left} left")
        grid.add_row("epsilon", f"{self.epsilon_spent:.4g} spent")
        if not self.secure:
            grid.add_row("warning", "[bold red]not private: seeded coins")
        return grid


@dataclass(frozen=True)
class ContinualBudget(Spending):
    """Where an observer's epsilon goes, for any number of observations; `continual.shares` has the formula."""

    threshold: float
    """Of one step of the threshold's walk; it counts three times, however many observations there are."""
    test: float
    """Of the noise in a test; it counts twice for every move, and once more."""
    value: float
    """Of the count released at one move."""
    moves: int
    """How many moves are planned."""
    moves_made: int

    def __str__(self) -> str:
        return "\n".join(
            [
                f"total     {self.total:.6f} of epsilon {self.epsilon:g}",
                f"state     {self.state:.6f}",
                f"threshold 3 x {self.threshold:.4g}",
                f"moves     {self.moves_made} of {self.moves} made x (2 x {self.test:.4g} + {self.value:.4g})",
                f"spent     {self.spent:.6f}",
                f"remaining {self.remaining:.6f}",
            ]
        )


@lru_cache(maxsize=256)
def budget_of(shares: Shares, moves_made: int) -> ContinualBudget:
    """Lay shares open, with what has been spent of them."""
    return ContinualBudget(
        **spent_under(shares, moves_made),
        threshold=float(shares.threshold),
        test=float(shares.test),
        value=float(shares.value),
        moves=shares.moves,
        moves_made=moves_made,
    )
