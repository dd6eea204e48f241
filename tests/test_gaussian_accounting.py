"""What Gaussian releases lose: against exact sums, against concentrated privacy, and with bugs planted."""

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from math import ceil, exp, expm1, floor, fsum, inf, log, log1p, sqrt
from time import process_time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from panprivacy.privacy import gaussian
from panprivacy.privacy.gaussian import log_delta, loss

_CONTEXT = Context(prec=40)

Accounting = Callable[[float, Fraction, int, int], float]


@cache
def bell_of_sum(square: Fraction, releases: int) -> NDArray[np.float64]:
    """Probabilities of a sum of discrete Gaussians, by convolution: all terms are positive, so floats know them well.

    Each draw is followed as far as the sum is, beyond which it has a probability below 1e-30.
    """
    reach = ceil(12 * sqrt(releases * float(square)))
    x = np.arange(-reach, reach + 1, dtype=np.float64)
    heights = np.exp(-(x**2) / (2 * float(square)))
    one = heights / fsum(heights)
    bell = one
    for _ in range(1, releases):
        bell = np.convolve(bell, one, "same")
    return bell


def summed_delta(epsilon: float, square: Fraction, releases: int, sensitivity: int) -> float:
    """The hockey-stick divergence by its definition: a sum over all outputs, of which the sum of draws tells all."""
    bell = bell_of_sum(square, releases)
    reach, moved = len(bell) // 2, releases * sensitivity
    terms = []
    for z in range(-reach + moved, reach + 1):
        log_ratio = float(Fraction(sensitivity * (2 * z - moved)) / (2 * square))
        if log_ratio > epsilon:
            terms.append(float(bell[z - moved + reach]) * -np.expm1(epsilon - log_ratio))
    return fsum(terms)


def enumerated_delta(epsilon: float, square: Fraction, releases: int, sensitivity: int) -> float:
    """The same over every single output of every release."""
    reach = ceil(9 * sqrt(float(square))) + sensitivity
    x = np.arange(-reach, reach + 1, dtype=np.float64)
    a, b = (np.exp(-((x - mean) ** 2) / (2 * float(square))) for mean in (sensitivity, 0))
    a, b = a / fsum(b), b / fsum(b)
    many_a, many_b = a, b
    for _ in range(1, releases):
        many_a, many_b = np.multiply.outer(many_a, a), np.multiply.outer(many_b, b)
    return float(np.maximum(many_a - exp(epsilon) * many_b, 0).sum())


EPSILONS = [0.0, 0.1, 0.5, 1.0, 3.0]
CASES = [(k, d, s) for k in (1, 2, 3, 10, 50) for d in (1, 2) for s in (Fraction(1), Fraction(5, 2), Fraction(20))]
WIDE = [(k, d, s) for k in (1, 2, 3, 10) for d in (1, 2) for s in (Fraction(100), Fraction(12_345, 7))]


def assert_never_below(
    accounting: Accounting, cases: list[tuple[int, int, Fraction]], epsilons: Sequence[float] = EPSILONS
) -> None:
    for releases, sensitivity, square in cases:
        for epsilon in epsilons:
            true = summed_delta(epsilon, square, releases, sensitivity)
            said = accounting(epsilon, square, releases, sensitivity)
            case = f"epsilon {epsilon}, square {square}, {releases} releases, sensitivity {sensitivity}"
            assert true < 1e-25 or said >= log(true) - 1e-13, f"too small a delta: {case}"


def assert_hardly_above(accounting: Accounting, cases: list[tuple[int, int, Fraction]], most: float) -> None:
    for releases, sensitivity, square in cases:
        for epsilon in EPSILONS:
            true = summed_delta(epsilon, square, releases, sensitivity)
            said = accounting(epsilon, square, releases, sensitivity)
            case = f"epsilon {epsilon}, square {square}, {releases} releases, sensitivity {sensitivity}"
            assert true < 1e-25 or said <= log(true) + log1p(most), f"too large a delta: {case}"


