"""Laplace or Gaussian noise: which is better for the releases at hand, where a delta is allowed.

Laplace noise grows with the number of releases and needs no delta; Gaussian noise grows with the root of that number,
and is the larger one of few.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from panprivacy.planning.counting import counter
from panprivacy.planning.options import Wish
from panprivacy.planning.result import Errors, Plan
from panprivacy.planning.search import LARGEST_EPSILON
from panprivacy.planning.terms import Terms
from panprivacy.release import Spread
from panprivacy.testing import gaussian_noise


def better_noise(wish: Wish, choose: Callable[[Wish], Plan]) -> Plan:
    """The plan with Gaussian noise, unless the one with Laplace noise is as good: it comes without a delta.

    Of epsilon, alpha and size two are given or wished for, and the plans differ in the third alone.
    """
    plans = _possible(wish, choose)
    if not plans:
        nearest = _possible(replace(wish, alpha=None, epsilon=wish.epsilon or LARGEST_EPSILON), choose)
        delta = _best(nearest).delta or None if nearest else wish.delta
        return choose(replace(wish, delta=delta))  # which says what is out of reach, and what is not
    best = _best(plans)
    laplace, gaussian = (_stderr(wish, best, delta) for delta in (None, wish.delta))
    return replace(best, errors=Errors(laplace, gaussian))


def _possible(wish: Wish, choose: Callable[[Wish], Plan]) -> list[Plan]:
    """The plans with Laplace and with Gaussian noise, as far as they do what is wished for."""
    plans = []
    for delta in (None, wish.delta):
        with suppress(ValueError):
            plans.append(choose(replace(wish, delta=delta)))
    return plans


def _best(plans: list[Plan]) -> Plan:
    return min(plans, key=lambda plan: (plan.epsilon, plan.alpha, plan.size))


def _stderr(wish: Wish, plan: Plan, delta: float | None) -> float | None:
    """The standard error of a plan with one noise or the other; None if its epsilon is too small for that noise."""
    terms = replace(wish, delta=delta).terms(plan.epsilon)
    with suppress(ValueError), gaussian_noise():  # also where it is the worse one: that is the comparison
        if plan.buckets is not None:
            return counter(terms, wish.crowd, plan.buckets).stderr
        return stderr_of_density(terms, plan.size, plan.density or 0.5)
    return None


def stderr_of_density(terms: Terms, size: int, density: float) -> float:
    """Standard error of the last release of a `Density` of so many bits."""
    design = terms.design(size)
    return Spread(design.pair, design.bits, design.users, design.population, design.noise).stderr(density)
