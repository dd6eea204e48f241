"""The groups of a release: rows, a frame of them, and how they are shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from panprivacy.display import Card, Sheet
from panprivacy.errors import PanPrivacyError
from panprivacy.release.estimates import EstimatedCount, EstimatedDensity
from panprivacy.universe.groups import Label

if TYPE_CHECKING:
    import polars as pl

MOST_SHOWN = 20
"""Groups that are shown to people; a frame has all of them."""

_NOISY = "mostly noise"


@dataclass(frozen=True)
class GroupDensity(EstimatedDensity):
    """One group of a release: the density among its users, or, of a category, among all users."""

    group: Label
    """The label of the group or category."""
    users: int
    """How many users own a bit that counts here: those of the group, or those who are asked about the category."""

    def __str__(self) -> str:
        low, high = self.density_interval
        return (
            f"{self.group}: density {self.density:.4f} ± {self.density_stderr:.4f} (standard error), interval "
            f"{low:.4f} to {high:.4f}; users {self.count:,.0f} ± {self.count_stderr:,.0f}, of {self.universe:,}"
            f"{f'; {_NOISY}' if self.mostly_noise else ''}"
        )


@dataclass(frozen=True)
class GroupCount(EstimatedCount):
    """One category of a release of a `DistinctCount`."""

    group: Label
    """The label of the category."""

    def __str__(self) -> str:
        low, high = self.count_interval
        return (
            f"{self.group}: users {self.count:,.0f} ± {self.count_stderr:,.0f} (standard error), interval "
            f"{low:,.0f} to {high:,.0f}{f'; {_NOISY}' if self.mostly_noise else ''}"
        )


Row: TypeAlias = GroupDensity | GroupCount
R = TypeVar("R", GroupDensity, Row)


def checked(rows: Sequence[R]) -> Sequence[R]:
    """The rows, if there are any."""
    if not rows:
        raise PanPrivacyError(
            "this release has no groups: pp.Users(ids, groups=...) and categories=[...] make releases that have them"
        )
    return rows


def frame_of(rows: Sequence[Row]) -> "pl.DataFrame":
    """The rows as a frame; the ends of an interval are columns of their own."""
    import polars as pl

    columns: dict[str, list[Any]] = {}
    for name, first in checked(rows)[0].to_dict().items():
        values = [getattr(row, name) for row in rows] if first is not None else []  # densities of an unknown universe
        if not values:
            continue
        if name.endswith("_interval"):
            for place, end in enumerate(("low", "high")):
                columns[name.replace("interval", end)] = [value[place] for value in values]
        else:
            columns[name] = values
    return pl.DataFrame(columns | {"mostly_noise": [row.mostly_noise for row in rows]})


def sheet_of(card: Card, rows: Sequence[Row], interval: str, title: str = "groups") -> Card:
    """What is shown of a release, with its groups in a table under it; the card as it is where there are none."""
    if not rows:
        return card
    about = rows[0].density_stderr if isinstance(rows[0], GroupDensity) else None
    if about is not None:
        errors = [row.density_stderr for row in rows]
        spread = f"± {min(errors):.4f} to {max(errors):.4f}"
    else:
        errors = [row.count_stderr for row in rows]
        spread = f"± {min(errors):,.0f} to {max(errors):,.0f}"
    noisy = sum(row.mostly_noise for row in rows)
    said = f"{len(rows):,}, standard errors {spread}{f', {noisy:,} of them {_NOISY}' if noisy else ''}"
    header, lines = _densities(rows, interval) if about is not None else _counts(rows, interval)
    left = len(rows) - MOST_SHOWN
    lines = [*lines[:MOST_SHOWN], *([(f"and {left:,} more", *[""] * (len(header) - 1))] if left > 0 else [])]
    return Sheet(card.title, (*card.rows, (title, said)), card.warning, header, tuple(lines))


def _densities(rows: Sequence[Any], interval: str) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    lines: list[tuple[str, ...]] = []
    for row in rows[:MOST_SHOWN]:
        low, high = row.density_interval
        density = f"{row.density:.4f} ± {row.density_stderr:.4f}{_remark(row)}"
        users = f"{row.count:,.0f} ± {row.count_stderr:,.0f}"
        lines.append((str(row.group), density, f"{low:.4f} to {high:.4f}", users, f"{row.universe:,}"))
    return ("group", "density", interval, "users", "of"), lines


def _counts(rows: Sequence[Any], interval: str) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    lines: list[tuple[str, ...]] = []
    for row in rows[:MOST_SHOWN]:
        low, high = row.count_interval
        users = f"{row.count:,.0f} ± {row.count_stderr:,.0f}{_remark(row)}"
        lines.append((str(row.group), users, f"{low:,.0f} to {high:,.0f}"))
    return ("group", "users", interval), lines


def _remark(row: Row) -> str:
    return f" ({_NOISY})" if row.mostly_noise else ""