@pytest.mark.parametrize("sensitivity", [1, 2])
@pytest.mark.parametrize(("releases", "square"), [(1, Fraction(5, 2)), (2, Fraction(5, 2)), (3, Fraction(5, 2))])
@pytest.mark.parametrize("epsilon", [0.0, 0.4, 2.0])
def test_the_sum_of_the_numbers_tells_as_much_as_all_of_them(
    releases: int, square: Fraction, sensitivity: int, epsilon: float
) -> None:
    one_by_one = enumerated_delta(epsilon, square, releases, sensitivity)
    assert summed_delta(epsilon, square, releases, sensitivity) == pytest.approx(one_by_one, rel=1e-9)


@pytest.mark.slow
def test_the_delta_is_never_below_the_exact_sum() -> None:
    assert_never_below(log_delta, CASES + WIDE)


@pytest.mark.slow
def test_the_delta_is_at_most_2_percent_above_the_exact_sum_from_a_square_of_100_on() -> None:
    assert_hardly_above(log_delta, WIDE, 0.02)


@pytest.mark.slow
@settings(max_examples=60)
@given(
    st.floats(0, 6),
    st.fractions(1, 400, max_denominator=64),
    st.integers(1, 12),
    st.integers(1, 3),
)
def test_the_delta_of_any_case_is_never_below_the_exact_sum(
    epsilon: float, square: Fraction, releases: int, sensitivity: int
) -> None:
    true = summed_delta(epsilon, square, releases, sensitivity)
    assert true < 1e-25 or log_delta(epsilon, square, releases, sensitivity) >= log(true) - 1e-13


# --- wide noise, whose tails are bounded by integrals -----------------------------------------------------------------


def decimal_tail(first: int, square: int) -> Decimal:
    """``P(X >= first)`` of one discrete Gaussian to 35 digits, term by term."""
    step = _CONTEXT.exp(_CONTEXT.divide(Decimal(-1), Decimal(2 * square)))
    double, heights = _CONTEXT.multiply(step, step), [Decimal(1)]
    factor = step
    while heights[-1] > Decimal("1e-60"):
        heights.append(_CONTEXT.multiply(heights[-1], factor))
        factor = _CONTEXT.multiply(factor, double)
    tails, total = [], Decimal(0)
    for height in reversed(heights):
        total = _CONTEXT.add(total, height)
        tails.append(total)
    tails.reverse()
    whole = 2 * total - 1
    return _CONTEXT.divide(tails[first] if first > 0 else whole - tails[1 - first], whole)


@pytest.mark.slow
@pytest.mark.parametrize("first", [-700, 0, 1, 350, 599, 600, 601, 602, 1_500, 5_000])
def test_the_bounds_of_a_wide_tail_hold_it_between_them(first: int) -> None:
    true = float(_CONTEXT.ln(decimal_tail(first, 360_000)))
    low, high = (gaussian._log_tail(first, 600.0, upper=upper) for upper in (False, True))
    assert low <= true + 1e-14
    assert true - 1e-14 <= high
    assert high - low < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(("widths", "most"), [(0.5, 0.002), (3.0, 0.02), (6.0, 0.06)])
@pytest.mark.parametrize("width", [600, 2000])
def test_the_delta_of_wide_noise_is_never_below_the_exact_sum_and_hardly_above(
    width: int, widths: float, most: float
) -> None:
    """The outputs that count begin so many widths out. At 6 widths the delta is a difference of bounds, and 1e-13."""
    true = log(summed_delta(widths / width, Fraction(width**2), 1, 1))
    assert true - 1e-12 <= log_delta(widths / width, Fraction(width**2), 1) <= true + log1p(most)


# --- against concentrated privacy, and in itself ----------------------------------------------------------------------

squares = st.fractions(2, 10**6, max_denominator=2**16)
deltas = st.floats(1e-15, 1e-3)


def concentrated(square: Fraction, releases: int, delta: float) -> float:
    """The epsilon of ``rho = K/(2 s)`` of zero-concentrated privacy (Bun and Steinke 2016)."""
    rho = releases / (2 * float(square))
    return rho + 2 * sqrt(rho * log(1 / delta))


