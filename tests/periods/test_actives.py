"""Who was active in the last days, what it costs, and what happens to time."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom, chi2

import panprivacy as pp
from exact_counts import counts_of
from panprivacy import audit
from panprivacy.errors import PanPrivacyError
from panprivacy.privacy.coins import ONE
from panprivacy.testing import SeededCoins, gaussian_noise, phases_of, refused, slots_of, table_of
from sources import Scripted

KEY = bytes([3] * 16)
MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


def week(users: int = 700, epsilon: float = 1.0, **more: Any) -> pp.ActiveUsers:
    options: dict[str, Any] = {"span": "7d", "start": MONDAY, "key": KEY} | more
    return pp.ActiveUsers(users, epsilon, **options)


def telling(**more: Any) -> pp.ActiveUsers:
    """Coins that say the truth: a bit is 1 exactly if its user was active since its phase was reset."""
    return week(coins=Scripted(lambda threshold, n: np.full(n, 2 * threshold > ONE)), **more)


def phase_of(est: pp.ActiveUsers, user: int) -> int:
    slot = slots_of(est).slot(user)
    return next(i for i, part in enumerate(phases_of(est)) if part.first <= slot < part.first + part.size)


# --- what phases tell -----------------------------------------------------------------------------------------------


def test_each_count_is_of_those_who_were_active_in_the_last_days() -> None:
    est, random = telling(), np.random.default_rng(1)
    phases = [phase_of(est, user) for user in range(700)]
    days: list[set[int]] = []
    for day in range(20):
        days.append(set(random.choice(700, 90).tolist()))
        est.update_many(sorted(days[-1]))
        counts = counts_of(est)
        assert len(counts) == min(day + 1, 7)
        for k, count in enumerate(counts, 1):
            # In the first week, phases that were never reset have seen all days, as have those of the first day.
            tell = {(day + 1 - k) % 7} if k < day + 1 or day >= 6 else {0, *range(day + 1, 7)}
            active = set().union(*days[-k:])
            assert count == sum(phases[user] in tell for user in active)
        est.release()


def test_phases_are_about_alike_and_everybody_is_in_one() -> None:
    est = pp.ActiveUsers(100_000, 1.0, start=MONDAY)
    sizes = [part.users for part in phases_of(est)]
    assert (len(sizes), sum(sizes)) == (28, 100_000)
    assert max(sizes) - min(sizes) < 0.1 * 100_000 / 28


# --- errors and intervals -------------------------------------------------------------------------------------------

RUNS, USERS = 60, 7000


def wrong_with(kind: type[pp.ActiveUsers], **more: Any) -> list[str]:
    """What is wrong with the answers of many runs, but for an accident in a million."""
    random = np.random.default_rng(7)
    days = [np.flatnonzero(random.random(USERS) < 0.1) for _ in range(12)]
    truth = np.array([len(np.unique(np.concatenate(days[12 - k :]))) / USERS for k in range(1, 8)])
    said = []
    for seed in range(RUNS):
        est = kind(USERS, 2.0, span="7d", start=MONDAY, coins=SeededCoins(seed), **more)
        for ids in days:
            est.update_many(ids)
            released = est.release()
        said.append(released)
    raw, stderr = np.array([r.raw_active for r in said]), np.array([r.active_stderr for r in said])
    held = np.array(
        [[low <= true <= high for true, (low, high) in zip(truth, r.active_interval, strict=True)] for r in said]
    )
    answers = held.size
    wrong = []
    if (np.abs(raw.mean(axis=0) - truth) > 5.6 * np.sqrt((stderr**2).mean(axis=0) / RUNS)).any():
        wrong.append("biased")
    low, high = (float(chi2.ppf(tail, answers)) / answers for tail in (5e-8, 1 - 5e-8))
    if not low * 0.99 < (((raw - truth) / stderr) ** 2).mean() < high * 1.01:
        wrong.append("wrong errors")
    if not binom.ppf(2e-7, answers, 0.95) <= held.sum() <= binom.ppf(1 - 2e-7, answers, 0.97):
        wrong.append("wrong intervals")
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"delta": 1e-9}, {"sample": 3500}], ids=str)
@gaussian_noise()
def test_errors_are_what_is_said_of_them(more: dict[str, Any]) -> None:
    assert wrong_with(pp.ActiveUsers, **more) == []


class SkipsTheReset(pp.ActiveUsers):
    """A phase that goes on from one cycle to the next."""

    def _reset(self, phase: int) -> None:
        pass


class ResetsAnother(pp.ActiveUsers):
    """Resets the phase after the one whose turn it is."""

    def _reset(self, phase: int) -> None:
        super()._reset((phase + 1) % self.days)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [SkipsTheReset, ResetsAnother])
def test_a_bug_with_resets_is_found_in_the_answers(kind: type[pp.ActiveUsers]) -> None:
    assert "biased" in wrong_with(kind)


def test_each_share_is_the_raw_one_brought_into_its_range() -> None:
    est = week(users=1000, coins=SeededCoins(1))
    for _ in range(9):
        est.update_many(range(100))
        r = est.release()
    assert list(r.active) == [min(max(raw, 0.0), 1.0) for raw in r.raw_active]
    assert list(r.active) != sorted(r.active)
    assert len(r.active) == len(r.active_stderr) == len(r.active_interval) == 7
    assert all(low <= share <= high for share, (low, high) in zip(r.active, r.active_interval, strict=True))


@pytest.mark.slow
def test_daily_weekly_monthly_and_how_sticky() -> None:
    est = pp.ActiveUsers(50_000, 8.0, start=MONDAY, coins=SeededCoins(1))
    for day in range(30):
        est.update_many(np.arange(500 * day, 500 * day + 10_000))
        r = est.release()
        assert (r.weekly is None) == (day < 6)
        assert (r.monthly is None) == (r.stickiness is None) == (day < 27)
    assert (r.daily, r.weekly) == (r.active[0], r.active[6])
    assert r.monthly == r.active[27] == pytest.approx(0.47, abs=0.12)
    assert r.daily == pytest.approx(0.2, abs=0.12)
    assert r.stickiness_interval is not None
    assert r.stickiness_interval[0] <= 0.2 / 0.47 <= r.stickiness_interval[1]
    hours = pp.ActiveUsers(5000, 8.0, start=MONDAY, span="2d", every="12h")
    assert [hours.release().daily is None for _ in range(3)] == [True, False, False]
    assert pp.ActiveUsers(5000, 8.0, start=MONDAY, span="21h", every="7h").release().daily is None


@pytest.mark.slow
def test_stickiness_is_the_mean_of_daily_over_the_mean_of_monthly_actives_of_a_cycle() -> None:
    est = pp.ActiveUsers(50_000, 8.0, start=MONDAY, coins=SeededCoins(2))
    came = [np.arange(100 * day, 100 * day + 4_000) for day in range(60)]
    for ids in came:
        est.update_many(ids)
        r = est.release()
    monthly = [len(np.unique(np.concatenate(came[day - 27 : day + 1]))) for day in range(32, 60)]
    assert r.stickiness_interval is not None
    assert r.stickiness_stderr is not None
    assert abs(r.stickiness - 4_000 / np.mean(monthly)) < 5 * r.stickiness_stderr  # type: ignore[operator]
    assert r.stickiness_stderr < 0.03
    assert "stickiness" in r.estimates
    daily, whole = ([each.raw_active[k] for each in est.released[-28:]] for k in (0, 27))
    assert r.stickiness == pytest.approx(np.mean(daily) / np.mean(whole), rel=1e-9)


@pytest.mark.slow
def test_a_state_goes_on_with_the_stickiness_and_one_of_an_earlier_version_is_read() -> None:
    est: Any = pp.ActiveUsers(50_000, 20.0, start=MONDAY)
    for _ in range(40):
        est.update_many(range(20_000))
        est.release()
    again = pp.load(est.to_bytes())
    assert again.last.stickiness == est.last.stickiness == pytest.approx(1.0, abs=0.1)
    last = est._ledger.published
    est._ledger.published = last._replace(noisy=last.noisy[:29])
    est._counts_released = lambda: 29  # as states were written before
    old = pp.load(est.to_bytes())
    assert old.last.active == again.last.active
    assert old.last.stickiness is None
    old.update_many(range(20_000))
    assert old.release().stickiness == pytest.approx(1.0, abs=0.2)


@pytest.mark.slow
def test_where_there_is_not_enough_data_there_is_no_stickiness() -> None:
    est = pp.ActiveUsers(2_000, 0.5, start=MONDAY, coins=SeededCoins(1))
    for _ in range(30):
        est.update_many(range(100))
        r = est.release()
    assert (r.stickiness, r.stickiness_stderr, r.stickiness_interval) == (None, None, None)
    assert r.to_dict()["stickiness"] is None
    assert "stickiness not enough data" in str(r)


def test_a_smoothed_series_has_a_name_of_its_own() -> None:
    est = week(users=7000, epsilon=4.0, coins=SeededCoins(1))
    for _ in range(30):
        est.update_many(range(1400))
        est.release()
    series = est.smoothed()
    first, last = est.released[-1], series.releases[-1]
    assert last.active == first.active
    assert last.smoothed_stderr[6] < 0.8 * last.active_stderr[6]
    assert last.smoothed[6] == pytest.approx(0.2, abs=5 * last.smoothed_stderr[6])
    assert all(low <= share <= high for share, (low, high) in zip(last.smoothed, last.smoothed_interval, strict=True))
    with refused("no-estimate"):
        _ = first.smoothed
    with refused("days-order"):
        type(series).of([*est.released, est.released[0]])


# --- what it costs --------------------------------------------------------------------------------------------------


def two_days(kind: type[pp.ActiveUsers] = pp.ActiveUsers) -> Any:
    return lambda coins: kind(2, 1.0, span="2d", start=0, key=KEY, coins=coins)


@pytest.mark.slow
@pytest.mark.parametrize("deletions", [False, True])
def test_a_cycle_loses_epsilon_to_the_last_digit(deletions: bool) -> None:
    found = audit.exact(two_days(), 2, 2, releases=2, deletions=deletions)
    assert found.worst_loss == pytest.approx(found.claimed, abs=1e-14)
    assert found.holds


@pytest.mark.slow
def test_who_appears_once_loses_epsilon_however_many_days_there_are_and_a_skipped_reset_is_found() -> None:
    found, skipped = (
        audit.exact(two_days(kind), [0], streams=[[0]], releases=5) for kind in (pp.ActiveUsers, SkipsTheReset)
    )
    assert found.holds
    assert found.worst_loss == pytest.approx(found.claimed, abs=1e-14)
    assert not skipped.holds
    assert skipped.worst_loss > 1.9 * found.claimed


@pytest.mark.slow
def test_two_cycles_lose_no_more_than_is_said() -> None:
    said = pp.ActiveUsers(2, 1.0, span="2d", start=0, key=KEY).loss(2, readings=1)
    found = audit.exact(two_days(), [0], streams=[[0, 0, 0, 0]], releases=4)
    assert 1.1 < found.worst_loss <= said


def test_cycles_add_up_and_one_reading_counts_once() -> None:
    est = week()
    assert est.loss() == est.budget.total == pytest.approx(1.0)
    assert est.loss(3) == pytest.approx(3.0)
    assert est.loss(3, readings=1) == pytest.approx(est.budget.total + 2 * est.unread_loss)
    assert 0 < est.unread_loss < est.loss()
    with refused("readings-range"):
        est.loss(-1)


def test_what_is_spent_in_a_cycle_stops_growing_when_the_first_cycle_is_over() -> None:
    est = week()
    spent = [est.release().epsilon_spent for _ in range(10)]
    assert spent[:7] == sorted(set(spent[:7]))
    assert spent[6:] == [est.budget.total] * 4
    assert est.budget.releases_made == 7


# --- time -----------------------------------------------------------------------------------------------------------


def test_times_end_days_and_quiet_days_are_released_too() -> None:
    est = telling()
    est.update_many(range(100), time=MONDAY)
    released = est.advance(MONDAY + timedelta(days=3, hours=1))
    assert [r.start for r in released] == [MONDAY + timedelta(days=day) for day in range(3)]
    assert [len(r.active) for r in released] == [1, 2, 3]
    assert est.released == tuple(released)
    assert est.advance(MONDAY + timedelta(days=3, hours=2)) == []


@pytest.mark.parametrize(
    "ids", [np.arange(210), list(range(210)), pl.Series(range(210))], ids=lambda ids: type(ids).__name__
)
def test_a_batch_may_reach_over_several_days_in_any_order(ids: Any) -> None:
    est, one_by_one = telling(), telling()
    times = [MONDAY + timedelta(days=user % 3) for user in range(210)]
    est.update_many(ids, time=times)
    for user in sorted(range(210), key=lambda user: user % 3):
        one_by_one.update(user, time=times[user])
    assert est.to_bytes(insecure=True) == one_by_one.to_bytes(insecure=True)


def test_a_late_event_is_refused_with_nothing_changed() -> None:
    est = telling()
    est.update_many(range(50), time="2026-01-07T23:59", ahead=2)
    before, released = est.to_bytes(insecure=True), est.released
    with refused("late-event", "2026-01-06"):
        est.update(3, time="2026-01-06")
    with pytest.raises(pp.LateEvent):
        est.update_many([3, 4], time=["2026-01-08", "2026-01-06"])
    with refused("late-event", "2026-01-04"):
        week().update(3, time="2026-01-04")
    with refused("early-event", "2026-01-09", "2"):
        est.update(3, time="2026-01-09")
    with refused("time-far-ahead"):
        est.advance(1.7e11)
    with refused("times-length", "2", "1"):
        est.update_many([3, 4], time=["2026-01-08"])
    assert (est.to_bytes(insecure=True), est.released) == (before, released)


def test_a_bad_id_is_refused_before_any_day_ends() -> None:
    est, stranger = telling(), 10**6
    before = est.to_bytes(insecure=True)
    batches: list[Callable[[], None]] = [
        lambda: est.update(stranger, time="2026-01-07"),
        lambda: est.update_many([3, stranger], time="2026-01-07"),
        lambda: est.update_many([3, stranger], time=["2026-01-06", "2026-01-05"]),
        lambda: est.update_many(np.array([3, stranger]), time=["2026-01-05", "2026-01-08"]),
        lambda: est.update_many(pl.Series([3, None]), time=["2026-01-05", "2026-01-08"]),
    ]
    for feed in batches:
        with pytest.raises((pp.OutsideUniverse, ValueError)):
            feed()
        assert (est.to_bytes(insecure=True), est.released, est.day) == (before, (), MONDAY)


def test_a_state_is_resumed_in_the_middle_of_a_cycle() -> None:
    est: Any = week(users=2000, epsilon=20.0, coins=None)
    est.update_many(range(1000), time=MONDAY)
    est.advance(MONDAY + timedelta(days=4))
    again = pp.load(est.to_bytes())
    assert again.day == est.day
    assert again.last == est.last
    assert again.released == ()
    with pytest.raises(pp.LateEvent):
        again.update(3, time=MONDAY)
    for each in (est, again):
        each.advance(MONDAY + timedelta(days=9))
        assert each.last.active[-1] == pytest.approx(0.0, abs=0.15)
    assert len(again.released) == 5


class Breaks(Scripted):
    """Coins that somebody breaks off at a moment of the test's choice."""

    def __init__(self, where: str) -> None:
        super().__init__(lambda threshold, n: np.full(n, 2 * threshold > ONE))
        self.where = where

    def below(self, threshold: int, n: int) -> Any:
        if self.where == "reset":
            raise KeyboardInterrupt
        return super().below(threshold, n)

    def noisy(self, value: int, epsilon: Any) -> int:
        if self.where == "noise":
            raise KeyboardInterrupt
        return super().noisy(value, epsilon)


