"""Time: lengths and moments as people write them, time zones, periods, and which period each row counts in.

The number of the open period is a clock. `advance` and the wall clock move it freely. A row may move it, too, but by at
most `ahead` periods: a row that is dated further ahead is *early*, and moves nothing. With ``ahead=0`` no row moves the
clock, so the rows of one user cannot change what happens to the rows of others. Rows that are late or early are handled
one by one.
"""

import re
import time as clock
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property, lru_cache
from operator import index
from typing import TYPE_CHECKING, Any, Self
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import is_truth, shown
from panprivacy.errors import InvalidType, InvalidValue
from panprivacy.memory.scratch import Scratch

if TYPE_CHECKING:
    import polars as pl

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_MONTHS = ("mo", "mon", "month", "months")
_WRITTEN = "write it like 60s, 15m (minutes), 12h, 7d or 2w, or day, week, month, quarter or year"
CALENDAR = {"day": (1, 0), "week": (7, 0), "month": (30, 1), "quarter": (91, 3), "year": (365, 12)}
"""Periods of the calendar by their names: about how many days they have, and how many months; 0 if they have days."""
SECOND = 1_000_000
"""Moments are whole microseconds since 1970, in UTC."""
DAY = 24 * 3600 * SECOND
MOST_DAYS = 1000
"""The most days that make up a span: with more, hardly any user tells of each."""
_LAST = 253_402_300_800  # seconds until the year 10000
END_OF_TIME = _LAST * SECOND
_BEGINNING = -62_135_596_800 * SECOND  # the year 1; `datetime` knows nothing before, and nothing after 9999
_MONDAY, _FIRST_MONDAY = date(1970, 1, 5), 4 * DAY
_WEEK, _ZONES_END = 7 * 86_400, 4_102_444_800  # in seconds; the rules of time zones are read until 2100
_HOUR, _MINUTE = "(?:[01][0-9]|2[0-3])", "[0-5][0-9]"
_ISO = (  # read by Python and by Polars alike
    "^(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{4}/[0-9]{2}/[0-9]{2})"
    f"(?:[T ](?P<hour>{_HOUR}):(?P<minute>{_MINUTE})(?::(?P<second>{_MINUTE})(?:[.,](?P<fraction>[0-9]{{1,9}}))?)?"
    f"(?: ?(?:(?P<utc>Z|UTC|GMT)|(?P<sign>[+-])(?P<east>{_HOUR})(?::?(?P<east_minute>{_MINUTE}))?))?)?$"
)
_DIGITS = "^([1-9][0-9]{9}(?:[0-9]{3})?)$"  # seconds since 1970, or milliseconds
_MILLISECONDS = 10**12
"""A number of this size or more is of milliseconds: as seconds it would be after the year 33,000."""

LATE = ("count", "skip", "refuse")
"""What can happen to a late row: it counts in the open period, is left out, or refuses its batch."""
EARLY = ("skip", "refuse")
"""What can happen to an early row: it is left out, or refuses its batch."""
SKIPPED = -(2**63)
"""The period of a row that is left out."""
NO_TIME = 2**62
"""The moment of a row that has no time: it is after all moments, so the row is early."""
TOLERANCE = 60 * SECOND
"""How far the clock of a sender may be ahead of the clock of this machine."""
_CLOSE = 2**14  # periods that are counted, one by one, in less than the time that sorting would take


def parse_period(text: str) -> float:
    """Read a period as people write it, in seconds.

    A period is as long wherever it starts. So there is no unit for months, which have 28 to 31 days: `Periods.of` has
    those of the calendar. A unit is required, and in lower case: ``1M`` is a month to some and a minute to others.

    >>> parse_period("60s"), parse_period("1.5h"), parse_period("2w") == parse_period("14d")
    (60.0, 5400.0, True)
    >>> parse_period("7D")
    Traceback (most recent call last):
        ...
    panprivacy.errors.InvalidValue: period '7D': units are written in lower case, 7d
    """
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", text)
    if match is None or float(match[1]) <= 0:
        raise InvalidValue(f"period {text!r} is not understood; {_WRITTEN}", code="period-format")
    number, unit = match.groups()
    if unit not in _UNITS:
        days = f"{30 * float(number):g}d for {30 * float(number):g} days, or month for months of the calendar"
        doubt = f": there is no unit {unit!r}; {_WRITTEN}" if unit else f" has no unit; {_WRITTEN}"
        if unit == "M":
            doubt = f": is that minutes or months? Write {number}m for minutes, {days}"
        elif unit.lower() in _MONTHS:
            doubt = f": months have 28 to 31 days; write {days}"
        elif unit.lower() in _UNITS:
            doubt = f": units are written in lower case, {number}{unit.lower()}"
        raise InvalidValue(f"period {text!r}{doubt}", code="period-unit")
    return float(number) * _UNITS[unit]


