"""What leaves of a `Counts`: how often users appeared, with errors, and what it cost."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from panprivacy.display import Card, grid_of, html_of, measured, warning_of
from panprivacy.privacy.budget import and_delta
from panprivacy.release.groups import checked, frame_of, line_with, sheet_of
from panprivacy.release.often import EstimatedFrequency, GroupFrequency
from panprivacy.release.picture import draw

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, kw_only=True)
class FrequencyRelease(EstimatedFrequency):
    """An estimate of how often users appeared, with its errors, that cost the stated part of the budget.

    What is called a share is a fraction of the universe. If only the mean was released, there are no shares. Where
    users have groups, the estimate is that of all of them together, and `groups` has each.
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
    groups: tuple[GroupFrequency, ...] = ()
    """Each group with estimates of its own; none unless users have groups."""

    def to_polars(self) -> "pl.DataFrame":
        """The groups as a frame, a row each."""
        return frame_of(self.groups)

    def plot(self, path: str | Path, column: str | None = None) -> None:
        """Draw the mean of each group as a bar with its interval, in a file: .png, .svg or .pdf. Needs Matplotlib."""
        draw(checked(self.groups), self.level, path, column or "group")

    def card(self) -> Card:
        """What is shown of it."""
        interval = f"{100 * self.level:g}% interval"
        shares = zip(self.at_least, self.at_least_stderr, self.at_least_interval, strict=True)
        rows = [
            ("mean", measured(self.mean, self.mean_stderr, self.mean_interval, interval, 4)),
            *((f"at least {times}", measured(*share, interval, 4)) for times, share in enumerate(shares, start=1)),
            ("users", f"{self.universe:,}, counted up to {self.up_to} times each"),
            (
                "epsilon",
                f"{self.epsilon_spent:.4g} spent, {self.epsilon_remaining:.4g} left{and_delta(self.delta_spent)}",
            ),
        ]
        return sheet_of(Card(f"Release {self.number}", tuple(rows), warning_of(self.secure)), self.groups, interval)

    def __str__(self) -> str:
        return line_with(self, self.groups)

    __rich__ = grid_of
    _repr_html_ = html_of
