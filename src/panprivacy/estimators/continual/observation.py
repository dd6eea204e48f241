"""What an observer says: the published density now, and where its budget goes."""

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import ClassVar

from panprivacy.display import Card, Rows, grid_of, html_of, text_of
from panprivacy.estimates.estimate import numbers
from panprivacy.estimates.release import AnyRelease
from panprivacy.estimators.continual.shares import Shares
from panprivacy.privacy.budget import Spending, and_delta, spent_under
from panprivacy.privacy.noise import Laplace


@dataclass(frozen=True, kw_only=True)
class Observation(AnyRelease):
    """The published density at one moment, and how far it can be from the truth.

    Densities are fractions of the universe, counts are numbers of users. `epsilon_spent` covers any number of
    observations until the next move. `level` is one minus the beta of the accuracy statement.
    """

    universe: int
    """How many users the density speaks for."""
    moved: bool
    """Whether the published density moved at this observation."""
    moves_left: int
    """How often it may still move; at 0 it stands still for good."""

    BOUNDS: ClassVar[str] = "band"

    density, density_band = numbers("density")[0], numbers("density")[2]
    """The published fraction of the universe that has appeared, and its band.

    The band holds the true density, at all planned observations together, with probability `level`. It is narrow at a
    move. After one, on a stream without deletions, it goes up from the last release to where the next move is due, and
    its middle is published."""
    count, count_band = numbers("count")[0], numbers("count")[2]
    """The number of users that have appeared; the band holds the true count whenever that of the density does."""

    def _title(self) -> str:
        return f"Observation {self.number:,}"

    def _rows(self) -> Rows:
        found, band, moved = self.singles(), self.interval_name, "moved" if self.moved else "unmoved"
        return (
            ("density", found["density"].shown(band)),
            ("users", f"{found['count'].shown(band)}, of {self.universe:,}"),
            ("published", f"{moved} at observation {self.number:,}, {self.moves_left} moves left"),
        )


@dataclass(frozen=True)
class ContinualBudget(Spending):
    """Where an observer's epsilon goes, for any number of observations; `continual.shares` has the formula."""

    threshold: float
    """Epsilon of one step of the threshold's walk; it counts three times, however many observations there are."""
    test: float
    """Epsilon of the noise in a test."""
    value: float | None
    """Epsilon of the count released at one move; None with Gaussian noise, whose releases do not just add up."""
    value_stderr: float
    """Standard deviation of the noise of that count."""
    moves: int
    """How many moves are planned."""
    moves_made: int

    def card(self) -> Card:
        """What is shown of it."""
        value = f"value {self.value:.4g}" if self.value else f"Gaussian noise ± {self.value_stderr:,.1f}"
        rows = (
            ("total", f"{self.total:.6f} of epsilon {self.epsilon:g}{and_delta(self.delta)}"),
            ("state", f"{self.state:.6f}"),
            ("threshold", f"3 x {self.threshold:.4g}"),
            ("moves", f"{self.moves_made} of {self.moves} made (test {self.test:.4g}, {value})"),
            ("spent", f"{self.spent:.6f}{and_delta(self.delta_spent)}"),
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
        value=float(shares.value.epsilon) if isinstance(shares.value, Laplace) else None,
        value_stderr=sqrt(shares.value.variance),
        moves=shares.moves,
        moves_made=moves_made,
    )
