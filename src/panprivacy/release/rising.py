r"""A sequence that never falls, fitted to noisy values: isotonic regression with its ends and wild values seen to.

Isotonic regression leans outwards at its ends. Its last value is ``max over j of mean(y_j .. y_n)``: the largest of
many noisy means, the noisiest of which are those of the last few. Where the truth is flat it lies 0.6 standard
deviations of a *single* value too high, however many values there are. Woodroofe and Sun (1993) take a penalty of the
rise from end to end away from the fit, ``2 * penalty * (f_n - f_1)``, which is the same as to move the last value
down by the penalty and the first one up. Means of few values then win only where they are higher by more than noise.

The penalty is ``(sqrt(k) - 1) / 2`` standard deviations of a value, k being how many of the last values (of the first
ones, at the start) show no rise: k doubles as long as the mean of the last k values is above that of the k before by at
most two standard deviations of such a difference. Where each value is clearly above the one before, k is 1, and
nothing is moved. `benchmarks/curve_ends.py` prints what the ends then err by.
"""

from math import sqrt
from typing import Any

import numpy as np

from panprivacy.release.normal_laplace import Reals

_SURE = 2.0  # standard deviations of a rise that is not noise
_PENALTY = 0.5
_WILD = 1.345  # Huber's: of normal noise it gives up 5 % of the precision
_ROUNDS, _CLOSE = 60, 1e-4  # of looking for wild values; changes below this share of the noise are none


def rising(values: Reals, weights: Reals, noise: Reals, *, last: int = 1) -> Reals:
    """The fit to values with noise of these standard deviations, in which the last few are one number.

    >>> rising(np.array([1.0, 3.0, 2.0, 5.0]), np.ones(4), np.full(4, 0.1)).tolist()
    [1.0, 2.5, 2.5, 5.0]
    """
    moved = values.copy()
    moved[-1] -= _penalty(values, noise[-1], last)
    moved[0] += _penalty(-values[::-1], noise[0], 1)
    return _pooled(moved, weights, last)


def rising_among_wild(values: Reals, weights: Reals, noise: Reals, *, last: int = 1) -> Reals:
    """The same where noise has heavy tails: values that are far off the fit are taken to be nearer to it.

    It has the least sum of Huber's losses, squares that go on as straight lines beyond 1.345 standard deviations. The
    fit that weighs each value there by 1 over its distance never raises that sum, and leads to the least one.
    """
    reach = _WILD * noise
    fitted = _pooled(values, weights, last)
    for _ in range(_ROUNDS):
        far = np.maximum(np.abs(values - fitted) / reach, 1.0)
        before, fitted = fitted, _pooled(values, weights / far, last)
        if np.all(np.abs(fitted - before) <= _CLOSE * noise):
            break
    return rising(fitted + np.clip(values - fitted, -reach, reach), weights, noise, last=last)


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
    """Isotonic regression, in which the last few values are one."""
    from scipy.optimize import isotonic_regression

    starts = np.arange(len(values) - last + 1)
    heavy = np.add.reduceat(weights, starts)
    means = np.add.reduceat(weights * values, starts) / heavy
    return np.repeat(isotonic_regression(means, weights=heavy).x, np.diff(starts, append=len(values)))
