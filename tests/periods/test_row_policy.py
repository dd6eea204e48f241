"""Which period each row counts in: one row moves the clock by a bounded step, and nobody's rows refuse others'."""

import numpy as np
import pytest

from panprivacy.errors import PanPrivacyError
from panprivacy.memory.scratch import Scratch
from panprivacy.periods import EARLY, LATE, NO_TIME, SKIPPED, RowPolicy, Untimely, different_periods


def placed(periods: list[int], open_: int, policy: RowPolicy, **more: int) -> tuple[list[int], list[int]]:
    array = np.array(periods, dtype=np.int64)
    with Scratch() as scratch:
        counted = policy.place(array, open_, scratch, **more)
    return array.tolist(), counted


SKIP = RowPolicy(late="skip", early="skip")


def test_a_row_moves_the_clock_by_one_period_and_another_row_by_one_more() -> None:
    assert placed([5, 6, 7], 5, SKIP) == ([5, 6, 7], [5, 6, 7])
    assert placed([7, 5], 5, SKIP) == ([SKIPPED, 5], [5])
    assert placed([7, 5], 5, RowPolicy(ahead=2)) == ([7, 5], [5, 7])
    assert placed([9, 8, 7], 5, SKIP) == ([SKIPPED] * 3, [])


def test_where_no_row_moves_the_clock_all_later_rows_are_early() -> None:
    assert placed([5, 6, 4], 5, RowPolicy(0, "skip", "skip")) == ([5, SKIPPED, SKIPPED], [5])


def test_a_late_row_counts_in_the_open_period_or_nowhere() -> None:
    assert placed([3, 6], 5, RowPolicy(late="count")) == ([5, 6], [5, 6])
    assert placed([3, 6], 5, SKIP) == ([SKIPPED, 6], [6])


def test_no_row_moves_the_clock_past_the_wall_clock() -> None:
    assert placed([6, 7], 5, SKIP, latest=6) == ([6, SKIPPED], [6])
    assert placed([5, 6], 5, SKIP, latest=3) == ([5, SKIPPED], [5]), "the clock never goes back"
    assert placed([6], 5, RowPolicy(early="skip"), latest=5) == ([SKIPPED], [])


def test_a_period_that_never_ends_takes_all_that_comes_after_it() -> None:
    assert placed([5, 6, 90], 5, SKIP, endless=6) == ([5, 6, 6], [5, 6])
    assert placed([90], 6, SKIP, endless=6) == ([6], [6])
    assert placed([90], 4, RowPolicy(ahead=1000), endless=6) == ([6], [6])
    assert placed([90], 5, SKIP, endless=6) == ([SKIPPED], [])


def test_a_row_without_a_time_is_early() -> None:
    assert placed([NO_TIME // 10, 5], 5, RowPolicy(0, "count", "skip")) == ([SKIPPED, 5], [5])


def test_the_first_row_that_refuses_a_batch_is_named_and_nothing_is_changed() -> None:
    for periods, early in (([5, 9, 9], True), ([5, 4, 4], False)):
        array = np.array(periods, dtype=np.int64)
        with Scratch() as scratch, pytest.raises(Untimely) as caught:
            RowPolicy().place(array, 5, scratch)
        assert (caught.value.row, caught.value.early, array.tolist()) == (1, early, periods)


def expected(period: int, policy: RowPolicy) -> list[int]:
    """The period that a single row counts in, by the words of the policy, while period 4 is open."""
    if period < 4:
        return {"count": [4], "skip": []}[policy.late]
    return [period] if period <= 4 + policy.ahead else {"skip": []}[policy.early]


def test_one_row_is_placed_as_the_policy_says() -> None:
    for late in LATE:
        for early in EARLY:
            for ahead in range(3):
                policy = RowPolicy(ahead, late, early)
                for period in range(8):
                    try:
                        counted = expected(period, policy)
                    except KeyError:  # it is refused
                        with pytest.raises(Untimely) as caught:
                            placed([period], 4, policy)
                        assert (caught.value.period, caught.value.early) == (period, period > 4)
                    else:
                        assert placed([period], 4, policy) == (counted or [SKIPPED], counted)


def test_adding_rows_to_a_batch_moves_no_other_row_where_rows_do_not_move_the_clock() -> None:
    """Whatever the rows of others are, each stays in its period; 500 batches, drawn with a fixed seed."""
    random = np.random.default_rng(1)
    policy = RowPolicy(0, "count", "skip")
    for _ in range(500):
        others = random.integers(0, 9, 20).tolist()
        added = random.integers(-3, 2000, random.integers(1, 5)).tolist()
        assert placed(others + added, 4, policy)[0][:20] == placed(others, 4, policy)[0]


@pytest.mark.parametrize("wrong", [{"late": "drop"}, {"early": "count"}, {"ahead": -1}])
def test_another_policy_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(PanPrivacyError) as caught:
        RowPolicy(**wrong)  # type: ignore[arg-type]
    assert caught.value.code in {"ahead-range", "early-policy", "late-policy"}


@pytest.mark.parametrize("far", [10, 10**12])
def test_the_different_periods_are_found_however_far_apart_they_are(far: int) -> None:
    periods = np.random.default_rng(2).integers(-far, far, 500)
    with Scratch() as scratch:
        assert different_periods(periods, scratch) == np.unique(periods).tolist()


@pytest.mark.parametrize("endless", [None, 0, 1])
def test_a_batch_without_rows_counts_in_no_period(endless: int | None) -> None:
    with Scratch() as scratch:
        assert RowPolicy().place(np.empty(0, np.int64), 1, scratch, endless=endless) == []
