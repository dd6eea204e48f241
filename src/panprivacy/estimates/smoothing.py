r"""Lines through neighbouring values: what remains of the noise of a series whose truth moves slowly.

The value at t is that of the straight line through the values around it with the least weighted squares (Cleveland
1979), weights falling linearly to 0 at h + 1 steps. Lines, unlike means, follow a trend up to the last value. How far a
line reaches, h, is measured: among the reaches below, the one whose risk is least by Mallows' C_p (1973),

    sum of (y - fit)^2 / variance  +  2 * sum of the weights that values have in their own fit,

which is an unbiased estimate of the mean squared error, since the variances are known. If the truth moves fast, h is 0,
and values stay as they are.
"""

from typing import NamedTuple

import numpy as np

from panprivacy.estimates.normal_laplace import Reals

REACHES = (0, 1, 2, 3, 5, 7, 10, 14, 21)
"""How many steps to either side a line may reach."""

_FARTHEST = max(REACHES)


class Smoothed(NamedTuple):
    """Values of lines through a series, their standard errors, and how many steps to either side the lines reach."""

    value: Reals
    stderr: Reals
    reach: int


def local_lines(steps: Reals, values: Reals, variances: Reals) -> Smoothed:
    """Lines through values at whole steps of time, whose errors are independent and have these variances.

    The standard errors have two parts: the noise that is left, by the variances, and by how much the fit misses the
    values on average beyond their noise.

    >>> smoothed = local_lines(np.arange(40), np.tile([0.1, 0.3], 20), np.full(40, 0.01))
    >>> smoothed.reach, smoothed.value[20:22].round(2).tolist(), bool(smoothed.stderr[20] < 0.05)
    (21, [0.2, 0.2], True)
    """
    places = (steps - steps[0]).astype(np.int64) + _FARTHEST
    around, weights = (np.zeros(places[-1] + 1 + _FARTHEST) for _ in range(2))
    around[places], weights[places] = values, 1 / variances
    wide = 2 * _FARTHEST + 1
    near, heavy = (
        np.lib.stride_tricks.sliding_window_view(each, wide)[places - _FARTHEST] for each in (around, weights)
    )
    fits = [_fitted(near, heavy, reach) for reach in REACHES]
    risks = [float((np.square(values - fit) / variances).sum() + 2 * own.sum()) for fit, own, _ in fits]
    best = int(np.argmin(risks))
    fit, own, noise = fits[best]
    missed = np.square(values - fit) - (variances * (1 - 2 * own) + noise)
    return Smoothed(fit, np.sqrt(noise + max(float(missed.mean()), 0.0)), REACHES[best])


def _fitted(near: Reals, heavy: Reals, reach: int) -> tuple[Reals, Reals, Reals]:
    """The fits, the weight that each value has in its own fit, and the variances of the fits."""
    away = np.arange(-_FARTHEST, _FARTHEST + 1)
    kernel = heavy * np.maximum(1 - np.abs(away) / (reach + 1), 0.0)
    level, slope, bend = ((kernel * away**power).sum(axis=1, keepdims=True) for power in (0, 1, 2))
    spread = level * bend - slope**2
    line = spread > 1e-9 * level * np.maximum(bend, level)  # through one value there is none
    linear = kernel * np.divide(bend - slope * away, spread, where=line, out=np.zeros_like(kernel))
    weights = np.where(line, linear, kernel / level)
    noise = np.divide(np.square(weights), heavy, where=heavy > 0, out=np.zeros_like(heavy)).sum(axis=1)
    return (weights * near).sum(axis=1), weights[:, _FARTHEST], noise
