"""The smallest size, error or epsilon that keeps to what is asked."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import ceil, exp, floor, log

from panprivacy.planning.law import Design
from panprivacy.planning.rounding import unit_of
from panprivacy.planning.terms import Terms
from panprivacy.planning.worst import worst_case
from panprivacy.release import Spread

_LEAST_EPSILON = 1e-6
_ROUGH, _TRIED_BELOW = 512, 64

LARGEST_EPSILON = 50.0
"""The largest epsilon that is looked at: beyond it nobody is protected."""


def smallest_size(terms: Terms, alpha: Fraction, beta: float, largest: int) -> int | None:
    """The smallest table with ``P(|release.density - density| >= alpha) <= beta`` at every density, if there is one.

    The worst case over densities is a sawtooth in the size. ``n = ceil(2*users*(p1-p0)*alpha)`` counts lie between
    those that are errors of at least alpha. While n stays, a larger table only adds variance; where n steps up, the
    probability drops. So the smallest size is the first of its tooth, and only such sizes are tried: n finds it.
    From alpha = 1/2 on errors are in one direction only, and there are no teeth.

    >>> smallest_size(Terms(10**9, epsilon=0.4), Fraction(1, 10), beta=0.05, largest=10**9)
    4083
    """
    guess = round(_crossing(lambda size: _about_risk(terms, round(size), alpha) - beta, 1, largest))
    if 2 * alpha >= 1:
        size = _least(lambda size, quick: _risk(terms, size, alpha, quick) <= beta, guess, largest)
    else:
        teeth = _Teeth(terms, alpha, largest)
        n = _least(lambda n, quick: _risk(terms, teeth.first(n), alpha, quick) <= beta, teeth.of(guess), teeth.last)
        size = None if n is None else teeth.first(n)
    return None if size is None else _smallest_near(lambda size, quick: _risk(terms, size, alpha, quick) <= beta, size)


def smallest_alpha(terms: Terms, size: int, beta: float) -> Fraction | None:
    """The smallest error, to four digits, that a release exceeds with probability at most beta at any density."""
    design = terms.possible(size)
    if design is None:
        return None
    guess = about_alpha(design, beta)
    unit = unit_of(guess)

    def meets(k: int, quick: bool) -> bool:
        return worst_case(design, k * unit, quick=quick).probability <= beta

    k = _least(meets, max(round(Fraction(guess) / unit), 1), floor(1 / unit))
    return None if k is None else k * unit


def about_alpha(design: Design, beta: float) -> float:
    """About the error that is exceeded with probability beta at density 1/2; at most 1."""
    return _crossing(lambda alpha: _about(design, alpha) - beta, 1e-12, 1.0)


def smallest_epsilon(terms: Terms, size: int, alpha: Fraction, beta: float) -> float | None:
    """The smallest total epsilon, to four digits, with which a table of this size keeps to alpha and beta."""

    def at(epsilon: float) -> Terms:
        return replace(terms, epsilon=epsilon)

    guess = _crossing(lambda e: _about_risk(at(e), size, alpha) - beta, _LEAST_EPSILON, LARGEST_EPSILON)
    unit = unit_of(guess)

    def meets(k: int, quick: bool) -> bool:
        return _risk(at(float(k * unit)), size, alpha, quick) <= beta

    k = _least(meets, round(Fraction(guess) / unit), floor(Fraction(LARGEST_EPSILON) / unit))
    return None if k is None else float(k * unit)


class _Teeth:
    """Teeth: runs of sizes with the same number of counts that are less than alpha from the truth."""

    def __init__(self, terms: Terms, alpha: Fraction, largest: int) -> None:
        self._terms, self._alpha, self._largest = terms, alpha, largest
        self.last = self.of(largest) + 1
        """A tooth beyond the last one: it stands for the largest size, which need not be the first of its tooth."""
        self._near = largest  # some size whose tooth is known

    def of(self, size: int) -> int:
        """The number of the tooth that a size is in."""
        design = self._terms.possible(size)
        return 0 if design is None else ceil(2 * design.users * design.gap * self._alpha)

    def first(self, n: int) -> int:
        """The smallest size of tooth n."""
        if n >= self.last:
            return self._largest
        start = min(max(self._near * n // max(self.of(self._near), 1), 1), self._largest)
        self._near = first_true(lambda size: self.of(size) >= n, start, self._largest) or self._largest
        return self._near


def _risk(terms: Terms, size: int, alpha: Fraction, quick: bool) -> float:
    """The error probability at the worst density."""
    design = terms.possible(size)
    return 1.0 if design is None else worst_case(design, alpha, quick=quick).probability


def _about_risk(terms: Terms, size: int, alpha: Fraction) -> float:
    design = terms.possible(size)
    return 1.0 if design is None else _about(design, float(alpha))


def _about(design: Design, alpha: float) -> float:
    """The error probability at density 1/2, taking ones for normal and the noise for continuous."""
    spread = Spread(design.pair, design.bits, design.users, design.population, design.noise)
    return 2 * spread.cdf(-alpha, 0.5)


def _crossing(falling: Callable[[float], float], low: float, high: float) -> float:
    """About where a falling function crosses zero, or the end that is nearest to it."""
    from scipy.optimize import brentq

    if high <= low or falling(high) >= 0:
        return high
    if falling(low) <= 0:
        return low
    return exp(brentq(lambda x: falling(exp(x)), log(low), log(high), xtol=1e-5))


def _least(meets: Callable[[int, bool], bool], start: int, last: int) -> int | None:
    """The least number that meets a demand: found by a quick look, and then looked at thoroughly."""
    found = first_true(lambda n: meets(n, True), start, last)
    if found is None or meets(found, False):
        return found
    return first_true(lambda n: meets(n, False), found + 1, last)


def _smallest_near(meets: Callable[[int, bool], bool], size: int) -> int:
    """Look whether smaller sizes do, too.

    A few counts make rough teeth, so below a small size some more are tried. Of a large one the split, optimised to
    some nine digits, can blur where its tooth begins.
    """
    if size <= _ROUGH:
        tried = range(max(1, size - _TRIED_BELOW), size)
        return next((smaller for smaller in tried if meets(smaller, True) and meets(smaller, False)), size)
    while size > 1 and meets(size - 1, False):
        size -= 1
    return size


def first_true(test: Callable[[int], bool], start: int, last: int) -> int | None:
    """The least of 1..last for which a test holds that, once true, stays true; looking near `start` first."""
    low, high = 0, last + 1  # false up to low, true from high on
    at, step = min(max(start, 1), last), 1
    while high - low > 1:
        if test(at):
            high = at
        else:
            low = at
        if high == last + 1:
            at = min(low + step, last)
        elif low == 0:
            at = max(high - step, 1)
        else:
            at = (low + high) // 2
        step *= 2
    return high if high <= last else None
