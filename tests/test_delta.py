"""Whatever has an epsilon has a delta: constructors, budgets, releases, displays, saved states, merges and windows."""

import warnings
from collections.abc import Callable
from fractions import Fraction
from hashlib import sha256
from math import log
from typing import Any

import pytest

import panprivacy as pp
from panprivacy.checks import LargeDelta
from panprivacy.privacy import gaussian
from panprivacy.privacy.budget import _LEDGER, SQUARE_STEPS, Ledger, Split
from panprivacy.privacy.noise import Gaussian, Laplace
from panprivacy.privacy.pairs import symmetric
from panprivacy.testing import refused, split_of

DELTA = 1e-9
KEY = bytes(16)

ESTIMATORS: dict[str, Callable[..., Any]] = {
    "Density": lambda **rest: pp.Density(1000, 2.0, **rest),
    "a sample": lambda **rest: pp.Density(1000, 2.0, sample=300, key=KEY, **rest),
    "a list": lambda **rest: pp.Density(pp.Users(range(1000)), 2.0, **rest),
    "DistinctCount": lambda **rest: pp.DistinctCount(2.0, 64, key=KEY, **rest),
    "DistinctCount by its error": lambda **rest: pp.DistinctCount(2.0, error=0.2, key=KEY, **rest),
}

every = pytest.mark.parametrize(
    "make",
    [
        pytest.param(ESTIMATORS[name], id=name, marks=[pytest.mark.slow] if "error" in name else [])
        for name in ESTIMATORS
    ],
)


# --- constructors ---------------------------------------------------------------------------------------------------


@every
def test_without_a_delta_noise_is_laplaces_and_nothing_is_ever_lost_beyond_epsilon(make: Callable[..., Any]) -> None:
    est = make(releases=100)
    release = est.release()
    assert isinstance(split_of(est).noise, Laplace)
    assert (est.delta, est.budget.delta, est.budget.delta_spent, release.delta_spent) == (0, 0, 0, 0)


@every
def test_with_a_delta_noise_is_gaussian_and_the_delta_is_spent_by_the_first_release(make: Callable[..., Any]) -> None:
    est = make(releases=100, delta=DELTA)
    assert isinstance(split_of(est).noise, Gaussian)
    assert (est.delta, est.budget.delta, est.budget.delta_spent) == (DELTA, DELTA, 0)
    for number in (1, 2):
        release = est.release()
        assert (release.number, release.delta_spent, est.budget.delta_spent) == (number, DELTA, DELTA)
        assert release.epsilon_spent == est.budget.spent < est.budget.total <= 2.0


@every
@pytest.mark.parametrize("delta", [0, 0.0, -1e-9, 1, 0.0011, float("nan"), float("inf")])
def test_a_delta_that_is_none_is_refused(make: Callable[..., Any], delta: float) -> None:
    with refused("delta-range", "0.001"):
        make(delta=delta)


@every
def test_a_delta_above_a_millionth_comes_with_one_warning_where_it_was_given(make: Callable[..., Any]) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        make(releases=9, delta=1e-6)
        assert warned == []
        make(releases=9, delta=1e-4)
    assert [each.category for each in warned] == [LargeDelta]
    assert warned[0].filename == __file__
    assert "with a chance of up to one in 10,000 a person loses more than epsilon" in str(warned[0].message)


# --- releases and displays ------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("delta", [None, DELTA], ids=["Laplace", "Gaussian"])
@pytest.mark.parametrize("releases", [1, 1000])
def test_noise_errs_by_no_more_than_the_whole_release(
    make: Callable[..., Any], delta: float | None, releases: int
) -> None:
    release = make(releases=releases, delta=delta).release()
    whole = release.density_stderr if isinstance(release, pp.Release) else release.count_stderr
    assert 0 < release.noise_stderr <= whole
    if releases > 1:
        assert release.noise_stderr > 0.5 * whole  # it is most of the error, where releases are many


@every
def test_everything_that_shows_an_epsilon_shows_the_delta(make: Callable[..., Any]) -> None:
    est = make(releases=100, delta=2.5e-9)
    release = est.release()
    for shown in (repr(est), est._repr_html_(), str(est.budget), est.budget._repr_html_(), str(release)):
        assert ", delta 2.5e-09" in shown
    assert release.to_dict()["delta_spent"] == 2.5e-9
    assert release.to_dict()["noise_stderr"] == release.noise_stderr
    for shown in (repr(make()), str(make().budget), str(make().release())):
        assert "delta" not in shown


# --- bytes ----------------------------------------------------------------------------------------------------------


