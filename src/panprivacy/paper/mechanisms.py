"""The two mechanisms of section 2.1 that the paper builds on, exact."""

from collections.abc import Sequence
from fractions import Fraction
from math import log
from operator import index

import numpy as np
from numpy.typing import ArrayLike, NDArray

from panprivacy.checks import check_epsilon, check_whole
from panprivacy.errors import InvalidValue
from panprivacy.privacy import coins as coin_sources
from panprivacy.privacy.coins import ONE, Coins
from panprivacy.privacy.noise import Laplace


class RandomizedResponse:
    r"""Answer a yes-or-no question truly half of the time, and with a fair coin otherwise (Warner 1965).

    ``answer = v AND b1, or b2 AND NOT b1``, with two fair coins b1 and b2 for every respondent. A one is answered
    with probability 3/4 by those with v = 1 and 1/4 by the others, so an answer loses exactly log 3.

    Examples
    --------
    >>> response = RandomizedResponse()
    >>> answers = response.answer([1] * 30_000 + [0] * 70_000)
    >>> abs(response.density(answers) - 0.3) < 0.02, round(response.epsilon, 4)
    (True, 1.0986)

    Notes
    -----
    Thm 2.1. Private as printed; the coins are exact. Answering the same question twice loses twice.
    """

    epsilon: float = log(3)
    """The loss of one answer."""

    def __init__(self, *, coins: Coins | None = None) -> None:
        self._coins = coins or coin_sources.system

    def answer(self, values: ArrayLike) -> NDArray[np.bool_]:
        """One answer for each true value, 0 or 1."""
        truth = np.asarray(values)
        if not np.isin(truth, (0, 1)).all():
            raise InvalidValue("randomized response answers for values that are 0 or 1", code="not-a-bit")
        use_truth, other = (self._coins.below(ONE // 2, truth.size).reshape(truth.shape) for _ in range(2))
        return np.where(use_truth, truth.astype(np.bool_), other)

    @staticmethod
    def density(answers: NDArray[np.bool_]) -> float:
        """``2 * (share of ones) - 1/2``: unbiased for the share of true ones."""
        return 2 * float(np.mean(answers)) - 0.5


class LaplaceMechanism:
    r"""Add noise to whole numbers that one record changes by at most `sensitivity` in all.

    ``f(D) + (X_1, ..., X_N)``, each X discrete Laplace: ``P(X = k)`` proportional to
    ``exp(-epsilon |k| / sensitivity)``.

    Parameters
    ----------
    epsilon
        The loss of one release, however many numbers it has.
    sensitivity
        The most that the numbers change together (l1) when one record does; a whole number.
    coins
        The source of randomness.

    Examples
    --------
    >>> noisy = LaplaceMechanism(epsilon=1.0).release([100, 0, 40])
    >>> len(noisy), all(isinstance(x, int) for x in noisy)
    (3, True)

    Notes
    -----
    Thm 2.2, on integers: the paper's continuous noise cannot be drawn on a computer, and floating-point noise in its
    place betrays the value by which floats it can and cannot reach (Mironov 2012). Whole numbers lose nothing by it:
    the ratio of probabilities is bounded by exactly ``e^epsilon``. Scale real values to whole steps first.
    """

    def __init__(self, epsilon: float, sensitivity: int = 1, *, coins: Coins | None = None) -> None:
        self.epsilon: float = check_epsilon(epsilon)
        if check_whole(sensitivity, "sensitivity") < 1:
            raise InvalidValue(f"sensitivity must be at least 1, got {sensitivity}", code="sensitivity-range")
        self.sensitivity: int = int(sensitivity)
        self._coins = coins or coin_sources.system

    def release(self, values: Sequence[int]) -> tuple[int, ...]:
        """The values with noise."""
        rate = Fraction(self.epsilon) / self.sensitivity
        return tuple(self._coins.noisy(index(value), Laplace(rate)) for value in values)