def in_calendar(period: Any) -> bool:
    """Whether a period is one of the calendar, such as a month."""
    return isinstance(period, str) and period in CALENDAR


def length_of(period: str | float | timedelta) -> int:
    """A period in microseconds: ``"7d"``, a `timedelta`, or seconds; of a calendar month, 30 days.

    >>> length_of("1s"), length_of(timedelta(milliseconds=2)), length_of(0.5), length_of("week") == length_of("7d")
    (1000000, 2000, 500000, True)
    """
    if in_calendar(period):
        return CALENDAR[str(period)][0] * DAY
    seconds: Any = period.total_seconds() if isinstance(period, timedelta) else period
    if not isinstance(seconds, str | int | float | np.number) or is_truth(seconds):
        raise InvalidType(
            f'a period is text like "7d", a timedelta or a number of seconds, got {shown(period)}', code="period-type"
        )
    micros = (parse_period(seconds) if isinstance(seconds, str) else seconds) * SECOND
    if not 0.5 < micros < END_OF_TIME:
        raise InvalidValue(
            f"a period must be longer than nothing and shorter than 8,000 years, got {period!r}", code="period-range"
        )
    return round(micros)


def days_of(span: str | float | timedelta, every: str | float | timedelta) -> tuple[int, int]:
    """The length of a day, and how many days make up the span.

    >>> days_of("4w", "1d")
    (86400000000, 28)
    """
    units = {period.lstrip(" 0123456789.").strip() for period in (span, every) if isinstance(period, str)}
    if any(unit.lower() in _MONTHS or CALENDAR.get(unit, (0, 0))[1] for unit in units):
        raise InvalidValue(
            "days and spans of actives have one length, and months have not: write it in days, such as 28d or 30d",
            code="period-calendar",
        )
    length = length_of(every)
    days, left = divmod(length_of(span), length)
    if left or not 1 <= days <= MOST_DAYS:
        raise InvalidValue(
            f"span is a whole number of days, from 1 to {MOST_DAYS:,}, each of {every}, got {span}", code="span-range"
        )
    return length, days


def told_time(time: datetime) -> str:
    """A time without its midnight.

    >>> told_time(datetime(2026, 1, 5)), told_time(datetime(2026, 1, 5, 12))
    ('2026-01-05', '2026-01-05 12:00:00')
    """
    return f"{time:%Y-%m-%d %H:%M:%S}".removesuffix(" 00:00:00")


def told_length(length: int) -> str:
    """A length in microseconds as people read it.

    >>> told_length(7 * DAY), told_length(DAY // 2)
    ('7 days', '12:00:00')
    """
    return str(timedelta(microseconds=length)).removesuffix(", 0:00:00")


