"""What a plan is asked for, and what all plans choose alike: the noise, and the least epsilon."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal

from panprivacy.errors import CannotPlan
from panprivacy.estimates.errors import ErrorVariance
from panprivacy.planning.result import Errors, Part, Parts, Plan
from panprivacy.planning.search import LARGEST_EPSILON, LEAST_EPSILON, rounded_up
from panprivacy.privacy.budget import Split, and_delta
from panprivacy.privacy.splitting import best_split
from panprivacy.testing import gaussian_noise
from panprivacy.universe import Universe


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
