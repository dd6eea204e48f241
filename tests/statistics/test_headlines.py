"""Numbers that people quote are unbiased to half a standard error, and never outside their intervals.

`benchmarks/headlines.py` draws them from the laws of their noisy counts. Each check raises a false alarm once in a
million runs. Where the truth is far from the ends of the range, numbers are unbiased; near an end, clipping adds at
most 0.4 standard errors.
"""

from math import sqrt
from typing import Any

import numpy as np
import pytest
from scipy import stats

from benchmark_modules import benchmark
from panprivacy.estimates.smoothing import ordered_shares

RUNS = 600
CLIPPED = 0.4  # the mean of a standard normal number that is brought above 0


headlines = benchmark("headlines")


def most_biased(numbers: int, runs: int = RUNS, true: float = CLIPPED) -> float:
    """The largest of so many biases in standard errors that is no alarm, if the true ones are at most this."""
    return true + float(stats.norm.isf(1e-6 / 2 / numbers)) / sqrt(runs)


def fewest_held(trials: int) -> float:
    return float(stats.binom.ppf(1e-6, trials, 0.94)) / trials


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["flat", "concave", "steep", "weekdays"])
def test_actives_and_stickiness_are_right_on_average(shape: str) -> None:
    found = headlines.actives_scores(headlines.simulated(shape), RUNS, 200_000, 1.0)
    shares = found["last 1 to 28 days"]
    assert shares.bias < most_biased(28)
    assert shares.bias_inside < most_biased(28, true=0.0)
    assert shares.outside == 0
    assert fewest_held(RUNS * 20) < shares.coverage < 0.975
    sticky = found["stickiness"]
    assert sticky.told > 0.9
    assert sticky.bias < most_biased(1)
    assert sticky.outside == 0


@pytest.mark.slow
def test_shares_that_are_brought_into_order_fail_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: isotonic regression, which pushes the last share up and the first one down."""
    raw = headlines.shares_of

    def ordered(*arguments: Any) -> Any:
        shares = raw(*arguments)
        weights = [1 / stderr**2 for stderr in shares.stderr]
        return shares._replace(value=ordered_shares(shares.raw, weights, rising=True))

    monkeypatch.setattr(headlines, "shares_of", ordered)
    shares = headlines.actives_scores(headlines.simulated("flat"), 200, 200_000, 1.0)["last 1 to 28 days"]
    assert shares.bias_inside > most_biased(28, 200, true=0.0)
    assert shares.outside > 0


@pytest.mark.slow
@pytest.mark.parametrize("truth", ["geometric", "nobody", "all alike"])
def test_frequencies_are_right_on_average(truth: str) -> None:
    often = np.random.default_rng(7).geometric(0.4, 20_000) - 1
    times = {"geometric": often, "nobody": 0 * often, "all alike": 0 * often + 3}[truth]
    for score in headlines.frequency_scores(times, RUNS, 1.0, 8).values():
        assert score.bias < most_biased(18)
        assert score.bias_inside < most_biased(18, true=0.0)
        assert score.outside == 0
        assert np.isnan(score.coverage) or score.coverage > fewest_held(RUNS)


@pytest.mark.slow
def test_retention_is_right_on_average() -> None:
    for came in ((6_000, 3_000, 2_000), (400, 0, 0)):
        for score in headlines.retention_scores(came, 20_000, 300, 1.0).values():
            assert score.outside == 0
            assert score.bias < most_biased(6, round(300 * score.told))


@pytest.mark.slow
def test_the_estimator_itself_errs_as_its_law_says() -> None:
    score = headlines.estimator_scores(40)
    assert score.bias < most_biased(28, 40)
    assert score.outside == 0
    assert score.coverage > fewest_held(40 * 28)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["flat", "concave", "steep", "weekdays"])
def test_smoothed_actives_err_by_less_than_seven_tenths(shape: str) -> None:
    """Ten runs of 84 days and 28 numbers each: the ratio is known to a few hundredths."""
    ratio, last, stated = headlines.smoothed_rmse(headlines.simulated(shape), 10, 200_000, 1.0)
    assert ratio < 0.7
    assert last < 0.9
    assert 0.9 < stated < 1.5
