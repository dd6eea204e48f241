r"""Isotonic regression: the nearest sequence that never falls, or never rises. Post-processing, at no cost of epsilon.

Isotonic regression leans outwards at its ends. Its last value is ``max over j of mean(y_j .. y_n)``: the largest of
many noisy means, the noisiest of which are those of the last few values. Where the truth is flat it lies 0.6 standard
deviations of a *single* value too high, however many values there are. Woodroofe and Sun (1993) take a penalty of the
rise from end to end away from the fit, ``2 * penalty * (f_n - f_1)``, which is the same as to move the last value
down by the penalty and the first one up. Means of few values then win only where they are higher by more than noise.

The penalty is ``(sqrt(k) - 1) / 2`` standard deviations of a value, where k is the number of values at that end which
show no rise: k doubles as long as the mean of the last k values is above that of the k before by at most two standard
deviations of such a difference. Where each value is clearly above the one before, k is 1, and nothing is moved.
`benchmarks/curve_ends.py` prints what the ends then err by.
"""

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from panprivacy.estimates.normal_laplace import Reals

_SURE = 2.0  # standard deviations of a rise that is not noise
_PENALTY = 0.5
_OUTLIER = 1.345  # standard deviations: Huber's, which gives up 5 % of the precision under normal noise
_ROUNDS, _CLOSE = 60, 1e-4  # of the search for outliers; changes below this share of the noise end it


def ordered_shares(raw: Sequence[float], weights: Sequence[float], *, rising: bool) -> tuple[float, ...]:
    """The nearest shares within [0, 1] that never fall, or never rise: their ends lean outwards.

    They err no more in all, if the truth does not fall, or rise, either.

    >>> ordered_shares([-0.25, 0.5, 0.25, 0.5], [1.0] * 4, rising=True)
    (0.0, 0.375, 0.375, 0.5)
    >>> ordered_shares([0.9, 0.5, 0.6, 0.2, -0.1], [1.0] * 5, rising=False)
    (0.9, 0.55, 0.55, 0.2, 0.0)
    """
    signed = np.asarray(raw) if rising else -np.asarray(raw)
    fitted = _isotonic(signed, np.asarray(weights))
    return tuple(np.clip(fitted if rising else -fitted, 0.0, 1.0).tolist())


def rising_curve(values: Reals, weights: Reals, noise: Reals, *, last: int = 1) -> Reals:
    """The fit to values with noise of these standard deviations, with its ends corrected; the last few are one number.

    >>> rising_curve(np.array([1.0, 3.0, 2.0, 5.0]), np.ones(4), np.full(4, 0.1)).tolist()
    [1.0, 2.5, 2.5, 5.0]
    """
    moved = values.copy()
    moved[-1] -= _penalty(values, noise[-1], last)
    moved[0] += _penalty(-values[::-1], noise[0], 1)
    return _pooled(moved, weights, last)


def robust_rising_curve(values: Reals, weights: Reals, noise: Reals, *, last: int = 1) -> Reals:
    """The same for noise with heavy tails: outliers are moved nearer to the fit.

    It has the least sum of Huber's losses, squares that go on as straight lines beyond 1.345 standard deviations. The
    fit that weighs each value there by 1 over its distance never raises that sum, and leads to the least one.
    """
    bound = _OUTLIER * noise
    fitted = _pooled(values, weights, last)
    for _ in range(_ROUNDS):
        far = np.maximum(np.abs(values - fitted) / bound, 1.0)
        before, fitted = fitted, _pooled(values, weights / far, last)
        if np.all(np.abs(fitted - before) <= _CLOSE * noise):
            break
    return rising_curve(fitted + np.clip(values - fitted, -bound, bound), weights, noise, last=last)


def _penalty(values: Reals, noise: Any, last: int) -> float:
    """By how much the last value is moved down."""
    return float(_PENALTY * noise * (sqrt(_flat(values, noise, last)) - 1))


def _flat(values: Reals, noise: Any, last: int) -> int:
    """How many of the last values show no rise."""
    flat, half = 1, last
    while 4 * half <= len(values):
        rise = values[-half:].mean() - values[-2 * half : -half].mean()
        if rise > _SURE * noise * sqrt(2 / half):
            break
        half *= 2
        flat = half
    return flat


def _pooled(values: Reals, weights: Reals, last: int) -> Reals:
    """Isotonic regression in which the last few values are one number."""
    starts = np.arange(len(values) - last + 1)
    heavy = np.add.reduceat(weights, starts)
    means = np.add.reduceat(weights * values, starts) / heavy
    return np.repeat(_isotonic(means, heavy), np.diff(starts, append=len(values)))


def _isotonic(values: Reals, weights: Reals) -> Reals:
    from scipy.optimize import isotonic_regression

    return np.asarray(isotonic_regression(values, weights=weights).x)
