"""The errors of `Density` are those it states. False-alarm rates are below 1e-6 for each test unless said otherwise."""

import numpy as np
import pytest
from density_runs import Setting, coverage_of, errors_of, releases_of

import panprivacy as pp
from panprivacy.testing import SeededCoins, ledger_of, split_of

pytestmark = pytest.mark.slow

UNIVERSE = 100_000
EXPECTED = 7.34e-5
"""Design value of the MSE at total epsilon 0.4 with all of 10^5 users tracked."""

LIMIT = 0.165
RUNS = 2_000


def zipf_stream(seed: int) -> np.ndarray:
    """10^5 draws from 10^5 users with probability proportional to 1/rank."""
    weights = 1 / np.arange(1, UNIVERSE + 1)
    return np.random.default_rng(seed).choice(UNIVERSE, UNIVERSE, p=weights / weights.sum())


@pytest.mark.parametrize("stream", ["uniform", "zipf"])
def test_the_error_over_many_runs_is_the_design_value(stream: str) -> None:
    """A sample variance of 2,000 near-normal errors strays 16.5 % with probability below 1e-6."""
    events = np.random.default_rng(1).integers(0, UNIVERSE, UNIVERSE) if stream == "uniform" else zipf_stream(1)
    seen = np.unique(events)
    assert len(seen) / UNIVERSE == pytest.approx({"uniform": 0.632, "zipf": 0.25}[stream], abs=0.02)
    coins = SeededCoins(2)
    errors = []
    for _ in range(RUNS):
        est = pp.Density(UNIVERSE, 0.4, coins=coins)
        est.update_many(seen)
        errors.append(est.release().raw_density - len(seen) / UNIVERSE)
    assert np.mean(np.square(errors)) == pytest.approx(EXPECTED, rel=LIMIT)
    assert abs(np.mean(errors)) < 5 * np.sqrt(EXPECTED / RUNS)


def test_feeding_each_user_once_has_the_law_of_feeding_the_stream() -> None:
    """The runs above feed distinct users only: here, the whole stream, repeats and all (two-sample variance ratio)."""
    events = np.random.default_rng(3).integers(0, 2000, 8000)
    coins = SeededCoins(4)
    counts: dict[str, list[float]] = {"stream": [], "users": []}
    for name, ids in {"stream": events, "users": np.unique(events)}.items():
        for _ in range(1500):
            est = pp.Density(2000, 1.0, coins=coins)
            est.update_many(ids)
            counts[name].append(est.release().raw_density)
    stream, users = counts["stream"], counts["users"]
    assert abs(np.mean(stream) - np.mean(users)) < 5 * np.sqrt((np.var(stream) + np.var(users)) / 1500)
    assert 0.75 < np.var(stream) / np.var(users) < 1.34  # five and a half standard deviations


SETTINGS = [
    Setting(1000, 0.4, 0.25),
    Setting(100_000, 0.4, 0.01, sample=1000),
    Setting(100_000, 0.4, 0.63, sample=1000),
    Setting(100_000, 5.0, 0.01, sample=2000),  # sampling errs most here, and it is skew
    Setting(100_000, 5.0, 0.63, sample=1000),
    Setting(20_000, 1.0, 0.25, sample=10_000),
    Setting(1000, 1.0, 0.63, releases=10),  # noise errs most here
    Setting(20_000, 1.0, 0.63, releases=100, delta=1e-9),
    Setting(100_000, 5.0, 0.25, sample=5000, releases=365, delta=1e-6),
]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_intervals_hold_the_truth_as_often_as_they_say(setting: Setting) -> None:
    """Exactly, they do so in 95.0 to 95.7 % of the cases: 2,500 runs leave 92.5..97.6 % once in 5 million.

    Within two standard errors of an end it is 97.5 %, since an estimate beyond the end misses nothing.
    """
    releases = releases_of(setting, 2500, seed=5)
    near = setting.density < 2 * releases[0].density_stderr
    assert 0.925 <= coverage_of(releases, setting.density) <= (0.995 if near else 0.976)
    errors = errors_of(releases, setting.density)
    stated = np.mean([release.density_stderr**2 for release in releases])
    assert np.mean(errors**2) == pytest.approx(stated, rel=0.2)
    assert abs(errors.mean()) < 5 * np.sqrt(stated / 2500)


@pytest.mark.parametrize("density", [0.0, 1.0])
@pytest.mark.parametrize("sample", [None, 1000])
def test_at_the_ends_only_one_side_can_miss(density: float, sample: int | None) -> None:
    """There 97.5 % of the intervals hold the truth, since the other limit is the end itself."""
    releases = releases_of(Setting(5000, 0.4, density, sample), 2000, seed=6)
    assert 0.955 <= coverage_of(releases, density) <= 0.995
    assert all(0 <= release.density <= 1 for release in releases)


def test_other_levels_hold_too() -> None:
    """Noise errs most here, and a normal approximation would miss three times as often at 99.9 %."""
    coins, misses = SeededCoins(7), 0
    for _ in range(4000):
        est = pp.Density(50, 2.0, releases=20, coins=coins)
        est.update_many(range(25))
        low, high = est.release(level=0.99).density_interval
        misses += not low <= 0.5 <= high
    assert misses < 80  # 40 expected; 80 is 6.3 standard errors away


def test_deleted_users_count_as_absent() -> None:
    coins = SeededCoins(8)
    raws = []
    for _ in range(600):
        est = pp.Density(5000, 1.0, coins=coins)
        est.update_many(range(4000))
        est.remove_many(range(3000))
        raws.append(est.release().raw_density)
    assert np.mean(raws) == pytest.approx(0.2, abs=5 * est.density_stderr_at(0.2) / np.sqrt(600))


def test_the_estimate_stays_unbiased_after_announced_intrusions() -> None:
    coins = SeededCoins(9)
    raws = []
    for _ in range(600):
        est = pp.Density(20_000, 4.0, intrusions=2, coins=coins)
        est.update_many(range(5000))
        est.rerandomize()
        est.update_many(range(5000, 8000))
        est.rerandomize()
        raws.append(est.release().raw_density)
    assert np.mean(raws) == pytest.approx(0.4, abs=5 * est.density_stderr_at(0.4) / np.sqrt(600))
    assert np.std(raws) == pytest.approx(est.density_stderr_at(0.4), rel=0.15)


@pytest.mark.parametrize("delta", [None, 1e-9], ids=["Laplace", "Gaussian"])
def test_every_planned_release_has_noise_of_its_own(delta: float | None) -> None:
    """Releases of one state differ only by their noise: its variance is the planned one, within 30 %.

    The variance of 2,000 Laplace numbers has a standard error of 5 %, that of Gaussian ones of 3 %.
    """
    est = pp.Density(1000, 1.0, releases=2000, delta=delta, coins=SeededCoins(10))
    raws = np.array([est.release().raw_density for _ in range(2000)])
    ones = raws * 1000 * ledger_of(est).pair.gap
    expected = split_of(est).noise.variance
    assert np.var(ones) == pytest.approx(expected, rel=0.3)
    assert abs(np.corrcoef(ones[:-1], ones[1:])[0, 1]) < 5 / np.sqrt(2000)