# --- time zones -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Zone:
    """A time zone as arrays: when its clocks change, and how far they are ahead of UTC.

    >>> berlin = zone_of("Europe/Berlin")
    >>> local = moments_of(["2026-03-29", "2026-03-30"])
    >>> np.diff(berlin.to_utc(local)) // (3600 * SECOND)
    array([23])
    """

    name: str
    changes: NDArray[np.int64]
    """The moments at which the offset changes, from 1970 to 2100; beyond, it stays as it is at either end."""
    offsets: NDArray[np.int64]
    """The offsets between changes, in microseconds: one more than there are changes."""

    def offset_at(self, moment: int) -> int:
        """How far the clocks are ahead of UTC at a moment."""
        return int(self.offsets[np.searchsorted(self.changes, moment, side="right")])

    def to_local(self, moments: NDArray[np.int64]) -> NDArray[np.int64]:
        """The times that clocks show at these moments; the caller wipes them."""
        return self._moved(moments, self.changes, np.add)

    def to_utc(self, local: NDArray[np.int64]) -> NDArray[np.int64]:
        """The moments at which clocks show these times; of two such moments, the first. The caller wipes them.

        A time that clocks skip is as long after the change as it is behind the skipped hour's beginning.
        """
        return self._moved(local, self._thresholds, np.subtract)

    def _moved(self, times: NDArray[np.int64], changes: NDArray[np.int64], move: np.ufunc) -> NDArray[np.int64]:
        """Move each time by the offset that holds between two changes."""
        with Scratch() as scratch:
            between = scratch.own(np.searchsorted(changes, times, side="right"))
            moved: NDArray[np.int64] = move(times, scratch.own(self.offsets[between]))
            return moved

    @cached_property
    def _thresholds(self) -> NDArray[np.int64]:
        """The local times from which on the offset after a change holds."""
        return self.changes + np.maximum(self.offsets[:-1], self.offsets[1:])


def zone_of(name: str | None) -> Zone:
    """A time zone by its name, such as Europe/Berlin; None is UTC."""
    if name is not None and not isinstance(name, str):
        raise InvalidType(f"tz is the name of a time zone, such as Europe/Berlin, got {shown(name)}", code="tz-type")
    return _zone_named("UTC" if name is None else name)


@lru_cache(maxsize=16)
def _zone_named(name: str) -> Zone:
    if name == "UTC":
        return Zone("UTC", np.empty(0, dtype=np.int64), np.zeros(1, dtype=np.int64))
    try:
        zone = ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # there is none, or a path is given
        raise InvalidValue(
            f"there is no time zone {name!r} on this system; names are like Europe/Berlin", code="tz-unknown"
        ) from None

    def offset(second: int) -> int:
        return round(datetime.fromtimestamp(second, zone).utcoffset().total_seconds())  # type: ignore[union-attr]

    changes, offsets = [], [offset(0)]
    for week in range(_WEEK, _ZONES_END, _WEEK):  # clocks change at most once in a week
        if offset(week) != offsets[-1]:
            seconds = range(week - _WEEK, week)
            changes.append(seconds.start + bisect_left(seconds, True, key=lambda at: offset(at) != offsets[-1]))
            offsets.append(offset(week))
    return Zone(name, np.array(changes, dtype=np.int64) * SECOND, np.array(offsets, dtype=np.int64) * SECOND)


# --- moments --------------------------------------------------------------------------------------------------------


def moments_of(times: Any, tz: str | None = None) -> NDArray[np.int64]:
    """Moments of times as people have them: dates, `datetime`, columns of them, or seconds since 1970.

    Times without a zone are of the zone `tz`, or of UTC. Text is ISO 8601, such as 2026-01-31 or
    2026-01-31T12:00:00+01:00. Numbers of 13 digits are milliseconds. The caller wipes the moments; no other copy of the
    times is left, but for Python's objects and memory that Polars frees.

    >>> moments_of([datetime(1970, 1, 2), datetime(1970, 1, 2, 1, tzinfo=UTC)])
    array([86400000000, 90000000000])
    >>> moments_of([0.5, 2]), moments_of(["1970-01-02"], "Europe/Berlin")
    (array([ 500000, 2000000]), array([82800000000]))
    """
    zone = zone_of(tz)
    if type(times).__module__.partition(".")[0] == "pyarrow":
        import polars as pl

        times = pl.Series(times)  # Arrow gives NumPy no text, no dates, and nothing with nulls
    if getattr(getattr(times, "dtype", None), "time_zone", None) is not None:
        zone = zone_of("UTC")  # a column of Polars that has a zone: its numbers are of UTC
    if hasattr(times, "to_numpy"):
        times = times.to_numpy()
    if not isinstance(times, Iterable):
        raise InvalidType(f"times are one column, or one time, not {shown(times)}", code="time-columns")
    with Scratch() as scratch:
        if not isinstance(times, np.ndarray) or times.dtype.kind in "OU":
            times, zone = [_in_utc(time, zone) for time in times], zone_of("UTC")
            # NumPy would take numbers among dates for microseconds, and alone they are seconds.
            if 0 < sum(isinstance(time, int | float | np.integer | np.floating) for time in times) < len(times):
                raise InvalidType(
                    "times are all dates or all seconds since 1970: here are both, or one is missing", code="time-mixed"
                )
            array = np.asarray(times)
            if array.dtype != object:
                scratch.own(array)
        else:
            array = times
        if array.ndim != 1:
            raise InvalidType("times are one column", code="time-columns")
        if array.dtype.kind in "iuf":
            return _of_seconds(array, scratch)
        moments = _of_dates(array, scratch)
        return moments if not len(zone.changes) and not zone.offsets[0] else zone.to_utc(scratch.own(moments))


