"""The bound with a delta holds against an adversary who decides everything by what was released before."""

import pytest

from adaptive import CASES, CASES_WITH_DELTA, claimed_by_moments, claimed_delta, smallest_delta

pytestmark = pytest.mark.slow

TAILS = 1e-8
"""What the sums leave out."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_choice_of_events_releases_and_reading_exceeds_the_claimed_delta(
    case: tuple[int, int, float, float],
) -> None:
    square, releases, state, released = case
    found = smallest_delta(square, releases, state, state + released)
    assert 0 < found <= claimed_delta(square, releases, released) - TAILS


@pytest.mark.parametrize("case", CASES_WITH_DELTA, ids=str)
def test_the_moments_of_the_releases_hold_even_against_this_adversary(case: tuple[int, int, float, float]) -> None:
    """It is promised only where events and times of releases do not react: this is evidence, and not the promise."""
    square, releases, state, delta = case
    found = smallest_delta(square, releases, state, state + claimed_by_moments(square, releases, state, delta))
    assert 0 < found <= delta - TAILS


@pytest.mark.parametrize("case", [case for case in CASES_WITH_DELTA if case[1] == 2 and case[2] > 0.5], ids=str)
def test_moments_of_one_release_too_few_would_be_noticed(case: tuple[int, int, float, float]) -> None:
    square, _, state, delta = case
    assert smallest_delta(square, 2, state, state + claimed_by_moments(square, 1, state, delta)) > delta


@pytest.mark.parametrize("square", [1, 3])
@pytest.mark.parametrize("released", [0.5, 1.5])
def test_a_reading_that_is_not_charged_for_would_be_noticed(square: int, released: float) -> None:
    """The total is that of the releases alone, and the state, of epsilon 2, is read beside them."""
    assert smallest_delta(square, 1, 2.0, released) > claimed_delta(square, 1, released)


def test_one_release_more_than_planned_would_be_noticed() -> None:
    """Noise for one release, and two are made: the second costs more than the slack of the bound."""
    assert smallest_delta(1, 2, 1.0, 2.5) > claimed_delta(1, 1, 1.5)
