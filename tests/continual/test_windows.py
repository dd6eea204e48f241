"""One estimator for each window, and what it costs to be in several."""

import itertools
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import panprivacy as pp
from panprivacy import audit
from panprivacy.errors import EarlyEvent, LateEvent, OutsideUniverse, PanPrivacyError
from panprivacy.estimates import Release
from panprivacy.estimators.continual import Continual
from panprivacy.estimators.windows import Windows
from panprivacy.periods import moment_of, moments_in, moments_of
from panprivacy.privacy import composition
from panprivacy.testing import refused, set_coins, split_of, table_of
from sources import Always

USERS = 20_000
MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


def weeks(start: Any = MONDAY, **options: Any) -> Windows[Release]:
    return Windows(lambda: pp.Density(USERS, 4.0), "7d", start=start, **options)


def densities(windows: Windows[Release]) -> list[float]:
    return [round(window.release.density, 1) for window in windows.closed]


def test_every_window_counts_anew() -> None:
    windows = weeks()
    windows.update_many(range(10_000), time=MONDAY + timedelta(days=1))
    windows.update_many(range(4000), time=MONDAY + timedelta(days=7))
    windows.update(3, time=MONDAY + timedelta(days=13))
    closed = windows.advance(MONDAY + timedelta(days=14))

    assert densities(windows) == [0.5, 0.2]
    assert [window.start for window in windows.closed] == [MONDAY, MONDAY + timedelta(days=7)]
    assert [window.end for window in closed] == [MONDAY + timedelta(days=14)]


@pytest.mark.slow
def test_a_batch_may_reach_over_several_windows_in_any_order() -> None:
    windows = weeks()
    days = np.repeat([15, 1, 8], [10_000, 2000, 6000])
    windows.update_many(np.arange(18_000), time=[MONDAY + timedelta(days=int(day)) for day in days])
    windows.advance(MONDAY + timedelta(days=21))

    assert densities(windows) == [0.1, 0.3, 0.5]


@pytest.mark.slow
@pytest.mark.parametrize(
    "ids",
    [
        list(range(USERS)),
        range(USERS),
        np.arange(USERS),
        pl.Series(range(USERS)),
        pa.array(range(USERS)),
        pa.chunked_array([range(9), range(9, USERS)]),
    ],
    ids=lambda ids: type(ids).__module__ + "." + type(ids).__name__,
)
def test_ids_come_in_any_form(ids: Any) -> None:
    windows = weeks()
    windows.update_many(ids, time=[MONDAY + timedelta(days=7 * (user % 2)) for user in range(USERS)])
    windows.advance(MONDAY + timedelta(days=14))

    assert densities(windows) == [0.5, 0.5]


@pytest.mark.slow
@pytest.mark.parametrize("index", [range(USERS), range(USERS)[::-1], [7] * USERS, range(5, USERS + 5)], ids=str)
def test_rows_of_pandas_are_told_apart_by_their_order_whatever_their_index(index: Any, touched: Any) -> None:
    windows = touched()
    column = pd.Series(np.arange(USERS), index=index)
    windows.update_many(column, time=[MONDAY + timedelta(days=7 * (user % 2)) for user in range(USERS)])
    odd = np.flatnonzero(table_of(windows.open).bits(0, USERS))
    windows.advance(MONDAY + timedelta(days=14))

    assert odd.tolist() == list(range(1, USERS, 2))
    assert densities(windows) == [0.5, 0.5]


@pytest.fixture
def touched() -> Callable[[], Windows[Release]]:
    """Windows whose bits are 1 exactly for those who came."""

    def make() -> pp.Density:
        est = pp.Density(USERS, 4.0, coins=Always(False))
        set_coins(est, Always(True))
        return est

    return lambda: Windows(make, "7d", start=MONDAY)


EDGES: dict[str, Callable[[Any, Any], Any]] = {
    "columns of pandas": lambda low, high: (pd.Series(low, index=low), pd.Series(high, index=high)),
    "frame of pandas": lambda low, high: pd.DataFrame({"from": low, "to": high}, index=high),
    "columns of polars": lambda low, high: (pl.Series(low), pl.Series(high)),
    "frame of polars": lambda low, high: pl.DataFrame({"from": low, "to": high}),
    "list of two columns": lambda low, high: [low, high],
}


