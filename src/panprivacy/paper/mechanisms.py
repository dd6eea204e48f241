"""Mechanisms of the paper beside its algorithms, exact: section 2.1, and real numbers for bits, section 4.4."""

from collections.abc import Sequence
from fractions import Fraction
from math import exp, inf, log
from operator import index
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from panprivacy.checks import check_epsilon, check_whole
from panprivacy.errors import InvalidValue
from panprivacy.memory.scratch import Scratch
from panprivacy.paper import printed
from panprivacy.paper.density import draw_sample, sampled_users
from panprivacy.paper.printed import Printed
from panprivacy.privacy import coins as coin_sources
from panprivacy.privacy.coins import ONE, Coins
from panprivacy.privacy.noise import Laplace
from panprivacy.universe import Universe
from panprivacy.universe.integers import Words


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


_CUT = 10
"""A value is kept within this many scales of its centre; it lies outside with probability ``e**-10``."""

_DIGITS = 22
"""Binary digits are drawn up to this many scales; beyond, the threshold of a digit is zero in 32 bits."""


class ValueState(NamedTuple):
    """All that Continuous keeps: the sampled users, and a whole number of grid steps for each."""

    users: tuple[int, ...]
    values: tuple[int, ...]


class Continuous(Printed):
    r"""Dwork's estimator with a real number instead of a bit for every sampled user.

    Every user of a random sample of m owns a number x, at first Laplace(0, 1/epsilon); an appearance redraws it as
    Laplace(1, 1/epsilon). The estimate is

        mean of x + Laplace(1/(epsilon m)),

    with error about ``2/(m epsilon^2)``: between Dwork's ``4/(m epsilon^2)`` and OptBern's ``1/(m epsilon^2)``.

    Parameters
    ----------
    universe, sample, coins
        As in `Dwork`.
    epsilon
        The paper's budget, of the state alone.
    grid
        Steps in a unit: x is a whole number of steps, discrete Laplace with parameter ``epsilon/grid`` a step.

    Examples
    --------
    >>> print(Continuous(100, 0.5, 10).known_flaws[0][-58:])
    lose inf with real numbers and 12.749 with those cut here.

    Notes
    -----
    Section 4.4 of the paper, which describes the idea and leaves the rest to Digalakis' thesis (2018). The state
    loses `epsilon`, up to the rounding of its coins to 32 bits (1e-5 of it) and with x cut at ``10/epsilon`` from
    0 and 1. **Not private**: see `known_flaws`, and use `panprivacy.Density`.
    """

    def __init__(
        self,
        universe: int | Universe,
        epsilon: float,
        sample: int,
        *,
        grid: int = 256,
        coins: Coins | None = None,
    ) -> None:
        if grid < 1:
            raise InvalidValue(f"grid must be at least one step, got {grid}", code="grid-range")
        super().__init__(universe, epsilon, sample, coins)
        self._grid = grid
        self._digits = digit_coins(self.epsilon / grid)
        self._sample = draw_sample(self.universe.size, sample, self._coins)
        self._values = self._drawn(sample, centre=0)
        printed.warn(self)

    @property
    def known_flaws(self) -> tuple[str, ...]:
        # Section 4.4 of the paper: noise for a change of 1/m does not hide the change of an unbounded number. Seen at
        # the lower cut, redrawn after: e^(2 epsilon + cut) times the mean of e^(epsilon (x - 1)), cut above.
        loss = 2 * self.epsilon + _CUT + log((_CUT + 1.5) / 2)
        return (
            f"Given the value seen, a later appearance moves the estimate by an unbounded amount, so where "
            f"{2 * self.epsilon:g} is claimed, state and output together lose {inf} with real numbers and {loss:.3f} "
            "with those cut here.",
        )

    def _drawn(self, n: int, centre: int) -> NDArray[np.int64]:
        """Draw n values around a centre, cut on both sides."""
        beyond = int(_CUT * self._grid / self.epsilon)
        values = centre + discrete_laplace_many(n, self._digits, self._coins)
        return np.clip(values, -beyond, self._grid + beyond)

    def redraw(self, indices: Words, remove: bool) -> None:
        """Redraw the numbers of the sampled users among these."""
        places = self._sample.select(indices, Scratch())
        self._values[places] = self._drawn(len(places), centre=0 if remove else self._grid)

    def estimate(self) -> float:
        """The mean, plus ``Laplace(1/(epsilon m))``."""
        mean = float(self._values.mean()) / self._grid
        return self._coins.noisy_real(mean, 1 / (self.epsilon * self.sample))

    @property
    def state(self) -> ValueState:
        """All that is kept, in a form that can be compared."""
        return ValueState(sampled_users(self._sample), tuple(self._values.tolist()))


def digit_coins(rate: float) -> tuple[int, ...]:
    """Thresholds of the binary digits of a geometric number G with ``P(G = n)`` proportional to ``exp(-rate * n)``.

    ``exp(-rate * n)`` is a product over the digits of n, so they are independent: digit i is 1 with probability
    ``1/(1 + exp(rate * 2**i))``.
    """
    coins: list[int] = []
    while not coins or rate * 2 ** len(coins) < _DIGITS:
        coins.append(max(round(ONE / (1 + exp(rate * 2 ** len(coins)))), 1))
    return tuple(coins)


def discrete_laplace_many(n: int, digits: tuple[int, ...], coins: Coins) -> NDArray[np.int64]:
    """Draw n times the difference of two geometric numbers: k with probability proportional to ``exp(-rate*|k|)``."""
    total = np.zeros(n, dtype=np.int64)
    for i, threshold in enumerate(digits):
        total += coins.below(threshold, n).astype(np.int64) << i
        total -= coins.below(threshold, n).astype(np.int64) << i
    return total
