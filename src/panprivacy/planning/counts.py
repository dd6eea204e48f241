"""Plans for `Counts`: the error of a share, or of the mean."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from panprivacy.checks import check_delta, check_epsilon
from panprivacy.errors import CannotPlan, InvalidValue
from panprivacy.estimates import ErrorModel
from panprivacy.estimates.frequency import MeanErrors, ShareErrors
from panprivacy.planning.groups import Part, Parts, PlannedParts
from panprivacy.planning.result import Plan
from panprivacy.planning.search import LARGEST_EPSILON, as_fraction, rounded_up
from panprivacy.privacy.budget import Split
from panprivacy.privacy.splitting import best_split
from panprivacy.table.counters import check_frequency
from panprivacy.universe import Universe

if TYPE_CHECKING:
    from panprivacy.estimators.counts import Counts


@dataclass(frozen=True)
class CountsWish:
    """The wishes for a `Counts`, checked."""

    known: Universe | None
    epsilon: float | None
    up_to: int
    only: Literal["mean"] | None
    alpha: float | None
    beta: float
    releases: int
    delta: float | None = None
    parts: Parts | None = None
    """Groups or categories, each of which has to keep to alpha and beta."""

    def __post_init__(self) -> None:
        check_frequency(self.up_to, self.only)
        if self.epsilon is None and self.alpha is None:
            raise InvalidValue("give epsilon; or alpha, to be told the smallest epsilon", code="plan-epsilon")
        if self.epsilon is not None:
            check_epsilon(self.epsilon)
        most = self.up_to if self.only else 1
        if self.alpha is not None and not 0 < self.alpha < most:
            raise InvalidValue(f"alpha must be between 0 and {most}, got {self.alpha}", code="alpha-range")
        as_fraction("beta", self.beta)
        check_delta(self.delta)

    @property
    def universe(self) -> Universe:
        """The users there could be."""
        if self.known is None:
            raise InvalidValue(
                "a plan of Counts needs a universe: the users whose appearances are counted", code="plan-universe"
            )
        return self.known

    def split(self, epsilon: float) -> Split:
        """The split that `Counts` makes of a budget."""
        places = None if self.only else self.up_to
        each = max(self.universe.size // (len(self.parts) if self.parts else 1), 1)
        return best_split(epsilon, each, self.releases, delta=self.delta, up_to=places)

    @property
    def worst(self) -> Part:
        """The users whom a number is about: all, or those of the smallest group or category."""
        users = self.universe.size
        return self.parts.worst(users, users)[0] if self.parts else Part(users, users, users)

    def beyond(self, split: Split, part: Part | None = None) -> Callable[[float], float]:
        """The probability of an error of this size, or a larger one, of a share or of the mean."""
        errors, unit = self._errors(split, part or self.worst)
        return lambda error: 2 * errors.cdf(-error / unit, 0.5)

    def stderr(self, split: Split, part: Part | None = None) -> float:
        """The standard error of a share, or the largest that the mean can have."""
        errors, unit = self._errors(split, part or self.worst)
        return float(errors.stderr(0.5) * unit)

    def planned(self, split: Split) -> PlannedParts | None:
        """The groups or categories, with the law of each."""
        users = self.universe.size
        return self.parts and self.parts.planned(users, users, partial(self.error_of_part, split))

    def error_of_part(self, split: Split, part: Part) -> tuple[float, float]:
        """Standard error and alpha of a group or category."""
        return self.stderr(split, part), _least_alpha(self.beyond(split, part), self.beta)

    def _errors(self, split: Split, part: Part) -> tuple[ErrorModel, int]:
        """The law of the errors of a share; or of the mean of all users, in units of `up_to`."""
        if self.only:
            return MeanErrors(split.pair, *part, split.noise), self.up_to
        return ShareErrors(split.pair, *part, split.noise, up_to=self.up_to), 1


def refuse_beside_counts(**asked: object) -> None:
    """Raise if something is asked that a `Counts` has no choice of."""
    for name, value in asked.items():
        if value is not None:
            raise InvalidValue(
                f"a plan of Counts knows no {name}: every user has a counter, which may be read once",
                code=f"plan-{name}",
            )


def best_counts(wish: CountsWish) -> "Plan[Counts]":
    """The `Counts` of the least error, or of the least epsilon that keeps to one; with a delta, of the better noise."""
    if wish.delta is None:
        return _best_of_one_noise(wish)
    found = []
    for one in (replace(wish, delta=None), wish):
        try:
            found.append(_best_of_one_noise(one))
        except CannotPlan as error:
            impossible = error
    if not found:
        raise impossible
    return min(found, key=lambda plan: (plan.epsilon, plan.stderr))


def _best_of_one_noise(wish: CountsWish) -> "Plan[Counts]":
    epsilon = _least_epsilon(wish) if wish.epsilon is None else wish.epsilon
    if epsilon is None:
        raise CannotPlan(
            f"alpha = {wish.alpha:g} is out of reach for {wish.universe.describe()} counted up to {wish.up_to} times "
            "at any epsilon: where counters stand is chance, too; a smaller up_to errs less"
        )
    split = wish.split(epsilon)
    beyond = wish.beyond(split)
    if wish.alpha is not None and beyond(wish.alpha) > wish.beta:
        more = _least_epsilon(wish)
        raise CannotPlan(
            f"alpha = {wish.alpha:g} with beta = {wish.beta:g} is out of reach for {wish.universe.describe()} at "
            f"epsilon = {epsilon:g}; possible: alpha = {_least_alpha(beyond, wish.beta):g} at epsilon = {epsilon:g}"
            f"{f'; or epsilon = {more:g} for alpha = {wish.alpha:g}' if more else ''}; a smaller up_to errs less"
        )
    alpha = _least_alpha(beyond, wish.beta) if wish.alpha is None else wish.alpha
    return Plan(
        estimator="Counts",
        universe=wish.universe,
        size=wish.universe.size,
        users=wish.universe.size,
        up_to=wish.up_to,
        only=wish.only,
        split=split,
        stderr=wish.stderr(split),
        of="mean" if wish.only else "share",
        alpha=alpha,
        beta=wish.beta,
        probability=beyond(alpha),
        parts=wish.planned(split),
    )


def _least_alpha(beyond: Callable[[float], float], beta: float) -> float:
    """The error, rounded up to four digits, that is reached with probability beta."""
    from scipy.optimize import brentq

    high = 1e-6
    while beyond(high) > beta:
        high *= 2
    return rounded_up(brentq(lambda error: beyond(error) - beta, 0.0, high, xtol=1e-12))


def _least_epsilon(wish: CountsWish) -> float | None:
    """The smallest epsilon, to four digits, that keeps to alpha and beta, if there is one."""
    alpha = wish.alpha
    assert alpha is not None  # a wish without epsilon has one

    def enough(epsilon: float) -> bool:
        try:
            return wish.beyond(wish.split(epsilon))(alpha) <= wish.beta
        except ValueError:  # too little for any split
            return False

    if not enough(LARGEST_EPSILON):
        return None
    low, high = 0.0, LARGEST_EPSILON
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return rounded_up(high)  # where it is enough: bisection ends above the least