@pytest.mark.parametrize("how", EDGES)
def test_edges_may_be_two_columns_or_a_frame_of_two(how: str) -> None:
    windows = Windows(lambda: pp.Density(pp.Edges(200), 4.0), "1d", start=0)
    low, high = np.triu_indices(200, 1)
    windows.update_many(EDGES[how](low, high), time=np.where(low < 100, 0.0, 86_400.0))
    windows.advance(2 * 86_400.0)

    assert [round(window.release.density, 2) for window in windows.closed] == pytest.approx([0.75, 0.25], abs=0.04)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_frame_is_refused_with_what_to_write_instead(make: Any) -> None:
    with refused("not-a-column", "column='user'"):
        weeks().update_many(make({"user": [1], "other": [2]}), time=MONDAY)


def test_edges_come_as_two_columns() -> None:
    windows = Windows(lambda: pp.Density(pp.Edges(200), 4.0), "1d", start=0)
    low, high = np.triu_indices(200, 1)
    windows.update_many((low, high), time=np.where(low < high[-1] // 2, 0.0, 86_400.0))
    windows.advance(2 * 86_400.0)

    assert [round(window.release.density, 2) for window in windows.closed] == pytest.approx([0.75, 0.25], abs=0.04)


def test_windows_in_which_nothing_happened_are_released_too() -> None:
    windows = weeks()
    windows.update_many(range(USERS), time=MONDAY)
    windows.advance(MONDAY + timedelta(days=28))

    assert densities(windows) == [1.0, 0.0, 0.0, 0.0]


def test_without_a_start_the_first_week_is_the_present_one_and_begins_on_a_monday(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No event decides it: the first event may be dated 2030."""
    monkeypatch.setattr("time.time_ns", lambda: int((MONDAY + timedelta(days=16)).timestamp() * 1e9))
    windows = weeks(start=None)
    with pytest.raises(EarlyEvent):
        windows.update(3, time="2030-01-01")
    with pytest.raises(LateEvent):
        windows.update(3, time=MONDAY)
    windows.update(3, time=MONDAY + timedelta(days=16))
    windows.advance(MONDAY + timedelta(days=21))

    assert [window.start for window in windows.closed] == [MONDAY + timedelta(days=14)]


def test_an_event_of_a_closed_window_is_refused_with_nothing_changed() -> None:
    windows = weeks()
    windows.advance(MONDAY + timedelta(days=7))
    before = windows.open.to_bytes()

    with refused("late-event", "2026-01-05"):
        windows.update(3, time=MONDAY)
    with pytest.raises(LateEvent):
        windows.update_many([3, 4], time=[MONDAY + timedelta(days=8), MONDAY])
    assert windows.open.to_bytes() == before
    assert len(windows.closed) == 1


def test_a_user_outside_the_universe_is_refused() -> None:
    with pytest.raises(OutsideUniverse):
        weeks().update(USERS, time=MONDAY)


def test_a_bad_id_is_refused_before_any_window_closes() -> None:
    windows = weeks()
    before, later = windows.open.to_bytes(), MONDAY + timedelta(days=8)
    batches: list[Callable[[], None]] = [
        lambda: windows.update(USERS, time=later),
        lambda: windows.update_many([3, USERS], time=later),
        lambda: windows.update_many([3, USERS], time=[MONDAY, later]),
    ]
    for feed in batches:
        with pytest.raises(OutsideUniverse):
            feed()
        assert (windows.open.to_bytes(), windows.closed) == (before, ())


def test_as_many_times_as_ids_are_needed() -> None:
    with refused("times-length", "3", "2"):
        weeks().update_many([1, 2, 3], time=[MONDAY, MONDAY])


def test_a_time_far_ahead_is_taken_for_a_mistake() -> None:
    windows = weeks()

    with refused("early-event", "are times in seconds"):
        windows.update(3, time=1.7e11)
    with refused("early-event", "are times in seconds"):
        weeks(start=None).update_many([1, 2], time=[0.0, 1.7e11])
    assert windows.closed == ()


def test_what_is_over_is_overwritten() -> None:
    windows = weeks()
    first, table = windows.open, table_of(windows.open)
    windows.advance(MONDAY + timedelta(days=7))

    assert not table.words.any()
    assert windows.open is not first
    with refused("emptied"):
        first.update(3)


def test_the_level_is_that_of_the_intervals() -> None:
    windows = weeks(level=0.5)
    windows.advance(MONDAY + timedelta(days=7))

    assert windows.closed[0].release.level == 0.5
    with refused("level-range"):
        weeks(level=1.0)


def test_a_distinct_count_has_windows_too() -> None:
    windows = Windows(lambda: pp.DistinctCount(4.0, 1024), "1h", start=0)
    windows.update_many([f"user{i}" for i in range(5000)], time=10.0)
    windows.advance(3600)

    assert windows.closed[0].release.count == pytest.approx(5000, rel=0.4)


def test_what_has_no_release_has_no_windows() -> None:
    with refused("not-for-windows", "Continual"):
        Windows(lambda: Continual(USERS, 1.0), "7d")  # type: ignore[arg-type, return-value]


def test_what_cannot_be_wiped_at_the_end_of_a_window_is_refused(tmp_path: Path) -> None:
    folder: Any = pp.StateFolder.create(tmp_path / "folder", universe=USERS, epsilon=1.0, shards=1)
    with refused("not-for-windows", "StateFolder"):
        Windows(lambda: folder, "7d")


def test_what_has_cycles_of_its_own_is_refused() -> None:
    """Several of its cycles would fit into a window, and the windows would state what one of them loses."""
    with refused("not-for-windows", "ActiveUsers"):
        Windows(lambda: pp.ActiveUsers(USERS, 1.0, span="2d", start=MONDAY), "7d")


# --- what it costs ------------------------------------------------------------------------------------------------


def test_a_user_in_w_windows_loses_w_times_epsilon_if_each_is_read() -> None:
    windows = weeks()

    assert windows.loss() == pytest.approx(4.0)
    assert windows.loss(windows=5) == pytest.approx(20.0)
    assert windows.loss(windows=0) == 0.0


def test_a_window_that_is_not_read_gives_away_its_release_only() -> None:
    windows = weeks()

    assert 0 < windows.unread_loss < 4.0
    assert windows.loss(windows=5, readings=1) == pytest.approx(4.0 + 4 * windows.unread_loss)
    assert windows.loss(windows=2, readings=7) == windows.loss(windows=2)
    with refused("readings-range"):
        windows.loss(windows=-1)


@pytest.mark.slow
@pytest.mark.parametrize(("releases", "exactly"), [(1, True), (2, False)])
def test_the_auditor_confirms_what_an_unread_window_gives_away(releases: int, exactly: bool) -> None:
    windows = Windows(lambda: pp.Density(2, 1.0, releases=releases), "1d")
    found = audit.exact(
        lambda coins: pp.Density(2, 1.0, releases=releases, coins=coins),
        users=2,
        length=3,
        releases=releases,
        readings=0,
        deletions=True,
    )

    assert found.worst_loss <= windows.unread_loss * (1 + 1e-12)
    assert not exactly or found.worst_loss == pytest.approx(windows.unread_loss, abs=1e-12)


# --- times --------------------------------------------------------------------------------------------------------

EAST = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    "times",
    [
        [datetime(2026, 1, 5), datetime(2026, 1, 5, 1)],
        [MONDAY, datetime(2026, 1, 5, 3, tzinfo=EAST)],
        ["2026-01-05", "2026-01-05T01:00:00"],
        np.array(["2026-01-05T00", "2026-01-05T01"], dtype="datetime64[h]"),
        pl.Series([datetime(2026, 1, 5), datetime(2026, 1, 5, 1)]),
        pl.Series([MONDAY, MONDAY + timedelta(hours=1)]),
        pl.Series(["2026-01-05", "2026-01-05T01:00:00"]),
        pa.array(["2026-01-05", "2026-01-05T01:00:00"]),
        pa.array(["2026-01-05", "2026-01-05T01:00:00"]).dictionary_encode(),
        pa.chunked_array([[MONDAY], [MONDAY + timedelta(hours=1)]]),
        [1_767_571_200, 1_767_574_800.0],
    ],
)
def test_times_come_in_any_form(times: Any) -> None:
    assert moments_of(times).tolist() == [1_767_571_200_000_000, 1_767_574_800_000_000]


def test_dates_are_midnights() -> None:
    assert moment_of(date(2026, 1, 5)) == moment_of(MONDAY)
    for column in (pl.Series, pa.array):
        assert moments_of(column([date(2026, 1, 5)])).tolist() == [moment_of(MONDAY)]


@pytest.mark.parametrize("other", [5, 1.5, np.int64(5), np.float64(5)], ids=repr)
@pytest.mark.parametrize("time", [MONDAY, "2026-01-05", date(2026, 1, 5), np.datetime64("2026-01-05")], ids=repr)
def test_numbers_among_dates_are_refused_and_not_taken_for_microseconds(time: Any, other: Any) -> None:
    for times in ([time, other], [other, time], np.array([time, other], dtype=object)):
        with refused("time-mixed"):
            moments_of(times)


@pytest.mark.parametrize(
    "times",
    [
        [None],
        [float("nan")],
        ["soon"],
        ["20260105"],
        ["01/05/2026"],
        np.array(["2026"]),
        [1e300],
        pl.Series([MONDAY, None]),
        pa.array(["2026-01-05", None]),
        pa.array([MONDAY, None]),
        pl.DataFrame({"when": [MONDAY]}),
    ],
)
def test_what_is_no_time_is_refused(times: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        moments_of(times)


WRITTEN = [
    f"{date}{separator}{clock}{zone}"
    for date in ("2026-01-05", "1969-12-31", "2024-02-29")
    for separator in "T "
    for clock in ("00:00", "23:59", "12:34:56", "12:34:56.7", "12:34:56.123456", "12:34:56.123456789")
    for zone in ("", "Z", "+02", "-0330", "+05:30")
]


def test_the_columns_of_files_are_read_as_single_times_are() -> None:
    assert moments_in(pl.Series(WRITTEN)).to_list() == moments_of(WRITTEN).tolist()
    assert moments_in(pl.Series(["2026-01-05"])).to_list() == [moment_of("2026-01-05")]
    seconds = pl.Series([10**9 - 1, 10**9, 10**10 - 1, 10**10])
    assert moments_in(seconds).to_list() == [None, 10**15, 10**16 - 10**6, None]
    assert moments_in(seconds.cast(pl.String)).equals(moments_in(seconds))


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_columns_of_dates_are_read_in_any_unit(unit: Any, zone: str | None) -> None:
    column = pl.Series([MONDAY, None]).dt.convert_time_zone(zone or "UTC").dt.cast_time_unit(unit)

    assert moments_in(column if zone else column.dt.replace_time_zone(None)).to_list() == [moment_of(MONDAY), None]
    assert moments_in(pl.Series([MONDAY.date(), None])).to_list() == [moment_of(MONDAY), None]


@pytest.mark.parametrize(
    "text",
    [
        "2026-1-5", "2026-01", "2026-01-05T12", "2026-01-05T24:00", "2026-01-05T12:60", "2026-01-05T12:00:60",
        "2026-01-05T12:00:00+24:00", "2026-02-30", "2026-01-05Z", "2026-01- 05", "26-01-05",
        "0000-01-01", "2026/01-05", "5 Jan 2026", "20260105T1200", "0999999999", "999999999", "10000000000",
        "1767571300.0", "-1767571300", "17675713000000", "202\u0666-01-05", "",
    ],
)  # fmt: skip
def test_nothing_is_guessed_in_a_column(text: str) -> None:
    assert moments_in(pl.Series([text, "2026-01-05"])).is_null().to_list() == [True, False]


@pytest.mark.parametrize("period", ["soon", "7 parsecs", "-1d", "0s", 0, timedelta(0), "9999999999d", float("inf")])
def test_what_is_no_period_is_refused(period: Any) -> None:
    with pytest.raises(PanPrivacyError) as caught:
        Windows(lambda: pp.Density(USERS, 1.0), period)
    assert caught.value.code in {"period-format", "period-range", "period-unit"}


def test_windows_of_another_budget_are_refused_and_the_open_one_stays() -> None:
    budgets = iter([5.0, 0.1])
    windows = Windows(lambda: pp.Density(1000, epsilon=next(budgets)), every="7d", start="2026-01-05")
    with refused("windows-differ"):
        windows.advance("2026-01-12")
    assert (len(windows.closed), round(windows.loss(1), 9)) == (0, 5.0)


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0])
def test_losses_of_several_windows_are_rounded_up(epsilon: float) -> None:
    windows = Windows(lambda: pp.Density(10**6, epsilon=epsilon), every="7d", start="2026-01-05")
    split = split_of(windows)
    read, unread = split.exact_loss(*split.planned), composition.unread_laplace(split, split.noise)
    for draws, readings in itertools.product(range(1, 30), range(3)):
        exact = min(readings, draws) * Fraction(read) + max(draws - readings, 0) * Fraction(unread)
        assert Fraction(windows.loss(draws, readings=readings)) >= exact
