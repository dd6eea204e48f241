"""Numbers that a plan offers, in few digits: rounded up, so that whoever asks for what is offered can have it."""

from fractions import Fraction
from math import floor, log10

DIGITS = 4
"""Of every alpha and epsilon that is found."""


def unit_of(value: float) -> Fraction:
    """One in the last of the four digits of a value.

    >>> unit_of(0.15815)
    Fraction(1, 10000)
    """
    return Fraction(10) ** (floor(log10(value)) - DIGITS + 1)


def rounded_up(value: float) -> float:
    """The least number of four digits that is not below a value.

    >>> rounded_up(0.158131), rounded_up(0.1581), rounded_up(23.4501), rounded_up(0.99996)
    (0.1582, 0.1581, 23.46, 1.0)
    """
    unit = unit_of(value)
    exact = Fraction(str(value))  # 0.1581 is 1581 units, as it prints, and not the hair more that a float may be
    return float(-(-exact // unit) * unit)
