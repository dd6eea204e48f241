"""Estimates of what never falls, brought into order: post-processing, which costs nothing and errs no more."""

from collections.abc import Sequence


def rising(raw: Sequence[float], variances: Sequence[float]) -> tuple[float, ...]:
    """The nearest shares that rise, within [0, 1], by isotonic regression.

    >>> rising([-0.25, 0.5, 0.25, 0.5], variances=[1.0] * 4)
    (0.0, 0.375, 0.375, 0.5)
    """
    from scipy.optimize import isotonic_regression

    fitted = isotonic_regression(raw, weights=[1 / variance for variance in variances]).x.tolist()
    return tuple(min(max(share, 0.0), 1.0) for share in fitted)
