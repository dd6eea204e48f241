import heapq
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import count
from math import inf

import numpy as np
import pytest
from scipy import stats

from checks import ALARM, assert_discrete_laplace
from panprivacy.privacy import exact, noise
from panprivacy.privacy.noise import discrete_laplace
from panprivacy.testing import SeededCoins

Randbelow = Callable[[int], int]
Sampler = Callable[[Fraction, Randbelow], int]
Program = Callable[["Branch"], int]


class OpenEndError(Exception):
    """A program asked for one more choice than its branch has made."""

    def __init__(self, weights: list[Decimal]) -> None:
        self.weights = weights


class Branch:
    """One way through a program that makes random choices."""

    def __init__(self, choices: tuple[int, ...]) -> None:
        self._choices = iter(choices)

    def choose(self, weights: list[Decimal]) -> int:
        """The choice that this branch makes among outcomes of these probabilities."""
        for choice in self._choices:
            return choice
        raise OpenEndError(weights)

    def randbelow(self, n: int) -> int:
        """A uniform integer."""
        return self.choose([exact.decimal(Fraction(1, n))] * n)

    def bernoulli_exp(self, above: int, below: int, _: object) -> bool:
        """A coin of probability ``exp(-above/below)``."""
        p = exact.exp(-exact.decimal(Fraction(above, below)))
        return self.choose([p, 1 - p]) == 0


def outcomes(program: Program, unexplored: str) -> dict[int, Decimal]:
    """Follow every branch of a program, the likeliest first, until what is left has less than this probability.

    The result is a lower bound of each outcome's probability, to 28 digits.
    """
    masses: dict[int, Decimal] = {}
    order = count()
    open_ends: list[tuple[Decimal, int, tuple[int, ...]]] = [(Decimal(-1), next(order), ())]
    left = Decimal(1)
    while left > Decimal(unexplored):
        negative, _, choices = heapq.heappop(open_ends)
        try:
            outcome = program(Branch(choices))
        except OpenEndError as end:
            for choice, weight in enumerate(end.weights):
                heapq.heappush(open_ends, (negative * weight, next(order), (*choices, choice)))
        else:
            masses[outcome] = masses.get(outcome, Decimal(0)) - negative
            left += negative
    return masses


def assert_law(masses: dict[int, Decimal], pmf: Callable[[int], Decimal]) -> None:
    """Assert that no outcome has more mass than it should, and none lacks more than was left unexplored."""
    left = 1 - sum(masses.values())
    for x in range(min(masses), max(masses) + 1):
        assert masses.get(x, 0) <= pmf(x) + Decimal("1e-20"), f"outcome {x} is too likely"
        assert pmf(x) <= masses.get(x, 0) + left + Decimal("1e-20"), f"outcome {x} is too rare"


GAMMAS = [Fraction(0), Fraction(1, 5), Fraction(1, 2), Fraction(2, 3), Fraction(1)]


def assert_coin_is_exact(coin: Callable[[int, int, Randbelow], bool], gamma: Fraction) -> None:
    p = exact.exp(-exact.decimal(gamma))
    ratio = gamma.as_integer_ratio()
    assert_law(outcomes(lambda b: coin(*ratio, b.randbelow), unexplored="0.002"), lambda x: p if x else 1 - p)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_every_branch_of_the_exponential_coin_adds_up_to_its_probability(gamma: Fraction) -> None:
    assert_coin_is_exact(noise._bernoulli_exp, gamma)


