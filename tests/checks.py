"""Statistical tests with a stated false-alarm rate."""

from collections.abc import Sequence
from fractions import Fraction
from math import exp

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from panprivacy.privacy.coins import ONE

ALARM = 1e-6
"""How often a check fails although nothing is wrong."""


def assert_binomial(successes: int, n: int, p: float, alarm: float = ALARM) -> None:
    """Assert that so many successes of n are what a coin of probability p gives."""
    chance = stats.binomtest(successes, n, p).pvalue
    assert chance > alarm, f"{successes} of {n} successes at p = {p:.6g}: probability {chance:.2g}"


def assert_flips(flips: NDArray[np.bool_], threshold: int) -> None:
    """Assert that flips have their threshold's probability."""
    assert_binomial(int(np.count_nonzero(flips)), flips.size, threshold / ONE)


def assert_independent(
    first: NDArray[np.bool_], second: NDArray[np.bool_], threshold: int, alarm: float = ALARM
) -> None:
    """Assert that two rows of flips agree as often as independent ones do: ``p^2 + (1-p)^2`` of the time."""
    p = threshold / ONE
    assert_binomial(int(np.count_nonzero(first == second)), first.size, p**2 + (1 - p) ** 2, alarm)


def laplace_pmf(epsilon: float | Fraction, x: NDArray[np.int64]) -> NDArray[np.float64]:
    """``(1-a)/(1+a) * a**|x|`` with ``a = exp(-epsilon)``."""
    a = exp(-float(epsilon))
    return np.asarray((1 - a) / (1 + a) * a ** np.abs(x).astype(float))


def assert_discrete_laplace(draws: Sequence[int], epsilon: float | Fraction) -> None:
    """Assert by a chi-square test that integers follow the discrete Laplace law; both tails are pooled."""
    reach = 0
    while len(draws) * laplace_pmf(epsilon, np.array([reach + 1]))[0] > 20:
        reach += 1
    values = np.arange(-reach, reach + 1)
    inside = laplace_pmf(epsilon, values)
    tail = (1 - inside.sum()) / 2
    clipped = np.clip(draws, -reach - 1, reach + 1) + reach + 1
    observed = np.bincount(clipped, minlength=2 * reach + 3).astype(float)
    expected = len(draws) * np.concatenate([[tail], inside, [tail]])
    if expected[0] < 5:  # too rare for a cell of its own
        observed, expected = _folded(observed), _folded(expected)
    chance = stats.chisquare(observed, expected).pvalue
    assert chance > ALARM, f"chi-square rejects discrete Laplace of epsilon {float(epsilon):.6g}: {chance:.2g}"


def assert_variance(values: ArrayLike, variance: float, alarm: float = ALARM) -> None:
    """Assert that roughly normal values with mean 0 have this variance."""
    errors = np.asarray(values, dtype=float)
    low, high = stats.chi2.interval(1 - alarm, errors.size)
    measured = float((errors**2).sum() / variance)
    assert low <= measured <= high, (
        f"variance {measured / errors.size:.4f} times what it should be; "
        f"allowed {low / errors.size:.4f} to {high / errors.size:.4f}"
    )


def _folded(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pool the outermost cells with their neighbours."""
    return np.asarray(np.concatenate([[cells[0] + cells[1]], cells[2:-2], [cells[-2] + cells[-1]]]))
