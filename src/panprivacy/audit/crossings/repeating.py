"""What is stated where a user's bit is drawn anew: in every window of `Windows`, in every cycle of an estimator."""

from typing import Any

from panprivacy.audit.crossings import holders
from panprivacy.audit.crossings.cells import Cell, How, not_applicable, refused
from panprivacy.audit.crossings.measuring import Scenario, measure, refusal
from panprivacy.audit.crossings.rows import Row
from panprivacy.slots.phased import phase_reset_on
from panprivacy.testing import SeededCoins
from panprivacy.windows import Windows


def windows(row: Row, times: int, readings: int | None, delta: float | None = None, releases: int = 1) -> Cell:
    """An estimator inside `Windows`, and what they state for so many windows, read once, in each, or not at all."""
    error = refusal(lambda: Windows(row.itself, every=1, start=0))
    if error:
        return refused(error)
    if delta is not None and "delta" not in row.options:
        return not_applicable("takes no delta")
    counts, periods = "up_to" in row.options, hasattr(row.kind, "close")
    if periods and releases > 1:
        return not_applicable("a window with two periods has two releases as it is")
    each = row.releases_of(releases)
    options: dict[str, Any] = {"releases": releases}
    if delta is not None:
        options |= {"delta": delta, "epsilon": 8.0 if counts or periods or releases > 1 else 4.0}
    if delta is not None and periods:
        return _windows_of_one_bit(row, times, readings, each, options)
    scenario = Scenario(
        range(1),
        max(times * each, 4 if counts else 3) if delta is None else (2 if counts else 1),
        releases=times * each,
        readings=1 if readings is None else readings,
        stretch=each if readings is None else 0,
        even=delta is not None and counts and bool(readings),
    )
    return measure(
        lambda coins: holders.InWindows(holders.Maker(row.build, coins, **options), times, readings), scenario
    )


def _windows_of_one_bit(row: Row, times: int, readings: int | None, each: int, options: dict[str, Any]) -> Cell:
    windows: Any = Windows(holders.Maker(row.build, SeededCoins(0), **options), every=1, start=0)
    claimed = windows.loss(times, readings=readings), holders.delta_of(windows, times, readings)
    split = windows.open._ledger.split
    scenario = Scenario(range(1), 1, releases=times * each, readings=readings or 0)
    return measure(lambda coins: holders.OneBit(split, claimed, each, coins), scenario, How.MACHINE)


def cycles(row: Row, readings: int | None, delta: float | None = None) -> Cell:
    """Two cycles of one object, and what it states for them, read once or not at all."""
    if not row.cycles:
        return not_applicable("one cycle is its life")
    if delta is not None:
        split_of = row.build(SeededCoins(0), delta=delta, epsilon=6.0, span="1d")
        claimed = split_of.loss(2, readings=readings), holders.delta_of(split_of, 2, readings)
        scenario = Scenario(range(1), 1, releases=2, readings=readings or 0, verbs=("update", "remove"))
        split = split_of._ledger.split
        return measure(lambda coins: holders.OneBit(split, claimed, 1, coins), scenario, How.MACHINE)
    est = row.build(SeededCoins(0))
    scenario = Scenario(
        [_with_whole_cycles(est)], 4, releases=2 * est.days, readings=1 if readings is None else readings
    )
    return measure(lambda coins: holders.Cycles(row.build(coins), 2, readings), scenario)


def _with_whole_cycles(est: Any) -> int:
    """A user whose bit is drawn anew when the first cycle of days is over, and not within it."""
    part = est._phases[phase_reset_on(est.days, est.days)]
    return next(user for user in range(est.users) if part.first <= est._slots.slot(user) < part.first + part.size)
