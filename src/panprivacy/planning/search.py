"""Wishes for an estimator, and the smallest size, error or epsilon that meets them, rounded to four digits."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import ceil, exp, floor, log, log10
from typing import Any, Literal, TypeAlias

import numpy as np

from panprivacy.checks import KEY_BYTES, check_number
from panprivacy.errors import CannotPlan, InvalidValue
from panprivacy.estimates.errors import ErrorVariance
from panprivacy.planning.law import Design, worst_case
from panprivacy.planning.result import Errors, Part, Parts, Plan
from panprivacy.privacy.budget import Split, and_delta
from panprivacy.privacy.splitting import best_split
from panprivacy.slots.users import network
from panprivacy.testing import gaussian_noise
from panprivacy.universe import Universe

DIGITS = 4
"""Digits of every alpha and epsilon that is found. They are rounded up, so that a plan can have what it offers."""

LEAST_EPSILON, LARGEST_EPSILON = 1e-6, 50.0
"""The epsilons that are tried; a larger one protects no user."""

Demand: TypeAlias = Callable[[int, bool], bool]
"""Whether a number is enough; if the flag is set, by a quick look."""

_ROUGH, _TRIED_BELOW = 512, 64


def as_fraction(name: str, value: float) -> Fraction:
    """Read a share as the decimal that it prints as: 0.1 is a tenth."""
    if not 0 < check_number(value, name) < 1:
        raise InvalidValue(f"{name} must be between 0 and 1, got {value}", code=f"{name}-range")
    return Fraction(str(float(value)))


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


@dataclass(frozen=True)
class Terms:
    """The settings that are fixed before a size is chosen."""

    population: int
    epsilon: float
    releases: int = 1
    intrusions: int = 0
    delta: float | None = None
    """With one, noise is Gaussian; without, Laplace's."""
    parts: Parts | None = None
    """Groups or categories, each of which has to keep to the error."""

    def split(self, size: int) -> Split:
        """The split that `Density` makes of the budget for a table of this size."""
        each = max(size // (len(self.parts) if self.parts else 1), 1)
        with np.errstate(invalid="ignore"):  # where nothing is affordable the optimiser compares infinities
            return best_split(self.epsilon, each, self.releases, self.intrusions, self.delta)

    def design(self, size: int) -> Design:
        """The law of the last release, after all planned intrusions: of all users, or of the smallest part."""
        return self.design_of(self._worst(size)[0], size)

    def design_of(self, part: Part, size: int) -> Design:
        """That of one group or category in a table of this size."""
        split = self.split(size)
        return Design(split.pair_after(self.intrusions), *part, split.noise)

    def rivals(self, size: int) -> list[Design]:
        """The laws of all parts that could err most, the smallest part first."""
        return [self.design_of(part, size) for part in self._worst(size)]

    def possible(self, size: int) -> Design | None:
        """The law of `design`, or None if the budget leaves no bit that tells anything."""
        try:
            return self.design(size)
        except ValueError:
            return None

    def _worst(self, size: int) -> list[Part]:
        if self.parts is None:
            return [Part(size, owners(self.population, size), self.population)]
        return self.parts.worst(self.population, size)


def owners(population: int, size: int) -> int:
    """How many slots of a table belong to a user: all, or of a sample the expected number, rounded.

    `slots.UserSample` permutes a range slightly larger than the universe, so a few slots of a sample belong to no user.

    >>> owners(100_000, 100_000), owners(100_000, 5000)
    (100000, 4995)
    """
    if size >= population:
        return population
    shift, blocks = network(population, bytes(KEY_BYTES))[:2].tolist()
    return max(1, round(Fraction(size * population, blocks << shift)))


def smallest_size(terms: Terms, alpha: Fraction, beta: float, largest: int) -> int | None:
    """The smallest table with ``P(|release.density - density| >= alpha) <= beta`` at every density, if there is one.

    The worst case over densities is a sawtooth in the size. ``n = ceil(2*users*(p1-p0)*alpha)`` counts lie between
    those that are errors of at least alpha. While n stays, a larger table only adds variance; where n steps up, the
    probability drops. So the smallest size is the first of its tooth, and only such sizes are tried: n finds it.
    From alpha = 1/2 on errors are in one direction only, and there are no teeth.

    >>> smallest_size(Terms(10**9, epsilon=0.4), Fraction(1, 10), beta=0.05, largest=10**9)
    4083
    """
    guess = round(_crossing(lambda size: _about_risk(terms.possible(round(size)), alpha) - beta, 1, largest))

    def meets(size: int, quick: bool) -> bool:
        return risk_of(terms, size, alpha, quick) <= beta

    size = _least(meets, guess, largest) if 2 * alpha >= 1 else _first_of_a_tooth(terms, alpha, meets, guess, largest)
    return None if size is None else _smallest_near(meets, size)


def _first_of_a_tooth(terms: Terms, alpha: Fraction, meets: Demand, guess: int, largest: int) -> int | None:
    """The least size that meets a demand among the first ones of teeth, and the largest."""
    near = largest  # some size, from which the next tooth is looked for

    def tooth_of(size: int) -> int:
        design = terms.possible(size)
        return 0 if design is None else ceil(2 * design.users * design.gap * alpha)

    last = tooth_of(largest) + 1  # beyond the last one, and stands for the largest size, wherever its tooth begins

    def first(n: int) -> int:
        nonlocal near
        if n >= last:
            return largest
        start = min(max(near * n // max(tooth_of(near), 1), 1), largest)
        near = first_true(lambda size: tooth_of(size) >= n, start, largest) or largest
        return near

    n = _least(lambda n, quick: meets(first(n), quick), tooth_of(guess), last)
    return None if n is None else first(n)


def smallest_alpha(terms: Terms, size: int, beta: float) -> Fraction | None:
    """The smallest error, to four digits, that a release exceeds with probability at most beta at any density."""
    return None if terms.possible(size) is None else alpha_of(terms.rivals(size), beta)


def alpha_of(designs: Sequence[Design], beta: float) -> Fraction | None:
    """The smallest error, to four digits, that each of these laws exceeds with probability at most beta."""
    guess = about_alpha(designs[0], beta)
    unit = unit_of(guess)

    def meets(k: int, quick: bool) -> bool:
        return _largest_risk(designs, k * unit, quick) <= beta

    k = _least(meets, max(round(Fraction(guess) / unit), 1), floor(1 / unit))
    return None if k is None else k * unit


def about_alpha(design: Design, beta: float) -> float:
    """About the error that is exceeded with probability beta at density 1/2; at most 1."""
    return _crossing(lambda alpha: _about_risk(design, alpha) - beta, 1e-12, 1.0)


def smallest_epsilon(terms: Terms, size: int, alpha: Fraction, beta: float) -> float | None:
    """The smallest total epsilon, to four digits, with which a table of this size keeps to alpha and beta."""

    def at(epsilon: float) -> Terms:
        return replace(terms, epsilon=epsilon)

    guess = _crossing(lambda e: _about_risk(at(e).possible(size), alpha) - beta, LEAST_EPSILON, LARGEST_EPSILON)
    unit = unit_of(guess)

    def meets(k: int, quick: bool) -> bool:
        return risk_of(at(float(k * unit)), size, alpha, quick) <= beta

    k = _least(meets, round(Fraction(guess) / unit), floor(Fraction(LARGEST_EPSILON) / unit))
    return None if k is None else float(k * unit)


def risk_of(terms: Terms, size: int, alpha: Fraction, quick: bool = False) -> float:
    """The error probability at the worst density, of the part that errs most."""
    return 1.0 if terms.possible(size) is None else _largest_risk(terms.rivals(size), alpha, quick)


def _largest_risk(designs: Sequence[Design], alpha: Fraction, quick: bool) -> float:
    """The largest error probability of several laws; a quick look is at the first."""
    return max(worst_case(design, alpha, quick=quick).probability for design in (designs[:1] if quick else designs))


def _about_risk(design: Design | None, alpha: Fraction | float) -> float:
    """The error probability at density 1/2, taking ones for normal and the noise for continuous."""
    return 1.0 if design is None else float(2 * design.cdf(-float(alpha), 0.5))


def _crossing(falling: Callable[[float], float], low: float, high: float) -> float:
    """About where a falling function crosses zero, or the end that is nearest to it."""
    from scipy.optimize import brentq

    if high <= low or falling(high) >= 0:
        return high
    if falling(low) <= 0:
        return low
    return exp(brentq(lambda x: falling(exp(x)), log(low), log(high), xtol=1e-5))


def _least(meets: Demand, start: int, last: int) -> int | None:
    """The least number that meets a demand: found by a quick look, and then looked at thoroughly."""
    found = first_true(lambda n: meets(n, True), start, last)
    if found is None or meets(found, False):
        return found
    return first_true(lambda n: meets(n, False), found + 1, last)


def _smallest_near(meets: Demand, size: int) -> int:
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


# --- wishes ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Wish(ABC):
    """The wishes for an estimator, checked."""

    universe: Universe | None
    epsilon: float | None
    alpha: Fraction | float | None
    beta: float
    releases: int
    delta: float | None
    parts: Parts | None
    """Groups or categories, each of which has to keep to alpha and beta."""

    @abstractmethod
    def plan(self) -> Plan[Any]:
        """The plan that meets the wishes; with a delta, its noise may be Gaussian."""

    @abstractmethod
    def stderr_like(self, plan: Plan[Any]) -> float:
        """The standard error of a plan, if it had this delta, or none."""

    def best(self) -> Plan[Any]:
        """The plan with Gaussian noise, unless the one with Laplace noise is as good: it comes without a delta.

        Laplace noise grows with the number of releases and needs no delta. Gaussian noise grows with the root of that
        number, and is the larger one of few. Of epsilon, alpha and size two are given or wished for, and the plans
        differ in the third.
        """
        if self.delta is None:
            return self.plan()
        noises = [replace(self, delta=None), self]
        plans = _possible(noises)
        if not plans:
            epsilon = self.epsilon or LARGEST_EPSILON
            nearest = _possible(replace(each, alpha=None, epsilon=epsilon) for each in noises)
            delta = min(nearest, key=_rank).delta or None if nearest else self.delta
            return replace(self, delta=delta).plan()  # which says how much is out of reach
        best = min(plans, key=_rank)
        return replace(best, errors=Errors(*(each._stderr_if_possible(best) for each in noises)))

    def _stderr_if_possible(self, plan: Plan[Any]) -> float | None:
        with suppress(ValueError), gaussian_noise():  # also where it is the worse one: that is the comparison
            return self.stderr_like(plan)
        return None  # the epsilon is too small for this noise

    def out_of_reach(self, whom: str, where: str, possible: list[str], else_: str) -> CannotPlan:
        """The refusal of an impossible plan, with what would be possible."""
        asked = f"alpha = {float(self.alpha):g}" if self.alpha else "any alpha below 1"
        at = (f"epsilon = {self.epsilon:g}" if self.epsilon else "any epsilon") + and_delta(self.delta or 0.0)
        return CannotPlan(
            f"{asked} with beta = {self.beta:g} is out of reach for {whom} at {at}{where}; possible: "
            f"{'; or '.join(possible) or else_}"
        )


def _possible(wishes: Iterable[Wish]) -> list[Plan[Any]]:
    plans = []
    for wish in wishes:
        with suppress(ValueError):
            plans.append(wish.plan())
    return plans


def _rank(plan: Plan[Any]) -> tuple[float, ...]:
    return plan.epsilon, plan.alpha, plan.size, plan.stderr


@dataclass(frozen=True, kw_only=True)
class ShareWish(Wish):
    """The wishes for a share, or a mean, whose error is about normal, plus the noise: not for a `Density`."""

    estimator: Literal["Counts", "Retention", "ActiveUsers"]
    universe: Universe
    alpha: float | None
    law: Callable[[Split, Part], ErrorVariance]
    """The error of a part of the users, or of all, under a split of the budget."""
    answers: int = 1
    """By how many parts of the users each number is told: of a cycle of an `ActiveUsers`, one a day."""
    places: int | None = None
    """Places of the counters of a `Counts`, if all are released."""
    more: Mapping[str, Any]
    """What else the plan says."""

    def plan(self) -> Plan[Any]:
        """The plan of the given epsilon, or of the least."""
        epsilon = self.epsilon or self._least_epsilon()
        if epsilon is None or (self.alpha and self._alpha_at(epsilon) > self.alpha):
            raise self._refusal()
        split, users = self._split(epsilon), self.universe.size
        error = self._error(split)
        counts = self.estimator == "Counts"  # which says how probable the error in question is; others keep to beta
        alpha = (self.alpha if counts else None) or rounded_up(error.half_width(1 - self.beta))
        return Plan(
            estimator=self.estimator,
            universe=self.universe,
            size=users,
            users=users,
            split=split,
            stderr=error.stderr,
            alpha=alpha,
            beta=self.beta,
            probability=error.beyond(alpha) if counts else self.beta,
            parts=self.parts and self.parts.planned(users, users, partial(self._error_of_part, split)),
            **self.more,
        )

    def stderr_like(self, plan: Plan[Any]) -> float:
        """The standard error at the epsilon of a plan."""
        return self._error(self._split(plan.epsilon)).stderr

    def _split(self, epsilon: float) -> Split:
        """The split that the estimator makes of a budget."""
        each = self.universe.size // (self.answers * (len(self.parts) if self.parts else 1))
        return best_split(epsilon, max(each, 1), self.releases, delta=self.delta, up_to=self.places)

    def _error(self, split: Split) -> ErrorVariance:
        """The error of all users, or of the smallest group or category."""
        users = self.universe.size
        return self.law(split, self.parts.worst(users, users)[0] if self.parts else Part(users, users, users))

    def _error_of_part(self, split: Split, part: Part) -> tuple[float, float]:
        error = self.law(split, part)
        return error.stderr, rounded_up(error.half_width(1 - self.beta))

    def _alpha_at(self, epsilon: float) -> float:
        """The error that is exceeded with probability beta, rounded up."""
        return rounded_up(self._error(self._split(epsilon)).half_width(1 - self.beta))

    def _least_epsilon(self) -> float | None:
        """The smallest epsilon, to four digits, that keeps to alpha; one that is too small for any plan does not."""
        alpha = self.alpha
        assert alpha is not None  # or an epsilon is given

        def enough(epsilon: float) -> bool:
            with suppress(ValueError):
                return self._alpha_at(epsilon) <= alpha
            return False

        low, high = LEAST_EPSILON, LARGEST_EPSILON
        if not enough(high):
            return None
        while high / low > 1 + 1e-6:
            middle = (low * high) ** 0.5
            low, high = (low, middle) if enough(middle) else (middle, high)
        return rounded_up(high)  # where it is enough: bisection ends above the least

    def _refusal(self) -> CannotPlan:
        possible = []
        if self.epsilon:
            possible.append(f"alpha = {self._alpha_at(self.epsilon):g} at epsilon = {self.epsilon:g}")
            least = self._least_epsilon()
            possible += [f"epsilon = {least:g} for alpha = {self.alpha:g}"] if least else []
        fewer = ", or a smaller up_to" if self.estimator == "Counts" else ""
        return self.out_of_reach(self.universe.describe(), "", possible, f"more users, or a larger beta{fewer}")