def _of_seconds(seconds: NDArray[Any], scratch: Scratch) -> NDArray[np.int64]:
    numbers = scratch.empty("seconds", len(seconds), np.float64)
    sizes = scratch.empty("sizes", len(seconds), np.float64)
    possible = scratch.empty("possible", len(seconds), np.bool_)
    np.copyto(numbers, seconds, casting="unsafe")
    np.greater_equal(numbers, _MILLISECONDS, out=possible)
    np.divide(numbers, 1000.0, out=numbers, where=possible)
    np.less(np.abs(numbers, out=sizes), _LAST, out=possible)
    if not possible.all():
        raise InvalidValue("a time is missing, or is not in seconds since 1970", code="time-missing")
    numbers *= SECOND
    moments = np.empty(len(seconds), dtype=np.int64)
    np.copyto(moments, np.rint(numbers, out=numbers), casting="unsafe")
    return moments


def _of_dates(dates: NDArray[Any], scratch: Scratch) -> NDArray[np.int64]:
    moments = np.empty(len(dates), dtype="datetime64[us]")
    try:
        np.copyto(moments, dates, casting="unsafe")
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidType(f"times are dates, datetimes or seconds since 1970: {error}", code="time-type") from None
    missing = np.isnat(moments, out=scratch.empty("missing", len(dates), np.bool_))
    if missing.any() or dates.dtype.kind not in "MOU":
        scratch.own(moments)
        raise InvalidValue("a time is missing or not a time", code="time-missing")
    return moments.view(np.int64)


def moment_of(time: Any, tz: str | None = None) -> int:
    """The moment of one time.

    >>> moment_of("1970-01-01T00:00:01"), moment_of("1970-01-01 01:00:01", "Europe/Berlin")
    (1000000, 1000000)
    """
    with Scratch() as scratch:
        return scratch.own(moments_of([time], tz)).item()