def assert_sampler_is_exact(sampler: Sampler, epsilon: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Follow the sampler with its coin, whose exactness is shown above, as one choice."""
    a = exact.exp(-exact.decimal(epsilon))

    def draw(branch: Branch) -> int:
        monkeypatch.setattr(noise, "_bernoulli_exp", branch.bernoulli_exp)
        return sampler(epsilon, branch.randbelow)

    unexplored = "0.01" if 1 in (epsilon.numerator, epsilon.denominator) else "0.1"  # more branches are too many
    assert_law(outcomes(draw, unexplored), lambda x: (1 - a) / (1 + a) * a ** abs(x))


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 2), Fraction(2), Fraction(2, 3)])
def test_every_branch_of_the_sampler_adds_up_to_the_discrete_laplace_law(
    epsilon: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_sampler_is_exact(discrete_laplace, epsilon, monkeypatch)


def both_zeros(epsilon: Fraction, randbelow: Randbelow) -> int:
    """A planted bug: zero is kept with either sign, and comes out twice as often as it should."""
    size = noise._exponential_floor(epsilon, randbelow)
    return -size if randbelow(2) else size


def shifted(epsilon: Fraction, randbelow: Randbelow) -> int:
    """A planted bug: half of the numbers are one too large."""
    return discrete_laplace(epsilon, randbelow) + randbelow(2)


def narrow(_: Fraction, randbelow: Randbelow) -> int:
    """A planted bug: noise of epsilon 1 whatever was asked."""
    return discrete_laplace(Fraction(1), randbelow)


@pytest.mark.slow
@pytest.mark.parametrize("bug", [both_zeros, shifted, narrow])
def test_the_enumeration_finds_a_wrong_sampler(bug: Sampler, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="outcome"):
        assert_sampler_is_exact(bug, Fraction(1, 2), monkeypatch)


def test_the_enumeration_finds_a_wrong_coin() -> None:
    with pytest.raises(AssertionError, match="outcome"):
        assert_coin_is_exact(lambda above, below, randbelow: randbelow(2 * below) >= above, Fraction(2, 3))


EPSILONS = [Fraction(1, 10), Fraction(371, 2**9), Fraction(7, 2)]


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_draws_follow_the_discrete_laplace_law(epsilon: Fraction, seeded: SeededCoins) -> None:
    assert_discrete_laplace([discrete_laplace(epsilon, seeded.randbelow) for _ in range(3_000)], epsilon)


@pytest.mark.slow
@pytest.mark.parametrize("factor", [Fraction(10, 13), Fraction(13, 10)])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_scale_that_is_30_percent_off_is_rejected(epsilon: Fraction, factor: Fraction, seeded: SeededCoins) -> None:
    draws = [discrete_laplace(epsilon * factor, seeded.randbelow) for _ in range(3_000)]
    with pytest.raises(AssertionError):
        assert_discrete_laplace(draws, epsilon)


@pytest.mark.slow
def test_epsilons_of_40_bits_are_drawn_exactly_too(seeded: SeededCoins) -> None:
    epsilon = Fraction(2**38 + 12_345, 2**40)
    assert_discrete_laplace([discrete_laplace(epsilon, seeded.randbelow) for _ in range(3_000)], epsilon)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_draws_agree_with_those_of_opendp(epsilon: float, seeded: SeededCoins) -> None:
    """OpenDP draws from the operating system and cannot be seeded: this test fails by chance once in a million runs."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    oracle = dp.m.make_laplace(*space, scale=1 / epsilon)
    draws = 4_000
    reach = int(4 / epsilon)
    ours, theirs = (
        np.bincount(np.clip(sample, -reach, reach) + reach, minlength=2 * reach + 1)
        for sample in (
            [discrete_laplace(Fraction(epsilon), seeded.randbelow) for _ in range(draws)],
            [oracle(0) for _ in range(draws)],
        )
    )
    assert stats.chi2_contingency(np.array([ours, theirs])).pvalue > ALARM


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 5.0, 30.0])
def test_the_variance_is_that_of_the_law(epsilon: float) -> None:
    x = np.arange(1, int(60 / epsilon) + 2, dtype=float)
    a = np.exp(-epsilon)
    summed = 2 * (1 - a) / (1 + a) * (x**2 * a**x).sum()
    assert noise.variance(epsilon) == pytest.approx(summed, rel=1e-9)


@pytest.mark.parametrize("epsilon", [600.0, 699.9, 700.0, 5_000.0])
def test_the_variance_of_hardly_any_noise_is_hardly_anything(epsilon: float) -> None:
    assert 0 <= noise.variance(epsilon) < 1e-250


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(-1, 2)])
def test_noise_without_a_positive_epsilon_is_refused(epsilon: Fraction, seeded: SeededCoins) -> None:
    with pytest.raises(ValueError, match="epsilon > 0"):
        discrete_laplace(epsilon, seeded.randbelow)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 1000])
def test_seeded_integers_are_uniform(n: int, seeded: SeededCoins) -> None:
    counts = np.bincount([seeded.randbelow(n) for _ in range(20 * n + 1000)], minlength=n)
    assert len(counts) == n
    assert n == 1 or stats.chisquare(counts).pvalue > ALARM


def test_exact_logarithms_are_rounded_up() -> None:
    for value in (Fraction(1, 3), Fraction(7), Fraction(2**31 + 1, 2**31)):
        digits = exact.decimal(value)
        assert Decimal(exact.round_up(exact.ln(digits))) >= exact.ln(digits)
    assert exact.round_up(Decimal("1e999")) == inf
