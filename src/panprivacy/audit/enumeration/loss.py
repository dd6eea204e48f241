r"""The largest privacy loss among laws: the ratio of the likelihoods of what an observer sees.

An observer sees a state, by itself, and numbers behind noise. For a fixed state, the likelihood of the numbers
o_1..o_k under a law is ``f(o) = sum of weight * prod exp(-rate_i * |o_i - v_i|)`` over the values v that the noise
may have hidden. No range of o need be cut off: with all coordinates but one fixed, between two neighbouring values
of v_i both ``f`` and its rival ``g`` have the form ``A*e^(r*o) + B*e^(-r*o)``, so f/g is a Moebius function of
``e^(2*r*o)`` and monotone; beyond the outermost values it is constant. The largest ratio over all integers, or all
reals, is therefore found where each o_i equals one of the values v_i.

`Views` splits laws by the part seen without noise, `widest` finds the largest ratio among laws, and `Judge` keeps the
largest of all timelines.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache, lru_cache
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.audit.enumeration.machine import Laws, Numbered, Step
from panprivacy.audit.enumeration.outcomes import Noised
from panprivacy.audit.enumeration.search import Finished, steps_of
from panprivacy.privacy import exact

Point: TypeAlias = tuple[Fraction | Decimal, ...]
"""The numbers seen; plus and minus infinity are the far ends."""

Visible: TypeAlias = tuple[tuple[object, ...], ...]
"""The part seen without noise: states, and everything that releases returned beside their noisy numbers."""

_CONTEXT = Context(prec=50)
_FAR = (Decimal("-Infinity"), Decimal("Infinity"))
_CLOSE = 1e-9  # far more than floats err, so that the candidates they leave contain the true worst
_SMALLEST = 1e-280  # floats run out below
_LARGER = Decimal("1.000000000000000000000000000000000000000001")  # less is the rounding of another order of sums


@dataclass(frozen=True, eq=False)
class Hidden:
    """The numbers behind noise in one outcome. Each combination is made once, and compared as an object."""

    numbers: tuple[Noised, ...]


@dataclass(eq=False)
class Weights:
    """The exact weights, under one law, of the numbers hidden behind one and the same sight."""

    whole: int
    shares: dict[Hidden, int] = field(default_factory=dict)

    def add(self, hidden: Hidden, share: int) -> None:
        """Add an outcome of weight ``share / whole``."""
        self.shares[hidden] = self.shares.get(hidden, 0) + share


@dataclass(frozen=True)
class Gap:
    """Two laws, and where they differ most: the likelihoods of one point under the two."""

    larger: int
    smaller: int
    point: Point
    above: Decimal
    below: Decimal
    hidden: Sequence[Hidden]
    """The numbers that the noise may have hidden."""
    settled: bool
    """False if a larger gap may exist between the points that were tried."""

    @property
    def ratio(self) -> Decimal:
        """``above / below``; infinite if the point is impossible under one of the laws."""
        return _CONTEXT.divide(self.above, self.below) if self.below else Decimal("Infinity")


@dataclass(frozen=True)
class _Field:
    """Where to look for the widest gap, given what the noise may have hidden."""

    hidden: tuple[Hidden, ...]
    points: tuple[Point, ...]
    slowest: tuple[Fraction, ...]
    alike: bool
    noise: NDArray[np.float64]
    """In floats, ``exp(-rate * distance)`` of every hidden number and point."""
    factors: dict[int, dict[Hidden, tuple[Decimal, ...]]] = field(default_factory=dict)
    """The same exactly, by the number of the point, of the points that were looked at."""


def widest(laws: Sequence[Weights | None], beyond: Decimal = Decimal(0)) -> Gap | None:
    """Where the likelihoods of one sight differ most among laws; None if by a ratio smaller than `beyond`.

    None stands for a law under which the sight is impossible.

    >>> from panprivacy.privacy.noise import Laplace
    >>> laws = [Weights(1), Weights(1)]
    >>> for i in range(2):
    ...     laws[i].add(Hidden((Noised(Fraction(i), Laplace(Fraction(1))),)), 1)
    >>> print(widest(laws).ratio)
    2.7182818284590452353602874713526624977572470936999
    """
    possible = [law for law in laws if law]
    field = _field_of(frozenset(hidden for law in possible for hidden in law.shares))
    if len(possible) < len(laws):
        a, b = laws.index(possible[0]), laws.index(None)
        return Gap(a, b, field.points[0], _likelihood(possible[0], field, 0), Decimal(0), field.hidden, settled=True)
    best: Gap | None = None
    for i in _candidates(possible, field, beyond):
        found = [_likelihood(law, field, i) for law in possible]
        above, below = max(found), min(found)
        larger, smaller = found.index(above), found.index(below)
        gap = Gap(larger, smaller, field.points[i], above, below, field.hidden, settled=field.alike or not below)
        if best is None or gap.ratio > best.ratio:
            best = gap
    return best


@lru_cache(maxsize=4096)
def _field_of(found: frozenset[Hidden]) -> _Field:
    hidden = tuple(sorted(found, key=lambda one: [(number.value, number.rate) for number in one.numbers]))
    columns = list(zip(*(one.numbers for one in hidden), strict=True))
    slowest = tuple(min(number.rate for number in column) for column in columns)
    alike = all(number.rate == rate for column, rate in zip(columns, slowest, strict=True) for number in column)
    ends = () if alike else _FAR  # noise of several widths: the widest one alone reaches the far ends
    places = [[*sorted({number.value for number in column}), *ends] for column in columns]
    noise = np.ones((len(hidden), 1))
    for column, place, rate in zip(columns, places, slowest, strict=True):
        values, seen = (np.array([float(x) for x in xs]) for xs in ([number.value for number in column], place))
        each = np.exp(-float(rate) * np.abs(seen - values[:, np.newaxis]))
        noise = (noise[:, :, np.newaxis] * each[:, np.newaxis, :]).reshape(len(hidden), -1)  # in the order of `product`
    return _Field(hidden, tuple(product(*places)), slowest, alike, noise)


def _candidates(laws: Sequence[Weights], field: _Field, beyond: Decimal) -> Sequence[int]:
    """The points that may be worst, by a calculation in floats that is wrong in its last digits only."""
    everywhere = range(len(field.points))
    if not field.alike:
        return everywhere
    weights = np.array([[law.shares.get(one, 0) / law.whole for one in field.hidden] for law in laws])
    found = weights @ field.noise
    least = found.min(axis=0)
    if least.min() < _SMALLEST:
        return everywhere
    ratios = found.max(axis=0) / least
    worst = max(float(ratios.max()), float(beyond))
    return [int(i) for i in np.flatnonzero(ratios >= worst * (1 - _CLOSE))]


def _likelihood(law: Weights, field: _Field, at: int) -> Decimal:
    """Probability, or density, of the numbers seen, to 50 digits."""
    if at not in field.factors:
        point = field.points[at]
        field.factors[at] = {
            hidden: tuple(map(_factor, hidden.numbers, point, field.slowest)) for hidden in field.hidden
        }
    factors, total = field.factors[at], Decimal(0)
    for hidden, share in law.shares.items():
        term = Decimal(share)
        for factor in factors[hidden]:
            term = _CONTEXT.multiply(term, factor)
        total = _CONTEXT.add(total, term)
    return _CONTEXT.divide(total, Decimal(law.whole))


def _factor(number: Noised, seen: Fraction | Decimal, slowest: Fraction) -> Decimal:
    """The chance, or density, of a number seen, over what is hidden.

    At a far end it is the limit of it over ``exp(-slowest * |o|)``: only the widest noise gets there.
    """
    if isinstance(seen, Fraction):
        return _noise(number.rate, -abs(seen - number.value), number.whole)
    if number.rate == slowest:
        return _noise(number.rate, number.value if seen > 0 else -number.value, number.whole)
    return Decimal(0)


@lru_cache(maxsize=2**16)
def _noise(rate: Fraction, distance: Fraction, whole: bool) -> Decimal:
    """``exp(rate * distance)``, made a probability or a density."""
    size = exact.exp(exact.decimal(rate * distance))
    if not whole:
        return _CONTEXT.multiply(size, exact.decimal(rate / 2))
    a = exact.exp(exact.decimal(-rate))
    return _CONTEXT.multiply(size, _CONTEXT.divide(_CONTEXT.subtract(1, a), _CONTEXT.add(1, a)))


class Views:
    """Laws sorted by the part seen without noise; each such sight has a number."""

    def __init__(self, laws: Laws) -> None:
        self._laws = laws
        self._hidden: dict[tuple[Noised, ...], Hidden] = {}
        self.visible: Numbered[Visible] = Numbered()
        self.of = cache(self._make_view)
        self._part = cache(self._make_part)

    def missing(self, law: int) -> Fraction:
        """The part of a law that was left out, since noise that stays in the state has infinitely many outcomes."""
        masses, whole = self._laws.laws[law]
        return max(1 - Fraction(sum(share for _, _, share in masses), whole), Fraction(0))

    def _make_view(self, law: int) -> dict[int, Weights]:
        masses, whole = self._laws.laws[law]
        view: dict[int, Weights] = {}
        for history, _, share in masses:
            visible, hidden = self._part(history)
            view.setdefault(visible, Weights(whole)).add(hidden, share)
        return view

    def _make_part(self, history: int) -> tuple[int, Hidden]:
        """What was seen, parted into what stood open and what was behind noise."""
        visible: list[tuple[object, ...]] = []
        numbers: list[Noised] = []
        for glance in self._laws.histories[history]:
            if glance.is_reading:
                visible.append(("state", glance.what))
            else:
                sight = self._laws.machine.sights[glance.what]
                visible.append(("released", sight.returned, tuple(number.whole for number in sight.noised)))
                numbers.extend(sight.noised)
        behind = tuple(numbers)
        return self.visible.number(tuple(visible)), self._hidden.setdefault(behind, Hidden(behind))


@dataclass(frozen=True)
class Finding:
    """A gap between two laws, the steps that lead to each, and the part seen without noise."""

    gap: Gap
    steps_a: tuple[Step, ...]
    steps_b: tuple[Step, ...]
    visible: Visible
    rivals: tuple[Visible, ...]
    """What else could have been seen on that timeline."""


class Judge:
    """Compares the laws of finished timelines and remembers the widest gap."""

    delta = 0.0

    def __init__(self, laws: Laws) -> None:
        self.views = Views(laws)
        self._judged: set[frozenset[int]] = set()
        self.worst: Any = None
        self.ratio = Decimal(1)
        self.settled = True

    @property
    def timelines(self) -> int:
        """How many different sets of laws were compared."""
        return len(self._judged)

    def loss_at(self, delta: float) -> float:  # noqa: ARG002 (there is none)
        """The logarithm of the widest gap so far, rounded up."""
        return exact.round_up(exact.ln(self.ratio))

    def is_certain(self) -> bool:
        """Whether nothing worse can come: something has been seen that rules a stream out."""
        return self.ratio.is_infinite()

    def hear(self, finished: Finished) -> None:
        """Compare the laws of one timeline, unless they were compared before."""
        case = frozenset(finished)
        if len(case) > 1 and case not in self._judged:
            self._judged.add(case)
            self._compare(finished)

    def _compare(self, finished: Finished) -> None:
        laws = list(finished)
        views = [self.views.of(law) for law in laws]
        sights = dict.fromkeys(key for view in views for key in view)
        for visible in sights:
            if self.ratio.is_infinite():
                return
            gap = widest([view.get(visible) for view in views], beyond=self.ratio)
            if gap is None:
                continue
            self.settled &= gap.settled
            if gap.ratio > _CONTEXT.multiply(self.ratio, _LARGER):
                a, b = (steps_of(finished[laws[i]]) for i in (gap.larger, gap.smaller))
                seen = self.views.visible
                self.worst = Finding(gap, a, b, seen[visible], tuple(seen[i] for i in sights))
                self.ratio = gap.ratio
