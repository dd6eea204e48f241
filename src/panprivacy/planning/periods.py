"""Plans for answers about periods: who came back, and who was active in the last days."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor, log10
from operator import index
from typing import Any, Literal

from panprivacy.actives import ActiveUsers
from panprivacy.actives.calendar import days_of
from panprivacy.checks import check_delta, check_epsilon
from panprivacy.display import Card, grid_of, html_of
from panprivacy.errors import CannotPlan
from panprivacy.planning.options import as_fraction
from panprivacy.privacy.budget import Split, and_delta, budget_of
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.splitting import best_split
from panprivacy.release.change import Change
from panprivacy.release.error import Error
from panprivacy.release.spread import Spread
from panprivacy.retention import MAIN_SHARE, Retention
from panprivacy.universe import Range, Universe, universe_of

_LARGEST_EPSILON = 100.0
_DIGITS = 4  # of the smallest epsilon


@dataclass(frozen=True, repr=False)
class PeriodPlan:
    """A `Retention` or an `ActiveUsers` to build, and about how much it will err."""

    estimator: Literal["Retention", "ActiveUsers"]
    """What to build."""
    universe: Universe
    """The users there could be; each has a bit."""
    split: Split
    """How epsilon is split between the state and what is released."""
    span: str | None
    """The longest time that an `ActiveUsers` is asked about."""
    every: str | None
    """The length of its days."""
    share: float
    """The share at which the error is stated: of those who came back, or were active."""
    touched: float | None
    """The share of users that comes in the second period of a `Retention` at all."""
    stderr: float
    """Standard error of that share."""
    alpha: float
    """The error in question."""
    beta: float
    """How probable it is, about, that the error is alpha or more."""

    @property
    def epsilon(self) -> float:
        """The budget: of the life of a `Retention`, of a cycle of an `ActiveUsers`."""
        return self.split.epsilon

    def build(self, *, start: Any = None, coins: Coins | None = None) -> Retention | ActiveUsers:
        """Return the planned estimator, new and empty; an `ActiveUsers` needs the start of its first day."""
        delta = self.split.delta or None
        if self.span is None or self.every is None:
            return Retention(self.universe, self.epsilon, releases=self.split.releases - 1, delta=delta, coins=coins)
        if start is None:
            raise ValueError("when does the first day start? Give start, such as 2026-01-05")
        when: dict[str, Any] = {"span": self.span, "every": self.every, "start": start}
        return ActiveUsers(self.universe, self.epsilon, delta=delta, coins=coins, **when)

    @property
    def code(self) -> str:
        """What `build` does, as a line of Python."""
        users = str(self.universe.size) if isinstance(self.universe, Range) else "universe"
        what = [users, f"epsilon={self.epsilon:g}"]
        what += [f"releases={self.split.releases - 1}"] if self.span is None else [f'span="{self.span}"']
        what += [] if self.every in (None, "1d") else [f'every="{self.every}"']
        what += [f"delta={self.split.delta:g}"] if self.split.delta else []
        return f"pp.{self.estimator}({', '.join(what)}{'' if self.span is None else ', start=...'})"

    def to_dict(self) -> dict[str, Any]:
        """Everything in the plan as plain numbers and words, for JSON."""
        budget = budget_of(self.split, self.split.releases, 0)
        return {
            "estimator": self.estimator,
            "universe": self.universe.size,
            "epsilon": self.epsilon,
            "epsilon_state": budget.state,
            "epsilon_total": budget.total,
            "delta": budget.delta,
            "releases": self.split.releases,
            "noise_stderr": budget.noise_stderr,
            "span": self.span,
            "every": self.every,
            "share": self.share,
            "touched": self.touched,
            "stderr": self.stderr,
            "alpha": self.alpha,
            "beta": self.beta,
        }

    def __repr__(self) -> str:
        return (
            f"<Plan: {self.estimator} of {self.universe.describe()}; epsilon {self.epsilon:g}"
            f"{and_delta(self.split.delta)}; standard error {self.stderr:.4g}; P(error >= {self.alpha:.4g}) about "
            f"{self.beta:g}>"
        )

    def card(self) -> Card:
        """What is shown of it."""
        budget = budget_of(self.split, self.split.releases, 0)
        at = f"at a share of {self.share:g}" + ("" if self.touched is None else f", {self.touched:g} come at all")
        whose = "in all" if self.span is None else f"in a cycle of {self.split.releases} days"
        rows = (
            ("build", f"{self.estimator} of {self.universe.describe()}, a bit for each"),
            (f"epsilon {whose}", f"{self.epsilon:g}{and_delta(self.split.delta)}"),
            ("of the state", f"{budget.state:.4g}"),
            ("releases", f"{self.split.releases}, noise ± {budget.noise_stderr:,.4g}"),
            ("standard error", f"{self.stderr:.4g} ({at})"),
            (f"P(error >= {self.alpha:.4g})", f"about {self.beta:g}"),
            ("in Python", self.code),
        )
        return Card("Plan", rows)

    __rich__ = grid_of
    _repr_html_ = html_of


def plan_periods(
    estimator: Literal["Retention", "ActiveUsers"],
    universe: int | Universe,
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
) -> PeriodPlan:
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
    releases, span, every, delta
        As for `pp.Retention`, and for `pp.ActiveUsers`.
    share
        Where the error is stated: the share that came back (1/4 if left out), or was active (1/2, where it is largest).
    touched
        The share that comes in the second period of a `Retention` at all: the fewer, the smaller the error.

    Examples
    --------
    >>> weekly = plan_periods("ActiveUsers", 1_000_000, 1.0, span="7d")
    >>> round(weekly.stderr, 4), round(weekly.alpha, 4)
    (0.0033, 0.0065)
    >>> back = plan_periods("Retention", 200_000, alpha=0.005, share=0.15, touched=0.3)
    >>> back.epsilon, back.code
    (0.7938, 'pp.Retention(200000, epsilon=0.7938, releases=1)')
    """
    users = universe_of(universe)
    delta = None if delta is None else check_delta(delta)
    beta = float(as_fraction("beta", beta))
    days = days_of(span, every)[1]
    if estimator not in ("Retention", "ActiveUsers"):
        raise ValueError(f"plans about periods are for Retention and ActiveUsers, not for {estimator!r}")
    retention = estimator == "Retention"
    share = (0.25 if retention else 0.5) if share is None else float(as_fraction("share", share))
    if not 0 < touched <= 1:
        raise ValueError(f"touched is a share of the users, above 0 and at most 1, got {touched}")

    def error_at(budget: float) -> tuple[Split, Error]:
        if retention:
            split = best_split(budget, users.size, index(releases) + 1, 0, delta)
            asked = round(MAIN_SHARE * users.size)
            return split, Change(split.pair, asked, asked, users.size, split.noise).error(touched, share)
        each = users.size // days
        split = best_split(budget, max(each, 1), days, 0, delta)
        spread = Spread(split.pair, each, each, users.size, split.noise)
        return split, Error(spread.normal_variance(share), spread.noise_stderr**2, split.noise)

    if epsilon is None:
        if alpha is None:
            raise ValueError("give epsilon, or alpha, to be told the smallest epsilon")
        wanted = float(as_fraction("alpha", alpha))
        epsilon = _smallest_epsilon(lambda budget: error_at(budget)[1].reach(1 - beta) <= wanted)
        if epsilon is None:
            raise CannotPlan(f"alpha = {wanted:g} is out of reach for {users.size:,} users at any epsilon")
    split, error = error_at(check_epsilon(epsilon))
    return PeriodPlan(
        estimator=estimator,
        universe=users,
        split=split,
        span=None if retention else span,
        every=None if retention else every,
        share=share,
        touched=touched if retention else None,
        stderr=error.stderr,
        alpha=error.reach(1 - beta),
        beta=beta,
    )


def _smallest_epsilon(meets: Callable[[float], bool]) -> float | None:
    """The smallest epsilon, to four digits, that meets a wish; an epsilon too small for any plan does not."""

    def enough(budget: float) -> bool:
        try:
            return meets(budget)
        except ValueError:
            return False

    low, high = 1e-4, _LARGEST_EPSILON
    if not enough(high):
        return None
    while high / low > 1 + 10.0**-_DIGITS / 2:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if enough(middle) else (middle, high)
    step = 10.0 ** (floor(log10(high)) - _DIGITS + 1)
    rounded = ceil(high / step - 1e-9) * step
    return float(f"{rounded:.{_DIGITS}g}")