@every
def test_a_saved_state_keeps_its_delta_and_goes_on(make: Callable[..., Any]) -> None:
    est = make(releases=300, intrusions=1, delta=DELTA)
    est.release()
    blob = est.to_bytes()
    again = pp.load(blob)
    assert again.to_bytes() == blob
    assert (again.delta, again.budget, again.last) == (DELTA, est.budget, est.last)
    assert split_of(again) == split_of(est)
    again.rerandomize()
    assert again.release().delta_spent == DELTA


def forged(est: Any, **changed: Any) -> bytes:
    """The bytes of an estimator whose ledger was altered, sealed again with a checksum that fits."""
    plan, done = ("epsilon", "present", "steps", "planned", "flip", "intrusions"), ("made", "redraws")
    names = (*plan, *done, "number", "level", "then", "counts", "delta", "places")
    body, head = bytearray(est.to_bytes()[:-32]), 24
    fields = dict(zip(names, _LEDGER.unpack_from(body, head), strict=True))
    _LEDGER.pack_into(body, head, *(fields | changed).values())
    return bytes(body) + sha256(body).digest()


def test_the_ledger_is_where_the_forger_looks_for_it() -> None:
    est = pp.Density(1000, 2.0, releases=100, delta=DELTA)
    assert forged(est) == est.to_bytes()
    with refused("state-contradictory", "releases"):
        pp.load(forged(est, made=101))


@pytest.mark.parametrize("delta", [float("nan"), -DELTA, -0.5, 1.0, 0.01, float("inf")])
def test_a_forged_delta_is_corrupt(delta: float) -> None:
    for est in (pp.Density(1000, 2.0, releases=100, delta=DELTA), pp.Density(1000, 2.0, releases=9)):
        with pytest.raises(pp.CorruptState):
            pp.load(forged(est, delta=delta))


def test_a_smaller_delta_than_the_noise_has_is_corrupt() -> None:
    with refused("state-contradictory", "2.0"):
        pp.load(forged(pp.Density(1000, 2.0, releases=100, delta=DELTA), delta=DELTA / 2))


def steps(square: float) -> int:
    return int(Fraction(square) * SQUARE_STEPS)


@pytest.mark.parametrize("square", [0.5, 4.0])
def test_less_noise_than_the_delta_asks_for_is_corrupt(square: float) -> None:
    with pytest.raises(pp.CorruptState):
        pp.load(forged(pp.Density(1000, 2.0, releases=100, delta=DELTA), steps=steps(square)))


@pytest.mark.parametrize("releases", [1, 9, 1000])
def test_laplace_noise_that_is_given_a_delta_is_corrupt(releases: int) -> None:
    """Its step is of another size: as a square it is far more, or far less, than the plan asks for."""
    with pytest.raises(pp.CorruptState):
        pp.load(forged(pp.Density(1000, 2.0, releases=releases), delta=DELTA))


def test_the_least_noise_may_leave_epsilon_over() -> None:
    split = Split(100.0, symmetric(5.0), Gaussian(gaussian.LEAST_SQUARE), 1, 0, 0, delta=DELTA)
    assert Ledger.from_bytes(Ledger(split).to_bytes(1)) == (Ledger(split), b"")


def test_the_ledger_has_the_same_length_with_and_without_a_delta() -> None:
    blobs = [pp.Density(1000, 2.0, releases=100, delta=delta).to_bytes() for delta in (None, DELTA, 1e-6)]
    assert len({len(blob) for blob in blobs}) == 1


# --- merging, growing, redrawing ------------------------------------------------------------------------------------


def shards(*deltas: float | None) -> list[pp.Density]:
    return [
        pp.Density(1000, 2.0, shard=(part, len(deltas)), releases=30, delta=delta) for part, delta in enumerate(deltas)
    ]


def counters(*deltas: float | None) -> list[pp.DistinctCount]:
    return [pp.DistinctCount(2.0, 64, key=KEY, releases=30, delta=delta) for delta in deltas]


def test_a_merge_keeps_the_delta_of_its_parts() -> None:
    for parts in (shards(DELTA, DELTA), counters(DELTA, DELTA)):
        budget = parts[0].budget
        merged: Any = pp.merge(parts)
        assert (merged.delta, merged.budget) == (DELTA, budget)
        assert merged.release().delta_spent == DELTA
    united = pp.merge(counters(DELTA, DELTA), overlapping=True)
    assert united.delta == DELTA


@pytest.mark.parametrize("other", [None, 2e-9])
def test_parts_of_different_deltas_cannot_be_merged(other: float | None) -> None:
    for parts in (shards(DELTA, other), counters(DELTA, other)):
        with refused("different-plans", "budgets"):
            pp.merge(parts)


def test_a_universe_that_grows_keeps_its_delta() -> None:
    est = pp.Density(1000, 2.0, releases=30, delta=DELTA)
    est.release()
    before = est.budget
    est.grow(2000)
    assert (est.delta, est.budget) == (DELTA, before)
    assert est.release().number == 2


