r"""Smoothing: what remains of the noise of a series, given that it never falls, or moves slowly. It costs no epsilon.

**Series that never fall, or never rise: isotonic regression.** The nearest such sequence leans outwards at its ends.
Its last value is ``max over j of mean(y_j .. y_n)``: the largest of many noisy means, the noisiest of which are those
of the last few values. Where the truth is flat it lies 0.6 standard deviations of a *single* value too high, however
many values there are. Woodroofe and Sun (1993) take a penalty of the rise from end to end away from the fit, ``2 *
penalty * (f_n - f_1)``, which is the same as to move the last value down by the penalty and the first one up. Means of
few values then win only where they are higher by more than noise.

The penalty is ``(sqrt(k) - 1) / 2`` standard deviations of a value, where k is the number of values at that end which
show no rise: k doubles as long as the mean of the last k values is above that of the k before by at most two standard
deviations of such a difference. Where each value is clearly above the one before, k is 1, and nothing is moved.
`benchmarks/curve_ends.py` prints what the ends then err by.

**Series that move slowly: lines through neighbouring values.** The value at t is that of the straight line through the
values around it with the least weighted squares (Cleveland 1979), weights falling linearly to 0 at h + 1 steps. Lines,
unlike means, follow a trend up to the last value. How far a line reaches, h, is measured: among the reaches below, the
one whose risk is least by Mallows' C_p (1973),

    sum of (y - fit)^2 / variance  +  2 * sum of the weights that values have in their own fit,

which is an unbiased estimate of the mean squared error, since the variances are known. If the truth moves fast, h is 0,
and values stay as they are.
"""

from collections.abc import Sequence
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from panprivacy.estimates.errors import Reals

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


BANDWIDTHS = (0, 1, 2, 3, 5, 7, 10, 14, 21)
"""How many steps to either side a line may reach."""

_FARTHEST = max(BANDWIDTHS)


class Smoothed(NamedTuple):
    """Values of lines through a series, their standard errors, and how many steps to either side the lines reach."""

    value: Reals
    stderr: Reals
    bandwidth: int


def local_lines(steps: Reals, values: Reals, variances: Reals) -> Smoothed:
    """Lines through values at whole steps of time, whose errors are independent and have these variances.

    The standard errors have two parts: the noise that is left, by the variances, and by how much the fit misses the
    values on average beyond their noise.

    >>> smoothed = local_lines(np.arange(40), np.tile([0.1, 0.3], 20), np.full(40, 0.01))
    >>> smoothed.bandwidth, smoothed.value[20:22].round(2).tolist(), bool(smoothed.stderr[20] < 0.05)
    (21, [0.2, 0.2], True)
    """
    places = (steps - steps[0]).astype(np.int64) + _FARTHEST
    around, weights = (np.zeros(places[-1] + 1 + _FARTHEST) for _ in range(2))
    around[places], weights[places] = values, 1 / variances
    wide = 2 * _FARTHEST + 1
    near, heavy = (
        np.lib.stride_tricks.sliding_window_view(each, wide)[places - _FARTHEST] for each in (around, weights)
    )
    fits = [_fitted(near, heavy, bandwidth) for bandwidth in BANDWIDTHS]
    risks = [float((np.square(values - fit) / variances).sum() + 2 * own.sum()) for fit, own, _ in fits]
    best = int(np.argmin(risks))
    fit, own, noise = fits[best]
    missed = np.square(values - fit) - (variances * (1 - 2 * own) + noise)
    return Smoothed(fit, np.sqrt(noise + max(float(missed.mean()), 0.0)), BANDWIDTHS[best])


def _fitted(near: Reals, heavy: Reals, bandwidth: int) -> tuple[Reals, Reals, Reals]:
    """The fits, the weight that each value has in its own fit, and the variances of the fits."""
    away = np.arange(-_FARTHEST, _FARTHEST + 1)
    kernel = heavy * np.maximum(1 - np.abs(away) / (bandwidth + 1), 0.0)
    level, slope, bend = ((kernel * away**power).sum(axis=1, keepdims=True) for power in (0, 1, 2))
    spread = level * bend - slope**2
    line = spread > 1e-9 * level * np.maximum(bend, level)  # through one value there is none
    linear = kernel * np.divide(bend - slope * away, spread, where=line, out=np.zeros_like(kernel))
    weights = np.where(line, linear, kernel / level)
    noise = np.divide(np.square(weights), heavy, where=heavy > 0, out=np.zeros_like(heavy)).sum(axis=1)
    return (weights * near).sum(axis=1), weights[:, _FARTHEST], noise
