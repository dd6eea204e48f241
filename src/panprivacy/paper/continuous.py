"""Section 4.4: real numbers instead of bits."""

from math import exp, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from panprivacy.errors import InvalidValue
from panprivacy.memory.scratch import Scratch
from panprivacy.paper import printed
from panprivacy.paper.density import draw_sample, sampled_users
from panprivacy.paper.printed import Printed
from panprivacy.privacy.coins import ONE, Coins
from panprivacy.universe import Universe
from panprivacy.universe.integers import Words

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
        # Seen at the lower cut, redrawn after: e^(2 epsilon + cut) times the mean of e^(epsilon (x - 1)), cut above.
        loss = 2 * self.epsilon + _CUT + log((_CUT + 1.5) / 2)
        return (printed.unbounded_state(self.epsilon, loss),)

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
