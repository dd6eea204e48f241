"""The samplers that leave no trace: exact in every branch, the same when compiled, and wiped."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from checks import ALARM, assert_discrete_laplace
from panprivacy.memory.scratch import Scratch
from panprivacy.privacy import coins, exact, kernels, noisy_counts
from panprivacy.privacy.coins import SystemCoins
from panprivacy.privacy.noise import Gaussian, Laplace, Noise
from panprivacy.privacy.noisy_counts import add_from_system, add_kept_noise, add_noise, reaches
from panprivacy.testing import SeededCoins
from test_gaussian_noise import assert_discrete_gaussian
from test_noise import Branch, assert_law, outcomes

u64 = np.uint64
LOOPS = [
    "below",
    "exponential_coin",
    "laplace",
    "_set",
    "_multiply",
    "_reaches",
    "_subtract",
    "quotient_coin",
    "_large_coin",
    "gaussian",
]
NOTHING = (None, None)
"""Words and their position, for loops whose randomness is a branch."""
LAWS: list[Noise] = [
    Laplace(Fraction(1, 2)),
    Laplace(Fraction(12_345, 2**40)),
    Laplace(Fraction(7, 2)),
    Gaussian(Fraction(5, 2)),
    Gaussian(Fraction(9 * 2**16 + 12_345, 2**16)),
    Gaussian(Fraction(10**12)),
    Gaussian(Fraction(2**63 - 1, 2**16)),
]


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The loops as Python runs them, each of which may be replaced."""
    for name in LOOPS:
        monkeypatch.setattr(kernels, name, getattr(kernels, name).py_func)
    with np.errstate(over="ignore"):  # a borrow is a word that wraps
        yield kernels


def limbs(number: int) -> NDArray[np.uint64]:
    return np.array([number >> 32 * i & 2**32 - 1 for i in range(kernels.LIMBS)], dtype=np.uint64)


def number_of(digits: NDArray[np.uint64]) -> int:
    return sum(int(digit) << 32 * i for i, digit in enumerate(digits))


def as_choices(branch: Branch, patch: pytest.MonkeyPatch, *, coins_too: bool) -> None:
    """Let a branch decide on uniform integers, and on exponential coins if those are taken as one choice."""
    patch.setattr(kernels, "below", lambda _, __, n: u64(branch.randbelow(int(n))))
    if coins_too:
        coin = branch.bernoulli_exp
        patch.setattr(kernels, "exponential_coin", lambda _, __, part, steps: coin(int(part), int(steps), None))


# --- every branch ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(1, 5), Fraction(1, 2), Fraction(2, 3), Fraction(1)])
def test_every_branch_of_the_exponential_coin_adds_up_to_its_probability(
    gamma: Fraction, plain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = exact.exp(-exact.decimal(gamma))

    def flip(branch: Branch) -> int:
        as_choices(branch, monkeypatch, coins_too=False)
        return int(plain.exponential_coin(*NOTHING, u64(gamma.numerator), u64(gamma.denominator)))

    assert_law(outcomes(flip, "0.002"), lambda x: p if x else 1 - p)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 2), Fraction(2), Fraction(2, 3)])
