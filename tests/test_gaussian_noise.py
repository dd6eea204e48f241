"""Draws of the discrete Gaussian against their exact law, another sampler, and what one round keeps."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache
from math import isqrt, prod, sqrt
from statistics import NormalDist

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from checks import ALARM
from panprivacy.privacy import exact, noise
from panprivacy.privacy.noise import Gaussian, discrete_gaussian
from panprivacy.testing import SeededCoins

Randbelow = Callable[[int], int]
Sampler = Callable[[Fraction, Randbelow], int]
DRAWS = 4_000
SQUARES = [Fraction(1), Fraction(5, 2), Fraction(10**4), Fraction(10**12)]


def edges_of(square: Fraction) -> list[int]:
    """The first integers of cells that are half a width wide, or one integer at least, out to two widths.

    Every cell then has 20 draws or more, as the chi-square test asks.
    """
    step = max(isqrt(int(square)) // 2, 1)
    most = 2 * isqrt(int(square)) // step
    return [step * i for i in range(-most, most + 1)]


@cache
def cells(square: Fraction) -> tuple[float, ...]:
    """The probabilities of the cells before, between and beyond the edges."""
    edges = edges_of(square)
    if square <= 10**6:
        reach = 12 * (isqrt(int(square)) + 1)
        x = np.arange(-reach, reach + 1, dtype=np.float64)
        heights = np.exp(-(x**2) / (2 * float(square)))
        parts = np.split(heights / heights.sum(), [edge + reach for edge in edges])
        return tuple(float(part.sum()) for part in parts)
    # The law is so smooth that a sum over integers is the integral, each integer reaching half a step either way.
    below = stats.norm.cdf((np.array(edges) - 0.5) / float(square) ** 0.5)
    return tuple(np.diff(below, prepend=0.0, append=1.0).tolist())


def counted(draws: Sequence[int], square: Fraction) -> NDArray[np.int64]:
    edges = edges_of(square)
    return np.bincount(np.searchsorted(edges, draws, side="right"), minlength=len(edges) + 1)


def assert_discrete_gaussian(draws: Sequence[int], square: Fraction) -> None:
    """Assert by a chi-square test that integers follow the law; false alarms are one in a million."""
    chance = stats.chisquare(counted(draws, square), len(draws) * np.array(cells(square))).pvalue
    assert chance > ALARM, f"chi-square rejects a discrete Gaussian of square {float(square):.6g}: {chance:.2g}"


def assert_unrelated(draws: Sequence[int], square: Fraction) -> None:
    """Assert that a draw and the next are not correlated more than by a chance of one in a million."""
    scaled = np.array(draws, dtype=float) / float(square) ** 0.5
    score = abs((scaled[1:] * scaled[:-1]).sum()) / (len(draws) - 1) ** 0.5
    assert score < stats.norm.isf(ALARM / 2), f"draws are related to the next ones: {score:.1f} standard errors"


def drawn(sampler: Sampler, square: Fraction, coins: SeededCoins) -> list[int]:
    return [sampler(square, coins.randbelow) for _ in range(DRAWS)]


@pytest.mark.slow
@pytest.mark.parametrize("square", SQUARES, ids=str)
def test_draws_follow_the_discrete_gaussian_law(square: Fraction, seeded: SeededCoins) -> None:
    draws = drawn(discrete_gaussian, square, seeded)
    assert_discrete_gaussian(draws, square)
    assert_unrelated(draws, square)


@pytest.mark.slow
def test_squares_of_many_bits_are_drawn_exactly_too(seeded: SeededCoins) -> None:
    square = Fraction(9 * 2**16 + 12_345, 2**16)
    assert_discrete_gaussian(drawn(discrete_gaussian, square, seeded), square)


@pytest.mark.slow
@pytest.mark.parametrize("square", [1, 25, 10**6])
def test_draws_agree_with_those_of_opendp(square: int, seeded: SeededCoins) -> None:
    """OpenDP draws from the operating system and cannot be seeded: this test fails by chance once in a million runs."""
    dp = pytest.importorskip("opendp.prelude", reason="opendp is the oracle")
    dp.enable_features("contrib")
    oracle = dp.m.make_gaussian(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=float(square) ** 0.5)
    ours = counted(drawn(discrete_gaussian, Fraction(square), seeded), Fraction(square))
    theirs = counted([oracle(0) for _ in range(DRAWS)], Fraction(square))
    assert stats.chi2_contingency(np.array([ours, theirs])).pvalue > ALARM


# --- planted bugs ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("factor", [Fraction(7, 10), Fraction(13, 10)])
@pytest.mark.parametrize("square", SQUARES, ids=str)
def test_a_variance_that_is_30_percent_off_is_rejected(square: Fraction, factor: Fraction, seeded: SeededCoins) -> None:
    with pytest.raises(AssertionError, match="chi-square"):
        assert_discrete_gaussian(drawn(discrete_gaussian, factor * square, seeded), square)


def rounded(square: Fraction, randbelow: Randbelow) -> int:
    """A planted bug: a continuous Gaussian, rounded. Its variance is larger by 1/12, which shows at small squares."""
    uniform = (randbelow(2**53) + 0.5) / 2**53
    return round(NormalDist(sigma=sqrt(square)).inv_cdf(uniform))


@pytest.mark.slow
def test_a_rounded_continuous_gaussian_is_rejected_where_it_differs(seeded: SeededCoins) -> None:
    square = Fraction(1)
    draws = [rounded(square, seeded.randbelow) for _ in range(5 * DRAWS)]
    with pytest.raises(AssertionError, match="chi-square"):
        assert_discrete_gaussian(draws, square)
    assert_discrete_gaussian([discrete_gaussian(square, seeded.randbelow) for _ in range(5 * DRAWS)], square)


@pytest.mark.slow
def test_a_draw_that_is_used_again_is_rejected(seeded: SeededCoins) -> None:
    square = Fraction(5, 2)
    twice = [draw for draw in drawn(discrete_gaussian, square, seeded)[: DRAWS // 2] for _ in range(2)]
    with pytest.raises(AssertionError, match="related"):
        assert_unrelated(twice, square)


# --- one round of the sampler ---------------------------------------------------------------------------------------


def kept_in_one_round(sampler: Sampler, square: Fraction, monkeypatch: pytest.MonkeyPatch) -> dict[int, Decimal]:
    """The probability of each number to be drawn and kept, for Laplace draws up to 60.

    Rounds are alike and independent of each other, so what is kept in one has the law of what is returned. Laplace
    draws and the exponential coin, whose exactness test_noise.py shows, are taken as one choice each.
    """
    kept: dict[int, Decimal] = {}
    for laplace in range(-60, 61):
        chances: list[Decimal] = []

        def draw(epsilon: Fraction, _: Randbelow, laplace: int = laplace, chances: list[Decimal] = chances) -> int:
            a = exact.exp(exact.decimal(-epsilon))
            chances.append((1 - a) / (1 + a) * a ** abs(laplace))
            return laplace

        def keep(above: int, below: int, _: Randbelow, chances: list[Decimal] = chances) -> bool:
            chances.append(exact.exp(exact.decimal(-Fraction(above, below))))
            return True

        monkeypatch.setattr(noise, "discrete_laplace", draw)
        monkeypatch.setattr(noise, "_bernoulli_exp", keep)
        number = sampler(square, lambda n: n - 1)
        kept[number] = prod(chances, start=Decimal(1))
    return kept


def assert_sampler_is_exact(sampler: Sampler, square: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = kept_in_one_round(sampler, square, monkeypatch)
    for x in range(-30, 31):
        height = exact.exp(exact.decimal(-Fraction(x * x) / (2 * square)))
        assert abs(kept[x] / (kept[0] * height) - 1) < Decimal("1e-20"), f"outcome {x} is wrong"


@pytest.mark.parametrize(
    "square", [Fraction(1, 2), Fraction(1), Fraction(5, 2), Fraction(100), Fraction(10**12)], ids=str
)
def test_what_a_round_of_the_sampler_keeps_has_the_discrete_gaussian_law(
    square: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_sampler_is_exact(discrete_gaussian, square, monkeypatch)


def narrow(square: Fraction, randbelow: Randbelow) -> int:
    """A planted bug: a square that is 30 % too small."""
    return discrete_gaussian(square * 7 / 10, randbelow)


def shifted(square: Fraction, randbelow: Randbelow) -> int:
    """A planted bug: numbers are one too large."""
    return discrete_gaussian(square, randbelow) + 1


def never_rejected(square: Fraction, randbelow: Randbelow) -> int:
    """A planted bug: what is drawn from the Laplace law is always kept."""
    return noise.discrete_laplace(Fraction(1, isqrt(int(square)) + 1), randbelow)


@pytest.mark.parametrize("bug", [narrow, shifted, never_rejected])
def test_the_enumeration_finds_a_wrong_sampler(bug: Sampler, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="outcome"):
        assert_sampler_is_exact(bug, Fraction(1), monkeypatch)


# --- what a law says of itself --------------------------------------------------------------------------------------


@pytest.mark.parametrize("square", [1, 2, 5, 100])
def test_the_variance_is_no_more_than_the_square_and_hardly_less(square: int) -> None:
    x = np.arange(-20 * square - 20, 20 * square + 21, dtype=float)
    heights = np.exp(-(x**2) / (2 * square))
    summed = float((x**2 * heights).sum() / heights.sum())
    law = Gaussian(Fraction(square))
    assert summed <= law.variance * (1 + 1e-12)
    assert law.variance == pytest.approx(summed, rel=1e-6)


@pytest.mark.parametrize("square", [Fraction(0), Fraction(-1, 2)])
def test_noise_without_a_positive_square_is_refused(square: Fraction, seeded: SeededCoins) -> None:
    with pytest.raises(ValueError, match="square above 0"):
        discrete_gaussian(square, seeded.randbelow)