@every
def test_a_redraw_keeps_the_delta_and_adds_to_what_is_spent(make: Callable[..., Any]) -> None:
    est = make(releases=300, intrusions=2, delta=DELTA)
    est.release()
    before = est.budget
    est.rerandomize()
    assert (est.delta, est.budget.delta_spent) == (DELTA, DELTA)
    assert before.spent < est.budget.spent <= est.budget.total <= 2.0


# --- windows --------------------------------------------------------------------------------------------------------


def test_windows_that_are_not_read_cost_no_delta_of_their_own() -> None:
    days = pp.Windows(lambda: pp.Density(1000, 1.0, releases=90, delta=DELTA), every="1d", start="2026-01-05")
    assert (days.delta(0), days.delta()) == (0.0, DELTA)
    assert days.delta(windows=7) == pytest.approx(7 * DELTA)
    assert days.delta(windows=7, readings=1) == days.delta(windows=7, readings=0) == DELTA
    whole = 7 * days.open.budget.total
    assert 0.9 * whole < days.loss(windows=7) <= whole * (1 + 1e-15)  # rounded up
    assert 0 < days.unread_loss < days.open.budget.total
    (closed,) = days.advance("2026-01-06")
    assert closed.release.delta_spent == DELTA
    assert ", delta 1e-09" in repr(days)
    assert ", delta 1e-09" in days._repr_html_()
    with refused("readings-range"):
        days.delta(-1)


def test_windows_with_a_delta_are_one_composition_beside_one_reading() -> None:
    """As one estimator with the releases of all of them, and far less than the sum of what each loses."""
    days = pp.Windows(lambda: pp.Density(1000, 1.0, releases=90, delta=DELTA), every="1d")
    split = split_of(days.open)
    assert days.loss(windows=7, readings=1) == split.loss(7 * 90, 0)
    assert days.loss(windows=7, readings=1) < 0.8 * (days.open.budget.total + 6 * days.unread_loss)
    assert days.loss(windows=7, readings=0) < days.loss(windows=7, readings=1) - 0.5 * split.pair.loss


def test_an_intruder_may_choose_by_the_releases_which_windows_are_read() -> None:
    """Two readings lose more than in two windows that were fixed beforehand, and less than if every window is read."""
    days = pp.Windows(lambda: pp.Density(1000, 1.0, releases=90, delta=DELTA), every="1d")
    split = split_of(days.open)
    fixed = split.loss(90, 0) + split.loss(6 * 90, 0)
    assert fixed < days.loss(windows=7, readings=2) < 1.2 * fixed
    paths = 2 * gaussian.log_choices(7 * 90)
    released = gaussian.loss(split.noise.square, 7 * 90, 2 * DELTA, 1, paths)
    assert days.loss(windows=7, readings=2) == pytest.approx(2 * split.pair.loss + released, rel=1e-12)
    losses = [days.loss(windows=7, readings=readings) for readings in range(8)]
    assert losses == sorted(losses)


def test_an_intruder_who_is_announced_may_choose_by_the_releases_when_that_is() -> None:
    """Counted one by one: the releases before the block of each of two readings, each of which shows a 0 or a 1."""
    for releases in (1, 2, 5):
        paths = {(i, j) for end in range(releases + 1) for i in range(end + 1) for j in range(end, releases + 1)}
        assert gaussian.log_choices(releases, redraws=1) == pytest.approx(log(4 * len(paths)))


# --- never worse than none ------------------------------------------------------------------------------------------


@every
def test_where_laplace_noise_errs_less_there_is_no_delta(make: Callable[..., Any]) -> None:
    few = make(releases=2, delta=DELTA)
    assert isinstance(split_of(few).noise, Laplace)
    assert (few.delta, few.budget, few.release().delta_spent) == (0.0, make(releases=2).budget, 0.0)


@pytest.mark.parametrize("releases", [1, 5, 12, 20, 30, 60, 400])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 12.0])
def test_a_delta_never_adds_to_the_error(releases: int, epsilon: float) -> None:
    densities = [pp.Density(20_000, epsilon, releases=releases, delta=delta) for delta in (DELTA, None)]
    counts = [pp.Counts(20_000, epsilon, releases=releases, delta=delta) for delta in (DELTA, None)]
    for with_delta, without in (
        [est.density_stderr_at(0.5) for est in densities],
        [est.mean_stderr for est in counts],
    ):
        assert with_delta <= without * (1 + 1e-9)


def test_what_reacts_to_releases_is_charged_by_the_bound_that_allows_it() -> None:
    with_delta, without = (pp.Density(1_000_000, 1.0, releases=365, delta=delta).budget for delta in (DELTA, None))
    assert without.reacting == without.total
    assert 1.05 < with_delta.reacting < 1.15
