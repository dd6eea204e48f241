"""Exponentials and logarithms that never err towards less privacy.

A loss is the logarithm of a ratio of integers. Here it is computed with 50 digits and rounded *up* to the next
float, so a reported loss is never below the true one.
"""

from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import inf, isinf, nextafter

_CONTEXT = Context(prec=50)


def decimal(value: Fraction | float) -> Decimal:
    """Turn an exact number into 50 digits."""
    ratio = Fraction(value)
    return _CONTEXT.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))


@lru_cache(maxsize=256)  # the parts of a budget that stay are asked for again with every release
def ln(value: Decimal) -> Decimal:
    """Natural logarithm to 50 digits."""
    return _CONTEXT.ln(value)


def exp(value: Decimal) -> Decimal:
    """Exponential to 50 digits."""
    return _CONTEXT.exp(value)


def add(*terms: Decimal) -> Decimal:
    """Sum to 50 digits."""
    total = Decimal(0)
    for term in terms:
        total = _CONTEXT.add(total, term)
    return total


def times(count: int, term: Decimal) -> Decimal:
    """A term, this number of times, to 50 digits."""
    return _CONTEXT.multiply(Decimal(count), term)


def logistic(value: float) -> Fraction:
    """``e^value / (1 + e^value)`` to 50 digits."""
    growth = Fraction(exp(decimal(value)))
    return growth / (1 + growth)


def log_mixture(p: Fraction, exponent: Decimal) -> Decimal:
    """``ln(1 + p*(e^exponent - 1))``: the loss of a bit that is 1 with probability p, seen through `exponent`."""
    grown = _CONTEXT.multiply(decimal(p), add(exp(exponent), Decimal(-1)))
    return ln(add(Decimal(1), grown))


def round_up(value: Decimal | Fraction) -> float:
    """Return the smallest float that is not below the value."""
    nearest = float(value)
    if isinf(nearest) or Fraction(nearest) >= Fraction(value):
        return nearest
    return nextafter(nearest, inf)
