"""`advise`: which estimator answers a question, at which epsilon, and what its answer will look like.

All numbers come from the planner; here is only the choice between plans.
"""

from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime
from statistics import NormalDist
from typing import Any, Literal, get_args

import numpy as np

from panprivacy.checks import check_delta, check_epsilon, check_whole, shown
from panprivacy.display import Card, counted, finite, format_bytes, grid_of, html_of, measured
from panprivacy.errors import CannotPlan, InvalidValue
from panprivacy.estimates import Estimate
from panprivacy.planning.counts import OPEN_UNIVERSE, first_count
from panprivacy.planning.periods import plan_periods
from panprivacy.planning.planner import plan
from panprivacy.planning.result import Plan
from panprivacy.planning.search import Terms, as_fraction
from panprivacy.privacy import composition
from panprivacy.privacy.budget import and_delta
from panprivacy.testing import SeededCoins

Question = Literal["share", "distinct", "often", "actives", "retention", "series"]
"""What can be asked."""

QUESTIONS: dict[Question, str] = {
    "share": "What share of known users came?",
    "distinct": "How many different users came? (No list of users exists.)",
    "often": "How often did known users come?",
    "actives": "How many known users were active in the last day, week and month?",
    "retention": "How many users of a first period came back in a second one?",
    "series": "What share of known users came in each period, counted anew?",
}
"""The questions, by their names."""

BETA = 0.05
"""The probability with which an answer may err by more than the acceptable error."""

HARDLY_PROTECTS = 4.0
"""An epsilon above this multiplies odds by 55 and more: it is no way to reach an error."""

_SIMULATED = 2_000_000  # users of an example that is built; of more, the answer is drawn from the planned error
_GUESS = 0.5  # an answer that errs by as much says no more than "some came"
_SHARE = 0.3  # of the users come in an example
_GOLDEN = 0.6180339887  # steps of this length cover an interval evenly
_LEVEL = 1 - BETA


@dataclass(frozen=True)
class Ask:
    """A question, with the known numbers and the accepted error and loss."""

    question: Question
    users: int
    releases: int
    error: float
    epsilon: float
    delta: float | None
    up_to: int
    span: str
    every: str

    def __post_init__(self) -> None:
        if self.question not in get_args(Question):
            known = ", ".join(get_args(Question))
            raise InvalidValue(f"the question is one of {known}; got {shown(self.question)}", code="advise-question")
        if not 1 <= self.users <= OPEN_UNIVERSE:
            raise InvalidValue(f"users must be from 1 to {OPEN_UNIVERSE:,}, got {self.users}", code="advise-users")
        if self.releases < 1:
            raise InvalidValue(f"plan at least one release, got {self.releases}", code="plan-releases")
        as_fraction("error", self.error)
        check_epsilon(self.epsilon)
        if self.delta is not None:
            check_delta(self.delta)

    def plan(self, epsilon: float | None, error: float | None) -> Plan[Any]:
        """The plan of the planner; without an epsilon the least, without an error the one of this epsilon."""
        same: Any = {"epsilon": epsilon, "alpha": error, "beta": BETA, "delta": self.delta}
        if self.question == "distinct":
            return plan(count=self.users, releases=self.releases, **same | {"epsilon": epsilon or self.epsilon})
        if self.question == "often":
            return plan(self.users, up_to=self.up_to, releases=self.releases, **same)
        if self.question == "actives":
            return plan_periods("ActiveUsers", self.users, span=self.span, every=self.every, **same)
        if self.question == "retention":
            return plan_periods("Retention", self.users, releases=self.releases, **same)
        return plan(self.users, releases=1 if self.question == "series" else self.releases, **same)

    def keeps(self, users: int) -> bool:
        """Whether this number of users keeps to the error at the accepted epsilon."""
        with suppress(CannotPlan):
            return replace(self, users=users).plan(self.epsilon, None).alpha <= self.error
        return False

    def enough_users(self) -> int | None:
        """The number of users, to two digits, that keeps to the error at the accepted epsilon."""
        if self.question == "distinct":
            noises = [Terms(OPEN_UNIVERSE, self.epsilon, self.releases, 0, delta) for delta in {None, self.delta}]
            firsts = [first_count(terms, self.error, BETA, OPEN_UNIVERSE) for terms in noises]
            return min((_rounded_up(first) for first in firsts if first), default=None)
        low, high = self.users, 4 * self.users
        while not self.keeps(high):
            low, high = high, 4 * high
            if high > OPEN_UNIVERSE:
                return None
        while _rounded_up(low + 1) < _rounded_up(high):
            middle = (low + high) // 2
            low, high = (low, middle) if self.keeps(middle) else (middle, high)
        return _rounded_up(high)

    @property
    def told(self) -> str:
        """The question with its numbers."""
        unit = f"{100 * self.error:g} %" if self.question == "distinct" else f"{self.error:g}"
        often = {"actives": f"every {self.every} for {self.span}", "series": counted(self.releases, "period")}
        times = often.get(self.question, counted(self.releases, "release"))
        return (
            f"{QUESTIONS[self.question]} {counted(self.users, 'user')}, {times}, error below {unit} in 95 of 100 cases"
        )


