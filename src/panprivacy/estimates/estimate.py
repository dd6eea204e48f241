"""An estimate: a number with its standard error, its confidence interval, its raw value and its unit."""

from collections.abc import Iterable, Mapping
from math import inf, isfinite, nan
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, NoReturn, TypeAlias, TypeVar, cast, overload

from panprivacy.errors import NoEstimate

if TYPE_CHECKING:
    from panprivacy.estimates.release import AnyRelease

Interval: TypeAlias = tuple[float, float]
Unit: TypeAlias = Literal["share", "users", "appearances"]

GUESS = 12**-0.5
"""Standard deviation of a number drawn uniformly from [0, 1]: an estimate of a share that errs more says nothing."""

NOT_ENOUGH = "not enough data"
"""Shown instead of a ratio whose whole may be zero."""

_DIGITS: dict[Unit, int] = {"share": 4, "users": 0, "appearances": 4}


class Estimate(NamedTuple):
    """A number with its error, all in one unit.

    >>> share = Estimate(0.25, 0.01, (0.23, 0.27))
    >>> share.times(1000)
    Estimate(value=250.0, stderr=10.0, interval=(230.0, 270.0), raw=None, unit='users')
    >>> share.shown("95% interval")
    '0.2500 ± 0.0100 (standard error), 95% interval 0.2300 to 0.2700'
    """

    value: float
    """The estimate, within its range."""
    stderr: float | None
    """Its standard error; None where only bounds are known."""
    interval: Interval
    """Its confidence interval."""
    raw: float | None = None
    """The estimate before it was brought into its range; None where that is not told."""
    unit: Unit = "share"

    def times(self, users: int) -> "Estimate":
        """A share as a number of users."""
        low, high = self.interval
        stderr, raw = (None if each is None else each * users for each in (self.stderr, self.raw))
        return Estimate(self.value * users, stderr, (low * users, high * users), raw, "users")

    def over(self, users: int) -> "Estimate":
        """A number of users as a share."""
        low, high = self.interval
        stderr, raw = (None if each is None else each / users for each in (self.stderr, self.raw))
        return Estimate(self.value / users, stderr, (low / users, high / users), raw, "share")

    @property
    def error(self) -> str:
        """Its standard error as people read it; an error below one user is not rounded to 0."""
        if self.unit == "users" and self.stderr is not None and 0 < self.stderr < 0.95:
            return f"± {self.stderr:.1g}"
        return f"± {self.stderr:,.{_DIGITS[self.unit]}f}"

    @property
    def short(self) -> str:
        """The number and its standard error as people read them."""
        if not isfinite(self.value):
            return NOT_ENOUGH
        return f"{self.value:,.{_DIGITS[self.unit]}f} {self.error}"

    @property
    def bounds(self) -> str:
        """Its interval as people read it."""
        low, high = self.interval
        return f"{low:,.{_DIGITS[self.unit]}f} to {high:,.{_DIGITS[self.unit]}f}"

    @property
    def tells(self) -> bool:
        """Whether there was enough data for it: it has a value."""
        return isfinite(self.value)

    def shown(self, interval: str) -> str:
        """The number, its standard error if it is known, and its interval, under the name that the interval has."""
        if not isfinite(self.value):
            return NOT_ENOUGH
        value = f"{self.value:,.{_DIGITS[self.unit]}f}" if self.stderr is None else f"{self.short} (standard error)"
        return f"{value}, {interval} {self.bounds}"

    def columns(self, name: str) -> dict[str, Any]:
        """Its numbers under the names of columns; each end of the interval has a column."""
        low, high = self.interval
        raw = {} if self.raw is None else {f"raw_{name}": self.raw}
        return {name: self.value, f"{name}_stderr": self.stderr, f"{name}_low": low, f"{name}_high": high} | raw

    def values(self, name: str) -> list[dict[str, Any]]:
        """One number for a chart or a table; none if it is not finite."""
        if not isfinite(self.value):
            return []
        low, high = (end if isfinite(end) else None for end in self.interval)
        stderr = self.stderr if self.stderr is not None and isfinite(self.stderr) else None
        return [{"name": name, "unit": self.unit, "value": self.value, "stderr": stderr, "low": low, "high": high}]


NOTHING = Estimate(nan, nan, (0.0, 1.0), nan)
"""The estimate of a share of which nothing is known."""


class Series(NamedTuple):
    """Several estimates under one name, such as the shares of users who appeared at least 1, 2, 3, ... times.

    >>> series = Series((0.5, 0.25), (0.1, 0.1), ((0.3, 0.7), (0.05, 0.45)))
    >>> series.each()[1]
    Estimate(value=0.25, stderr=0.1, interval=(0.05, 0.45), raw=None, unit='share')
    >>> list(series.columns("active"))[4:6]
    ['active_2', 'active_2_stderr']
    """

    value: tuple[float, ...]
    stderr: tuple[float, ...]
    interval: tuple[Interval, ...]
    raw: tuple[float, ...] | None = None
    unit: Unit = "share"
    first: int = 1
    """The number of the first one, in the names of columns."""

    @classmethod
    def of(cls, estimates: "list[Estimate]") -> "Series":
        """Estimates in a row, all of which have a standard error; raw values only if all have one."""
        value, stderr, interval, raw, _ = zip(*estimates, strict=True)
        return cls(value, stderr, interval, None if None in raw else raw, estimates[0].unit)

    def each(self) -> list[Estimate]:
        """The estimates one by one."""
        raws = self.raw or [None] * len(self.value)
        return [
            Estimate(*numbers, self.unit) for numbers in zip(self.value, self.stderr, self.interval, raws, strict=True)
        ]

    def columns(self, name: str) -> dict[str, Any]:
        """Their numbers under the names of columns, which end in the number of the estimate."""
        numbered = enumerate(self.each(), self.first)
        return {column: value for i, each in numbered for column, value in each.columns(f"{name}_{i}").items()}

    def values(self, name: str) -> list[dict[str, Any]]:
        """Their numbers for a chart or a table, counted from 1."""
        return [value for i, each in enumerate(self.each(), 1) for value in each.values(f"{name} {i}")]


