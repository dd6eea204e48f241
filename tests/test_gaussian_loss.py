"""The loss of many Gaussian releases is found from the safe side, and tightly."""

from fractions import Fraction
from itertools import pairwise
from math import log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panprivacy.privacy.budget import SQUARE_STEPS
from panprivacy.privacy.gaussian import log_delta, loss

squares = st.floats(0, 12).map(lambda digits: Fraction(int(SQUARE_STEPS * 10**digits), SQUARE_STEPS))
numbers = st.floats(0, 5).map(lambda digits: int(10**digits))
deltas = st.floats(-15, -3).map(lambda digits: 10.0**digits)


@pytest.mark.slow
@given(squares, numbers, deltas, st.sampled_from([1, 2, 5]))
def test_the_loss_has_the_wanted_delta_and_a_millionth_less_has_more(
    square: Fraction, releases: int, delta: float, sensitivity: int
) -> None:
    found = loss(square, releases, delta, sensitivity)
    assert log_delta(found, square, releases, sensitivity) <= log(delta)
    if found:
        assert log_delta(found * (1 - 1e-6), square, releases, sensitivity) > log(delta)


@pytest.mark.slow
@given(squares.filter(lambda square: square >= 2), numbers, deltas)
def test_the_loss_is_at_most_what_concentrated_privacy_gives_away(
    square: Fraction, releases: int, delta: float
) -> None:
    rho = releases / (2 * float(square))
    assert loss(square, releases, delta) <= (rho + 2 * sqrt(rho * log(1 / delta))) * (1 + 1e-9)


@pytest.mark.parametrize("square", [1, 100, 10**6, 10**12])
def test_every_release_adds_to_the_loss(square: int) -> None:
    losses = [loss(Fraction(square), releases, 1e-9) for releases in (0, 1, 2, 3, 10, 11, 1000, 1001, 99_999, 100_000)]
    assert losses[0] == 0
    assert all(before < after for before, after in pairwise(losses))
