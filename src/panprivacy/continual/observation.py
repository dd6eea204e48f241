"""What an observer says: the published density now, and where its budget goes."""

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from panprivacy.continual.shares import Shares
from panprivacy.display import Card, grid_of, html_of, line_of, measured, text_of, warning_of
from panprivacy.privacy.accounting import Spending, spent_under


@dataclass(frozen=True)
class Observation:
    """The published density at one moment, and how far it can be from the truth.

    What is called density is a fraction of the universe, and what is called count is a number of users.
    """

    density: float
    """The published fraction of the universe that has appeared."""
    density_band: tuple[float, float]
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

    @property
    def count_band(self) -> tuple[float, float]:
        """Holds the true count whenever `density_band` holds the true density."""
        low, high = self.density_band
        return low * self.universe, high * self.universe

    def to_dict(self) -> dict[str, Any]:
        """Everything in the observation as plain numbers, for JSON."""
        return asdict(self) | {"count": self.count, "count_band": self.count_band}

    def card(self) -> Card:
        """What is shown of it."""
        band, moved = f"{100 * self.level:g}% band", "moved" if self.moved else "unmoved"
        rows = (
            ("density", measured(self.density, None, self.density_band, band, 4)),
            ("users", f"{measured(self.count, None, self.count_band, band, 0)}, of {self.universe:,}"),
            ("published", f"{moved} at observation {self.number:,}, {self.moves_left} moves left"),
            ("epsilon", f"{self.epsilon_spent:.4g} spent"),
        )
        return Card(f"Observation {self.number:,}", rows, warning_of(self.secure))

    __str__ = line_of
    __rich__ = grid_of
    _repr_html_ = html_of


@dataclass(frozen=True)
class ContinualBudget(Spending):
    """Where an observer's epsilon goes, for any number of observations; `continual.shares` has the formula."""

    threshold: float
    """Epsilon of one step of the threshold's walk; it counts three times, however many observations there are."""
    test: float
    """Epsilon of the noise in a test; it counts twice for every move, and once more."""
    value: float
    """Epsilon of the count released at one move."""
    moves: int
    """How many moves are planned."""
    moves_made: int

    def card(self) -> Card:
        """What is shown of it."""
        rows = (
            ("total", f"{self.total:.6f} of epsilon {self.epsilon:g}"),
            ("state", f"{self.state:.6f}"),
            ("threshold", f"3 x {self.threshold:.4g}"),
            ("moves", f"{self.moves_made} of {self.moves} made x (2 x {self.test:.4g} + {self.value:.4g})"),
            ("spent", f"{self.spent:.6f}"),
            ("remaining", f"{self.remaining:.6f}"),
        )
        return Card("Budget", rows)

    __str__ = text_of
    __rich__ = grid_of
    _repr_html_ = html_of


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
