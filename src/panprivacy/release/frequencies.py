"""From noisy counts of tables of counters to how often users appeared: a row for each table."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from panprivacy.release.appearing import MeanSpreads, ShareSpreads
from panprivacy.release.normal_laplace import Reals


class Estimates(NamedTuple):
    """Numbers within their range, standard errors, ends of intervals, and what the numbers were before.

    All are arrays of one shape, with a row for each table.
    """

    value: Reals
    stderr: Reals
    low: Reals
    high: Reals
    raw: Reals


def frequencies(law: ShareSpreads | MeanSpreads, noisy: Any, level: float, up_to: int) -> Iterator[dict[str, Any]]:
    """For each row of noisy counts, the fields of an `EstimatedFrequency` that are estimates."""
    at_least: Iterable[dict[str, Any]] = [{}] * len(noisy)
    exactly = at_least
    if isinstance(law, MeanSpreads):
        means, noises = _fields("mean", mean_alone(law, noisy, level, up_to)), law.noise_stderr * up_to
    else:
        shares = shares_of(law, noisy, level)
        means, noises = _fields("mean", mean_of(law, shares, level)), law.noise_stderr
        at_least = _fields("at_least", shares)
        exactly = _fields("exactly", exactly_of(law, shares, level))
    for mean, least, exact, noise in zip(means, at_least, exactly, noises.ravel().tolist(), strict=True):
        alone = {name: value for name, (value,) in mean.items()}
        yield {"noise_stderr": noise, **alone, **least, **exact}


def shares_of(law: ShareSpreads, noisy: Any, level: float) -> Estimates:
    """The shares of users who appeared at least 1, 2, ... t times: they fall, as shares of this kind do."""
    raw = law.densities(noisy)
    value = np.array([falling(row) for row in raw.tolist()])
    low, high = law.intervals(raw, level)
    return Estimates(value, law.stderr(value), np.minimum(low, value), np.maximum(high, value), raw)


def exactly_of(law: ShareSpreads, shares: Estimates, level: float) -> Estimates:
    """The shares of users who appeared exactly 0, 1, ... t-1 times: each is the difference of two that follow."""
    value, raw = (-np.diff(each, axis=1, prepend=1.0) for each in (shares.value, shares.raw))
    stderr = law.difference_stderr(shares.value)
    low, high = _bounded(raw, stderr, level, 1.0)
    return Estimates(value, stderr, np.minimum(low, value), np.maximum(high, value), raw)


def mean_of(law: ShareSpreads, shares: Estimates, level: float) -> Estimates:
    """The mean of min(n, t): the sum of all shares as they were before they were made to fall."""
    raw, top = shares.raw.sum(axis=1, keepdims=True), float(law.up_to)
    stderr = law.sum_stderr(shares.value)
    return Estimates(np.clip(raw, 0.0, top), stderr, *_bounded(raw, stderr, level, top), raw)


def mean_alone(law: MeanSpreads, noisy: Any, level: float, up_to: int) -> Estimates:
    """The mean of min(n, t), of the ones alone."""
    raw = law.densities(noisy)
    value = np.clip(raw, 0.0, 1.0)
    low, high = law.intervals(raw, level)
    return Estimates(*(up_to * each for each in (value, law.stderr(value), low, high, raw)))


def falling(shares: list[float]) -> list[float]:
    """The falling sequence within [0, 1] that is nearest to these shares: isotonic regression.

    Neighbours that rise are replaced by their mean, until none do. This is post-processing, which costs nothing, and
    never leads further away from shares that do fall.

    >>> falling([0.9, 0.5, 0.6, 0.2, -0.1])
    [0.9, 0.55, 0.55, 0.2, 0.0]
    """
    from scipy.optimize import isotonic_regression

    fallen: list[float] = np.clip(isotonic_regression(shares, increasing=False).x, 0.0, 1.0).tolist()
    return fallen


def _bounded(raw: Reals, stderr: Reals, level: float, top: float) -> tuple[Reals, Reals]:
    """The intervals of normal laws for what is between 0 and `top`; beyond an end, as `Spread.interval` has it."""
    from scipy.special import ndtri

    end = np.clip(raw, 0.0, top)
    arm = float(ndtri((1 + level) / 2)) * stderr
    high = np.where(raw < end, raw + np.hypot(arm, end - raw), end + arm)
    low = np.where(raw > end, raw - np.hypot(arm, raw - end), end - arm)
    return np.maximum(low, 0.0), np.minimum(high, top)


def _fields(name: str, found: Estimates) -> Iterator[dict[str, Any]]:
    """The estimates of each row under the names that a release has for them."""
    for value, stderr, low, high, raw in zip(*(each.tolist() for each in found), strict=True):
        yield {
            name: tuple(value),
            f"{name}_stderr": tuple(stderr),
            f"{name}_interval": tuple(zip(low, high, strict=True)),
            f"raw_{name}": tuple(raw),
        }