@settings(max_examples=40)
@given(squares, st.integers(1, 10_000), deltas)
def test_the_loss_is_below_that_of_concentrated_privacy(square: Fraction, releases: int, delta: float) -> None:
    assert loss(square, releases, delta) <= concentrated(square, releases, delta)


@pytest.mark.slow
@settings(max_examples=40)
@given(squares, st.integers(1, 1000), deltas)
def test_the_loss_grows_with_releases_and_falls_with_noise_and_delta(
    square: Fraction, releases: int, delta: float
) -> None:
    here = loss(square, releases, delta)
    assert loss(square, releases + 1, delta) >= here
    assert loss(square * Fraction(11, 10), releases, delta) <= here
    assert loss(square, releases, delta * 1.1) <= here * (1 + 1e-11)


@pytest.mark.slow
@settings(max_examples=40)
@given(squares, st.integers(1, 1000), deltas)
def test_the_loss_is_where_the_delta_is_met(square: Fraction, releases: int, delta: float) -> None:
    found = loss(square, releases, delta)
    assert log_delta(found, square, releases) <= log(delta)
    if found:
        assert log_delta(found * (1 - 1e-6), square, releases) > log(delta)


def test_no_release_loses_nothing() -> None:
    assert loss(Fraction(4), 0, 1e-9) == 0.0


def test_noise_below_the_least_square_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        log_delta(1.0, Fraction(1, 2), 1)


def test_so_large_an_epsilon_that_nothing_is_left_has_no_delta() -> None:
    assert log_delta(1e6, Fraction(4), 3) < -1000
    assert exp(log_delta(1e6, Fraction(4), 3)) == 0.0


@pytest.mark.slow
def test_a_hundred_thousand_releases_are_accounted_for_in_seconds() -> None:
    """In time of this process alone: 0.15 s on a machine that does nothing else."""
    start = process_time()
    found = loss(Fraction(10_000**2 + 1), 100_000, 1e-9)
    assert process_time() - start < 5.0
    assert 0 < found < inf


# --- planted bugs -----------------------------------------------------------------------------------------------------


BugIn = Callable[[pytest.MonkeyPatch], Accounting]


def one_release_less(_: pytest.MonkeyPatch) -> Accounting:
    """A planted bug: the convolution stops one release early, where there are several."""
    return lambda epsilon, square, releases, more: log_delta(epsilon, square, max(releases - 1, 1), more)


def an_output_left_out(monkeypatch: pytest.MonkeyPatch) -> Accounting:
    """A planted bug: the first output that counts is rounded to the other side, and left out."""
    monkeypatch.setattr(gaussian, "floor", lambda x: floor(x) + 1)
    return log_delta


def bounds_swapped(monkeypatch: pytest.MonkeyPatch) -> Accounting:
    """A planted bug: each probability is taken at the bound that is meant for the other."""
    tail = gaussian._log_tail
    monkeypatch.setattr(gaussian, "_log_tail", lambda first, width, upper: tail(first, width, upper=not upper))
    return log_delta


def no_growth(monkeypatch: pytest.MonkeyPatch) -> Accounting:
    """A planted bug: the second probability lacks its factor e^epsilon, and the delta comes out too large."""

    def accounting(epsilon: float, square: Fraction, releases: int, sensitivity: int) -> float:
        monkeypatch.setattr(gaussian, "expm1", lambda x: expm1(x - epsilon))
        return log_delta(epsilon, square, releases, sensitivity)

    return accounting


@pytest.mark.parametrize("bug", [one_release_less, an_output_left_out])
def test_a_delta_that_is_too_small_is_found(bug: BugIn, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="too small a delta"):
        assert_never_below(bug(monkeypatch), CASES)


def test_bounds_on_the_wrong_side_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="too small a delta"):
        assert_never_below(bounds_swapped(monkeypatch), [(1, 1, Fraction(600**2))], [3.0 / 600])


def test_a_forgotten_factor_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="too large a delta"):
        assert_hardly_above(no_growth(monkeypatch), WIDE, 0.02)
