"""What leaves of a `Density`: an estimate with its error, and what it cost."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from panprivacy.display import Card, grid_of, html_of, measured, warning_of
from panprivacy.privacy.budget import and_delta
from panprivacy.release.estimates import EstimatedDensity
from panprivacy.release.groups import GroupDensity, checked, frame_of, line_with, sheet_of
from panprivacy.release.picture import draw

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Release(EstimatedDensity):
    """An estimate of the density, with its error, that cost the stated part of the budget.

    What is called density is a fraction of the universe, and what is called count is a number of users. Where users
    have groups, the estimate is that of all of them together, and `groups` has each.
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
    groups: tuple[GroupDensity, ...] = ()
    """Each group with an estimate of its own; none unless users have groups."""

    def to_polars(self) -> "pl.DataFrame":
        """The groups as a frame, a row each."""
        return frame_of(self.groups)

    def plot(self, path: str | Path, column: str | None = None) -> None:
        """Draw the groups as bars with their intervals, in a file: .png, .svg or .pdf. Needs Matplotlib.

        `column` is what the groups are called, such as the column of the list that has them.
        """
        draw(checked(self.groups), self.level, path, column or "group")

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
        return sheet_of(Card(f"Release {self.number}", rows, warning_of(self.secure)), self.groups, interval)

    def __str__(self) -> str:
        return line_with(self, self.groups)

    __rich__ = grid_of
    _repr_html_ = html_of
