"""Plans for answers about periods: who came back, and who was active in the last days."""

from functools import partial
from typing import Any, Literal

from panprivacy.checks import check_delta, check_epsilon, check_whole, shown
from panprivacy.errors import CannotPlan, InvalidValue
from panprivacy.estimates.errors import ErrorModel, ErrorVariance
from panprivacy.estimates.retention import MAIN_SHARE
from panprivacy.periods import days_of
from panprivacy.planning.result import Part, Plan, planned_parts
from panprivacy.planning.search import ShareWish, as_fraction
from panprivacy.privacy.budget import Split
from panprivacy.universe import Universe


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
    _check(estimator, touched, epsilon, alpha)
    users, parts = planned_parts(universe, groups)
    if users is None:
        raise InvalidValue(f"a plan of {estimator} needs a universe: the number of users", code="plan-universe")
    back = estimator == "Retention"
    looks = check_whole(releases, "releases") + 1 if back else days_of(span, every)[1]
    at = (0.25 if back else 0.5) if share is None else share
    for name, value in (("alpha", alpha), ("beta", beta), ("share", at)):
        if value is not None:
            as_fraction(name, value)
    said = {"of": "returned", "touched": touched} if back else {"of": "active", "span": span, "every": every}
    return ShareWish(
        estimator=estimator,
        universe=users,
        epsilon=epsilon,
        alpha=alpha,
        beta=beta,
        releases=looks,
        delta=check_delta(delta),
        parts=parts,
        law=partial(_law_of_return, at, touched) if back else partial(_law_of_days, at, looks),
        answers=1 if back else looks,
        more={"share": at, **said},
    ).best()


def _check(estimator: str, touched: float, epsilon: float | None, alpha: float | None) -> None:
    if estimator not in ("Retention", "ActiveUsers"):
        raise InvalidValue(
            f"plans about periods are for Retention and ActiveUsers, not for {shown(estimator)}", code="plan-estimator"
        )
    if not 0 < touched <= 1:
        raise InvalidValue(
            f"touched is a share of the users, above 0 and at most 1, got {touched}", code="touched-range"
        )
    if epsilon is None and alpha is None:
        raise InvalidValue("give epsilon, or alpha, to be told the smallest epsilon", code="plan-epsilon")
    if epsilon is not None:
        check_epsilon(epsilon)


def _law_of_return(share: float, touched: float, split: Split, part: Part) -> ErrorVariance:
    asked = round(MAIN_SHARE * part.users)
    return ErrorModel(split.pair, asked, asked, part.users, split.noise).difference_variance(touched, share)


def _law_of_days(share: float, days: int, split: Split, part: Part) -> ErrorVariance:
    each = part.users // days
    if not each:
        raise CannotPlan(f"{part.users} users are fewer than the {days} days of a cycle: each day asks a part of them")
    return ErrorModel(split.pair, each, each, part.users, split.noise).variance_at(share)
