"""Real numbers instead of bits."""

from math import exp, log

import numpy as np
import pytest
from exact_laws import SILENT, law
from numpy.typing import NDArray
from simulated import DENSITIES, STREAMS, USERS, estimates

from checks import assert_variance
from panprivacy import theory
from panprivacy.paper import Continuous
from panprivacy.paper.mechanisms import digit_coins, discrete_laplace_many
from panprivacy.privacy.coins import ONE, Coins
from panprivacy.testing import SeededCoins, refused

pytestmark = pytest.mark.filterwarnings(SILENT)


def difference_law(digits: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The law of the drawn numbers from the integers of their coins: digit by digit, a step of +-2**i or none."""
    reach = 2 ** len(digits) - 1
    chances = np.zeros(2 * reach + 1)
    chances[reach] = 1
    for i, threshold in enumerate(digits):
        one = threshold / ONE * (1 - threshold / ONE)
        up, down = np.roll(chances, 2**i), np.roll(chances, -(2**i))  # too short to wrap
        chances = (1 - 2 * one) * chances + one * (up + down)
    return np.arange(-reach, reach + 1), chances


@pytest.mark.parametrize("rate", [0.001, 0.05, 1.0, 3.0])
def test_the_digits_make_a_discrete_laplace_law(rate: float) -> None:
    values, chances = difference_law(digit_coins(rate))
    a = exp(-rate)
    near = np.abs(values) <= 8 / rate
    exact = (1 - a) / (1 + a) * a ** np.abs(values[near]).astype(float)
    np.testing.assert_allclose(chances[near], exact, rtol=1e-4)


def test_numbers_are_drawn_by_that_law() -> None:
    """Exactly, under every outcome of four coins."""
    digits = (ONE // 3, ONE // 10)
    values, chances = difference_law(digits)
    found = law(lambda coins: int(discrete_laplace_many(1, digits, coins)[0]))
    assert [float(found[value]) for value in values.tolist()] == pytest.approx(chances.tolist())


@pytest.mark.parametrize("epsilon", [0.05, 0.1, 0.5, 1.0])
def test_the_state_loses_epsilon(epsilon: float) -> None:
    grid = 256
    values, chances = difference_law(digit_coins(epsilon / grid))
    reach = int(10 * grid / epsilon)

    def cut(centre: int) -> NDArray[np.float64]:
        places = np.clip(values + centre, -reach, grid + reach) + reach
        return np.bincount(places, weights=chances).astype(np.float64)

    loss = np.abs(np.log(cut(0) / cut(grid))).max()
    assert loss == pytest.approx(epsilon, rel=1e-5)


def test_appearing_moves_the_centre_by_one_and_a_deletion_moves_it_back() -> None:
    """False alarm: 1e-6, means of 20,000 numbers being about normal."""
    est = Continuous(20_000, 0.5, 20_000, coins=SeededCoins(1))
    allowed = 4.9 * np.sqrt(2 / 0.5**2 / 20_000)
    assert abs(np.mean(est.state.values) / 256) < allowed
    est.update_many(range(20_000))
    assert abs(np.mean(est.state.values) / 256 - 1) < allowed
    est.remove_many(range(20_000))
    assert abs(np.mean(est.state.values) / 256) < allowed


@pytest.mark.slow
@pytest.mark.parametrize("stream", STREAMS)
def test_its_error_is_between_those_of_dwork_and_optbern(stream: str) -> None:
    """False alarm: 1e-6. About 2/(m epsilon^2), between 4/(m epsilon^2) and 1/(m epsilon^2)."""
    sample, epsilon, density = 1000, 0.2, DENSITIES[stream]
    errors, _ = estimates(lambda coins: Continuous(USERS, epsilon, sample, coins=coins), stream)
    sampling = density * (1 - density) / sample * (USERS - sample) / (USERS - 1)
    assert_variance(errors, 2 / (sample * epsilon**2) + sampling + 2 / (sample * epsilon) ** 2)
    optbern, dwork = (float(theory.mse(name, epsilon, sample, density, USERS)) for name in ("optbern", "dwork"))
    assert optbern < np.mean(errors**2) < dwork


def test_its_flaw_has_the_size_that_it_names() -> None:
    """Seen at the lower cut, a user who came after the reading against one who came before it."""
    epsilon, grid = 1.0, 64
    values, chances = difference_law(digit_coins(epsilon / grid))
    reach = int(10 * grid / epsilon)
    after = np.clip(values + grid, -reach, grid + reach)
    at_the_cut = [chances[values + centre <= -reach].sum() for centre in (0, grid)]
    # Far above everything, the printed noise makes an output e^(epsilon * difference) likelier; see the estimate.
    grown = (chances * np.exp(epsilon * (after + reach) / grid)).sum()
    loss = log(at_the_cut[0] / at_the_cut[1] * grown)
    assert f"{loss:.2f}"[:4] in Continuous(1, epsilon, 1).known_flaws[0]


def test_the_estimate_is_the_mean_with_the_printed_noise() -> None:
    class Plain(SeededCoins):
        def noisy_real(self, value: float, scale: float) -> float:
            seen.append((value, scale))
            return value

    seen: list[tuple[float, float]] = []
    coins: Coins = Plain(1)
    est = Continuous(10, 0.5, 5, grid=8, coins=coins)
    est.estimate()
    (noised,) = seen
    assert noised == pytest.approx((sum(est.state.values) / 5 / 8, 1 / (0.5 * 5)))


def test_a_grid_without_steps_is_refused() -> None:
    with refused("grid-range"):
        Continuous(10, 0.5, 5, grid=0)
