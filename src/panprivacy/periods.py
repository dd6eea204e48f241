"""Periods and moments as people write them."""

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.memory import Scratch

if TYPE_CHECKING:
    import polars as pl

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0, "mo": 30 * 86400.0}
_WRITTEN = "write it like 60s, 15m (minutes), 12h, 7d, 2w or 1mo (30 days)"
SECOND = 1_000_000
"""Moments are whole microseconds since 1970, in UTC."""
DAY = 24 * 3600 * SECOND
_LAST = 253_402_300_800  # seconds until the year 10000
END_OF_TIME = _LAST * SECOND
_BEGINNING = -62_135_596_800 * SECOND  # the year 1; `datetime` knows nothing before, and nothing after 9999
_HOUR, _MINUTE = "(?:[01][0-9]|2[0-3])", "[0-5][0-9]"
_ISO = (  # read by Python and by Polars alike
    "^(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    f"(?:[T ](?P<hour>{_HOUR}):(?P<minute>{_MINUTE})(?::(?P<second>{_MINUTE})(?:[.](?P<fraction>[0-9]{{1,9}}))?)?"
    f"(?:Z|(?P<sign>[+-])(?P<east>{_HOUR})(?::?(?P<east_minute>{_MINUTE}))?)?)?$"
)
_TEN_DIGITS = "^[1-9][0-9]{9}$"


def parse_period(text: str) -> float:
    """Read a period as people write it, in seconds.

    A period is as long wherever it starts, so a week is 7 days and a month (``mo``) is 30: two months of the calendar
    are not. A unit is required, and in lower case, because ``1M`` is a month to some and a minute to others.

    >>> parse_period("60s"), parse_period("1.5h"), parse_period("2w") == parse_period("14d")
    (60.0, 5400.0, True)
    >>> parse_period("1M")
    Traceback (most recent call last):
        ...
    ValueError: period '1M': is that minutes or months? Write 1m for minutes, or 1mo for months of 30 days
    """
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", text)
    if match is None or float(match[1]) <= 0:
        raise ValueError(f"period {text!r} is not understood; {_WRITTEN}")
    number, unit = match.groups()
    if unit not in _UNITS:
        raise ValueError(f"period {text!r}{_doubt(number, unit)}")
    return float(number) * _UNITS[unit]


def _doubt(number: str, unit: str) -> str:
    """What is unclear about a unit, and what to write instead."""
    if not unit:
        return f" has no unit; {_WRITTEN}"
    if unit == "M":
        return f": is that minutes or months? Write {number}m for minutes, or {number}mo for months of 30 days"
    if unit.lower() in _UNITS:
        return f": units are written in lower case, {number}{unit.lower()}"
    return f": there is no unit {unit!r}; {_WRITTEN}"


def length_of(period: str | float | timedelta) -> int:
    """A period in microseconds: ``"7d"``, a `timedelta`, or seconds.

    >>> length_of("1s"), length_of(timedelta(milliseconds=2)), length_of(0.5)
    (1000000, 2000, 500000)
    """
    seconds = period.total_seconds() if isinstance(period, timedelta) else period
    micros = (parse_period(seconds) if isinstance(seconds, str) else seconds) * SECOND
    if not 0.5 < micros < END_OF_TIME:
        raise ValueError(f"a period must be longer than nothing and shorter than 8,000 years, got {period!r}")
    return round(micros)


def told_length(length: int) -> str:
    """A length in microseconds as people read it.

    >>> told_length(7 * DAY), told_length(DAY // 2)
    ('7 days', '12:00:00')
    """
    return str(timedelta(microseconds=length)).removesuffix(", 0:00:00")


def moments_of(times: Any) -> NDArray[np.int64]:
    """Moments of times as people have them: dates, `datetime`, columns of them, or seconds since 1970.

    Times without a zone are taken as UTC. Text is ISO 8601, such as 2026-01-31 or 2026-01-31T12:00:00+01:00. The
    caller wipes the moments; no other copy of the times is left, but for Python's objects and what Polars frees.

    >>> moments_of([datetime(1970, 1, 2), datetime(1970, 1, 2, 1, tzinfo=UTC)])
    array([86400000000, 90000000000])
    >>> moments_of([0.5, 2])
    array([ 500000, 2000000])
    """
    if type(times).__module__.partition(".")[0] == "pyarrow":
        import polars as pl

        times = pl.Series(times)  # Arrow gives NumPy no text, no dates, and nothing with nulls
    if hasattr(times, "to_numpy"):
        times = times.to_numpy()
    with Scratch() as scratch:
        if not isinstance(times, np.ndarray) or times.dtype.kind in "OU":
            times = [_without_zone(time) for time in times]
            _refuse_both(times)
            array = np.asarray(times)
            if array.dtype != object:
                scratch.own(array)
        else:
            array = times
        if array.ndim != 1:
            raise TypeError("times are one column")
        return _of_seconds(array, scratch) if array.dtype.kind in "iuf" else _of_dates(array, scratch)


def _of_seconds(seconds: NDArray[Any], scratch: Scratch) -> NDArray[np.int64]:
    numbers = scratch.empty("seconds", len(seconds), np.float64)
    sizes = scratch.empty("sizes", len(seconds), np.float64)
    possible = scratch.empty("possible", len(seconds), np.bool_)
    np.copyto(numbers, seconds, casting="unsafe")
    np.less(np.abs(numbers, out=sizes), _LAST, out=possible)
    if not possible.all():
        raise ValueError("a time is missing, or is not in seconds since 1970")
    numbers *= SECOND
    moments = np.empty(len(seconds), dtype=np.int64)
    np.copyto(moments, np.rint(numbers, out=numbers), casting="unsafe")
    return moments


def _of_dates(dates: NDArray[Any], scratch: Scratch) -> NDArray[np.int64]:
    moments = np.empty(len(dates), dtype="datetime64[us]")
    try:
        np.copyto(moments, dates, casting="unsafe")
    except (TypeError, ValueError) as error:
        raise TypeError(f"times are dates, datetimes or seconds since 1970: {error}") from None
    missing = np.isnat(moments, out=scratch.empty("missing", len(dates), np.bool_))
    if missing.any() or dates.dtype.kind not in "MOU":
        scratch.own(moments)
        raise ValueError("a time is missing or not a time")
    return moments.view(np.int64)


def moment_of(time: Any) -> int:
    """The moment of one time.

    >>> moment_of("1970-01-01T00:00:01")
    1000000
    """
    with Scratch() as scratch:
        return scratch.own(moments_of([time])).item()


def moments_in(times: "pl.Series") -> "pl.Series":
    """Moments of a column of a file; null where there is no time.

    A time is a date, a datetime, text in ISO 8601, or whole seconds since 1970 of ten digits (2001 to 2286): fewer are
    rather a date such as 20260105, more are milliseconds. Nothing else is guessed at, and what one row holds never
    depends on its neighbours.

    >>> import polars as pl
    >>> moments_in(pl.Series(["2001-09-09T01:46:40Z", "1000000000", "20260105", "01/05/2026"])).to_list()
    [1000000000000000, 1000000000000000, None, None]
    """
    import polars as pl

    if isinstance(times.dtype, pl.String | pl.Categorical | pl.Enum):
        moments = _moments_in_text(times.cast(pl.String))
    elif times.dtype.is_integer():
        seconds = times.cast(pl.Int64, strict=False)
        moments = _between(seconds, 10**9, 10**10 - 1) * SECOND
    elif isinstance(times.dtype, pl.Date):
        moments = _between(times.to_physical().cast(pl.Int64), _BEGINNING // DAY, END_OF_TIME // DAY) * DAY
    elif isinstance(times.dtype, pl.Datetime):
        moments = times.dt.timestamp("us")
    else:
        moments = pl.Series(values=[None] * len(times), dtype=pl.Int64)
    return _between(moments, _BEGINNING, END_OF_TIME - 1)


def _moments_in_text(times: "pl.Series") -> "pl.Series":
    import polars as pl

    def number(field: str) -> pl.Expr:
        return pl.col(field).cast(pl.Int64).fill_null(0)

    clock = (number("hour") * 60 + number("minute")) * 60 + number("second")
    east = (number("east") * 60 + number("east_minute")) * 60
    zone = pl.when(pl.col("sign") == "-").then(-east).otherwise(east)
    micros = pl.col("fraction").str.pad_end(6, "0").str.slice(0, 6).cast(pl.Int64).fill_null(0)
    days = pl.col("date").str.to_date("%Y-%m-%d", strict=False).to_physical().cast(pl.Int64)
    dates = times.str.extract_groups(_ISO).struct.unnest().select(days * DAY + (clock - zone) * SECOND + micros)
    seconds = times.str.extract(f"({_TEN_DIGITS})").cast(pl.Int64) * SECOND
    return dates.to_series().fill_null(seconds)


def _between(numbers: "pl.Series", least: int, most: int) -> "pl.Series":
    """Null where a number is not between these two."""
    import polars as pl

    return pl.select(pl.when(numbers.is_between(least, most)).then(numbers)).to_series()


def as_datetime(moment: int) -> datetime:
    """A moment as people read it.

    >>> str(as_datetime(0))
    '1970-01-01 00:00:00+00:00'
    """
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment)
    except OverflowError:
        raise ValueError("a time is not between the years 1 and 9999") from None


def _refuse_both(times: list[Any]) -> None:
    """Refuse numbers among dates: NumPy would take them for microseconds, and alone they are seconds."""
    numbers = sum(isinstance(time, int | float | np.integer | np.floating) for time in times)
    if 0 < numbers < len(times):
        raise TypeError("times are all dates or all seconds since 1970: here are both, or one is missing")


def _without_zone(time: Any) -> Any:
    if isinstance(time, str):
        if not re.fullmatch(_ISO, time):
            raise ValueError(f"{time!r} is not a time; write it like 2026-01-31 or 2026-01-31T12:00")
        time = datetime.fromisoformat(time)
    if isinstance(time, datetime) and time.tzinfo is not None:
        return time.astimezone(UTC).replace(tzinfo=None)
    return time
