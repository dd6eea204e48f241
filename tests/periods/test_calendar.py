"""Periods of the calendar, time zones, and times as people write them."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

import panprivacy as pp
from panprivacy.errors import InvalidValue
from panprivacy.memory.scratch import Scratch
from panprivacy.periods import (
    NO_TIME,
    SECOND,
    Periods,
    RowPolicy,
    Zone,
    as_datetime,
    moment_of,
    moments_in,
    moments_of,
    zone_of,
)

BERLIN = "Europe/Berlin"
HOUR = 3600 * SECOND
AT = moment_of("2026-01-05T09:00Z")

SPELLED = [  # how people write nine o'clock in London, which is ten in Berlin
    "2026-01-05T09:00:00Z",
    "2026-01-05 09:00Z",
    "2026-01-05 09:00:00 UTC",
    "2026-01-05T10:00:00+01:00",
    "2026-01-05 10:00:00+01",
    "2026-01-05 10:00:00 +0100",
    "2026-01-05T04:00:00.000-05:00",
    "2026-01-05 10:00",
    "2026-01-05T10:00:00",
    "2026-01-05 10:00:00.000000",
    "2026-01-05 10:00:00,000",
    "2026/01/05 10:00",
    " 2026-01-05 10:00 ",
    "1767603600",
    "1767603600000",
]


@pytest.mark.parametrize("text", SPELLED)
def test_a_time_is_the_same_moment_however_it_is_written(text: str) -> None:
    assert moment_of(text, BERLIN) == AT
    assert moments_in(pl.Series([text]), BERLIN).to_list() == [AT]


@pytest.mark.parametrize(
    "time",
    [
        1767603600,
        1767603600.0,
        1767603600000,
        datetime(2026, 1, 5, 10),
        datetime(2026, 1, 5, 9, tzinfo=UTC),
        datetime(2026, 1, 5, 3, tzinfo=ZoneInfo("America/Chicago")),
        np.datetime64("2026-01-05T10:00"),
    ],
)
def test_a_time_of_python_is_that_moment_too(time: object) -> None:
    assert moment_of(time, BERLIN) == AT


@pytest.mark.parametrize(
    "text", ["05.01.2026", "01/05/2026", "5 Jan 2026", "20260105", "2026-13-01", "2026-02-30", "10:00", "", "17676036"]
)
def test_what_could_be_another_time_is_no_time(text: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        moment_of(text)
    assert refused.value.code == "time-format"
    assert moments_in(pl.Series([text])).to_list() == [None]


def test_columns_without_a_zone_are_local_and_others_are_what_they_say() -> None:
    naive = pl.Series([datetime(2026, 1, 5, 10)])
    zoned = pl.Series([datetime(2026, 1, 5, 9)]).dt.replace_time_zone("UTC")
    for column in (naive, zoned):
        assert moments_in(column, BERLIN).to_list() == moments_of(column, BERLIN).tolist() == [AT]
        assert moments_of(column.to_arrow(), BERLIN).tolist() == [AT]
    assert moments_of(naive.to_numpy(), BERLIN).tolist() == [AT]
    assert moments_of([date(2026, 1, 5)], BERLIN).tolist() == [AT - 10 * HOUR]
    assert moments_in(pl.Series([date(2026, 1, 5)]), BERLIN).to_list() == [AT - 10 * HOUR]


@pytest.mark.slow
def test_clocks_of_a_zone_are_those_of_the_standard_library() -> None:
    random = np.random.default_rng(1)
    for name in (BERLIN, "America/Sao_Paulo", "Asia/Beirut", "Africa/Casablanca", "Pacific/Apia", "Asia/Kathmandu"):
        zone, zoneinfo = zone_of(name), ZoneInfo(name)
        local = random.integers(0, 3_800_000_000, 2000) * SECOND
        expected = [
            moment_of(datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None) + timedelta(microseconds=int(each)), name)
            for each in local
        ]
        assert zone.to_utc(local).tolist() == expected
        for moment in local[:200].tolist():
            offset = as_datetime(moment, name).utcoffset()
            assert offset is not None
            assert zone.offset_at(moment) == offset // timedelta(microseconds=1), (zoneinfo, moment)


def test_there_is_no_such_zone() -> None:
    for name in ("Berlin", "../etc/passwd", "", "+01:00"):
        with pytest.raises(InvalidValue) as refused:
            zone_of(name)
        assert refused.value.code == "tz-unknown"


@pytest.mark.slow
@pytest.mark.parametrize("every", ["1d", "day", "7d", "week", "month", "quarter", "year", "5h"])
@pytest.mark.parametrize("name", ["UTC", BERLIN, "America/Sao_Paulo", "Asia/Beirut", "Pacific/Apia"])
def test_each_moment_is_in_the_period_that_has_begun_and_is_not_over(every: str, name: str) -> None:
    periods = Periods.of(every, "2011-10-29 02:30", name)
    random = np.random.default_rng(2)
    moments = random.integers(moment_of("2009-01-01"), moment_of("2027-01-01"), 1000)
    with Scratch() as scratch:
        numbers = periods.cut(moments.copy(), -(10**6), RowPolicy(ahead=10**7), scratch).numbers.copy()
    assert numbers.tolist() == [periods.number(moment) for moment in moments.tolist()]
    assert all(
        periods.start_of(n) <= m < periods.start_of(n + 1)
        for n, m in zip(numbers.tolist(), moments.tolist(), strict=True)
    )


@pytest.mark.parametrize("every", ["1d", "day", "7d", "week", "month", "quarter", "year", "5h"])
@pytest.mark.parametrize("name", ["UTC", BERLIN])
@pytest.mark.parametrize("odd", [NO_TIME, moment_of("9999-12-31"), moment_of("0001-01-02")])
def test_a_row_without_a_likely_time_makes_no_more_work_than_any_other(
    every: str, name: str, odd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    periods, sizes, starts = Periods.of(every, "2026-03-01", name), [0], Zone.to_utc

    def watched(zone: Zone, local: NDArray[np.int64]) -> NDArray[np.int64]:
        sizes[-1] += len(local)
        return starts(zone, local)

    def placed(last: int) -> list[int]:
        moments = np.append(usual, last)
        with Scratch() as scratch:
            return list(map(int, periods.cut(moments, open_, RowPolicy(1, "skip", "skip"), scratch).numbers[:-1]))

    usual = np.arange(moment_of("2026-03-28"), moment_of("2026-03-31"), HOUR)
    open_ = periods.number(int(usual[0]))
    monkeypatch.setattr(Zone, "to_utc", watched)
    expected = placed(int(usual[-1]))
    sizes.append(0)
    assert placed(odd) == expected
    assert sizes[0] == sizes[1]


def test_periods_of_the_calendar_begin_when_the_calendar_says() -> None:
    def starts(every: str, numbers: list[int]) -> list[str]:
        return [f"{Periods.of(every, '2026-02-18 12:00', BERLIN).bounds(n)[0]:%Y-%m-%d %H:%M %z}" for n in numbers]

    assert starts("day", [0, 39, 40]) == ["2026-02-18 00:00 +0100", "2026-03-29 00:00 +0100", "2026-03-30 00:00 +0200"]
    assert starts("week", [0, 6]) == ["2026-02-16 00:00 +0100", "2026-03-30 00:00 +0200"]
    assert starts("month", [-2, 0, 2]) == ["2025-12-01 00:00 +0100", "2026-02-01 00:00 +0100", "2026-04-01 00:00 +0200"]
    assert starts("quarter", [0, 1]) == ["2026-01-01 00:00 +0100", "2026-04-01 00:00 +0200"]
    assert starts("year", [0, 1]) == ["2026-01-01 00:00 +0100", "2027-01-01 00:00 +0100"]
    assert starts("1d", [0, 40]) == ["2026-02-18 12:00 +0100", "2026-03-30 12:00 +0200"]


def test_windows_close_at_the_end_of_a_local_month() -> None:
    months = pp.Windows(lambda: pp.Density(100, epsilon=8.0), every="month", start="2026-01-05", tz=BERLIN)
    months.update_many(range(50), time="2026-01-31 23:59")
    months.update_many(range(50), time="2026-01-31T23:30Z")  # in Berlin it is February
    months.update_many(range(50), time=[datetime(2026, 3, 1)] * 50)
    assert [f"{each.start:%Y-%m-%d} {each.end:%Y-%m-%d}" for each in months.closed] == [
        "2026-01-01 2026-02-01",
        "2026-02-01 2026-03-01",
    ]
    assert months.to_polars()["start"].dtype == pl.Datetime("us", BERLIN)
    assert "a month" in repr(months)


def test_a_local_day_of_23_hours_is_a_day() -> None:
    users = pp.ActiveUsers(1000, epsilon=8.0, span="7d", start="2026-03-28", tz=BERLIN)
    users.update_many(range(100), time="2026-03-28 23:30")
    users.update_many(range(100), time="2026-03-29 00:30")
    users.update_many(range(100), time="2026-03-29T22:30Z")  # on the 30th
    ended = [each.end.isoformat() for each in users.released]
    assert ended == ["2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"]
    assert users.released[1].daily is not None
    assert [name for name, _ in users.released[1].card().rows][:2] == ["daily", "daily (users)"]


def test_a_saved_state_carries_its_zone() -> None:
    users = pp.ActiveUsers(1000, epsilon=8.0, span="7d", start="2026-03-28", tz=BERLIN)
    users.release()
    again = pp.load(users.to_bytes())
    assert (again.periods, again.last) == (users.periods, users.last)
    plain = pp.ActiveUsers(1000, epsilon=8.0, span="7d", start="2026-03-28")
    assert len(plain.to_bytes()) == len(users.to_bytes()) - 1 - len(BERLIN)
