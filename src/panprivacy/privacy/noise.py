"""Exact noise for integers, from integers alone: discrete Laplace and discrete Gaussian.

Noise in floating point leaks through the gaps between floats (Mironov 2012). The samplers here are those of Canonne,
Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020), algorithms 1 to 3: they ask for uniform
integers, compare integers, and are exact.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, sinh
from typing import TypeAlias

type_of_source = Callable[[int], int]
"""``randbelow(n)`` returns a uniform integer in 0..n-1."""


@dataclass(frozen=True)
class Laplace:
    r"""An integer x with probability ``(1-a)/(1+a) * a**|x|``, where ``a = exp(-epsilon)``.

    Adding it to an integer that one person changes by at most 1 makes the sum epsilon-private.

    >>> round(Laplace(Fraction(1, 2)).variance, 4)
    7.8354
    """

    epsilon: Fraction

    @property
    def variance(self) -> float:
        """``2a/(1-a)**2``."""
        return variance(float(self.epsilon))

    def draw(self, randbelow: type_of_source) -> int:
        """Draw a number."""
        return discrete_laplace(self.epsilon, randbelow)


@dataclass(frozen=True)
class Gaussian:
    r"""An integer x with probability proportional to ``exp(-x**2 / (2*square))``.

    `square` is what the variance would be if numbers between the integers counted too. From 1 on, the variance is
    below it by less than 1e-6 of it.

    >>> round(Gaussian(Fraction(9, 2)).variance, 6)
    4.5
    """

    square: Fraction

    @property
    def variance(self) -> float:
        """The square: no more than this, and hardly less."""
        return float(self.square)

    def draw(self, randbelow: type_of_source) -> int:
        """Draw a number."""
        return discrete_gaussian(self.square, randbelow)


Noise: TypeAlias = Laplace | Gaussian
"""A law of whole numbers that is symmetric around zero."""


def discrete_laplace(epsilon: Fraction, randbelow: type_of_source) -> int:
    r"""Draw from the law of `Laplace`.

    >>> import secrets
    >>> isinstance(discrete_laplace(Fraction(1, 2), secrets.randbelow), int)
    True
    """
    if epsilon <= 0:
        raise ValueError(f"noise needs epsilon > 0, got {epsilon}")
    while True:
        size = _exponential_floor(epsilon, randbelow)
        negative = randbelow(2) == 1
        if size or not negative:  # zero is kept with one sign only
            return -size if negative else size


def discrete_gaussian(square: Fraction, randbelow: type_of_source) -> int:
    r"""Draw from the law of `Gaussian`: draw from a Laplace law of about the same width, and reject the excess.

    A number y of the Laplace law with ``epsilon = 1/t``, t being the root of the square rounded up, is kept with
    probability ``exp(-(|y| - square/t)**2 / (2*square))``. The product of both is the Gaussian law: what is left of the
    exponent once ``|y|/t`` cancels does not depend on y.

    >>> import secrets
    >>> abs(discrete_gaussian(Fraction(100), secrets.randbelow)) < 200
    True
    """
    if square <= 0:
        raise ValueError(f"noise needs a square above 0, got {square}")
    above, below = square.as_integer_ratio()  # fractions would be reduced at every step, which takes most of the time
    width = isqrt(above // below) + 1
    while True:
        drawn = discrete_laplace(Fraction(1, width), randbelow)
        if _bernoulli_exp((abs(drawn) * width * below - above) ** 2, 2 * above * below * width**2, randbelow):
            return drawn


def _exponential_floor(epsilon: Fraction, randbelow: type_of_source) -> int:
    """Draw n >= 0 with probability proportional to ``exp(-epsilon*n)``."""
    steps = epsilon.denominator
    while True:
        part = randbelow(steps)
        if _bernoulli_exp(part, steps, randbelow):
            break
    whole = 0
    while _bernoulli_exp(1, 1, randbelow):
        whole += 1
    return (part + steps * whole) // epsilon.numerator


def _bernoulli_exp(above: int, below: int, randbelow: type_of_source) -> bool:
    """Flip a coin of probability ``exp(-above/below)`` without computing it: one for each whole 1, one for the rest."""
    while above > below:
        if not _bernoulli_exp(1, 1, randbelow):
            return False
        above -= below
    draws = 1
    while randbelow(below * draws) < above:
        draws += 1
    return draws % 2 == 1


def variance(epsilon: float) -> float:
    """Variance ``2a/(1-a)**2`` of `Laplace`, with ``a = exp(-epsilon)``.

    >>> round(variance(0.5), 4)
    7.8354
    """
    # 2a/(1-a)^2 = 1/(2 sinh^2(epsilon/2)), which stays accurate for small epsilon.
    return 0.5 / sinh(epsilon / 2) ** 2 if epsilon < 700 else 0.0
