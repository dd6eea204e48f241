"""The worst that an adversary can do who decides everything by what was released before: ``python tests/adaptive.py``.

The adversary chooses, after every outcome, what happens to one user in either world (an event, a deletion, nothing),
and what is seen next: a release with Gaussian noise, or the one reading of the user's bit. The largest sum over all
outcomes of ``P(outcome) - e^total * P'(outcome)``, where it is positive, is found by trying every choice after every
outcome. It is the smallest delta that can be claimed with this total.
"""

from fractions import Fraction
from itertools import product
from math import exp, sqrt
from typing import TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from panprivacy.privacy import gaussian, renyi

Weights: TypeAlias = tuple[float, float]
"""Of a bit of 0 and of a bit of 1."""
Law: TypeAlias = tuple[float, float, NDArray[np.float64]]
"""e^total, the probability of a 1 after an event, and the law of the noise."""

CASES = list(product((1, 3), (1, 2), (0.3, 1.0), (0.5, 1.5)))
"""Square of the noise, releases, epsilon of the state, epsilon of the releases."""
CASES_WITH_DELTA = list(product((1, 3), (1, 2), (0.3, 1.0, 3.0), (1e-2, 1e-3)))
"""Square of the noise, releases, epsilon of the state, delta."""


@njit(nogil=True)
def _worst(here: Weights, there: Weights, left: int, read: bool, law: Law) -> float:
    """The largest sum from here on, with so many releases left, the bit being read or not."""
    growth, p1, noise = law
    best: float = max(here[0] + here[1] - growth * (there[0] + there[1]), 0.0)
    if not left and read:
        return best
    for choice in range(9):
        one, other = _redrawn(here, choice // 3, p1), _redrawn(there, choice % 3, p1)
        if not read:
            seen = 0.0
            for bit in range(2):
                first = (one[0], 0.0) if bit == 0 else (0.0, one[1])
                second = (other[0], 0.0) if bit == 0 else (0.0, other[1])
                seen += _worst(first, second, left, True, law)
            best = max(best, seen)
        if left:
            seen = 0.0
            for r in range(1, len(noise)):  # a release of r or, if the bit is 1, of one more
                first = (one[0] * noise[r], one[1] * noise[r - 1])
                second = (other[0] * noise[r], other[1] * noise[r - 1])
                seen += _worst(first, second, left - 1, read, law)
            best = max(best, seen)
    return best


@njit(nogil=True)
def _redrawn(weights: Weights, choice: int, p1: float) -> Weights:
    """The weights of a bit after nothing, an event or a deletion."""
    whole = weights[0] + weights[1]
    if choice == 0:
        return weights
    p = p1 if choice == 1 else 1 - p1
    return (whole * (1 - p), whole * p)


def smallest_delta(square: int, releases: int, state: float, total: float) -> float:
    """The smallest delta that holds with a total against this adversary, but for tails of 1e-8."""
    p1 = 1 / (1 + exp(-state))
    return _worst((p1, 1 - p1), (p1, 1 - p1), releases, False, (exp(total), p1, _noise(square)))


def _noise(square: int) -> NDArray[np.float64]:
    far = int(6 * sqrt(square)) + 2
    weights = np.exp(-(np.arange(-far, far + 1) ** 2) / (2 * square))
    return np.concatenate([[0.0], weights / weights.sum(), [0.0]])


def claimed_delta(square: int, releases: int, released: float) -> float:
    """The delta that is claimed, whatever reacts, beside a total of the state's epsilon and this one."""
    return exp(gaussian.log_delta(released, Fraction(square), releases) + gaussian.log_choices(releases))


def claimed_by_moments(square: int, releases: int, state: float, delta: float) -> float:
    """The epsilon that `panprivacy.privacy.renyi` claims for the releases, if only the moment of the reading reacts."""
    return renyi.loss(Fraction(square), releases, delta, Fraction(1 / (1 + exp(-state))))


if __name__ == "__main__":
    for square, releases, state, released in CASES:
        found = smallest_delta(square, releases, state, state + released)
        claimed = claimed_delta(square, releases, released)
        settings = f"square {square}, releases {releases}, epsilon {state} + {released}"
        print(f"{settings}: delta {found:.3g}, claimed {claimed:.3g}, {claimed / found:.1f} times as much")
    for square, releases, state, delta in CASES_WITH_DELTA:
        released = claimed_by_moments(square, releases, state, delta)
        found = smallest_delta(square, releases, state, state + released)
        settings = f"moments: square {square}, releases {releases}, epsilon {state} + {released:.3f}"
        print(f"{settings}: delta {found:.3g}, claimed {delta:.3g}, {delta / found:.1f} times as much")
