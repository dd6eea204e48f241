"""A release: named estimates, their cost, and the same for each group."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from panprivacy.display import Card, Rows, Tabular, finite, grid_of, group_column, html_of, plain_labels, warning_of
from panprivacy.errors import InvalidValue, NoEstimate
from panprivacy.estimates.errors import interval_within
from panprivacy.estimates.estimate import (
    GUESS,
    Estimate,
    Interval,
    OfPart,
    Part,
    Series,
    estimate_fields,
    numbers,
    read_estimates,
)
from panprivacy.privacy.budget import and_delta
from panprivacy.universe.groups import Label

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

MOST_SHOWN = 20
"""Groups that are shown to people; a frame has all of them."""

_MOST_IN_A_LINE = 8
_NOISY = "mostly noise"
_LABELS = {"count": "users"}  # where people read another word than the name
_APART = ("estimates", "cost", "group", "users", "groups")  # fields that `to_dict` does not take as they are


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Which of the planned releases one is, at which level, and what has been spent up to and with it."""

    level: float
    """Confidence level of the intervals."""
    number: int
    """The number of the release, from 1."""
    epsilon_spent: float
    """Worst-case loss up to and with this release, one reading of the state included."""
    epsilon_remaining: float | None = None
    """What the releases still planned may spend; None where each cycle has a budget of its own."""
    delta_spent: float
    """The probability, at most, with which more than that was lost; 0 without Gaussian noise."""
    secure: bool
    """False if the coins were not the operating system's: such a release protects no one."""

    def __str__(self) -> str:
        left = "" if self.epsilon_remaining is None else f", {self.epsilon_remaining:.4g} left"
        return f"{self.epsilon_spent:.4g} spent{left}{and_delta(self.delta_spent)}"


