"""What leaves a `DistinctCount`: an estimate of how many, and everything that may be said from it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from panprivacy.display import Card, grid_of, html_of, line_of, measured, warning_of
from panprivacy.privacy.budget import and_delta
from panprivacy.release.estimates import EstimatedCount
from panprivacy.release.groups import GroupCount, frame_of

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class CountRelease(EstimatedCount):
    """An estimate of the number of different users, with its error, that cost the stated part of the budget.

    What is called count is a number of users. A release that knows its universe also has densities: fractions of it.
    """

    level: float
    """Confidence level of the intervals."""
    number: int
    """Which of the planned releases this is, from 1."""
    epsilon_spent: float
    """Worst-case loss up to and with this release, one reading of the state included."""
    epsilon_remaining: float
    """What the releases still planned may spend."""
    delta_spent: float
    """The probability, at most, with which more than that was lost; 0 without Gaussian noise."""
    secure: bool
    """False if the coins were not the operating system's: such a release protects nobody."""

    @property
    def groups(self) -> tuple[GroupCount, ...]:
        """None: a release by category is a `CategoryRelease`."""
        return ()

    def to_polars(self) -> "pl.DataFrame":
        """Refuse, since there are no groups; a release by category has a frame of them."""
        return frame_of(self.groups)

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
