"""Plans for answers about periods: who came back, and who was active in the last days."""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any, Literal

from panprivacy.checks import check_delta, check_epsilon, check_whole, shown
from panprivacy.errors import CannotPlan, InvalidValue
from panprivacy.estimates.errors import DifferenceErrorModel, ErrorModel, ErrorVariance
from panprivacy.estimates.retention import MAIN_SHARE
from panprivacy.periods import days_of
from panprivacy.planning.result import Errors, Part, Parts, Plan, PlannedParts, planned_parts
from panprivacy.planning.search import DIGITS, as_fraction, rounded_up
from panprivacy.privacy.budget import Split, and_delta
from panprivacy.privacy.splitting import best_split
from panprivacy.testing import gaussian_noise
from panprivacy.universe import Universe

_LARGEST_EPSILON = 100.0


def plan_periods(
    estimator: Literal["Retention", "ActiveUsers"],
    universe: int | Universe | None = None,
    epsilon: float | None = None,
    *,
    alpha: float | None = None,
    beta: float = 0.05,
    releases: int = 1,
    span: str = "28d",
    every: str = "1d",
    share: float | None = None,
    touched: float = 1.0,
    delta: float | None = None,
    groups: Any = None,
) -> Plan[Any]:
    """Say how much an answer about periods will err, or how much epsilon it takes to err less.

    Parameters
    ----------
    estimator, universe
        What to plan, with a bit for every user of a universe.
    epsilon
        The budget. None asks for the smallest, to four digits, with which an error of `alpha` or more has a probability
        of about `beta`.
    alpha, beta
        The error of the share, and how probable it may be. Without alpha the plan says which alpha goes with beta.
    releases, span, every
        As for `pp.Retention`, and for `pp.ActiveUsers`.
    delta
        A delta that may be used. The plan takes it, and Gaussian noise, if that is better for this number of releases;
        else it is one for Laplace noise, which needs no delta. `Plan.errors` has both.
    share
        Where the error is stated: the share that came back (1/4 if left out), or was active (1/2, where it is largest).
    groups
        Groups of users, each of which has to keep to alpha and beta, as for `plan`.
    touched
        The share that comes in the second period of a `Retention` at all: the fewer, the smaller the error.

    Examples
    --------
    >>> weekly = plan_periods("ActiveUsers", 1_000_000, 1.0, span="7d")
    >>> round(weekly.stderr, 4), round(weekly.alpha, 4)
    (0.0033, 0.0065)
    >>> back = plan_periods("Retention", 200_000, alpha=0.005, share=0.15, touched=0.3)
    >>> back.epsilon, back.code
    (0.7938, 'pp.Retention(200000, epsilon=0.7938)')
    """
    _check_asked(estimator, touched)
    users, parts = planned_parts(universe, groups)
    if users is None:
        raise InvalidValue(f"a plan of {estimator} needs a universe: the number of users", code="plan-universe")
    asked: dict[str, Any]
    if estimator == "Retention":
        usual, asked = 0.25, {"releases": check_whole(releases, "releases") + 1, "touched": touched}
    else:
        usual, asked = 0.5, {"releases": days_of(span, every)[1], "touched": None}
    asked |= {"users": users.size, "share": usual if share is None else share, "parts": parts}
    wish = _Wish(epsilon=epsilon, alpha=alpha, beta=beta, delta=delta, **asked)
    split, error, errors = _better_noise(wish)
    plan: Plan[Any] = Plan(
        estimator=estimator,
        universe=users,
        size=users.size,
        users=users.size,
        split=split,
        share=wish.share,
        touched=wish.touched,
        stderr=error.stderr,
        of="returned",
        alpha=rounded_up(error.half_width(1 - beta)),
        beta=beta,
        probability=beta,
        errors=errors,
        parts=wish.planned(split),
    )
    return plan if estimator == "Retention" else replace(plan, of="active", span=span, every=every)


def _check_asked(estimator: str, touched: float) -> None:
    if estimator not in ("Retention", "ActiveUsers"):
        raise InvalidValue(
            f"plans about periods are for Retention and ActiveUsers, not for {shown(estimator)}", code="plan-estimator"
        )
    if not 0 < touched <= 1:
        raise InvalidValue(
            f"touched is a share of the users, above 0 and at most 1, got {touched}", code="touched-range"
        )


