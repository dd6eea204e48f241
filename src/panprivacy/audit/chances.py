"""Probabilities of single outcomes of exact noise, to 25 digits: for noise whose branches the auditor takes."""

from decimal import Context, Decimal
from fractions import Fraction
from functools import cache

from panprivacy.privacy import exact
from panprivacy.privacy.noise import Gaussian, Noise

_CONTEXT = Context(prec=50)
_NOTHING = Decimal("1e-45")


@cache
def chance_of(distance: int, noise: Noise) -> Fraction:
    """``P(X = distance)``, for a distance of at least 0."""
    if isinstance(noise, Gaussian):
        heights, whole = _bell(noise.square)
        return _rounded(Fraction(heights[distance]) / whole if distance < len(heights) else Fraction(0))
    a = Fraction(exact.exp(exact.decimal(-noise.epsilon)))
    return _rounded((1 - a) / (1 + a) * a**distance)


@cache
def chance_from(distance: int, noise: Noise) -> Fraction:
    """``P(X >= distance)``, for a distance above 0."""
    if isinstance(noise, Gaussian):
        heights, whole = _bell(noise.square)
        return _rounded(Fraction(exact.add(*heights[distance:])) / whole)
    a = Fraction(exact.exp(exact.decimal(-noise.epsilon)))
    return _rounded(a**distance / (1 + a))


@cache
def _bell(square: Fraction) -> tuple[tuple[Decimal, ...], Fraction]:
    """``exp(-x^2 / (2*square))`` for x = 0, 1, .. until nothing is left, and the sum over all integers.

    From one height to the next it takes a factor ``q^(2x+1)`` with ``q = exp(-1 / (2*square))``.
    """
    step = exact.exp(exact.decimal(-1 / (2 * square)))
    factor, double = step, _CONTEXT.multiply(step, step)
    heights = [Decimal(1)]
    while heights[-1] > _NOTHING:
        heights.append(_CONTEXT.multiply(heights[-1], factor))
        factor = _CONTEXT.multiply(factor, double)
    return tuple(heights), 2 * Fraction(exact.add(*heights)) - 1


def _rounded(probability: Fraction) -> Fraction:
    """A power of two below the line keeps the fractions of an audit short."""
    return Fraction(max(round(probability * 2**96), 1), 2**96)
