"""Periods and moments as people write them."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
SECOND = 1_000_000
"""Moments are whole microseconds since 1970, in UTC."""
DAY = 24 * 3600 * SECOND
_LAST = 253_402_300_800  # seconds until the year 10000


def parse_period(text: str) -> float:
    """Read a period as people write it, in seconds.

    >>> parse_period("60s"), parse_period("1.5h"), parse_period("90")
    (60.0, 5400.0, 90.0)
    """
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)\s*", text.lower())
    if not match or (match[2] or "s") not in _UNITS or float(match[1]) <= 0:
        raise ValueError(f"period {text!r} is not understood; write it like 60s, 15m, 12h or 7d")
    return float(match[1]) * _UNITS[match[2] or "s"]


def length_of(period: str | float | timedelta) -> int:
    """A period in microseconds: ``"7d"``, a `timedelta`, or seconds.

    >>> length_of("1s"), length_of(timedelta(milliseconds=2)), length_of(0.5)
    (1000000, 2000, 500000)
    """
    seconds = period.total_seconds() if isinstance(period, timedelta) else period
    length = round((parse_period(seconds) if isinstance(seconds, str) else seconds) * SECOND)
    if length < 1:
        raise ValueError(f"a period must be longer than nothing, got {period!r}")
    return length


def moments_of(times: Any) -> NDArray[np.int64]:
    """Moments of times as people have them: dates, `datetime`, NumPy or Polars columns of them, or seconds since 1970.

    Times without a zone are taken as UTC.

    >>> moments_of([datetime(1970, 1, 2), datetime(1970, 1, 2, 1, tzinfo=UTC)])
    array([86400000000, 90000000000])
    >>> moments_of([0.5, 2])
    array([ 500000, 2000000])
    """
    if hasattr(times, "to_numpy"):
        times = times.to_numpy()
    if not isinstance(times, np.ndarray) or times.dtype.hasobject:
        times = [_without_zone(time) for time in times]
    array = np.asarray(times)
    if array.dtype.kind in "iuf":
        if not bool((np.abs(array) < _LAST).all()):
            raise ValueError("a time is missing, or is not in seconds since 1970")
        return np.round(array.astype(np.float64) * SECOND).astype(np.int64)
    try:
        moments = array.astype("datetime64[us]")
    except (TypeError, ValueError) as error:
        raise TypeError(f"times are dates, datetimes or seconds since 1970: {error}") from None
    if np.isnat(moments).any() or array.dtype.kind not in "MOU":
        raise ValueError("a time is missing or not a time")
    return moments.astype(np.int64)


def moment_of(time: Any) -> int:
    """The moment of one time.

    >>> moment_of("1970-01-01T00:00:01")
    1000000
    """
    return int(moments_of([time])[0])


def as_datetime(moment: int) -> datetime:
    """A moment as people read it.

    >>> str(as_datetime(0))
    '1970-01-01 00:00:00+00:00'
    """
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment)


def _without_zone(time: Any) -> Any:
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    if isinstance(time, datetime) and time.tzinfo is not None:
        return time.astimezone(UTC).replace(tzinfo=None)
    return time