def _rounded_up(number: int) -> int:
    """The least number of two digits and zeros that is not below a number.

    >>> _rounded_up(12_736), _rounded_up(99), _rounded_up(991)
    (13000, 99, 1000)
    """
    unit: int = 10 ** max(len(str(number)) - 2, 0)
    return -(-number // unit) * unit


@dataclass(frozen=True)
class Instead:
    """What would be possible where the question is not answered as well as was asked."""

    error: float | None
    """The error of these users at the accepted epsilon, in 95 of 100 cases; None if no estimator tells anything."""
    epsilon: float | None
    """The epsilon, however large, at which they are enough; None if there is none (of distinct, none is said)."""
    users: int | None
    """The number of users that is enough at the accepted epsilon, to two digits."""


@dataclass(frozen=True)
class Example:
    """A simulated answer beside the truth of the simulation."""

    of: str
    """What the number is."""
    truth: float
    estimate: float
    stderr: float
    interval: tuple[float, float]
    """The 95 % interval."""
    built: bool
    """Whether an estimator was built and fed; else the estimate was drawn from the planned error."""

    def __str__(self) -> str:
        digits = 0 if self.truth > 1 else 4
        how = "" if self.built else " (drawn from the planned error)"
        told = measured(self.estimate, self.stderr, self.interval, f"{_LEVEL:.0%} interval", digits)
        return f"{self.of} {told}; truth {self.truth:,.{digits}f}{how}"


@dataclass(frozen=True, repr=False)
class Advice:
    """Which estimator answers a question, and how well; or that these users are too few."""

    ask: Ask
    plan: Plan[Any] | None
    """The plan of least epsilon that keeps to the error; else the best one at the accepted epsilon, if there is one."""
    example: Example | None
    """What an answer will look like."""
    instead: Instead | None = None
    """What would be possible; None where the plan keeps to the error."""
    start: date = date(2026, 1, 5)
    """The day from which the suggested lines count."""

    @property
    def possible(self) -> bool:
        """Whether the plan keeps to the acceptable error at the accepted epsilon."""
        return self.instead is None

    @property
    def code(self) -> str | None:
        """A line of Python that builds the estimator."""
        if self.plan is None:
            return None
        code = self.plan.code.replace("start=...", f'start="{self.start}"')
        if self.ask.question == "series":
            return f'pp.Windows(lambda: {code}, every="{self.ask.every}", start="{self.start}")'
        return code

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        if self.instead is None:
            assert self.plan is not None
            return f"yes, at epsilon {self.plan.epsilon:g}{and_delta(self.plan.delta)}{self._each()}"
        found, unit = self.instead, 100 if self.ask.question == "distinct" else 1
        percent = " %" if unit == 100 else ""
        at = f"at epsilon {self.ask.epsilon:g}"
        best = (
            "no estimator tells anything" if found.error is None else f"the error is {unit * found.error:.3g}{percent}"
        )
        other = [f"{found.users:,} users"] if found.users else []
        other += [f"epsilon {found.epsilon:g}"] if found.epsilon and found.epsilon <= HARDLY_PROTECTS else []
        needs = f"; an error of {unit * self.ask.error:g}{percent} takes {' or '.join(other)}" if other else ""
        return f"not with {counted(self.ask.users, 'user')}: {at} {best}{needs}"

    def _each(self) -> str:
        """What the epsilon covers, where it does not cover everything."""
        if self.plan is not None and self.ask.question == "series":
            whole = composition.loss(self.plan.split, self.ask.releases, 1)
            users = f"a user who comes in all {self.ask.releases:,} loses at most {whole:.3g}"
            hardly = ", which hardly protects such a user" if whole > HARDLY_PROTECTS else ""
            return f" a period; {users} if the state is read once{hardly}"
        return f" in each {self.ask.span}" if self.ask.question == "actives" else ""

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers and words, for JSON."""
        return {
            **asdict(self.ask),
            "possible": self.possible,
            "verdict": self.verdict,
            "instead": self.instead and asdict(self.instead),
            "plan": self.plan and self.plan.to_dict(),
            "example": self.example and finite(asdict(self.example)),
            "python": self.code,
        }

    def card(self) -> Card:
        """The card that shells and notebooks show."""
        rows = [("question", self.ask.told), ("answer", self.verdict)]
        if self.plan is not None:
            rows += [("estimator", dict(self.plan.card().rows)["build"]), ("memory", format_bytes(self.plan.memory))]
            rows += [("for example", str(self.example)), ("in Python", str(self.code))]
        return Card("Advice", tuple(rows))

    def __repr__(self) -> str:
        return self.card().text

    __rich__ = grid_of
    _repr_html_ = html_of


def advise(
    question: Question,
    users: int,
    *,
    releases: int = 1,
    error: float = 0.05,
    epsilon: float = 1.0,
    delta: float | None = 1e-9,
    up_to: int = 4,
    span: str = "28d",
    every: str | None = None,
    seed: int = 7,
) -> Advice:
    """Say which estimator answers a question, at which epsilon, and what the answer will look like.

    Of the plans that keep to the error, the one of the least epsilon is taken (for `distinct`, the one of the fewest
    bits at the accepted epsilon). If none does, the advice gives the error that is possible, and how many users it
    would take.

    Parameters
    ----------
    question
        ``"share"``, ``"distinct"``, ``"often"``, ``"actives"``, ``"retention"`` or ``"series"``.
    users
        How many users there could be; for ``"distinct"``, how many are expected to come.
    releases
        How many answers will be published; of a series, how many periods.
    error
        The acceptable error of a share; for ``"distinct"``, as a share of the count. It holds with probability 0.95.
    epsilon, delta
        The most that you accept. Less is taken where it is enough, and no delta where Laplace noise errs less.
    up_to
        For ``"often"``: how many times a user is counted.
    span, every
        For ``"actives"``: the longest time that is asked about, and the length of a day; for ``"series"``, the length
        of a period. One day, and one week, if left out.
    seed
        Of the simulated example.

    Examples
    --------
    >>> import panprivacy as pp
    >>> pp.advise("share", 100_000, error=0.02)
    question    What share of known users came? 100,000 users, 1 release, error below 0.02 in 95 of 100 cases
    answer      yes, at epsilon 0.3395
    estimator   Density of 100,000 users, a bit for each
    memory      12.2 KiB
    for example share 0.3036 ± 0.0102 (standard error), 95% interval 0.2836 to 0.3237; truth 0.3000
    in Python   pp.Density(100000, epsilon=0.3395)
    >>> pp.advise("retention", 1000, error=0.1).verdict
    'not with 1,000 users: at epsilon 1 the error is 0.136; an error of 0.1 takes 1,700 users or epsilon 1.286'
    """
    length = every or ("7d" if question == "series" else "1d")
    whole = {"users": users, "releases": releases, "up_to": up_to}
    numbers = {name: check_whole(value, name) for name, value in whole.items()}
    ask = Ask(question, error=error, epsilon=epsilon, delta=delta, span=span, every=length, **numbers)
    best = least = instead = None
    with suppress(CannotPlan):
        best = ask.plan(None, error)
        least = best.epsilon
    if best is None or best.epsilon > epsilon:
        best = None
        with suppress(CannotPlan):
            best = ask.plan(epsilon, None)
            best = best if best.alpha < _GUESS else None
        instead = Instead(best.alpha if best else None, least, ask.enough_users())
    example = None if best is None else simulated(ask, best, seed)
    return Advice(ask, best, example, instead, datetime.now(UTC).date())


# --- a simulated answer ---------------------------------------------------------------------------------------------

_EXAMPLES: dict[Question, str] = {
    "share": "share",
    "series": "share of a period",
    "distinct": "users",
    "often": "share who came twice or more",
    "actives": "share active in the whole span",
    "retention": "share who came back",
}
"""What an example shows of each question."""


def simulated(ask: Ask, found: Plan[Any], seed: int) -> Example:
    """An answer to invented events, by the estimator of a plan with coins that are no secret."""
    what, counts = _EXAMPLES[ask.question], ask.question == "distinct"
    expected = float(ask.users) if counts else _SHARE
    if ask.users <= _SIMULATED:
        est: Any = found.build(start="2026-01-05", coins=SeededCoins(seed))
        value, error, interval, *_ = _answer(ask.question, est, ask.users)
        return Example(what, expected, value, error or 0.0, interval, built=True)
    stderr = found.stderr * (expected if counts else 1.0)
    value = NormalDist(expected, stderr).inv_cdf((seed * _GOLDEN + 0.5) % 1 or 0.5)  # another error for each seed
    half_width = found.alpha * stderr / found.stderr
    return Example(what, expected, value, stderr, (max(value - half_width, 0.0), value + half_width), built=False)


def _answer(question: Question, est: Any, users: int) -> Estimate:
    """Feed an estimator with events of invented users, and ask it."""
    every, some = np.arange(users), np.arange(round(_SHARE * users))
    found: Estimate
    if question == "retention":
        est.update_many(some)
        est.close()
        est.update_many(every)  # all come in the second period, for which the plan is made
        found = est.release().singles()["returned"]
    elif question == "actives":
        for _ in range(est.days):
            est.update_many(some)
            released = est.release()
        found = released.each_share()[-1]
    elif question == "often":
        est.update_many(np.arange(round(2 * _SHARE * users)))
        est.update_many(some)
        found = est.release().shares("at_least").each()[1]
    else:
        est.update_many(every if question == "distinct" else some)
        found = est.release().main
    return found
