"""What is said from a noisy count."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from scipy import integrate, stats

import panprivacy as pp
from panprivacy.estimates import ErrorModel, Estimate
from panprivacy.estimates.errors import normal_laplace_cdf
from panprivacy.privacy.coins import ONE
from panprivacy.privacy.noise import Gaussian, Laplace, Noise
from panprivacy.privacy.pairs import symmetric
from panprivacy.testing import ledger_of, refused
from sources import Always

LAPLACE, GAUSSIAN = Laplace(Fraction(1, 2)), Gaussian(Fraction(30))


def spread(epsilon: float = 1.0, users: int = 1000, population: int = 1000, noise: Noise = LAPLACE) -> ErrorModel:
    return ErrorModel(symmetric(epsilon), users, users, population, noise)


# --- the law of the estimate ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.1, 1.0, 7.0])
@pytest.mark.parametrize("scale", [0.01, 0.5, 1.0, 20.0])
def test_the_distribution_function_is_that_of_normal_plus_laplace(sigma: float, scale: float) -> None:
    for x in np.linspace(-4, 4, 9) * (sigma + scale):
        nodes = sorted({x - 8 * sigma, x, x + 8 * sigma, 0.0})
        summed, _ = integrate.quad(
            lambda y, x=x: stats.laplace.pdf(y, scale=scale) * stats.norm.cdf((x - y) / sigma),
            -60 * scale - 9 * sigma - abs(x),
            60 * scale + 9 * sigma + abs(x),
            points=nodes,
            limit=500,
        )
        assert normal_laplace_cdf(float(x), sigma, scale) == pytest.approx(summed, abs=1e-7)


@pytest.mark.slow
@given(
    x=st.floats(-1e6, 1e6),
    log_sigma=st.floats(-20, 20),
    log_ratio=st.floats(-20, 20),
)
def test_the_distribution_function_stays_between_0_and_1_and_is_even_about_one_half(
    x: float, log_sigma: float, log_ratio: float
) -> None:
    sigma = float(np.exp(log_sigma))
    scale = sigma * float(np.exp(log_ratio))
    value = normal_laplace_cdf(x, sigma, scale)
    assert -1e-9 <= value <= 1 + 1e-9
    assert value + normal_laplace_cdf(-x, sigma, scale) == pytest.approx(1, abs=1e-6)


def test_where_the_noise_is_lost_beside_the_bits_both_formulas_meet() -> None:
    for x in (-3.0, -1.0, 0.5, 2.0):
        below, above = (normal_laplace_cdf(x, 1.0, 1e-3 * factor) for factor in (0.999999, 1.000001))
        assert below == pytest.approx(above, abs=1e-6)


@pytest.mark.parametrize(("users", "population"), [(1000, 1000), (1000, 50_000), (300, 301), (1, 1), (1, 2)])
@pytest.mark.parametrize("density", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("noise", [LAPLACE, GAUSSIAN])
def test_the_variance_adds_bits_sampling_and_noise(users: int, population: int, density: float, noise: Noise) -> None:
    law = spread(users=users, population=population, noise=noise)
    p1, gap = float(law.pair.p1), law.pair.gap
    bits = users * p1 * (1 - p1) / (users * gap) ** 2  # a symmetric pair's coins vary alike
    sampling = density * (1 - density) / users * (population - users) / max(population - 1, 1)
    noisy = noise.variance / (users * gap) ** 2
    assert law.stderr(density) ** 2 == pytest.approx(bits + sampling + noisy)


def test_slots_that_are_nobodys_are_taken_for_absent() -> None:
    pair = symmetric(2.0)
    law = ErrorModel(pair, bits=1100, users=1000, population=5000, noise=LAPLACE)
    expected_ones = 250 * float(pair.p1) + 850 * float(pair.p0)
    assert law.density(round(expected_ones)) == pytest.approx(0.25, abs=1e-3)


# --- intervals ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(
    estimate=st.floats(-0.5, 1.5),
    level=st.floats(0.5, 0.999),
    epsilon=st.floats(0.1, 8),
    users=st.integers(50, 10**6),
    population=st.integers(1, 3),
    noise=st.sampled_from([LAPLACE, GAUSSIAN]),
)
def test_an_interval_holds_the_densities_that_a_test_would_not_reject(
    *, estimate: float, level: float, epsilon: float, users: int, population: int, noise: Noise
) -> None:
    law = spread(epsilon, users, population * users, noise)
    low, high = law.interval(estimate, level)
    assert 0 <= low <= high <= 1
    tail = (1 - level) / 2
    half = 0.5 / (users * law.pair.gap)  # counts are whole numbers
    assert low <= min(max(estimate, 0.0), 1.0) <= high
    assert low < high
    for density in np.linspace(0, 1, 41):
        above = 1 - law.cdf(estimate - half - density, density)
        below = law.cdf(estimate + half - density, density)
        if low + 1e-9 < density < high - 1e-9 and 0 <= estimate <= 1:
            assert min(above, below) >= tail - 1e-9
        elif density < low - 1e-9 or density > high + 1e-9:
            assert min(above, below) <= tail + 1e-9


def test_an_interval_narrows_with_the_level_and_with_more_users() -> None:
    def width(level: float, users: int) -> float:
        low, high = spread(users=users, population=users).interval(0.5, level)
        return float(high - low)

    assert width(0.5, 10**4) < width(0.95, 10**4) < width(0.999, 10**4)
    assert width(0.95, 10**6) < width(0.95, 10**4)


def test_sampling_widens_an_interval() -> None:
    everyone = spread(epsilon=5.0, users=1000, population=1000, noise=Laplace(Fraction(5))).interval(0.5, 0.95)
    some = spread(epsilon=5.0, users=1000, population=10**6, noise=Laplace(Fraction(5))).interval(0.5, 0.95)
    assert some[0] < everyone[0] < everyone[1] < some[1]


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 95, float("nan")])
def test_a_level_outside_0_to_1_is_refused(level: float) -> None:
    with refused("level-range"):
        spread().interval(0.5, level)


# --- the release itself ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [False, True])
def test_a_raw_value_outside_0_to_1_is_kept_and_the_density_clamped(outcome: bool) -> None:
    est = pp.Density(1000, 1.0, coins=Always(outcome))
    release = est.release()
    p0, gap = ledger_of(est).pair.absent / ONE, ledger_of(est).pair.gap
    assert release.raw_density == pytest.approx((outcome - p0) / gap)
    assert release.density == outcome
    low, high = release.density_interval
    assert (high if outcome else low) == outcome
    assert 0 < (high - low) / release.density_stderr < 1
    assert release.count == 1000 * outcome


def test_a_release_says_what_it_cost_and_what_is_left() -> None:
    est = pp.Density(1000, 1.0, releases=3)
    for number in (1, 2, 3):
        release = est.release(level=0.9)
        assert release.number == number
        assert release.epsilon_spent == est.budget.spent
        assert release.epsilon_remaining == est.budget.remaining
        assert release.universe == 1000
        assert release.count == release.density * 1000
        assert release.count_interval == tuple(1000 * end for end in release.density_interval)
        assert release.density_stderr == pytest.approx(est.density_stderr_at(release.density))
    assert est.budget.remaining == 0


def test_every_number_of_a_release_is_in_the_unit_that_its_name_tells() -> None:
    clinic = pp.Density(2000, 1.0).release()
    visitors = pp.DistinctCount(1.0, 64).release(universe=2000)
    watched = pp.Continual(2000, 1.0).observe()
    for seen in (clinic, visitors, watched):
        fields = seen.to_dict()
        pairs = [name.replace("count", "density") for name in fields if "count" in name]
        assert len(pairs) == (2 if seen is watched else 4)
        for name in pairs:
            assert fields[name.replace("density", "count")] == pytest.approx(2000 * np.array(fields[name]))
        assert not {"stderr", "interval", "band", "raw"} & set(dir(seen)), "a name without a unit"


def test_a_count_without_a_universe_has_no_densities() -> None:
    release = pp.DistinctCount(1.0, 64).release()
    assert release.to_dict()["density_interval"] is None
    for name in ("density", "density_stderr", "density_interval", "raw_density"):
        with refused("no-estimate", "universe=N"):
            getattr(release, name)


@pytest.mark.parametrize(("level", "shown"), [(0.95, "95% interval"), (0.999, "99.9% interval"), (0.5, "50% interval")])
def test_a_release_reads_at_a_glance(level: float, shown: str) -> None:
    release = pp.Density(1000, 1.0).release(level)
    console = Console(width=100)
    with console.capture() as drawn:
        console.print(release)
    for text in (str(release), drawn.get()):
        assert shown in text
        assert "(standard error)" in text
        assert "of 1,000" in text
        assert "seeded" not in text


RELEASED: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "density": (lambda: pp.Density(1000, 9.0, groups=["a"] * 500 + ["b"] * 500), ["density", "count"]),
    "count": (lambda: pp.DistinctCount(1.0, 64), ["count"]),
    "frequency": (lambda: pp.Counts(1000, 9.0, 3), ["mean", "at_least", "exactly"]),
    "categories": (lambda: pp.Density(1000, 9.0, categories=["a", "b"]), []),
}


@pytest.mark.parametrize("name", RELEASED)
def test_a_release_is_named_estimates_a_cost_and_groups(name: str) -> None:
    make, names = RELEASED[name]
    r = make().release()
    assert list(r.estimates) == names
    for each, estimate in r.estimates.items():
        assert estimate.value == getattr(r, each)
        assert estimate.stderr == getattr(r, f"{each}_stderr")
        assert estimate.interval == getattr(r, f"{each}_interval")
        assert estimate.raw == getattr(r, f"raw_{each}")
    assert (r.cost.number, r.cost.level, r.cost.epsilon_spent) == (r.number, r.level, r.epsilon_spent)
    assert [row.group for row in r.groups] == (["a", "b"] if name in ("density", "categories") else [])
    assert all(list(row.estimates) == ["density", "count"] and row.cost == r.cost for row in r.groups)
    assert isinstance(hash(r), int)


def test_a_release_has_only_the_attributes_of_its_estimates() -> None:
    by_category = pp.Density(1000, 9.0, categories=["a", "b"]).release()
    assert not hasattr(by_category, "density")
    assert hasattr(by_category.groups[0], "density")
    without_universe = pp.DistinctCount(1.0, 64).release()
    assert not hasattr(without_universe, "density")
    assert hasattr(without_universe.within(1000), "density")
    assert not hasattr(pp.Counts(1000, 9.0, 3).release(), "density")


def test_an_error_of_less_than_a_user_is_not_shown_as_none() -> None:
    assert Estimate(27.2, 0.48, (26.0, 28.0), unit="users").short == "27 ± 0.5"
    assert Estimate(27.2, 0.04, (26.0, 28.0), unit="users").short == "27 ± 0.04"
    assert Estimate(27.2, 1.2, (26.0, 28.0), unit="users").short == "27 ± 1"
    assert Estimate(27.0, 0.0, (27.0, 27.0), unit="users").short == "27 ± 0"
