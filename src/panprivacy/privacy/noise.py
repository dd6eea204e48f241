"""Exact discrete Laplace noise from integers alone.

Floating-point Laplace noise leaks through the gaps between floats (Mironov 2012). The sampler here is that of
Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020), algorithms 1 and 2: it asks
for uniform integers, compares integers, and is exact.
"""

from collections.abc import Callable
from fractions import Fraction

type_of_source = Callable[[int], int]
"""``randbelow(n)`` returns a uniform integer in 0..n-1."""


def discrete_laplace(epsilon: Fraction, randbelow: type_of_source) -> int:
    r"""Draw an integer x with probability ``(1-a)/(1+a) * a**|x|``, where ``a = exp(-epsilon)``.

    Adding it to an integer that one person changes by at most 1 makes the sum epsilon-private.

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


def _exponential_floor(epsilon: Fraction, randbelow: type_of_source) -> int:
    """Draw n >= 0 with probability proportional to ``exp(-epsilon*n)``."""
    steps = epsilon.denominator
    while True:
        part = randbelow(steps)
        if _bernoulli_exp(Fraction(part, steps), randbelow):
            break
    whole = 0
    while _bernoulli_exp(Fraction(1), randbelow):
        whole += 1
    return (part + steps * whole) // epsilon.numerator


def _bernoulli_exp(gamma: Fraction, randbelow: type_of_source) -> bool:
    """Flip a coin of probability ``exp(-gamma)``, for gamma in [0, 1], without computing it."""
    draws = 1
    while randbelow(gamma.denominator * draws) < gamma.numerator:
        draws += 1
    return draws % 2 == 1


def variance(epsilon: float) -> float:
    """Variance ``2a/(1-a)**2`` of the noise, with ``a = exp(-epsilon)``.

    >>> round(variance(0.5), 4)
    7.8354
    """
    # 2a/(1-a)^2 = 1/(2 sinh^2(epsilon/2)), which stays accurate for small epsilon.
    from math import sinh

    return 0.5 / sinh(epsilon / 2) ** 2 if epsilon < 700 else 0.0