@dataclass(frozen=True)
class _Wish:
    """The wishes for an answer about periods, checked."""

    users: int
    epsilon: float | None
    alpha: float | None
    beta: float
    releases: int
    """All releases of a `Retention`, the cohort's included, or of a cycle of an `ActiveUsers`."""
    share: float
    touched: float | None
    """None for an `ActiveUsers`."""
    delta: float | None
    parts: Parts | None = None

    def __post_init__(self) -> None:
        if self.epsilon is None and self.alpha is None:
            raise InvalidValue("give epsilon, or alpha, to be told the smallest epsilon", code="plan-epsilon")
        for name in ("alpha", "beta", "share"):
            if getattr(self, name) is not None:
                as_fraction(name, getattr(self, name))
        if self.epsilon is not None:
            check_epsilon(self.epsilon)
        check_delta(self.delta)

    def error_at(self, epsilon: float) -> tuple[Split, ErrorVariance]:
        """How a budget is split, and the error that results: of all users, or of the smallest group."""
        least = int(self.parts.groups.sizes.min()) if self.parts and self.parts.groups else self.users
        answers = (len(self.parts) if self.parts else 1) * (self.releases if self.touched is None else 1)
        split = best_split(epsilon, max(self.users // answers, 1), self.releases, 0, self.delta)
        return split, self._error_of(split, least)

    def _error_of(self, split: Split, users: int) -> ErrorVariance:
        """The error of a share of this many users."""
        if self.touched is not None:
            asked = round(MAIN_SHARE * users)
            return DifferenceErrorModel(split.pair, asked, asked, users, split.noise).error(self.touched, self.share)
        each = users // self.releases
        if not each:
            raise CannotPlan(
                f"{users} users are fewer than the {self.releases} days of a cycle: each day asks a part of them"
            )
        spread = ErrorModel(split.pair, each, each, users, split.noise)
        return ErrorVariance(spread.normal_variance(self.share), spread.noise_stderr**2, split.noise)

    def error_of_part(self, split: Split, part: Part) -> tuple[float, float]:
        """Standard error and alpha of a group."""
        error = self._error_of(split, part.users)
        return error.stderr, rounded_up(error.half_width(1 - self.beta))

    def planned(self, split: Split) -> PlannedParts | None:
        """The groups, with the law of each."""
        law = partial(self.error_of_part, split)
        return None if self.parts is None else self.parts.planned(self.users, self.users, law)

    def half_width(self, epsilon: float) -> float:
        """The error that is exceeded with probability beta, rounded up."""
        return rounded_up(self.error_at(epsilon)[1].half_width(1 - self.beta))


def _better_noise(wish: _Wish) -> tuple[Split, ErrorVariance, Errors | None]:
    """The plan with Gaussian noise, unless the one with Laplace noise is as good: it comes without a delta."""
    deltas = [None] if wish.delta is None else [None, wish.delta]
    wishes = [replace(wish, delta=delta) for delta in deltas]
    found: list[tuple[Split, ErrorVariance]] = []
    for each in wishes:
        with suppress(ValueError):
            found.append(each.error_at(_epsilon_for(each)))
    if not found:
        nearest = min(wishes, key=lambda each: _stderr(each, wish.epsilon or _LARGEST_EPSILON) or inf)
        found.append(nearest.error_at(_epsilon_for(nearest)))  # which says how much is out of reach
    split, error = min(found, key=lambda plan: (plan[0].epsilon, plan[1].stderr))
    errors = None if wish.delta is None else Errors(*(_stderr(each, split.epsilon) for each in wishes))
    return split, error, errors


def _stderr(wish: _Wish, epsilon: float) -> float | None:
    """The standard error with Laplace noise, or, if there is a delta, with Gaussian noise, even if it is the worse."""
    with suppress(ValueError), gaussian_noise():
        return wish.error_at(epsilon)[1].stderr
    return None  # the epsilon is too small for this noise


def _epsilon_for(wish: _Wish) -> float:
    """The given epsilon, if it meets the wishes; else the smallest that does."""
    if wish.alpha is None:
        assert wish.epsilon is not None  # `plan_periods` asks for one of the two
        return wish.epsilon
    if wish.epsilon is not None and wish.half_width(wish.epsilon) <= wish.alpha:
        return wish.epsilon
    least = _smallest_epsilon(wish, wish.alpha)
    if least is None or wish.epsilon is not None:
        at = "any epsilon" if wish.epsilon is None else f"epsilon = {wish.epsilon:g}"
        possible = (
            [] if wish.epsilon is None else [f"alpha = {wish.half_width(wish.epsilon):g} at epsilon = {wish.epsilon:g}"]
        )
        possible += [f"epsilon = {least:g} for alpha = {wish.alpha:g}"] if least else []
        raise CannotPlan(
            f"alpha = {wish.alpha:g} is out of reach for {wish.users:,} users at {at}"
            f"{and_delta(wish.delta or 0.0)}; possible: {'; or '.join(possible) or 'more users, or a larger beta'}"
        )
    return least


def _smallest_epsilon(wish: _Wish, alpha: float) -> float | None:
    """The smallest epsilon, to four digits, that keeps to alpha; an epsilon that is too small for any plan does not."""

    def enough(epsilon: float) -> bool:
        try:
            return wish.half_width(epsilon) <= alpha
        except ValueError:
            return False

    low, high = 1e-4, _LARGEST_EPSILON
    if not enough(high):
        return None
    while high / low > 1 + 10.0**-DIGITS / 2:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if enough(middle) else (middle, high)
    return rounded_up(high)