@dataclass(frozen=True, kw_only=True)
class AnyRelease(Tabular):
    """What all releases have: named estimates, their cost, and groups, each of which is a release with a label.

    An estimate is found by its name in `estimates`, and its numbers are attributes: ``release.density``,
    ``release.density_stderr``, ``release.density_interval``, ``release.raw_density``. A release by category has an
    estimate for each category in `groups`, and none of its own: each user is asked about one category.
    """

    estimates: Mapping[str, Estimate | Series] = field(hash=False)
    """All estimates by name. The first one is what groups are compared by."""
    cost: Cost
    """What the release cost, with its number and the level of its intervals."""
    universe: int | None
    """How many users the estimates speak for."""
    group: Label | None = None
    """The label of the group or category, in a row of `groups`."""
    users: int | None = None
    """In a row of `groups`, how many users own a bit that counts here, where that is known."""
    groups: tuple[Self, ...] = ()
    """Each group or category, in the order in which the labels were given."""

    BOUNDS: ClassVar[str] = "interval"
    """What the bounds of an estimate are called."""

    level: ClassVar[OfPart[float]] = OfPart("cost")
    """Confidence level of the intervals."""
    number: ClassVar[OfPart[int]] = OfPart("cost")
    """Which of the planned releases this is, from 1."""
    epsilon_spent: ClassVar[OfPart[float]] = OfPart("cost")
    """Worst-case loss up to and with this release, one reading of the state included."""
    delta_spent: ClassVar[OfPart[float]] = OfPart("cost")
    """The probability, at most, with which more than `epsilon_spent` was lost; 0 without Gaussian noise."""
    secure: ClassVar[OfPart[bool]] = OfPart("cost")
    """False if the coins were not the operating system's: such a release protects no one."""

    @property
    def epsilon_remaining(self) -> float:
        """What the releases still planned may spend."""
        if self.cost.epsilon_remaining is None:
            raise NoEstimate("nothing remains of a budget that starts anew in each cycle")
        return self.cost.epsilon_remaining

    def singles(self) -> dict[str, Estimate]:
        """The estimates that are one number each."""
        return {name: each for name, each in self.estimates.items() if isinstance(each, Estimate)}

    @property
    def main_name(self) -> str:
        """The name of the first estimate, by which groups are compared and drawn."""
        return next(iter(self.singles()))

    @property
    def main(self) -> Estimate:
        """The first estimate."""
        return self.singles()[self.main_name]

    @property
    def by_category(self) -> bool:
        """Whether there are estimates for categories only, and none for all users."""
        return not self.estimates and bool(self.groups)

    @property
    def mostly_noise(self) -> bool:
        """Whether the release says hardly anything; by category, whether at least half of the categories do not."""
        if not self.estimates:
            return 2 * sum(row.mostly_noise for row in self.groups) >= len(self.groups)
        return self._is_noise()

    def _is_noise(self) -> bool:
        return False

    def why_missing(self, name: str) -> str:
        """Why there is no estimate of this name."""
        if self.by_category:
            return f"a release by category has no {name} of all: each user is asked about one category; see .groups"
        return f"this release has no {name}"

    # --- as data ------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Everything in the release as plain numbers and text, for JSON; None for numbers that are not finite."""
        found: dict[str, Any] = {} if self.group is None else {"group": self.group}
        for name, estimate in self.estimates.items():
            found |= estimate_fields(estimate, name, self.BOUNDS)
        if self.estimates:
            found |= {each.name: getattr(self, each.name) for each in fields(self) if each.name not in _APART}
        if self.users is not None:
            found["users"] = self.users
        if self.group is None:
            cost = {each.name: getattr(self.cost, each.name) for each in fields(self.cost)}
            found |= {name: value for name, value in cost.items() if value is not None}
        if self.groups:
            found["groups"] = [row.to_dict() for row in self.groups]
        known: dict[str, Any] = finite(found)
        return known

    @classmethod
    def from_dict(cls, found: Mapping[str, Any], cost: Cost | None = None) -> Self:
        """The release that `to_dict` wrote, for pictures and frames of what came as JSON; a group has the same cost."""
        cost = cost or Cost(**{each.name: found.get(each.name) for each in fields(Cost)})  # type: ignore[arg-type]
        rows = found.get("groups", ())
        known = {**(rows[0] if rows else {}), **found}  # by category, the fields stand in the rows alone
        own = {each.name: known[each.name] for each in fields(cls) if each.name not in _APART and each.name in known}
        own = {name: nan if value is None and name == "noise_stderr" else value for name, value in own.items()}
        return cls(
            estimates=read_estimates(found, cls.BOUNDS),
            cost=cost,
            group=found.get("group"),
            users=found.get("users"),
            groups=tuple(cls.from_dict(row, cost) for row in rows),
            **{"universe": None} | own,
        )

    def values(self) -> list[dict[str, Any]]:
        """All estimates in one shape: a name, a unit, a value, a standard error and the ends of an interval."""
        return [value for name, estimate in self.estimates.items() for value in estimate.values(name)]

    def columns(self) -> dict[str, Any]:
        """All numbers by the names of columns, for a row of a frame."""
        found: dict[str, Any] = {} if self.group is None else {"group": self.group}
        for name, estimate in self.estimates.items():
            found |= estimate.columns(name)
        sizes = {"users": self.users, "universe": self.universe, "noise_stderr": getattr(self, "noise_stderr", None)}
        return found | {name: size for name, size in sizes.items() if size is not None}

    def to_polars(self) -> "pl.DataFrame":
        """A frame with a row for each group or category, and a last row for all users, whose group is null.

        A release without groups has one row. The ends of an interval are columns of their own.
        """
        import polars as pl

        made: list[AnyRelease] = [*self.groups, *([self] if self.estimates else [])]
        rows = [row.columns() for row in made]
        columns = {name: [row.get(name) for row in rows] for name in rows[0]}
        if self.groups and self.estimates and "users" in columns:
            columns["users"][-1] = self.universe
        if "group" in columns:
            columns["group"] = plain_labels(columns["group"])
        return pl.DataFrame(columns | {"mostly_noise": [row.mostly_noise for row in made]})

    def _stacked(self) -> "pl.DataFrame":
        """The frames of groups below each other, and then that of all users, whose group is null."""
        import polars as pl

        rows: list[AnyRelease] = [*self.groups, replace(self, groups=())]
        frames = [row.to_polars().select(group_column(row.group), pl.all()) for row in rows]
        return pl.concat(frames, how="vertical_relaxed")

    def plot(self, path: str | Path | None = None, column: str | None = None, *, ax: "Axes | None" = None) -> "Axes":
        """Draw the release, and return Matplotlib's axes; with a path also into a file, .png, .svg or .pdf.

        Groups are bars with their intervals. `column` is what they are called, such as the name of the column that has
        them. `ax` are axes to draw on, instead of a new figure.
        """
        from panprivacy.estimates import plots

        if self.groups:
            return plots.draw_groups(self, column, path, ax)
        return self._plot_one(path, ax)

    def _plot_one(self, path: str | Path | None, ax: "Axes | None") -> "Axes":
        """Draw a release without groups."""
        from panprivacy.estimates.plots import draw_single

        return draw_single(self, path, ax)

    # --- as text ------------------------------------------------------------------------------------------------

    def card(self) -> Card:
        """Its representation: estimates, cost, and the first groups in a table."""
        rows = (*(self._rows() if self.estimates else ()), ("epsilon", self._spent()))
        title, warning = self._title(), warning_of(self.secure)
        if not self.groups:
            return Card(title, rows, warning)
        said = ("categories" if self.by_category else "groups", self._errors_of_groups())
        lines = [row.cells() for row in self.groups[:MOST_SHOWN]]
        if len(self.groups) > MOST_SHOWN:
            lines.append((f"and {len(self.groups) - MOST_SHOWN:,} more", *[""] * (len(lines[0]) - 1)))
        return Card(title, (*rows, said), warning, self.groups[0].header(), tuple(lines))

    def _title(self) -> str:
        return f"Release {self.number}"

    def _rows(self) -> Rows:
        """The representation of the estimates."""
        return tuple((name, each.shown(self.interval_name)) for name, each in self.singles().items())

    def _spent(self) -> str:
        return str(self.cost)

    @property
    def interval_name(self) -> str:
        """What its intervals are called: ``95% interval``."""
        return f"{100 * self.level:g}% {self.BOUNDS}"

    def _errors_of_groups(self) -> str:
        mains = [row.main for row in self.groups]
        best, worst = (choose(mains, key=lambda main: main.stderr or 0.0).error for choose in (min, max))
        errors = f"error {best} each" if best == worst else f"errors {best} to {worst.removeprefix('± ')}"
        noisy = sum(row.mostly_noise for row in self.groups)
        return f"{len(self.groups):,}, standard {errors}" + (f", {noisy:,} of them {_NOISY}" if noisy else "")

    def header(self) -> tuple[str, ...]:
        """The header above `cells`."""
        return "group", _LABELS.get(self.main_name, self.main_name), self.interval_name, *self._more_cells()

    def cells(self) -> tuple[str, ...]:
        """The row of a group in a table."""
        noisy = f" ({_NOISY})" if self.mostly_noise else ""
        return str(self.group), f"{self.main.short}{noisy}", self.main.bounds, *self._more_cells().values()

    def _more_cells(self) -> dict[str, str]:
        """More cells of a group, by what stands above them."""
        return {}

    def _line_of_group(self) -> str:
        name, noisy = _LABELS.get(self.main_name, self.main_name), f"; {_NOISY}" if self.mostly_noise else ""
        return f"{self.group}: {name} {self.main.shown(self.interval_name)}{self._more_words()}{noisy}"

    def _more_words(self) -> str:
        """The text of a group after its main estimate."""
        return ""

    def lines(self) -> list[str]:
        """One line for the release, and one for each group."""
        return [self.card().line, *(row._line_of_group() for row in self.groups)]

    def __str__(self) -> str:
        if self.group is not None:
            return self._line_of_group()
        if not self.groups:
            return self.card().line
        shown = [f"{row.group} {row.cells()[1]}" for row in self.groups[:_MOST_IN_A_LINE]]
        more = [f"and {len(self.groups) - _MOST_IN_A_LINE:,} more"] if len(self.groups) > _MOST_IN_A_LINE else []
        return f"{self.card().line}: {', '.join([*shown, *more])}"

    __rich__ = grid_of
    _repr_html_ = html_of