@pytest.mark.parametrize(("where", "released"), [("reset", [1, 2, 3]), ("noise", [2, 3])])
def test_a_day_that_was_broken_off_is_ended_later_and_released_at_most_once(where: str, released: list[int]) -> None:
    coins = Breaks("nowhere")
    est: Any = week(coins=coins)
    est.update_many(range(300))
    coins.where = where
    with pytest.raises(KeyboardInterrupt):
        est.advance(MONDAY + timedelta(days=1))
    coins.where = "nowhere"
    assert est.day == MONDAY
    assert pp.load(est.to_bytes(insecure=True))._periods == est._periods
    est.advance(MONDAY + timedelta(days=3))
    assert [r.number for r in est.released] == released
    undisturbed = telling()
    undisturbed.update_many(range(300))
    undisturbed.advance(MONDAY + timedelta(days=3))
    assert (table_of(est).words == table_of(undisturbed).words).all()


@pytest.mark.parametrize(
    "bad", [{"span": "36h"}, {"span": "12h"}, {"every": "0s"}, {"span": "2000d"}, {"level": 1.0}, {"start": "soon"}]
)
def test_arguments_are_checked(bad: dict[str, Any]) -> None:
    with pytest.raises(PanPrivacyError) as caught:
        week(**bad)
    assert caught.value.code in {"level-range", "period-format", "span-range", "time-format"}


def test_more_days_than_users_are_refused() -> None:
    with refused("too-few-users"):
        pp.ActiveUsers(5, 1.0, start=MONDAY)


def test_what_makes_no_sense_is_refused_with_the_reason() -> None:
    est = week()
    with refused("no-rerandomize", "ActiveUsers"):
        est.rerandomize()
    with refused("not-mergeable", "ActiveUsers"):
        pp.merge([est, week()])


@pytest.mark.parametrize("ids", [{99, 3, 50}, {1: 0, 2: 0, 3: 0}.keys(), (user for user in (1, 2, 3))])
def test_ids_without_an_order_cannot_have_a_time_each(ids: Any) -> None:
    est = pp.ActiveUsers(1000, 1.0, span="3d", start="2026-01-05")
    with refused("no-order", "a time each"):
        est.update_many(ids, time=["2026-01-05", "2026-01-05", "2026-01-06"])
