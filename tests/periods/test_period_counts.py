"""Answers about periods as numbers of users, as frames and as pictures: the same answers as the shares."""

from pathlib import Path

import pytest

import panprivacy as pp
from panprivacy.testing import refused

USERS = 30_000


@pytest.fixture(scope="module")
def active() -> pp.ActiveUsers:
    users = pp.ActiveUsers(USERS, 20.0, span="28d", start="2026-01-05")
    for day in range(5, 31):
        users.update_many(range(600 * day), time=f"2026-01-{day:02}T12:00")
    users.update_many(range(6000), time="2026-02-03", ahead=4)
    users.advance("2026-02-04")
    return users


@pytest.fixture(scope="module")
def back() -> pp.Retention:
    est = pp.Retention(USERS, 20.0, releases=2)
    est.update_many(range(12_000))
    est.close()
    for first in (10_000, 6_000):
        est.update_many(range(first, 15_000))
        est.release()
    return est


@pytest.mark.slow
def test_actives_are_counts_as_well_as_shares(active: pp.ActiveUsers) -> None:
    last = active.released[-1]
    assert last.daily_count == pytest.approx(6_000, abs=6 * last.active_counts_stderr[0])
    assert last.monthly_count == pytest.approx(18_000, abs=6 * last.active_counts_stderr[27])
    assert last.active_counts_stderr[27] < 600
    assert last.active_counts == pytest.approx([USERS * share for share in last.active])
    said = last.to_dict()
    for name, days in (("daily", 1), ("weekly", 7), ("monthly", 28)):
        assert said[f"{name}_count"] == last.active_counts[days - 1]
        assert said[f"{name}_count_stderr"] == last.active_counts_stderr[days - 1] == USERS * said[f"{name}_stderr"]
        assert said[f"{name}_count_interval"] == last.active_counts_interval[days - 1]
    assert f"daily (users) {last.daily_count:,.0f} ± " in str(last)
    assert f", of {USERS:,}" in str(last)
    first = active.released[0]
    assert (first.weekly_count, first.monthly_count, first.to_dict()["weekly_count_interval"]) == (None, None, None)


def test_who_came_back_is_a_count_as_well_as_a_share(back: pp.Retention) -> None:
    last = back.last
    assert isinstance(last, pp.RetentionRelease)
    counts = last.cohort_count, last.returned_count, last.newcomers_count
    assert counts == pytest.approx([12_000, 6_000, 3_000], abs=1_500)
    assert counts == tuple(last.count_of(name).value for name in ("cohort", "returned", "newcomers"))
    said = last.to_dict()
    assert said["returned_count_stderr"] == USERS * last.returned_stderr
    assert said["newcomers_count_interval"] == tuple(USERS * end for end in last.newcomers_interval)
    assert f"returned (users) {last.returned_count:,.0f} ± " in str(last)


def test_all_days_are_one_frame(active: pp.ActiveUsers) -> None:
    frame = active.to_polars()
    assert len(frame) == sum(len(each.active) for each in active.released)
    last = active.released[-1]
    of_last = frame.filter(frame["end"] == last.end)
    assert of_last.equals(last.to_polars())
    assert of_last["days"].to_list() == list(range(1, 29))
    assert tuple(of_last["active"]) == last.active
    assert tuple(zip(of_last["count_low"], of_last["count_high"], strict=True)) == last.active_counts_interval
    with refused("nothing-released", "day"):
        pp.ActiveUsers(100, 20.0, span="2d", start="2026-01-05").to_polars()


def test_the_curve_is_a_frame_with_intervals_of_the_level_asked_for(back: pp.Retention) -> None:
    last = back.last
    assert isinstance(last, pp.RetentionRelease)
    assert last.curve_interval[-1] == last.returned_interval
    frame = back.to_polars()
    assert tuple(frame["returned"]) == last.curve
    assert tuple(zip(frame["returned_low"], frame["returned_high"], strict=True)) == last.curve_interval
    assert frame["returned_count"][-1] == USERS * last.curve[-1]
    assert frame["cohort"].to_list() == [last.cohort] * len(last.curve)
    assert (frame["rate"][-1], frame["rate_low"][-1], frame["rate_high"][-1]) == (last.rate, *last.rate_interval)
    assert frame["rate"][:-1].null_count() == len(last.curve) - 1
    with refused("nothing-released", "second period"):
        pp.Retention(100, 20.0).to_polars()


@pytest.mark.slow
def test_pictures_are_drawn_from_python_as_from_a_shell(
    active: pp.ActiveUsers, back: pp.Retention, tmp_path: Path
) -> None:
    for number, each in enumerate((active, active.released[-1], back, back.last)):
        path = tmp_path / f"{number}.svg"
        each.plot(path)  # type: ignore[union-attr]
        assert path.stat().st_size > 10_000
    with refused("picture-format"):
        back.plot("picture.doc")


def test_without_matplotlib_a_picture_says_what_to_install(
    active: pp.ActiveUsers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("panprivacy.estimates.plots.find_spec", lambda _: None)
    with refused("cannot-draw"):
        active.plot(tmp_path / "a.png")