def test_every_branch_of_the_sampler_adds_up_to_the_discrete_laplace_law(
    epsilon: Fraction, plain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = exact.exp(-exact.decimal(epsilon))

    def draw(branch: Branch) -> int:
        as_choices(branch, monkeypatch, coins_too=True)
        return int(plain.laplace(*NOTHING, u64(epsilon.numerator), u64(epsilon.denominator)))

    unexplored = "0.01" if 1 in (epsilon.numerator, epsilon.denominator) else "0.1"
    assert_law(outcomes(draw, unexplored), lambda x: (1 - a) / (1 + a) * a ** abs(x))


@pytest.mark.parametrize(("dividend", "divisor"), [(0, 7), (1, 3), (2**128 + 1, 3 * 2**127), (7, 7)])
def test_a_quotient_is_compared_with_random_bits(
    dividend: int, divisor: int, plain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = exact.decimal(Fraction(dividend, divisor))

    def flip(branch: Branch) -> int:
        as_choices(branch, monkeypatch, coins_too=False)
        return int(plain.quotient_coin(*NOTHING, limbs(dividend), limbs(divisor), limbs(0)))

    assert_law(outcomes(flip, "1e-9"), lambda x: p if x else 1 - p)


@pytest.mark.parametrize("gamma", [Fraction(1, 3), Fraction(1), Fraction(7, 2)])
def test_every_branch_of_the_large_coin_adds_up_to_its_probability(
    gamma: Fraction, plain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = exact.exp(-exact.decimal(gamma))

    def quotient(branch: Branch) -> Callable[..., bool]:
        def coin(_: Any, __: Any, dividend: Any, divisor: Any, ___: Any) -> bool:
            chance = exact.decimal(Fraction(number_of(dividend), number_of(divisor)))
            return branch.choose([chance, Decimal(1) - chance]) == 0

        return coin

    def flip(branch: Branch) -> int:
        as_choices(branch, monkeypatch, coins_too=True)
        monkeypatch.setattr(kernels, "quotient_coin", quotient(branch))
        return int(plain._large_coin(*NOTHING, limbs(gamma.numerator), limbs(gamma.denominator), limbs(0)))

    assert_law(outcomes(flip, "0.001"), lambda x: p if x else 1 - p)


@pytest.mark.parametrize("law", [law for law in LAWS if isinstance(law, Gaussian)], ids=str)
def test_a_number_of_the_laplace_law_is_kept_with_the_probability_of_the_gaussian(
    law: Gaussian, plain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    square, asked = law.square, []
    width = isqrt(int(square)) + 1

    def keep(_: Any, __: Any, dividend: Any, divisor: Any, ___: Any) -> bool:
        asked.append(Fraction(number_of(dividend), number_of(divisor)))
        return True

    monkeypatch.setattr(kernels, "_large_coin", keep)
    divisor = limbs(2 * square.numerator * square.denominator * width**2)
    for drawn in (0, 1, -3, width, -40 * width - 7, 2**46):
        monkeypatch.setattr(kernels, "laplace", lambda *_, drawn=drawn: drawn)
        parameters = (u64(square.numerator), u64(square.denominator), u64(width), divisor, np.zeros(24, dtype=u64))
        assert plain.gaussian(*NOTHING, *parameters) == drawn
        assert asked.pop() == (abs(drawn) - square / width) ** 2 / (2 * square)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 100])
def test_integers_are_the_words_that_are_small_enough(n: int) -> None:
    bits = (n - 1).bit_length()
    words = np.arange(2**bits, dtype=np.uint64) | u64(2**60)  # what is beyond the bits of n does not matter
    at, drawn = np.zeros(3, dtype=np.int64), []
    for _ in range(n):
        drawn.append(int(kernels.below(words, at, u64(n))))
    assert drawn == list(range(n))
    if n > 1:
        with pytest.raises(IndexError):
            kernels.below(words, at, u64(n))


# --- as it is compiled and used -------------------------------------------------------------------------------------


class Words:
    """Random words of a seed, in the place of the system's; what was handed out is kept for a look."""

    def __init__(self, seed: int) -> None:
        self._random, self.given = np.random.default_rng(seed), list[Any]()

    def fill(self, buffer: Any) -> None:
        words = np.frombuffer(buffer, dtype=np.uint64)
        words[:] = self._random.integers(0, 2**64, len(words), dtype=np.uint64)
        self.given.append(words)


def drawn(noise: Noise, n: int, seed: int, patch: pytest.MonkeyPatch, each: int = 64) -> NDArray[np.int64]:
    patch.setattr(coins, "fill_from_system", Words(seed).fill)
    patch.setattr(noisy_counts, "_WORDS_EACH", each)
    counts = np.zeros(n, dtype=np.int64)
    add_from_system(counts, noise)
    return counts


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_what_is_compiled_is_what_python_runs(law: Noise, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = drawn(law, 30, 5, monkeypatch)
    for name in [*LOOPS, "add_laplace", "add_gaussian"]:
        monkeypatch.setattr(kernels, name, getattr(kernels, name).py_func)

    def unsigned(add: Callable[..., None]) -> Callable[..., None]:
        return lambda *given: add(*(u64(each) if isinstance(each, int) else each for each in given))

    for name in ("add_laplace", "add_gaussian"):
        monkeypatch.setattr(kernels, name, unsigned(getattr(kernels, name)))
    with np.errstate(over="ignore"):
        assert drawn(law, 30, 5, monkeypatch).tolist() == compiled.tolist()


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_how_many_words_there_are_at_first_does_not_matter(law: Noise, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever began again with other words would draw long ways too rarely."""
    plenty = drawn(law, 1, 8, monkeypatch, each=10**4)
    assert drawn(law, 1, 8, monkeypatch, each=1).tolist() == plenty.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("law", [LAWS[0], LAWS[2]], ids=str)
def test_draws_follow_the_discrete_laplace_law(law: Laplace, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = drawn(law, 3000, 1, monkeypatch, each=20).tolist()
    assert_discrete_laplace(numbers, law.epsilon)


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.0, 1 / 1.3, 1.3])
def test_draws_of_a_wide_law_are_those_of_the_continuous_one(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    law = LAWS[1]
    assert isinstance(law, Laplace)
    numbers = drawn(law, 3000, 1, monkeypatch, each=20) * float(law.epsilon) * factor
    assert (stats.kstest(numbers, stats.laplace.cdf).pvalue > ALARM) == (factor == 1.0)


@pytest.mark.slow
def test_a_laplace_law_that_is_30_percent_off_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    law = Laplace(Fraction(1, 2))
    with pytest.raises(AssertionError):
        assert_discrete_laplace(drawn(law, 3000, 1, monkeypatch).tolist(), law.epsilon * 13 / 10)


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS[3:6], ids=str)
def test_draws_follow_the_discrete_gaussian_law(law: Gaussian, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = drawn(law, 4000, 2, monkeypatch, each=20).tolist()
    assert_discrete_gaussian(numbers, law.square)
    with pytest.raises(AssertionError, match="chi-square"):
        assert_discrete_gaussian(numbers, law.square * 13 / 10)


def test_random_words_are_wiped_also_where_they_were_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    words = Words(3)
    monkeypatch.setattr(coins, "fill_from_system", words.fill)
    monkeypatch.setattr(noisy_counts, "_WORDS_EACH", 2)
    add_from_system(np.zeros(5, dtype=np.int64), LAWS[4])
    assert len(words.given) > 1
    assert not any(each.any() for each in words.given)


def test_words_are_wiped_if_somebody_breaks_off(monkeypatch: pytest.MonkeyPatch) -> None:
    words = Words(3)
    monkeypatch.setattr(coins, "fill_from_system", words.fill)
    monkeypatch.setattr(kernels, "add_laplace", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        add_from_system(np.zeros(5, dtype=np.int64), LAWS[0])
    assert not words.given[0].any()


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (Laplace(Fraction(0)), "epsilon > 0"),
        (Laplace(Fraction(1, 2**41)), "steps of 2\\*\\*-40"),
        (Gaussian(Fraction(0)), "square above 0"),
        (Gaussian(Fraction(2**64)), "at most 63 bits"),
        (Gaussian(Fraction(1, 2**47)), "at most 63 bits"),
    ],
)
def test_noise_that_cannot_be_drawn_so_is_refused(law: Noise, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        add_noise(np.zeros(1, dtype=np.int64), law, SystemCoins())


# --- other coins ----------------------------------------------------------------------------------------------------


def test_seeded_coins_draw_as_they_always_have() -> None:
    seeded, counts = SeededCoins(4), np.array([10, 20, 30])
    add_noise(counts, LAWS[0], SeededCoins(4))
    assert counts.tolist() == [seeded.noisy(count, LAWS[0]) for count in (10, 20, 30)]


def test_kept_noise_and_tests_of_seeded_coins_are_those_of_their_own_methods() -> None:
    seeded, walk = SeededCoins(4), np.array([7])
    add_kept_noise(walk, LAWS[0], SeededCoins(4))
    assert walk.item() == seeded.noisy_inside(7, LAWS[0])
    for bar in range(-3, 4):
        found = reaches(np.array([0]), np.array([bar]), LAWS[0], SeededCoins(bar + 9))
        assert found == SeededCoins(bar + 9).reaches(0, bar, LAWS[0])


@pytest.mark.parametrize(("bar", "reached"), [(10**6 - 10**5, True), (10**6 + 10**5, False)])
def test_a_number_far_from_the_bar_is_where_it_is(bar: int, reached: bool) -> None:
    with Scratch() as scratch:
        number = scratch.own(np.array([10**6]))
        assert reaches(number, np.array([bar]), LAWS[0], SystemCoins()) is reached


def test_coins_of_the_system_with_noise_of_their_own_are_asked_for_it() -> None:
    class Without(SystemCoins):
        def noisy(self, value: int, noise: Noise) -> int:  # noqa: ARG002
            return value

    counts = np.array([5, 6])
    add_noise(counts, LAWS[1], Without())
    assert counts.tolist() == [5, 6]
