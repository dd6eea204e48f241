"""The groups of a release: rows, a frame of them, and how they are shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

from panprivacy.display import Card, Displayed, Sheet, line_of
from panprivacy.errors import PanPrivacyError
from panprivacy.release.estimates import EstimatedCount, EstimatedDensity
from panprivacy.release.often import GroupFrequency
from panprivacy.universe.groups import Label

if TYPE_CHECKING:
    import polars as pl

MOST_SHOWN = 20
"""Groups that are shown to people; a frame has all of them."""

_MOST_IN_A_LINE = 8
_NOISY, _INTERVAL = "mostly noise", "interval"


@dataclass(frozen=True)
class GroupDensity(EstimatedDensity):
    """One group of a release: the density among its users, or, of a category, among all users."""

    group: Label
    """The label of the group or category."""
    users: int
    """How many users own a bit that counts here: those of the group, or those who are asked about the category."""
    header: ClassVar = ("group", "density", _INTERVAL, "users", "of")

    @property
    def stderr(self) -> float:
        """By which groups are compared: that of the density."""
        return self.density_stderr

    @property
    def error(self) -> str:
        """Its standard error, as it is shown."""
        return f"± {self.density_stderr:.4f}"

    def columns(self) -> dict[str, Any]:
        """Everything in it by the name of a column."""
        return columns_of(self)

    def cells(self) -> tuple[str, ...]:
        """What is shown under `header`."""
        low, high = self.density_interval
        density = f"{self.density:.4f} {self.error}{_remark(self)}"
        users = f"{self.count:,.0f} ± {self.count_stderr:,.0f}"
        return str(self.group), density, f"{low:.4f} to {high:.4f}", users, f"{self.universe:,}"

    def told(self, interval: str = _INTERVAL) -> str:
        """What is said of it in one line; its release, which knows the level, says what the interval is called."""
        low, high = self.density_interval
        return (
            f"{self.group}: density {self.density:.4f} ± {self.density_stderr:.4f} (standard error), {interval} "
            f"{low:.4f} to {high:.4f}; users {self.count:,.0f} ± {self.count_stderr:,.0f}, of {self.universe:,}"
            f"{f'; {_NOISY}' if self.mostly_noise else ''}"
        )

    def __str__(self) -> str:
        return self.told()


@dataclass(frozen=True)
class GroupCount(EstimatedCount):
    """One category of a release of a `DistinctCount`."""

    group: Label
    """The label of the category."""
    header: ClassVar = ("group", "users", _INTERVAL)

    @property
    def stderr(self) -> float:
        """By which groups are compared: that of the count."""
        return self.count_stderr

    @property
    def error(self) -> str:
        """Its standard error, as it is shown."""
        return f"± {self.count_stderr:,.0f}"

    def columns(self) -> dict[str, Any]:
        """Everything in it by the name of a column."""
        return columns_of(self)

    def cells(self) -> tuple[str, ...]:
        """What is shown under `header`."""
        low, high = self.count_interval
        return str(self.group), f"{self.count:,.0f} {self.error}{_remark(self)}", f"{low:,.0f} to {high:,.0f}"

    def told(self, interval: str = _INTERVAL) -> str:
        """What is said of it in one line; its release, which knows the level, says what the interval is called."""
        low, high = self.count_interval
        return (
            f"{self.group}: users {self.count:,.0f} ± {self.count_stderr:,.0f} (standard error), {interval} "
            f"{low:,.0f} to {high:,.0f}{f'; {_NOISY}' if self.mostly_noise else ''}"
        )

    def __str__(self) -> str:
        return self.told()


Row: TypeAlias = GroupDensity | GroupCount | GroupFrequency
R = TypeVar("R", GroupDensity, GroupFrequency, Row)


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

    told = [row.columns() for row in checked(rows)]
    columns = {name: [row[name] for row in told] for name in told[0]}
    if len(set(map(type, columns["group"]))) > 1:  # numbers, and a text for the others
        columns["group"] = list(map(str, columns["group"]))
    return pl.DataFrame(columns | {"mostly_noise": [row.mostly_noise for row in rows]})


def columns_of(row: EstimatedDensity | EstimatedCount) -> dict[str, Any]:
    """The fields of a row, or of a release without groups, by the names of columns.

    The densities of a universe that nobody knows are left out.
    """
    found: dict[str, Any] = {}
    for name, value in row.to_dict().items():
        if name.endswith("_interval") and value is not None:
            found |= {name.replace("interval", end): value[place] for place, end in enumerate(("low", "high"))}
        elif value is not None:
            found[name] = value
    return found


def sheet_of(card: Card, rows: Sequence[Row], interval: str, title: str = "groups") -> Card:
    """What is shown of a release, with its groups in a table under it; the card as it is where there are none."""
    if not rows:
        return card
    best, worst = (choose(rows, key=lambda row: row.stderr) for choose in (min, max))
    noisy = sum(row.mostly_noise for row in rows)
    errors = f"errors {best.error} to {worst.error.removeprefix('± ')}"
    said = f"{len(rows):,}, standard {errors if best.error != worst.error else f'error {best.error} each'}"
    said += f", {noisy:,} of them {_NOISY}" if noisy else ""
    lines = [row.cells() for row in rows[:MOST_SHOWN]]
    if len(rows) > MOST_SHOWN:
        lines.append((f"and {len(rows) - MOST_SHOWN:,} more", *[""] * (len(lines[0]) - 1)))
    header = tuple(interval if name == _INTERVAL else name for name in rows[0].header)
    return Sheet(card.title, (*card.rows, (title, said)), card.warning, header, tuple(lines))


def line_with(release: Displayed, rows: Sequence[Row]) -> str:
    """What a release says of itself in one line, and its first few groups, if it has any."""
    return f"{line_of(release)}: {some_of(rows)}" if rows else line_of(release)


def some_of(rows: Sequence[Row]) -> str:
    """The first few rows in short, for one line.

    >>> row = GroupDensity(0.25, 0.01, (0.2, 0.3), 0.25, 1000, 0.005, "north", 1000)
    >>> some_of([row] * 10)[-35:]
    ', north 0.2500 ± 0.0100, and 2 more'
    """
    shown = [f"{row.group} {row.cells()[1]}" for row in rows[:_MOST_IN_A_LINE]]
    more = [f"and {len(rows) - _MOST_IN_A_LINE:,} more"] if len(rows) > _MOST_IN_A_LINE else []
    return ", ".join([*shown, *more])


def _remark(row: Row) -> str:
    return f" ({_NOISY})" if row.mostly_noise else ""