def estimate_fields(estimate: Estimate | Series, name: str, bounds: str) -> dict[str, Any]:
    """Its numbers under the names that they have in a release."""
    found = {name: estimate.value, f"{name}_stderr": estimate.stderr, f"{name}_{bounds}": estimate.interval}
    found[f"raw_{name}"] = estimate.raw
    return {field: value for field, value in found.items() if value is not None}


def read_estimates(found: Mapping[str, Any], bounds: str) -> dict[str, "Estimate | Series"]:
    """Estimates from the fields of a release, as `estimate_fields` named them; JSON's null is no number, or no end.

    >>> read_estimates({"count": 7.0, "count_stderr": 2.0, "count_interval": [3.0, None], "level": 0.95}, "interval")
    {'count': Estimate(value=7.0, stderr=2.0, interval=(3.0, inf), raw=None, unit='users')}
    """
    read: dict[str, Estimate | Series] = {}
    for name in [name for name in found if found.get(f"{name}_{bounds}") is not None]:
        unit: Unit = "users" if name.endswith(("count", "counts")) else "appearances" if name == "mean" else "share"
        value, stderr, raw = found[name], found.get(f"{name}_stderr"), found.get(f"raw_{name}")
        ends = found[f"{name}_{bounds}"]
        if isinstance(value, list | tuple):
            raws = None if raw is None else _numbers(raw)
            first = 0 if name == "exactly" else 1
            intervals = tuple(_interval(each) for each in ends)
            read[name] = Series(_numbers(value), _numbers(stderr or ()), intervals, raws, unit, first)
        else:
            error = nan if value is None else stderr
            read[name] = Estimate(nan if value is None else value, error, _interval(ends), raw, unit)
    return read


def _numbers(values: Iterable[float | None]) -> tuple[float, ...]:
    return tuple(nan if value is None else value for value in values)


def _interval(ends: Any) -> Interval:
    low, high = ends
    return nan if low is None else low, inf if high is None else high


def column_lists(name: str, estimates: list[Estimate]) -> dict[str, list[Any]]:
    """Estimates below each other, as the columns of a frame; without raw values."""
    rows = [each._replace(raw=None).columns(name) for each in estimates]
    return {column: [row[column] for row in rows] for column in rows[0]} if rows else {}


# --- estimates as attributes ----------------------------------------------------------------------------------------


T = TypeVar("T")


class Part(Generic[T]):
    """One number of a named estimate as an attribute of its release: ``release.density_stderr``.

    Where there is no such estimate, it is None if it is `optional`, and else an error.
    """

    def __init__(self, name: str, part: str, *, optional: bool = False) -> None:
        self._name = name
        self._part = part
        self._optional = optional

    def __set_name__(self, owner: type, attribute: str) -> None:
        self._attribute = attribute

    @overload
    def __get__(self, release: None, owner: type) -> "Part[T]": ...
    @overload
    def __get__(self, release: "AnyRelease", owner: type) -> T: ...
    def __get__(self, release: "AnyRelease | None", owner: type) -> "Part[T] | T":
        if release is None:
            return self
        estimate = release.estimates.get(self._name)
        if estimate is None and not self._optional:
            raise NoEstimate(release.why_missing(self._attribute))
        return cast("T", getattr(estimate, self._part, None))


class OfPart(Generic[T]):
    """An attribute of a part of an object as its own: ``release.epsilon_spent`` comes from ``release.cost``."""

    def __init__(self, part: str) -> None:
        self._part = part

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, whole: None, owner: type) -> "OfPart[T]": ...
    @overload
    def __get__(self, whole: object, owner: type) -> T: ...
    def __get__(self, whole: object, owner: type) -> "OfPart[T] | T":
        return self if whole is None else cast("T", getattr(getattr(whole, self._part), self._name))

    def __set__(self, whole: object, value: NoReturn) -> None:
        raise AttributeError(f"{self._name} cannot be set")


def numbers(name: str) -> tuple[Part[float], Part[float], Part[Interval], Part[float]]:
    """The attributes of an `Estimate`: its value, its standard error, its interval, its raw value."""
    return Part(name, "value"), Part(name, "stderr"), Part(name, "interval"), Part(name, "raw")


def optional(name: str) -> Part[float | None]:
    """The value of an `Estimate` that not every release has."""
    return Part(name, "value", optional=True)


Floats: TypeAlias = tuple[float, ...]


def series(name: str) -> tuple[Part[Floats], Part[Floats], Part[tuple[Interval, ...]], Part[Floats]]:
    """The attributes of a `Series`: tuples of values, standard errors, intervals and raw values."""
    return Part(name, "value"), Part(name, "stderr"), Part(name, "interval"), Part(name, "raw")