@dataclass(frozen=True, kw_only=True)
class Release(AnyRelease):
    """An estimate of the density, with its error, that cost the stated part of the budget.

    Densities are fractions of the universe, counts are numbers of users. Where users have groups, the estimate is
    that of all of them together, and `groups` has each. A release by category has groups only.

    >>> cost = Cost(level=0.95, number=1, epsilon_spent=1.0, epsilon_remaining=0.0, delta_spent=0.0, secure=True)
    >>> estimates = Release.of_share(Estimate(0.25, 0.01, (0.2, 0.3), 0.25), 1000)
    >>> north = Release(estimates=estimates, cost=cost, universe=1000, group="north", users=1000)
    >>> print(north)
    north: density 0.2500 ± 0.0100 (standard error), 95% interval 0.2000 to 0.3000; users 250 ± 10, of 1,000
    >>> str(Release(estimates={}, cost=cost, universe=1000, groups=(north,) * 10))[-35:]
    ', north 0.2500 ± 0.0100, and 2 more'
    """

    universe: int
    """How many users the estimate speaks for."""
    noise_stderr: float = field(default=nan, compare=False)  # nan is not equal to itself
    """Standard deviation of the noise of this release, as a density; nan in a release by category."""

    density: ClassVar[Part[float]]
    density_stderr: ClassVar[Part[float]]
    density_interval: ClassVar[Part[Interval]]
    raw_density: ClassVar[Part[float]]
    density, density_stderr, density_interval, raw_density = numbers("density")
    """The fraction of the universe that has appeared; the raw one is unbiased, and may be outside [0, 1]."""
    count: ClassVar[Part[float]]
    count_stderr: ClassVar[Part[float]]
    count_interval: ClassVar[Part[Interval]]
    raw_count: ClassVar[Part[float]]
    count, count_stderr, count_interval, raw_count = numbers("count")
    """The number of users that have appeared: density times universe."""

    @staticmethod
    def of_share(share: Estimate, universe: int) -> dict[str, Estimate | Series]:
        """The estimates of a release, from the density's."""
        return {"density": share, "count": share.times(universe)}

    def _is_noise(self) -> bool:
        return self.density_stderr > GUESS

    def _rows(self) -> Rows:
        density, count = self.singles().values()
        name = self.interval_name
        return ("density", density.shown(name)), ("users", f"{count.shown(name)}, of {self.universe:,}")

    def _more_cells(self) -> dict[str, str]:
        return {"users": self.singles()["count"].short, "of": f"{self.universe:,}"}

    def _more_words(self) -> str:
        return f"; users {self.singles()['count'].short}, of {self.universe:,}"


