"""A plan: which estimator to build, and how much its releases will err, for each group and category, too."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import sqrt
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

from panprivacy.checks import check_whole
from panprivacy.display import Card, Rows, Tabular, counted, format_bytes, grid_of, html_of, plain_labels
from panprivacy.errors import InvalidType, InvalidValue
from panprivacy.estimates.estimate import OfPart
from panprivacy.privacy.budget import Split, and_delta, budget_of
from panprivacy.privacy.coins import Coins
from panprivacy.registry import class_named
from panprivacy.slots.choosing import check_ranges, grouped, parse_categories
from panprivacy.slots.users import AllUsers, Ranges, places_for
from panprivacy.table import Counters, Table
from panprivacy.universe import Range, Universe, Users, universe_of
from panprivacy.universe.categories import Categories, by_categories
from panprivacy.universe.groups import Groups, Label
from panprivacy.universe.users import in_groups

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

    from panprivacy.estimators.density import Density
    from panprivacy.estimators.distinct import DistinctCount

_RIVALS = 16  # sizes just above the smallest, whose error can be a hair larger: counts are whole numbers
_SIZES = 48  # numbers of users for which an error is computed; a group between two has that of the smaller one


class Part(NamedTuple):
    """The bits of a group or category, and whom they speak for."""

    bits: int
    users: int
    population: int


class GroupError(NamedTuple):
    """How much the last release of a plan errs about one group or category."""

    group: Label
    users: int
    """How many users own a bit: of a category, the expected number."""
    stderr: float
    """Standard error, at the truth of `Plan.stderr`."""
    alpha: float
    """The error that is reached with probability beta at most, whatever the truth."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The groups, or the categories, that every release has a number of; in a plan, with the law of their errors."""

    groups: Groups | None
    categories: Categories | None
    table: Ranges | None = None
    """The bits of each in the table of the plan."""
    law: Callable[[Part], tuple[float, float]] | None = None
    """Standard error and alpha of a part."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def labels(self) -> tuple[Label, ...]:
        """What they are called, in the order of a release."""
        divided = self.groups or self.categories
        assert divided is not None
        return divided.labels

    @property
    def noun(self) -> str:
        """What one of them is."""
        return "category" if self.categories else "group"

    def ranges(self, population: int, size: int) -> Ranges:
        """The bits of each in a table of this size; of a category, with the expected number of users."""
        if self.groups is not None:
            ranges = AllUsers(population, 0, population, self.groups).ranges
            assert ranges is not None
            return ranges
        places = places_for(population)
        bounds = (places if size >= population else size) * np.arange(len(self) + 1) // len(self)
        users = np.rint(np.diff(bounds) * (population / places)).astype(np.int64)
        return Ranges(self.labels, bounds, users, np.full(len(self), population))

    def worst(self, population: int, size: int) -> list[Part]:
        """The smallest part, and those that are hardly larger, each size once.

        More users err less, but for ripples: counts are whole numbers, and one count more or less of about
        ``sqrt(users)`` is worth as much as twice that many users.
        """
        parts = sorted(set(parts_of(self.ranges(population, size))), key=lambda part: part.users)
        near = parts[0].users + 3 * sqrt(parts[0].users)
        return [part for part in parts if part.users <= near][:_RIVALS]

    def planned(self, population: int, size: int, law: Callable[[Part], tuple[float, float]]) -> "Parts":
        """The same in a plan with this law of standard errors and alphas."""
        return replace(self, table=self.ranges(population, size), law=law)

    @cached_property
    def errors(self) -> tuple[GroupError, ...]:
        """The error of each. Of very many sizes some are computed, and the others have the next larger error."""
        assert self.table is not None
        assert self.law is not None
        parts = parts_of(self.table)
        sizes = sorted(set(parts), key=lambda part: part.users)
        chosen = [sizes[i] for i in sorted({round(i) for i in np.linspace(0, len(sizes) - 1, _SIZES)})]
        known: dict[Part, tuple[float, float]] = {}
        below = 0
        found = [self.law(part) for part in chosen]
        for part in sizes:
            while below + 1 < len(chosen) and chosen[below + 1].users <= part.users:
                below += 1
            known[part] = found[below]
        return tuple(
            GroupError(label, part.users, *known[part]) for label, part in zip(self.labels, parts, strict=True)
        )

    def arguments(self) -> dict[str, Any]:
        """What the estimator is told of them; users of a list have their groups with them."""
        if self.groups is not None:
            return {"groups": np.repeat(np.array(self.groups.labels), self.groups.sizes)}
        assert self.categories is not None
        listed = self.categories.labels[: len(self.categories) - self.categories.other]
        return {"categories": list(listed)} | ({"other": True} if self.categories.other else {})


def parts_of(ranges: Ranges) -> list[Part]:
    """The parts of a table, in order."""
    return [Part(*map(int, each)) for each in zip(ranges.bits, ranges.users, ranges.population, strict=True)]


def planned_parts(
    universe: Any, groups: Any, categories: Iterable[Label] | None = None, other: bool = False, bits: int | None = None
) -> tuple[Universe | None, Parts | None]:
    """The universe of a plan, and its groups or categories, by the arguments of `plan`."""
    ranges: Groups | None
    if isinstance(groups, Mapping):
        universe, ranges = _of_sizes(universe, groups)
    elif universe is None:
        if groups is not None or categories is not None or other:
            raise InvalidValue(
                "groups and categories need a universe: say how many users there could be", code="plan-groups"
            )
        return None, None
    else:
        universe, ranges = grouped(universe_of(universe), groups)
    kinds = parse_categories(categories, other)
    check_ranges(ranges, kinds, sampled=bits is not None and bits < universe.size, shard=None)
    if kinds is not None and len(kinds) > universe.size:
        raise InvalidValue(
            f"{len(kinds):,} categories are too many for {universe.size:,} users, of whom each is asked about one",
            code="too-many-categories",
        )
    return universe, None if ranges is None and kinds is None else Parts(ranges, kinds)


def _of_sizes(universe: Any, sizes: Mapping[Label, int]) -> tuple[Universe, Groups]:
    """Users 0..N-1 in groups of these sizes, one after the other."""
    counts = [check_whole(size, f"the number of users in group {label!r}") for label, size in sizes.items()]
    if not counts or min(counts) < 1:
        raise InvalidValue("each group has one user or more: groups={'north': 40_000, ...}", code="groups-number")
    total = sum(counts)
    known = Range(total) if universe is None else universe_of(universe)
    if not isinstance(known, Range):
        raise InvalidType(
            "listed users have their groups with them: pp.Users(ids, groups=...)", code="groups-of-listed-users"
        )
    if known.size != total:
        raise InvalidValue(
            f"the groups have {total:,} users in all, and the universe has {known.size:,}; leave universe out, or add "
            "a group for the others",
            code="groups-length",
        )
    return known, Groups(tuple(sizes), np.append(0, np.cumsum(counts)))


E = TypeVar("E")
"""The estimators that a plan may be for."""

_SHOWN = 12  # groups that a card lists
_DEFAULTS = {"intrusions": 0, "every": "1d"}  # arguments that need not be written


class Errors(NamedTuple):
    """Standard errors of a plan with either noise, in the plan's unit; None where its epsilon is too small for one."""

    laplace: float | None
    gaussian: float | None

    def compared(self, delta: float, shown: Callable[[float], str]) -> str:
        """The noise of a plan, Gaussian if it has a delta, and its error with the other noise."""
        laplace, gaussian = (None if each is None else shown(each) for each in self)
        taken = (
            f"Gaussian, which errs by {gaussian}; Laplace"
            if delta
            else (f"Laplace, which errs by {laplace} and needs no delta; Gaussian")
        )
        other = laplace if delta else gaussian
        return f"{taken} noise {f'would err by {other}' if other else 'is out of reach at this epsilon'}"


