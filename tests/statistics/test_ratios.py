"""A ratio that is told in one of twenty releases only is right on average, too, and its interval holds.

Nothing here is random: the errors of part and whole are on a grid of the quantiles of their laws, given that the ratio
is told.
"""

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from scipy import stats

from panprivacy.estimates import errors
from panprivacy.estimates.errors import LEAST_KNOWN, ErrorVariance, ratio_of
from panprivacy.privacy.noise import Gaussian

NOISE = Gaussian(Fraction(1))
OF_WHOLE, OF_PART = 60, 12  # quantiles
ERRORS = ((0.05, 0.5), (0.3, 0.5), (1.0, 0.5), (1.0, 0.0))
"""Standard errors of a part, and how much of its error is in the whole; the rest of the whole errs by 1.

The first three are like `Retention`, the last one is like the stickiness of `ActiveUsers`."""
BEYOND = (-1.6, -1.0, 0.0, 1.0, 2.0, 3.0)
"""True wholes, in standard errors from the limit; the first ones are told in 5, 16 and 50 % of the releases."""


def quantiles(number: int) -> np.ndarray:
    return (np.arange(number) + 0.5) / number


def bias_and_coverage(ratio: float, beyond: float, part_stderr: float, common: float) -> tuple[float, float]:
    """Bias of a told ratio in standard errors, and how many 95 % intervals hold it."""
    own = LEAST_KNOWN + beyond
    whole = own / (1 - common * ratio)
    told = stats.norm.isf(quantiles(OF_WHOLE) * stats.norm.sf(-beyond)) + own
    parts = ratio * whole + part_stderr * stats.norm.isf(quantiles(OF_PART))
    of_part, of_whole, of_both = (
        ErrorVariance(variance, 0.0, NOISE)
        for variance in (part_stderr**2, 1 + (common * part_stderr) ** 2, common * part_stderr**2)
    )
    found = [
        ratio_of(part, rest + common * part, (of_part, of_whole, of_both), 0.95) for rest in told for part in parts
    ]
    found = [each for each in found if each.tells]
    assert all(each.interval[0] <= each.value <= each.interval[1] for each in found)
    assert all(each.interval[0] >= 0 and each.interval[1] <= 1 for each in found)
    stderrs = np.array([each.stderr for each in found], dtype=np.float64)
    assert stderrs.max() <= 0.5
    stderr = float(np.sqrt(np.square(stderrs).mean()))
    held = np.mean([each.interval[0] <= ratio <= each.interval[1] for each in found])
    return float(abs(np.mean([each.value for each in found]) - ratio) / stderr), float(held)


def worst(part_stderr: float, common: float) -> tuple[float, float]:
    found = [
        bias_and_coverage(ratio, beyond, part_stderr, common)
        for ratio in (0.0, 0.25, 0.5, 0.9, 1.0)
        for beyond in BEYOND
    ]
    return max(bias for bias, _ in found), min(held for _, held in found)


@pytest.mark.slow
@pytest.mark.parametrize(("part_stderr", "common"), ERRORS)
def test_a_ratio_that_is_rarely_told_is_right_to_half_a_standard_error(part_stderr: float, common: float) -> None:
    bias, held = worst(part_stderr, common)
    assert bias < 0.5
    assert held > 0.94


@pytest.mark.slow
def test_a_ratio_that_forgets_that_it_was_told_leans_and_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: Fieller's interval without the correction."""
    monkeypatch.setattr(errors, "_LOWERED", 0.0)
    monkeypatch.setattr(errors, "_RAISED", 0.0)
    bias, held = worst(*ERRORS[0])
    assert bias > 2
    assert held < 0.6


def test_far_from_the_limit_nothing_is_corrected() -> None:
    part, whole = (ErrorVariance(0.04, 0.0, NOISE), ErrorVariance(1.0, 0.0, NOISE))
    ratio = ratio_of(10.0, 20.0, (part, whole, ErrorVariance(0.0, 0.0, NOISE)), 0.95)
    assert ratio.value == pytest.approx(0.5, abs=1e-8)
    assert ratio.stderr == pytest.approx(sqrt(0.04 + 0.25) / 20, rel=1e-6)


def test_a_large_part_bounds_a_ratio_from_below_even_where_the_whole_may_be_nothing() -> None:
    part, whole = (ErrorVariance(0.0001, 0.0, NOISE), ErrorVariance(1.0, 0.0, NOISE))
    low, high = ratio_of(2.0, 4.01, (part, whole, ErrorVariance(0.0, 0.0, NOISE)), 0.95).interval
    assert low > 0.15
    assert high == 1.0