@dataclass(frozen=True, kw_only=True)
class CountRelease(AnyRelease):
    """An estimate of the number of different users, with its error, that cost the stated part of the budget.

    Counts are numbers of users. A release that knows its universe also has densities: fractions of it. A release by
    category has groups only.
    """

    noise_stderr: float = field(default=nan, compare=False)  # nan is not equal to itself
    """About the standard deviation of the noise of this release, in users; nan in a release by category."""

    count: ClassVar[Part[float]]
    count_stderr: ClassVar[Part[float]]
    count_interval: ClassVar[Part[Interval]]
    raw_count: ClassVar[Part[float]]
    count, count_stderr, count_interval, raw_count = numbers("count")
    """The number of users that have appeared, neither below 0 nor beyond the universe.

    The interval ends at infinity if the levels have no room for more users. The raw count may be negative.
    """
    density: ClassVar[Part[float]]
    density_stderr: ClassVar[Part[float]]
    density_interval: ClassVar[Part[Interval]]
    raw_density: ClassVar[Part[float]]
    density, density_stderr, density_interval, raw_density = numbers("density")
    """The fraction of the universe that has appeared; needs ``release(universe=N)``."""

    def _is_noise(self) -> bool:
        return self.count_stderr > self.count

    def why_missing(self, name: str) -> str:
        """Why there is no estimate of this name."""
        if self.estimates:
            return "a density needs a universe: est.release(universe=N), or est.last.within(N)"
        return super().why_missing(name)

    def within(self, universe: int) -> Self:
        """The same release for a universe of this size: post-processing, at no cost.

        The interval of an estimate c beyond the universe N holds what a test against N, the likeliest count that
        remains, would let pass: n with ``(c-n)^2 - (c-N)^2 <= (c-low)^2``. It always has width.
        """
        if universe < 1:
            raise InvalidValue(f"a universe has at least one user, got {universe}", code="universe-size")
        rows = tuple(row.within(universe) for row in self.groups)
        if not self.estimates:
            return replace(self, universe=universe, groups=rows)
        count, (low, high) = self.count, self.count_interval
        bounded = interval_within(count, count - low, high - count, float(universe))
        known = Estimate(min(count, float(universe)), self.count_stderr, bounded, self.raw_count, "users")
        return replace(
            self, universe=universe, groups=rows, estimates={"count": known, "density": known.over(universe)}
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything in the release as plain numbers, for JSON; None for densities without a universe."""
        unknown = {} if "density" in self.estimates or not self.estimates else dict.fromkeys(_DENSITIES)
        return super().to_dict() | unknown

    def _rows(self) -> Rows:
        known = f", of {self.universe:,}" if self.universe else ""
        shown = {name: each.shown(self.interval_name) for name, each in self.singles().items()}
        rows = (("users", shown["count"] + known),)
        return (*rows, ("density", shown["density"])) if known else rows


_DENSITIES = ("density", "density_stderr", "density_interval", "raw_density")