@dataclass(frozen=True, repr=False, kw_only=True)
class Plan(Tabular, Generic[E]):
    """An estimator to build, and the error that its last release will have, after all planned intrusions."""

    estimator: Literal["Density", "DistinctCount", "Counts", "Retention", "ActiveUsers"]
    """The estimator to build."""
    universe: Universe | None
    """The users there could be; None for an open universe."""
    split: Split
    """How the total epsilon is split between the state and its releases."""
    stderr: float
    """Standard error of a release; `of` says of which number."""
    of: Literal["density", "count", "share", "mean", "returned", "active"]
    """The number that `stderr` and `alpha` are about. A count's error is relative, a mean's is the largest."""
    alpha: float
    """The error in question, in the unit of `stderr`."""
    beta: float
    """How probable such an error may be."""
    probability: float
    """P(error >= alpha). For `Density`, exact and at the worst density; else about."""
    errors: Errors | None = None
    """Standard errors with Laplace noise and with Gaussian noise; None unless a delta was allowed."""

    size: int
    """Bits of the table: one for each user, or for each of a sample; levels x buckets for `DistinctCount`."""
    users: int | None = None
    """How many users own a bit: all, or of a sample the expected number; None where users share bits."""
    buckets: int | None = None
    """Buckets of a `DistinctCount`."""
    levels: int | None = None
    """Levels of a `DistinctCount`."""
    up_to: int | None = None
    """How many appearances of a user a `Counts` counts."""
    only: Literal["mean"] | None = None
    """What a `Counts` releases, if it is not everything."""
    span: str | None = None
    """The longest time that an `ActiveUsers` is asked about."""
    every: str | None = None
    """The length of its days."""

    density: float | None = None
    """The density at which `stderr` is stated: the expected one, or 1/2, where sampling errs most."""
    worst_density: float | None = None
    """The density at which `probability` is reached."""
    count: float | None = None
    """The count that is expected in an open universe; `stderr` and `probability` hold from there on."""
    counts: tuple[int, int] | None = None
    """The counts of an open universe for which P(error >= alpha) is about beta at most: from the first to the last."""
    share: float | None = None
    """The share at which `stderr` is stated: of users who came back, or were active."""
    touched: float | None = None
    """The share of users that comes in the second period of a `Retention` at all."""
    parts: Parts | None = field(default=None, compare=False)
    """The groups or categories; `stderr`, `alpha` and `probability` are then about the one that errs most."""

    epsilon: ClassVar[OfPart[float]] = OfPart("split")
    """The total budget; of an `ActiveUsers`, the budget of a cycle."""

    delta: ClassVar[OfPart[float]] = OfPart("split")
    """The probability, at most, with which more than epsilon is lost: 0 with Laplace noise, which needs none."""

    @property
    def noise(self) -> str:
        """The noise of the releases: ``"Laplace"``, or ``"Gaussian"`` if a delta was allowed and buys less error."""
        return type(self.split.noise).__name__

    @property
    def density_stderr(self) -> float | None:
        """Standard error of the density; None if the plan is about something else."""
        return self.stderr if self.of == "density" else None

    @property
    def relative_stderr(self) -> float | None:
        """Standard error of the count as a share of the count, in an open universe; None in a known one."""
        return self.stderr if self.of == "count" else None

    @property
    def exact(self) -> bool:
        """Whether `probability` is summed from the true law, and holds at every density."""
        return self.estimator == "Density"

    @property
    def memory(self) -> int:
        """Bytes that the bits take, and the counters of a `Counts`."""
        return table_bytes(self.size) if self.up_to is None else 8 * Counters.words_for(self.size, self.up_to)

    @property
    def sample(self) -> int | None:
        """The sample of a `Density`; None where it has a bit for every user, and for other estimators."""
        everyone = self.universe is None or self.size == self.universe.size
        return None if everyone or self.estimator != "Density" else self.size

    @property
    def groups(self) -> tuple[GroupError, ...]:
        """The error of each group or category, in the order of a release; none without them."""
        return self.parts.errors if self.parts else ()

    # --- how it is built ----------------------------------------------------------------------------------------

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of the estimator besides its universe, without those left at their defaults."""
        releases = self.split.releases - (self.estimator == "Retention")  # the first one is the cohort's
        named = {
            "epsilon": self.epsilon,
            "sample": self.sample,
            "buckets": self.buckets,
            "levels": self.levels,
            "up_to": self.up_to,
            "span": self.span,
            "every": self.every,
            "releases": None if self.estimator == "ActiveUsers" or releases == 1 else releases,
            "intrusions": self.split.intrusions,
            "only": self.only,
            "delta": self.delta or None,
        }
        return {name: value for name, value in named.items() if value is not None and value != _DEFAULTS.get(name)}

    def build(self, *, start: Any = None, coins: Coins | None = None) -> E:
        """Return the planned estimator, new and empty; an `ActiveUsers` needs the start of its first day."""
        universe = () if self.estimator == "DistinctCount" else (self.universe,)
        when = {"start": start} if self.estimator == "ActiveUsers" else {}
        built: E = class_named(self.estimator)(*universe, **self.arguments(), **self._divided(), **when, coins=coins)
        return built

    def _divided(self) -> dict[str, Any]:
        """What the estimator is told of groups or categories; listed users have their groups with them."""
        listed = self.parts is not None and self.parts.groups is not None and isinstance(self.universe, Users)
        return {} if self.parts is None or listed else self.parts.arguments()

    @property
    def code(self) -> str:
        """What `build` does, as a line of Python."""
        spelled = str(self.universe.size) if isinstance(self.universe, Range) else "universe"
        universe = [] if self.estimator == "DistinctCount" else [spelled]
        named = [f"{name}={value!r}".replace("'", '"') for name, value in self.arguments().items()]
        divided = (f"{name}={name if name == 'groups' else repr(value)}" for name, value in self._divided().items())
        named += [each.replace("'", '"') for each in divided]
        when = ["start=..."] if self.estimator == "ActiveUsers" else []
        return f"pp.{self.estimator}({', '.join([*universe, *named, *when])})"

    # --- display ------------------------------------------------------------------------------------------------

    def plot(self, path: str | Path | None = None, *, ax: "Axes | None" = None) -> "Axes":
        """Draw its error beside other plans' errors, and return Matplotlib's axes; with a path also into a file."""
        from panprivacy.planning.picture import draw

        return draw(self, path, ax)

    def to_dict(self) -> dict[str, Any]:
        """Everything in the plan as plain numbers and words, for JSON."""
        budget = budget_of(self.split, self.split.releases, self.split.intrusions)
        return (
            {
                "estimator": self.estimator,
                "universe": self.universe.size if self.universe else None,
                "memory": self.memory,
                "epsilon": self.epsilon,
                "epsilon_state": budget.state,
                "releases": budget.releases,
                "epsilon_release": budget.release_epsilon,
                "epsilon_total": budget.total,
                "delta": budget.delta,
                "noise": self.noise,
                "noise_stderr": budget.noise_stderr,
                "errors": self.errors._asdict() if self.errors else None,
                "stderr": self.stderr,
                "of": self.of,
                "alpha": self.alpha,
                "beta": self.beta,
                "probability": self.probability,
            }
            | self._details(budget.redraw_epsilon)
            | ({"groups": [row._asdict() for row in self.groups]} if self.parts else {})
        )

    def to_polars(self) -> "pl.DataFrame":
        """A frame with a row for each group or category; of a plan without them, one row with all its numbers."""
        import polars as pl

        if self.parts:
            rows = [row._asdict() for row in self.groups]
            columns = {name: [row[name] for row in rows] for name in rows[0]}
            return pl.DataFrame(columns | {"group": plain_labels(columns["group"])})
        plain = {name: value for name, value in self.to_dict().items() if not isinstance(value, dict | list)}
        return pl.DataFrame([plain])

    def _details(self, redraw: float) -> dict[str, Any]:
        """The fields that plans of this estimator have."""
        if self.estimator == "Counts":
            return {"up_to": self.up_to, "only": self.only}
        if self.estimator in ("Retention", "ActiveUsers"):
            return {name: getattr(self, name) for name in ("span", "every", "share", "touched")}
        names = ("sample", "users", "buckets", "levels", "density", "density_stderr", "relative_stderr")
        found = {name: getattr(self, name) for name in (*names, "worst_density", "count", "exact")}
        found |= {"bits": self.size, "counts": list(self.counts) if self.counts else None}
        return found | {"intrusions": self.split.intrusions, "epsilon_redraw": redraw}

    def __repr__(self) -> str:
        error = self._error(self.stderr) + (self._where() if self.estimator == "Counts" or self.parts else "")
        return (
            f"<Plan: {self._what()} in {format_bytes(self.memory)}; epsilon {self.epsilon:g}{and_delta(self.delta)}; "
            f"standard error {error}; P(error >= {self._error(self.alpha)}) {self._how_likely()}>"
        )

    def card(self) -> Card:
        """The card that shells and notebooks show."""
        cycle = f"a cycle of {self.split.releases} days" if self.estimator == "ActiveUsers" else "all"
        bits = "" if self.estimator == "Counts" else f" ({self.size:,} bits)"
        rows = (
            ("build", self._what()),
            ("memory", format_bytes(self.memory) + bits),
            (f"epsilon in {cycle}", f"{self.epsilon:g}{and_delta(self.delta)}"),
            *self._shares_of_epsilon(),
            *([("noise", self.errors.compared(self.delta, self._error))] if self.errors else []),
            ("standard error", self._error(self.stderr) + self._where()),
            (f"P(error >= {self._error(self.alpha)})", self._how_likely()),
            *self._errors_of_groups(),
            ("in Python", self.code),
        )
        return Card("Plan", rows)

    __rich__ = grid_of
    _repr_html_ = html_of

    def _shares_of_epsilon(self) -> Rows:
        """What the state, the releases and the redraws cost, and the noise that this buys."""
        budget = budget_of(self.split, self.split.releases, self.split.intrusions)
        noise, spent = f"noise ± {budget.noise_stderr:,.4g}", f"{budget.total - budget.state:.4g}"
        if self.estimator == "Counts":
            releases = f"{spent}, {noise} on each number"
        elif budget.release_epsilon is None:
            releases = f"{spent} for {counted(budget.releases, 'release')}, Gaussian {noise}"
        else:
            releases = f"{budget.release_epsilon:.4g} each (x {budget.releases}), Laplace {noise}"
        redraw = [("of each redraw", f"{budget.redraw_epsilon:.4g} (x {budget.redraws})")] if budget.redraws else []
        return ("of the state", f"{budget.state:.4g}"), ("of the releases", releases), *redraw

    def _what(self) -> str:
        if self.universe is None or self.buckets is not None:
            return f"{self.estimator} of {self.levels} levels x {self.buckets:,} buckets"
        each = f"up to {self.up_to} times each" if self.up_to else "a bit for each"
        sample = each if self.sample is None else f"a sample of {self.sample:,}"
        return f"{self.estimator} of {self.universe.describe()}{self.divided}, {sample}"

    @property
    def divided(self) -> str:
        """By what the users are divided, where a description of the universe does not tell."""
        if self.parts is None:
            return ""
        listed = isinstance(self.universe, Users)  # which says so itself
        return in_groups(None if listed else self.parts.groups) + by_categories(self.parts.categories)

    def _errors_of_groups(self) -> Rows:
        """The error of each group or category; of many, of the largest and of the smallest."""
        rows = self.groups
        if len(rows) > _SHOWN:
            users = attrgetter("users")
            rows = tuple(dict.fromkeys((max(rows, key=users), min(rows, key=users))))
        noun = self.parts.noun if self.parts else ""
        return tuple((f"{noun} {row.group}", self._error_of_group(row)) for row in rows)

    def _error_of_group(self, row: GroupError) -> str:
        """What is said of a group: its error, and its users."""
        of_cases = f"error below {self._error(row.alpha)} in {100 * (1 - self.beta):.4g} % of cases"
        return f"± {self._error(row.stderr)}, {of_cases}; {counted(row.users, 'user')}"

    def lines(self) -> list[str]:
        """What a shell prints: a line for the plan, and one for each group or category."""
        return [repr(self)[1:-1], *(f"{row.group}: {self._error_of_group(row)}" for row in self.groups)]

    def _where(self) -> str:
        """Of which number, or at which truth, the standard error is stated."""
        if self.estimator == "Counts":
            of = " of the mean, at most" if self.only else " of each share"
        elif self.share is not None:
            come = "" if self.touched is None else f", {self.touched:g} come at all"
            of = f" (at a share of {self.share:g}{come})"
        else:
            of = f" (at density {self.density:g})" if self.count is None else f" (from {self.count:,.0f} users on)"
        return of + (f", of the {self.parts.noun} that errs most" if self.parts else "")

    def _error(self, error: float) -> str:
        return f"{100 * error:.4g} %" if self.of == "count" else f"{error:.4g}"

    def _how_likely(self) -> str:
        if self.exact:
            return f"= {self.probability:.4g} at worst (density {self.worst_density:.4g})"
        if self.counts is not None:
            first, last = self.counts
            return f"at most about {self.beta:g} for counts from {first:,} to {last:,}"
        upto = f" for densities up to {self.density:g}" if self.density is not None else ""
        return f"about {self.probability:.2g}{upto}"


DensityPlan: TypeAlias = "Plan[Density | DistinctCount]"
"""A plan of an estimator of how many users appear."""


def table_bytes(bits: int) -> int:
    """Bytes of a table: bits come in words of 64.

    >>> table_bytes(64), table_bytes(65)
    (8, 16)
    """
    return 8 * Table.words_for(bits)
