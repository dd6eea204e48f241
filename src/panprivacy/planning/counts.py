"""Plans for `Counts` and for `DistinctCount`, whose errors are not those of a share of users who came.

The error of `Counts` is that of a share, or of the mean. The error of `DistinctCount` is relative, so where few users
of many appear it needs less memory. It is found from the Fisher information of its counts and a normal law
(`distinct_law.CountModel`), not on an exact sum, so it is offered only where its relative error is at most a fifth.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from panprivacy.checks import check_delta, check_epsilon
from panprivacy.errors import CannotPlan, InvalidValue
from panprivacy.estimates import ErrorModel
from panprivacy.estimates.frequency import MeanErrors, ShareErrors
from panprivacy.planning.result import Part, Parts, Plan, PlannedParts
from panprivacy.planning.search import LARGEST_EPSILON, as_fraction, rounded_up
from panprivacy.privacy.budget import Split
from panprivacy.privacy.splitting import best_split
from panprivacy.table.counters import check_frequency
from panprivacy.universe import Universe

if TYPE_CHECKING:
    from panprivacy.estimators.counts import Counts
from itertools import pairwise

from panprivacy.estimators.distinct_law import LARGEST_COUNT, CountModel, counts_within, levels_for, relative_stderr
from panprivacy.planning.search import Terms, first_true
from panprivacy.slots.users import LARGEST_BUCKETS


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
        law = partial(self.error_of_part, split)
        return None if self.parts is None else self.parts.planned(users, users, law)

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


OPEN_UNIVERSE = LARGEST_COUNT
"""Users that an open universe has room for."""

LARGEST_RELATIVE_ERROR = 0.2
"""A standard error, as a share of the count, beyond which the approximation of a counter's error fails."""

_LEAST_BUCKETS = 64
_FAR = 1024  # users to a bucket: there the relative error has settled
_WIDER = (1.0, 1.1, 1.25, 1.5, 2.0)  # a table with buckets to spare keeps to an error from fewer users on


@dataclass(frozen=True)
class Crowd:
    """How many users are expected, and out of how many; None for an open universe."""

    count: float
    universe: int | None

    @property
    def unit(self) -> float:
        """What a relative error of the count is multiplied by: an error in a known universe is one of the density."""
        return 1.0 if self.universe is None else self.count / self.universe


@dataclass(frozen=True)
class Counter:
    """A `DistinctCount` with its number of buckets, and its error.

    In a known universe the error is the one at the expected density, the largest up to there. In an open one it is
    relative, and the largest from the expected count on, until the table is full.
    """

    split: Split
    model: CountModel
    stderr: float
    """Standard error of the density, or relative standard error of the count in an open universe."""
    relative: float
    """Relative standard error of the count."""

    @property
    def size(self) -> int:
        """Bits of the table."""
        return self.model.levels * self.model.buckets

    @property
    def sound(self) -> bool:
        """Whether the error is small enough for the approximation to hold."""
        return self.relative <= LARGEST_RELATIVE_ERROR

    def probability(self, alpha: float) -> float:
        """About ``P(error >= alpha)``, taking the estimate for normal."""
        from scipy.special import ndtr

        return float(2 * ndtr(-alpha / self.stderr))

    def alpha(self, beta: float) -> float:
        """About the error, rounded up to four digits, that is exceeded with probability beta."""
        from scipy.special import ndtri

        return rounded_up(-ndtri(beta / 2) * self.stderr)

    def counts(self, alpha: float, beta: float) -> tuple[int, int] | None:
        """For which counts of an open universe ``P(relative error >= alpha)`` is about beta at most."""
        from scipy.special import ndtri

        largest = min(float(-alpha / ndtri(beta / 2)), LARGEST_RELATIVE_ERROR)
        found = counts_within(self.model, largest * (1 + 1e-9))  # the count that alpha was made for is one of them
        return found and (found[0], min(found[1], OPEN_UNIVERSE))


def counter(terms: Terms, crowd: Crowd, buckets: int) -> Counter:
    """The counter with this number of buckets, and its error for this crowd.

    >>> about = counter(Terms(10**6, epsilon=1.0), Crowd(10_000, universe=10**6), buckets=1024)
    >>> about.model.levels, round(about.stderr, 5), round(about.relative, 3)
    (11, 0.00069, 0.069)
    """
    split = terms.split(buckets)
    levels = levels_for(buckets, terms.population)
    model = CountModel(split.pair_after(terms.intrusions), levels, buckets, split.noise)
    relative = relative_stderr(model, crowd.count)
    if crowd.universe is None:  # further out the error settles, perhaps a little above that at the expected count
        relative = max(relative, relative_stderr(model, float(_FAR * buckets)))
    return Counter(split, model, relative * crowd.unit, relative)


def smallest_counter(terms: Terms, crowd: Crowd, alpha: float, beta: float, bits: int) -> Counter | None:
    """The counter of fewest buckets whose errors are alpha or more with a probability of about beta at most."""
    of = partial(counter, terms, crowd)

    def meets(buckets: int) -> bool:
        found = of(buckets)
        return found.sound and found.probability(alpha) <= beta

    widths = [0, *_widths(terms, bits)]
    for before, buckets in pairwise(widths):
        if meets(buckets):
            further = first_true(lambda more: meets(before + more), buckets - before, buckets - before)  # noqa: B023
            return of(before + (further or 0))
    return None


def least_error_counter(terms: Terms, crowd: Crowd, bits: int | None) -> Counter | None:
    """The counter that errs least in this number of bits, or in any: from some size on, more buckets add noise."""
    found = [counter(terms, crowd, buckets) for buckets in _widths(terms, bits or terms.population)]
    return min((each for each in found if each.sound), key=lambda each: each.stderr, default=None)


def first_count(terms: Terms, alpha: float, beta: float, bits: int) -> int | None:
    """About the count from which on some counter of this size keeps to alpha and beta in an open universe."""
    far = smallest_counter(terms, Crowd(float(OPEN_UNIVERSE), None), alpha, beta, bits)
    if far is None:
        return None
    wider = [counter(terms, Crowd(float(OPEN_UNIVERSE), None), round(far.model.buckets * more)) for more in _WIDER]
    found = [each.counts(alpha, beta) for each in wider if each.size <= bits and each.model.buckets <= LARGEST_BUCKETS]
    return min(counts[0] for counts in found if counts)


def _widths(terms: Terms, bits: int) -> list[int]:
    """Numbers of buckets to try, growing by a fifth, and the largest that fits into these bits."""

    def too_large(buckets: int) -> bool:
        return levels_for(buckets, terms.population) * buckets > bits

    most = (first_true(too_large, bits // 16, LARGEST_BUCKETS) or LARGEST_BUCKETS + 1) - 1
    widths = [round(_LEAST_BUCKETS * 2 ** (k / 4)) for k in range(73)]
    return [*(width for width in widths if width < most), *([most] if most >= _LEAST_BUCKETS else [])]
