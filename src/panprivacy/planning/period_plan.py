"""A plan for answers about periods: what to build, and about how much it will err."""

from dataclasses import dataclass
from typing import Any, Literal

from panprivacy.actives import ActiveUsers
from panprivacy.display import Card, grid_of, html_of
from panprivacy.planning.result import Errors
from panprivacy.privacy.budget import Split, and_delta, budget_of
from panprivacy.privacy.coins import Coins
from panprivacy.retention import Retention
from panprivacy.universe import Range, Universe


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
    errors: Errors | None
    """What the plan would err by with Laplace noise and with Gaussian noise; None unless a delta was allowed."""

    @property
    def epsilon(self) -> float:
        """The budget: of the life of a `Retention`, of a cycle of an `ActiveUsers`."""
        return self.split.epsilon

    @property
    def delta(self) -> float:
        """The probability, at most, with which more than epsilon is lost: 0 with Laplace noise, which needs none."""
        return self.split.delta

    @property
    def noise(self) -> str:
        """The noise of the releases: ``"Laplace"``, or ``"Gaussian"`` if a delta was allowed and buys less error."""
        return type(self.split.noise).__name__

    def build(self, *, start: Any = None, coins: Coins | None = None) -> Retention | ActiveUsers:
        """Return the planned estimator, new and empty; an `ActiveUsers` needs the start of its first day."""
        delta = self.delta or None
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
        what += [f"delta={self.delta:g}"] if self.delta else []
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
            "noise": self.noise,
            "errors": self.errors._asdict() if self.errors else None,
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
            f"{and_delta(self.delta)}; standard error {self.stderr:.4g}; P(error >= {self.alpha:.4g}) about "
            f"{self.beta:g}>"
        )

    def card(self) -> Card:
        """What is shown of it."""
        budget = budget_of(self.split, self.split.releases, 0)
        at = f"at a share of {self.share:g}" + ("" if self.touched is None else f", {self.touched:g} come at all")
        whose = "in all" if self.span is None else f"in a cycle of {self.split.releases} days"
        rows = (
            ("build", f"{self.estimator} of {self.universe.describe()}, a bit for each"),
            (f"epsilon {whose}", f"{self.epsilon:g}{and_delta(self.delta)}"),
            ("of the state", f"{budget.state:.4g}"),
            ("releases", f"{self.split.releases}, {self.noise} noise ± {budget.noise_stderr:,.4g}"),
            *([("noise", self.errors.compared(self.delta, "{:.4g}".format))] if self.errors else []),
            ("standard error", f"{self.stderr:.4g} ({at})"),
            (f"P(error >= {self.alpha:.4g})", f"about {self.beta:g}"),
            ("in Python", self.code),
        )
        return Card("Plan", rows)

    __rich__ = grid_of
    _repr_html_ = html_of
