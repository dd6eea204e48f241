from decimal import Decimal
from fractions import Fraction
from math import exp, log, nextafter, tanh

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panprivacy.privacy import exact
from panprivacy.privacy.coins import ONE
from panprivacy.privacy.pairs import Pair, dwork, response, symmetric
from panprivacy.testing import refused

EPSILONS = st.floats(1e-6, 22.0)


@pytest.mark.slow
@given(epsilon=EPSILONS, c=st.floats(0.01, 0.5))
def test_the_symmetric_pair_never_loses_more_than_it_was_given(epsilon: float, c: float) -> None:
    assert symmetric(epsilon, c).exact_loss <= exact.decimal(epsilon)


@given(epsilon=st.floats(1e-4, 15.0))
def test_the_symmetric_pair_spends_all_it_was_given_but_a_rounding(epsilon: float) -> None:
    pair = symmetric(epsilon)
    one_step = 2 / (ONE * float(pair.p0) * float(pair.p1))  # what moving both thresholds by one changes the loss by
    assert epsilon - one_step <= pair.loss <= epsilon


@given(epsilon=EPSILONS)
def test_the_symmetric_pair_is_tight_on_both_sides(epsilon: float) -> None:
    pair = symmetric(epsilon)
    assert pair.p0 == 1 - pair.p1
    assert pair.p1 / pair.p0 == (1 - pair.p0) / (1 - pair.p1) == pair.ratio


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("c", [0.1, 0.3, 0.5])
def test_the_symmetric_pair_is_the_papers_formula(epsilon: float, c: float) -> None:
    pair = symmetric(epsilon, c)
    assert float(pair.p0) == pytest.approx(c * (1 - tanh(epsilon / 2)), abs=2**-31)
    assert float(pair.p1) == pytest.approx(c * (1 + tanh(epsilon / 2)), abs=2**-31)


@pytest.mark.slow
@given(epsilon=st.floats(0.05, 3.0), c=st.floats(0.05, 0.5), density=st.floats(0, 1))
def test_no_other_pair_of_the_family_has_less_variance(epsilon: float, c: float, density: float) -> None:
    def variance(pair: Pair) -> float:
        p0, p1 = float(pair.p0), float(pair.p1)
        return (density * p1 * (1 - p1) + (1 - density) * p0 * (1 - p0)) / pair.gap**2

    assert variance(symmetric(epsilon)) <= variance(symmetric(epsilon, c)) * (1 + 1e-6)


@pytest.mark.parametrize("c", [nextafter(0.5, 1), 0.6, 0.8, 2.0])
def test_c_above_one_half_is_refused_because_it_is_not_private(c: float) -> None:
    with refused("centre-too-high"):
        symmetric(0.5, c)


def test_the_papers_c_of_four_fifths_would_lose_4_58_at_epsilon_one_half() -> None:
    p0, p1 = 0.8 * (1 - tanh(0.25)), 0.8 * (1 + tanh(0.25))
    assert Pair(round(p0 * ONE), round(p1 * ONE)).loss == pytest.approx(4.58, abs=0.01)


@pytest.mark.parametrize("c", [0.0, -0.1])
def test_c_must_be_positive(c: float) -> None:
    with refused("c-range"):
        symmetric(0.5, c)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("inf"), float("nan")])
def test_an_epsilon_that_is_not_positive_and_finite_is_refused(epsilon: float) -> None:
    with refused("epsilon-range", "1,000,000"):
        symmetric(epsilon)


def test_an_epsilon_too_small_for_32_bits_is_refused_instead_of_giving_equal_coins() -> None:
    with refused("epsilon-too-small"):
        symmetric(1e-10)


def test_an_epsilon_beyond_what_32_bits_hold_gives_the_surest_coins_there_are() -> None:
    assert symmetric(200.0) == Pair(1, ONE - 1)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 1.9])
def test_dworks_pair_is_as_printed_and_spends_less_than_it_is_given(epsilon: float) -> None:
    pair = dwork(epsilon)
    assert pair.p0 == Fraction(1, 2)
    assert float(pair.p1) == pytest.approx(0.5 + epsilon / 4, abs=2**-31)
    assert pair.loss == pytest.approx(-log(1 - epsilon / 2), abs=1e-6)
    assert pair.loss > epsilon / 2


@pytest.mark.parametrize("epsilon", [0.0, 2.0, 3.0, float("nan")])
def test_dworks_pair_exists_below_epsilon_two_only(epsilon: float) -> None:
    with refused("epsilon-range"):
        dwork(epsilon)


@given(absent=st.integers(1, ONE - 1), present=st.integers(1, ONE - 1))
def test_the_loss_is_that_of_the_formula_and_is_rounded_up(absent: int, present: int) -> None:
    pair = Pair(absent, present)
    p0, p1 = absent / ONE, present / ONE
    formula = max(abs(log(p1 / p0)), abs(log((1 - p0) / (1 - p1))))
    assert pair.loss == pytest.approx(formula, rel=1e-6, abs=1e-9)
    assert Decimal(pair.loss) >= pair.exact_loss


@pytest.mark.parametrize(("absent", "present"), [(0, 5), (5, ONE), (-1, 5), (ONE, 1)])
def test_a_pair_with_a_certain_coin_is_refused(absent: int, present: int) -> None:
    with pytest.raises(ValueError, match="threshold"):
        Pair(absent, present)


@pytest.mark.slow
@given(epsilon=st.floats(0.001, 20.0), redraw=st.floats(0.001, 20.0))
def test_a_bit_seen_through_randomised_response_has_the_shrunken_pair(epsilon: float, redraw: float) -> None:
    pair, flip = symmetric(epsilon), response(redraw)
    seen, q = pair.after_randomized_response(flip), Fraction(flip, ONE)
    for after, before in ((seen.p0, pair.p0), (seen.p1, pair.p1)):
        exactly = before * (1 - q) + (1 - before) * q
        assert abs(after - exactly) < Fraction(1, ONE)
        assert abs(after - Fraction(1, 2)) <= abs(exactly - Fraction(1, 2))
    assert seen.exact_loss <= min(pair.exact_loss, exact.decimal(redraw))


@pytest.mark.slow
@given(epsilon=st.floats(0.001, 22.0))
def test_randomised_response_loses_at_most_what_was_asked(epsilon: float) -> None:
    flip = response(epsilon)
    assert exact.ln(exact.decimal(Fraction(ONE - flip, flip))) <= exact.decimal(epsilon)
    assert flip / ONE == pytest.approx(1 / (1 + exp(epsilon)), abs=2**-31)