def moments_in(times: "pl.Series", tz: str | None = None) -> "pl.Series":
    """Moments of a column of a file; null where there is no time.

    A time is a date, a datetime, text in ISO 8601, or whole seconds since 1970 of ten digits (2001 to 2286), or
    milliseconds of thirteen: fewer are rather a date such as 20260105. Times without a zone are of the zone `tz`, or of
    UTC. Nothing else is guessed at, and what one row holds never depends on its neighbours.

    >>> import polars as pl
    >>> moments_in(pl.Series(["2001-09-09T01:46:40Z", "1000000000", "20260105", "01/05/2026"])).to_list()
    [1000000000000000, 1000000000000000, None, None]
    """
    import polars as pl

    zone = zone_of(tz)
    if isinstance(times.dtype, pl.String | pl.Categorical | pl.Enum):
        moments = _moments_in_text(times.cast(pl.String), zone)
    elif times.dtype.is_integer():
        moments = _moments_in_digits(times.cast(pl.Int64, strict=False))
    elif isinstance(times.dtype, pl.Date):
        days = _between(times.to_physical().cast(pl.Int64), _BEGINNING // DAY, END_OF_TIME // DAY)
        moments = _localized(days * DAY, zone)
    elif isinstance(times.dtype, pl.Datetime):
        step = {"ms": 1000}.get(times.dtype.time_unit or "", 1)  # bounded first: larger numbers would wrap around
        bounded = _between(times.to_physical(), _BEGINNING // step, END_OF_TIME // step)
        moments = bounded * step if times.dtype.time_unit != "ns" else times.dt.timestamp("us")
        moments = moments if times.dtype.time_zone else _localized(moments, zone)
    else:
        moments = pl.Series(values=[None] * len(times), dtype=pl.Int64)
    return _between(moments, _BEGINNING, END_OF_TIME - 1)


def _moments_in_digits(numbers: "pl.Series") -> "pl.Series":
    """Moments of seconds since 1970 of ten digits, or of milliseconds of thirteen."""
    milliseconds = _between(numbers, _MILLISECONDS, 10 * _MILLISECONDS - 1) * (SECOND // 1000)
    return milliseconds.fill_null(_between(numbers, 10**9, 10**10 - 1) * SECOND)


def _moments_in_text(times: "pl.Series", zone: Zone) -> "pl.Series":
    import polars as pl

    def number(field: str) -> pl.Expr:
        return pl.col(field).cast(pl.Int64).fill_null(0)

    times = times.str.strip_chars()
    clock = (number("hour") * 60 + number("minute")) * 60 + number("second")
    east = (number("east") * 60 + number("east_minute")) * 60
    ahead = pl.when(pl.col("sign") == "-").then(-east).otherwise(east)
    micros = pl.col("fraction").str.pad_end(6, "0").str.slice(0, 6).cast(pl.Int64).fill_null(0)
    iso = pl.col("date").str.replace_all("/", "-")
    days = iso.str.to_date("%Y-%m-%d", strict=False).to_physical().cast(pl.Int64)
    zoned = pl.col("utc").is_not_null() | pl.col("sign").is_not_null()
    found = times.str.extract_groups(_ISO).struct.unnest()
    dates = found.select((days * DAY + (clock - ahead) * SECOND + micros).alias("moment"), zoned.alias("zoned"))
    localized = _localized(dates["moment"], zone)
    moments = dates.select(pl.when("zoned").then("moment").otherwise(localized)).to_series()
    return moments.fill_null(_moments_in_digits(times.str.extract(_DIGITS).cast(pl.Int64)))


def _localized(local: "pl.Series", zone: Zone) -> "pl.Series":
    """Moments of local times; null where there is no time."""
    import polars as pl

    if not len(zone.changes) and not zone.offsets[0]:
        return local
    moments = pl.Series(zone.to_utc(local.fill_null(0).to_numpy()))
    return pl.select(pl.when(local.is_not_null()).then(moments)).to_series()


def _between(numbers: "pl.Series", least: int, most: int) -> "pl.Series":
    """Null where a number is not between these two."""
    import polars as pl

    return pl.select(pl.when(numbers.is_between(least, most)).then(numbers)).to_series()


def as_datetime(moment: int, tz: str = "UTC") -> datetime:
    """A moment as people read it, on clocks of a time zone.

    >>> str(as_datetime(0)), str(as_datetime(0, "Europe/Berlin"))
    ('1970-01-01 00:00:00+00:00', '1970-01-01 01:00:00+01:00')
    """
    try:
        time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment)
        return time if tz == "UTC" else time.astimezone(ZoneInfo(tz))
    except OverflowError:
        raise InvalidValue("a time is not between the years 1 and 9999", code="time-range") from None


def _in_utc(time: Any, zone: Zone) -> Any:
    """One time as a `datetime` of UTC without a zone; numbers, and anything but a time, as they are."""
    if isinstance(time, str):
        time = _parsed(time.strip())
    elif isinstance(time, np.datetime64):
        time = time.astype("datetime64[us]").item()
    elif isinstance(time, date) and not isinstance(time, datetime):
        time = datetime(time.year, time.month, time.day)
    elif hasattr(time, "__arrow_c_stream__"):
        raise InvalidType(
            f"a time is a date, a datetime, text or seconds since 1970, not {shown(time)}", code="time-type"
        )
    if not isinstance(time, datetime) or str(time) == "NaT":  # of pandas, a datetime without a year
        return time
    if time.tzinfo is None and zone.name == "UTC":
        return time
    return (time if time.tzinfo else time.replace(tzinfo=ZoneInfo(zone.name))).astimezone(UTC).replace(tzinfo=None)


def _parsed(text: str) -> datetime | int:
    """A time that is written: as ISO 8601, or in digits."""
    if re.fullmatch(_DIGITS, text):
        return int(text)
    match = re.fullmatch(_ISO, text)
    if match is None:
        raise InvalidValue(f"{text!r} is not a time; write it like 2026-01-31 or 2026-01-31T12:00", code="time-format")
    part = match.groupdict(default="")
    clock = (
        f"{part['hour'] or '00'}:{part['minute'] or '00'}:{part['second'] or '00'}.{part['fraction'][:6] or '0':0<6}"
    )
    east = f"{part['sign']}{part['east']}:{part['east_minute'] or '00'}" if part["sign"] else ""
    try:
        return datetime.fromisoformat(f"{part['date'].replace('/', '-')}T{clock}{'+00:00' if part['utc'] else east}")
    except ValueError as error:
        raise InvalidValue(f"{text!r} is not a time: {error}", code="time-format") from None


# --- periods --------------------------------------------------------------------------------------------------------


def wall_clock() -> int:
    """The present moment by the clock of this machine."""
    return clock.time_ns() // 1000


@dataclass(frozen=True)
class Periods:
    """Periods of time, numbered from 0: period 0 begins at the start.

    They have one length, or are days, weeks or months of the calendar. On the clocks of a time zone a day begins at the
    same time of day always, so that some days have 23 or 25 hours.

    >>> weeks = Periods.of("7d", "2026-01-05")
    >>> weeks.number(moment_of("2026-01-13")), str(weeks.bounds(1)[0])
    (1, '2026-01-12 00:00:00+00:00')
    >>> months = Periods.of("month", "2026-01-05", "Europe/Berlin")
    >>> str(months.bounds(0)[0]), str(months.bounds(3)[0])
    ('2026-01-01 00:00:00+01:00', '2026-04-01 00:00:00+02:00')
    """

    start: int
    """The moment at which period 0 begins."""
    length: int
    """In microseconds; of months, about."""
    months: int = 0
    """How many months of the calendar a period has; 0 if it has a length."""
    zone: str = "UTC"
    """The time zone whose clocks say when a day begins."""

    @classmethod
    def of(cls, every: str | float | timedelta, start: Any = None, tz: str | None = None) -> Self:
        """Periods as people say them: ``"7d"`` from a start on, or the week, month ... of the calendar that has it.

        Without a start they are counted from Monday, 5 January 1970, on: no event decides their bounds.
        """
        moment = moment_of(_MONDAY if start is None else start, tz)
        if in_calendar(every):
            return cls.around(moment, every, tz)
        return cls(moment, length_of(every), 0, zone_of(tz).name)

    @classmethod
    def around(cls, moment: int, every: str | float | timedelta, tz: str | None = None) -> Self:
        """Periods of which the first has a moment, and begins at midnight, or at a multiple of a shorter length.

        Weeks of the calendar begin on Mondays, months on the first.
        """
        zone, length = zone_of(tz), length_of(every)
        local = moment + zone.offset_at(moment)
        months = CALENDAR[str(every)][1] if in_calendar(every) else 0
        if months:
            first = _month(local) // months * months
            begin = int(np.datetime64(first, "M").astype("datetime64[us]").astype(np.int64))
        elif every == "week":
            begin = local - (local - _FIRST_MONDAY) % length
        else:
            begin = local - local % min(length, DAY)
        return cls(int(zone.to_utc(np.array([begin]))[0]), length, months, zone.name)

    @property
    def every(self) -> str:
        """The length, for people, and whose clocks say when a period begins."""
        months = {months: name for name, (_, months) in CALENDAR.items() if months}
        length = f"a {months[self.months]}" if self.months else told_length(self.length)
        return length if self.zone == "UTC" else f"{length} in {self.zone}"

    @property
    def _even(self) -> bool:
        """Whether all periods are as long as each other."""
        return not self.months and (self.zone == "UTC" or self.length % DAY != 0)

    def number(self, moment: int) -> int:
        """The period that a moment is in; before the start, a negative number."""
        if self._even:
            return (moment - self.start) // self.length
        with Scratch() as scratch:
            numbers = scratch.own(np.array([moment]))
            self._number_all(numbers, scratch)
            return int(numbers[0])

    def start_of(self, number: int) -> int:
        """The moment at which a period begins."""
        return self.start + self.length * number if self._even else int(self._starts(np.array([number]))[0])

    def _starts(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The moments at which these periods begin; the caller wipes them."""
        zone = zone_of(self.zone)
        first = self.start + zone.offset_at(self.start)
        with Scratch() as scratch:
            local = scratch.own(numbers * (self.months or self.length))
            local += _month(first) if self.months else first
            if self.months:
                local = scratch.own(local.view("datetime64[M]").astype("datetime64[us]")).view(np.int64)
            return zone.to_utc(local)

    def bounds(self, number: int) -> tuple[datetime, datetime]:
        """When a period begins and ends."""
        return as_datetime(self.start_of(number), self.zone), as_datetime(self.start_of(number + 1), self.zone)

    def _number_all(self, moments: NDArray[np.int64], scratch: Scratch) -> None:
        """Put the period of each moment into its place.

        Nothing is listed from the first moment to the last: one row of the year 9999, or without a time, would make
        all others wait.
        """
        if self._even or not len(moments):
            moments -= self.start
            moments //= self.length
            return
        zone = zone_of(self.zone)
        first = self.start + zone.offset_at(self.start)
        numbers = scratch.own(zone.to_local(moments))
        if self.months:
            numbers = scratch.own(numbers.view("datetime64[us]").astype("datetime64[M]")).view(np.int64)
        numbers -= _month(first) if self.months else first
        numbers //= self.months or self.length
        numbers -= scratch.own(scratch.own(self._starts(numbers)) > moments)  # where clocks have changed
        numbers += 1
        over = scratch.own(scratch.own(self._starts(numbers)) <= moments)
        np.subtract(numbers, 1, out=moments)
        moments += over

    def cut(
        self,
        moments: NDArray[np.int64],
        open_: int,
        policy: "RowPolicy",
        scratch: Scratch,
        *,
        now: int | None = None,
        endless: int | None = None,
        in_order: bool = False,
    ) -> "PeriodRows":
        """Find the period that each row of a batch counts in, or raise `Untimely`; the moments are overwritten.

        Parameters
        ----------
        open_
            The open period.
        now
            The wall clock, if events are of the present. No row ends a period that is not over by it, but for the
            `TOLERANCE` of a sender's clock. Where no row moves the clock (``ahead=0``), a row of a period that has
            begun counts in the open one at the latest, until the clock has moved.
        endless
            A period that never ends, if there is one: no row is after it.
        in_order
            Whether rows come in order of periods, so that a row is late if it is before the period of an earlier row.
        """
        numbers, latest = moments, None
        if now is not None and policy.ahead == 0:
            begun = scratch.own(moments <= now + TOLERANCE)
            self._number_all(numbers, scratch)
            np.minimum(numbers, open_, out=numbers, where=begun)
        else:
            self._number_all(numbers, scratch)
            latest = None if now is None else self.number(now + TOLERANCE)
        if in_order and len(numbers):
            policy.check_order(numbers, open_, scratch, endless=endless)
        return PeriodRows(policy.place(numbers, open_, scratch, latest=latest, endless=endless), numbers, scratch)


def _month(local: int) -> int:
    """The month of a local time, counted from January 1970 on."""
    return int(np.datetime64(local, "us").astype("datetime64[M]").astype(np.int64))


@dataclass(frozen=True)
class PeriodRows:
    """The rows of a batch, by the period that they count in: iterate over it to feed the periods in order."""

    periods: list[int]
    """The periods in which rows count, in order."""
    numbers: NDArray[np.int64]
    """The period of each row; `SKIPPED` if it is left out."""
    scratch: Scratch

    @property
    def last(self) -> int | None:
        """The last period in which a row counts; None if no row counts."""
        return self.periods[-1] if self.periods else None

    def __iter__(self) -> Iterator[tuple[int, NDArray[np.bool_] | None]]:
        """Each period with a mask of its rows; None in the place of a mask stands for all rows of the batch."""
        for period in self.periods:
            rows = self.scratch.own(self.numbers == period)
            yield period, None if rows.all() else rows


# --- which period a row counts in -----------------------------------------------------------------------------------


@dataclass(eq=False)
class Untimely(Exception):
    """A row that refuses its batch. The caller turns it into an error in its own words."""

    row: int
    period: int
    reached: int
    """The last period that the rows of the batch reach, or the open one if the row is late."""
    early: bool


@dataclass(frozen=True)
class RowPolicy:
    """How far a row may move the clock, and what happens to rows that are late or early.

    >>> RowPolicy(late="drop")
    Traceback (most recent call last):
        ...
    panprivacy.errors.InvalidValue: late is one of count, skip, refuse, got 'drop'
    """

    ahead: int = 1
    """By how many periods a row may move the clock; 0: rows never do."""
    late: str = "refuse"
    early: str = "refuse"

    def __post_init__(self) -> None:
        for name, allowed in (("late", LATE), ("early", EARLY)):
            if getattr(self, name) not in allowed:
                raise InvalidValue(
                    f"{name} is one of {', '.join(allowed)}, got {shown(getattr(self, name))}", code=f"{name}-policy"
                )
        if index(self.ahead) < 0:
            raise InvalidValue(f"ahead is a number of periods from 0 on, got {self.ahead}", code="ahead-range")

    def place(
        self,
        periods: NDArray[np.int64],
        open_: int,
        scratch: Scratch,
        *,
        latest: int | None = None,
        endless: int | None = None,
    ) -> list[int]:
        """Put the period that each row counts in into its place, and return the periods that count, in order.

        The rows of a batch have no order: they are counted period by period. So each of them may be `ahead` periods
        after another one of the batch. `latest` is the last period that has begun by the wall clock, where there is
        one; `endless` is a period that never ends, if there is one: no row is after it.
        """
        different = different_periods(periods, scratch)
        if not different:
            return []
        reached = open_
        for period in different:
            if period > reached and reached != endless:
                if period - reached > self.ahead or (latest is not None and period > max(latest, reached)):
                    break
                reached = period if endless is None else min(period, endless)
        if reached == endless and different[-1] > reached:
            np.minimum(periods, reached, out=periods)
            different = [period for period in different if period < reached] + [reached]
        if different[-1] > reached:
            self._mark(periods, scratch.own(periods > reached), reached, early=True)
        if different[0] < open_:
            late = scratch.own(periods < open_)
            if different[-1] > reached:
                late &= scratch.own(periods != SKIPPED)
            self._mark(periods, late, open_, early=False)
        counted = {period for period in different if open_ <= period <= reached}
        if different[0] < open_ and self.late == "count":
            counted.add(open_)
        return sorted(counted)

    def check_order(
        self, periods: NDArray[np.int64], open_: int, scratch: Scratch, *, endless: int | None = None
    ) -> None:
        """Refuse a batch whose rows are not in order of periods, or skip more than `ahead` of them."""
        reached: NDArray[np.int64] = scratch.empty("reached periods", len(periods), np.int64)
        reached[0], reached[1:] = open_, periods[:-1]
        np.maximum.accumulate(reached, out=reached)
        early = scratch.own(scratch.own(periods - reached) > self.ahead)
        if endless is not None:
            np.minimum(reached, endless, out=reached)
            early &= scratch.own(reached < endless)
        wrong = scratch.own(periods < reached)
        wrong |= early
        if wrong.any():
            row = int(wrong.argmax())
            raise Untimely(row, int(periods[row]), int(reached[row]), early=bool(early[row]))

    def _mark(self, periods: NDArray[np.int64], rows: NDArray[np.bool_], reached: int, *, early: bool) -> None:
        if (self.early if early else self.late) == "refuse":
            row = int(rows.argmax())
            raise Untimely(row, int(periods[row]), reached, early=early)
        np.copyto(periods, SKIPPED if early or self.late == "skip" else reached, where=rows)


def different_periods(periods: NDArray[np.int64], scratch: Scratch) -> list[int]:
    """The different periods, in order.

    Nearly always there is one, which two passes tell; periods that lie close to each other are counted, others sorted.
    """
    if not len(periods):
        return []
    lowest, highest = int(periods.min()), int(periods.max())
    if lowest == highest:
        return [lowest]
    ordered: NDArray[np.int64] = scratch.empty("ordered periods", len(periods), np.int64)
    np.subtract(periods, lowest, out=ordered)
    if highest - lowest < _CLOSE:
        return [lowest + int(at) for at in scratch.own(np.flatnonzero(scratch.own(np.bincount(ordered))))]
    ordered.sort()
    changes = scratch.own(np.flatnonzero(scratch.own(ordered[1:] != ordered[:-1])))
    return [lowest, *(lowest + int(ordered[at + 1]) for at in changes)]
