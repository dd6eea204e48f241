"""What leaves where events are in categories: an estimate for each of them, and no total."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from panprivacy.display import Card, grid_of, html_of, warning_of
from panprivacy.errors import PanPrivacyError
from panprivacy.privacy.budget import and_delta
from panprivacy.release.estimates import plain
from panprivacy.release.groups import GroupCount, Row, checked, frame_of, line_with, sheet_of
from panprivacy.release.picture import draw

if TYPE_CHECKING:
    import polars as pl

_TOLD = ("density", "count", "mean", "at_least", "exactly")
_OF_A_TOTAL = tuple(f"{what}{part}" for what in _TOLD for part in ("", "_stderr", "_interval"))


@dataclass(frozen=True)
class CategoryRelease:
    """An estimate for every category, with its error, that cost the stated part of the budget.

    Each user is asked about one category, so nobody knows how many appeared in any: there is no total, and categories
    do not add up to one, since a user may appear in several.
    """

    groups: tuple[Row, ...]
    """Each category with its estimate, in the order in which they were given."""
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

    def __getattr__(self, name: str) -> NoReturn:
        if name in _OF_A_TOTAL:
            raise PanPrivacyError(
                f"a release by category has no {name} of all: each user is asked about one category; see .groups"
            )
        raise AttributeError(name)

    def within(self, universe: int) -> "CategoryRelease":
        """The same release, knowing that there are only so many users: post-processing, at no cost."""
        rows = (row.within(universe) if isinstance(row, GroupCount) else row for row in self.groups)
        return replace(self, groups=tuple(rows))

    def to_dict(self) -> dict[str, Any]:
        """Everything in the release as plain numbers, for JSON; categories as rows."""
        return plain(self)

    def to_polars(self) -> "pl.DataFrame":
        """The categories as a frame, a row each."""
        return frame_of(self.groups)

    def plot(self, path: str | Path, column: str | None = None) -> None:
        """Draw the categories as bars with their intervals, in a file: .png, .svg or .pdf. Needs Matplotlib.

        `column` is what the categories are called, such as the column of the events that has them.
        """
        draw(checked(self.groups), self.level, path, column or "category")

    def card(self) -> Card:
        """What is shown of it."""
        spent = f"{self.epsilon_spent:.4g} spent, {self.epsilon_remaining:.4g} left{and_delta(self.delta_spent)}"
        card = Card(f"Release {self.number}", (("epsilon", spent),), warning_of(self.secure))
        return sheet_of(card, self.groups, f"{100 * self.level:g}% interval", "categories")

    def __str__(self) -> str:
        return line_with(self, self.groups)

    __rich__ = grid_of
    _repr_html_ = html_of
