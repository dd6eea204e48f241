"""`plan`: from a budget and an error to the estimator to build, its size, and the better noise."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Literal, overload

from panprivacy.checks import check_delta, check_epsilon, check_number, check_whole
from panprivacy.display import format_bytes, parse_bytes
from panprivacy.errors import CannotPlan, InvalidValue
from panprivacy.estimates.errors import ErrorVariance
from panprivacy.estimates.frequency import MeanErrors, ShareErrors
from panprivacy.planning.counts import (
    LARGEST_RELATIVE_ERROR,
    OPEN_UNIVERSE,
    Crowd,
    counter,
    first_count,
    least_error_counter,
    smallest_counter,
)
from panprivacy.planning.law import worst_case
from panprivacy.planning.result import DensityPlan, Part, Plan, planned_parts, table_bytes
from panprivacy.planning.search import (
    LARGEST_EPSILON,
    ShareWish,
    Terms,
    Wish,
    alpha_of,
    as_fraction,
    owners,
    risk_of,
    smallest_alpha,
    smallest_epsilon,
    smallest_size,
)
from panprivacy.privacy.budget import Split, and_delta
from panprivacy.table.counters import check_frequency
from panprivacy.universe import Universe
from panprivacy.universe.groups import Label

if TYPE_CHECKING:
    from panprivacy.estimators.counts import Counts


@dataclass(frozen=True, kw_only=True)
class DensityWish(Wish):
    """The wishes for a `Density`, or for a `DistinctCount`, checked."""

    alpha: Fraction | None
    bits: int | None
    intrusions: int
    density: float | None
    count: float | None

    @property
    def crowd(self) -> Crowd:
        """The users that are expected: a share of the universe, or a count where that is open."""
        if self.universe is None:
            assert self.count is not None  # `plan` asks for it
            return Crowd(self.count, None)
        assert self.density is not None  # or a `DistinctCount` would not be thought of
        return Crowd(self.density * self.universe.size, self.universe.size)

    @property
    def largest(self) -> int:
        """The most bits that could be of use."""
        every = self.universe.size if self.universe else OPEN_UNIVERSE
        return min(every, self.bits or every)

    def terms(self, epsilon: float) -> Terms:
        """Everything but the error, at some epsilon."""
        population = self.universe.size if self.universe else OPEN_UNIVERSE
        return Terms(population, epsilon, self.releases, self.intrusions, self.delta, self.parts)

    def plan(self) -> DensityPlan:
        """Of two estimators that meet the wishes, the one of less memory, or of less error in given memory.

        If both are equally good, it is `Density`, whose error is exact, holds at every density, and which can remove
        users.
        """
        if self.universe is None:
            return best_counter(self)
        if self.density is None or self.epsilon is None or self.parts is not None:
            return best_density(self)
        try:
            sparse = best_counter(self)
        except ValueError:  # too few buckets, or too little epsilon
            return best_density(self)
        try:
            every = best_density(self)
        except CannotPlan:
            return sparse
        if self.alpha is None:
            return min(every, sparse, key=lambda plan: plan.density_stderr or inf)  # the first of equals
        return sparse if sparse.memory < every.memory else every

    def stderr_like(self, plan: Plan[Any]) -> float:
        """The standard error of a table of the same size at the same epsilon."""
        terms = self.terms(plan.epsilon)
        if plan.buckets is not None:
            return counter(terms, self.crowd, plan.buckets).stderr
        return float(terms.design(plan.size).stderr(plan.density or 0.5))


def best_density(wish: DensityWish) -> DensityPlan:
    """The `Density` of the smallest size, or error, or epsilon, that meets the wishes."""
    size, alpha, epsilon = wish.largest, wish.alpha, wish.epsilon
    if epsilon is None:
        assert alpha is not None  # `plan` asks for one of the two
        epsilon = smallest_epsilon(wish.terms(1.0), size, alpha, wish.beta)
    elif alpha is None:
        alpha = smallest_alpha(wish.terms(epsilon), size, wish.beta)
    elif wish.parts and wish.parts.groups:  # every user of a group has a bit
        size = size if risk_of(wish.terms(epsilon), size, alpha) <= wish.beta else 0
    else:
        size = smallest_size(wish.terms(epsilon), alpha, wish.beta, size) or 0
    if epsilon is None or alpha is None or not size:
        raise _refusal(wish)
    terms, density = wish.terms(epsilon), wish.density or 0.5
    found = [(worst_case(design, alpha), design) for design in terms.rivals(size)]
    worst, design = max(found, key=lambda each: each[0].probability)
    law = partial(_error_of_part, terms, size, wish.beta, density)
    return Plan(
        estimator="Density",
        universe=wish.universe,
        size=size,
        users=owners(terms.population, size),
        split=terms.split(size),
        density=density,
        stderr=float(design.stderr(density)),
        of="density",
        alpha=float(alpha),
        beta=wish.beta,
        probability=worst.probability,
        worst_density=worst.seen / design.population,
        parts=wish.parts and wish.parts.planned(terms.population, size, law),
    )


def _error_of_part(terms: Terms, size: int, beta: float, density: float, part: Part) -> tuple[float, float]:
    """Standard error and alpha of a group or category; an alpha of 1 is none."""
    design = terms.design_of(part, size)
    return float(design.stderr(density)), float(alpha_of([design], beta) or 1)


def _refusal(wish: DensityWish) -> CannotPlan:
    """What no `Density` does, and what one would do."""
    terms, alpha = wish.terms(wish.epsilon or LARGEST_EPSILON), wish.alpha or Fraction(1, 2)
    every = wish.largest == terms.population
    possible = []
    if nearest := smallest_alpha(terms, wish.largest, wish.beta):
        possible.append(f"alpha = {float(nearest):g} at epsilon = {terms.epsilon:g}")
    if wish.epsilon and (more := smallest_epsilon(terms, wish.largest, alpha, wish.beta)):
        possible.append(f"epsilon = {more:g} for alpha = {float(alpha):g}")
    if wish.epsilon and not every and (size := smallest_size(terms, alpha, wish.beta, terms.population)):
        possible.append(f"memory of {format_bytes(table_bytes(size))} for alpha = {float(alpha):g}")
    whom = f"{terms.population:,} users"
    if wish.parts:
        whom += f" in {len(wish.parts):,} {'categories' if wish.parts.categories else 'groups'}"
    where = ", with a bit for each" if every else f", in {wish.largest:,} bits"
    return wish.out_of_reach(whom, where, possible, "nothing but a larger beta")


def best_counter(wish: DensityWish) -> DensityPlan:
    """The `DistinctCount` of the fewest buckets, or the least error, that meets the wishes."""
    assert wish.epsilon is not None  # `plan` asks for it where this is an option
    terms = wish.terms(wish.epsilon)
    if wish.alpha is None:
        found = least_error_counter(terms, wish.crowd, wish.bits)
    else:
        found = smallest_counter(terms, wish.crowd, float(wish.alpha), wish.beta, wish.largest)
    if found is None:
        raise CannotPlan(_instead_of_a_counter(wish, terms))
    alpha = found.alpha(wish.beta) if wish.alpha is None else float(wish.alpha)
    return Plan(
        estimator="DistinctCount",
        universe=wish.universe,
        size=found.size,
        buckets=found.model.buckets,
        levels=found.model.levels,
        split=found.split,
        density=wish.density,
        stderr=found.stderr,
        of="density" if wish.universe else "count",
        alpha=alpha,
        beta=wish.beta,
        probability=found.probability(alpha),
        worst_density=wish.density,
        count=wish.count,
        counts=None if wish.universe else found.counts(alpha, wish.beta),
    )


def _instead_of_a_counter(wish: DensityWish, terms: Terms) -> str:
    """What no `DistinctCount` does, and what one would do."""
    possible = []
    if best := least_error_counter(terms, wish.crowd, wish.largest):
        possible.append(f"alpha = {best.alpha(wish.beta):g}")
    if wish.universe is None and wish.alpha is not None:
        first = first_count(terms, float(wish.alpha), wish.beta, wish.largest)
        possible += [f"alpha = {float(wish.alpha):g} from about {first:,} users on"] if first else []
    whom = f"{wish.crowd.count:,.0f} users at epsilon = {terms.epsilon:g}{and_delta(wish.delta or 0.0)}"
    where = f"in {wish.bits:,} bits" if wish.bits else "in any memory"
    what = "does that" if wish.alpha is not None else f"has a standard error of {LARGEST_RELATIVE_ERROR:.0%} or less"
    return (
        f"no DistinctCount {what} for {whom} {where}; possible: "
        f"{'; or '.join(possible) or 'nothing but more epsilon, users or memory'}"
    )


_LEAST_BETA = 1e-8  # the law is summed to within 1e-9


@overload
def plan(
    universe: int | Universe | None = ...,
    epsilon: float | None = ...,
    *,
    alpha: float | None = ...,
    beta: float = ...,
    memory: str | int | None = ...,
    releases: int = ...,
    intrusions: int = ...,
    density: float | None = ...,
    count: float | None = ...,
    delta: float | None = ...,
    groups: Any = ...,
    categories: Iterable[Label] | None = ...,
    other: bool = ...,
    up_to: None = None,
    only: None = None,
) -> DensityPlan: ...


@overload
def plan(
    universe: int | Universe | None = ...,
    epsilon: float | None = ...,
    *,
    alpha: float | None = ...,
    beta: float = ...,
    releases: int = ...,
    delta: float | None = ...,
    groups: Any = ...,
    categories: Iterable[Label] | None = ...,
    other: bool = ...,
    up_to: int,
    only: Literal["mean"] | None = ...,
) -> "Plan[Counts]": ...


def plan(
    universe: int | Universe | None = None,
    epsilon: float | None = None,
    *,
    alpha: float | None = None,
    beta: float = 0.05,
    memory: str | int | None = None,
    releases: int = 1,
    intrusions: int = 0,
    density: float | None = None,
    count: float | None = None,
    delta: float | None = None,
    groups: Any = None,
    categories: Iterable[Label] | None = None,
    other: bool = False,
    up_to: int | None = None,
    only: Literal["mean"] | None = None,
) -> Plan[Any]:
    r"""Say what to build so that a release errs by `alpha` or more with a probability of at most `beta`.

    For `Density` the probability is exact and holds at every density d. It is summed from the true law,

        S ~ Hypergeometric(N, N*d, users),    ones ~ Binomial(S, p1) + Binomial(bits - S, p0),
        estimate = (ones + noise - bits*p0) / (users*(p1-p0)),  brought into [0, 1],

    not bounded as in Thm 3.3 and 4.3 of the paper, and the size is the smallest: one bit less does not do.

    Parameters
    ----------
    universe
        The users there could be, as for `pp.Density`. None for an open universe: then `pp.DistinctCount` is planned
        for, `alpha` is relative to the count, and the expected `count` is needed.
    epsilon
        The total budget. None asks for the smallest, to four digits, that keeps to alpha and beta.
    alpha, beta
        The error, and how probable it may be. Without alpha the plan says which alpha goes with beta.
    memory
        The most memory for the bits, such as ``"16 KiB"``. Without alpha all of it is used.
    releases, intrusions
        As for `pp.Density`. The error is the last release's, after all intrusions.
    density
        The expected density. If it is small, `pp.DistinctCount` may do with less memory, and is planned for if it
        does. The stated error is then approximate and holds only up to this density.
    count
        How many users are expected in an open universe. The stated relative error is approximate and holds
        from this count on: below some count, which `Plan.counts` tells, the same table errs by a larger share.
    delta
        A delta that may be used, as for `pp.Density`. The plan takes it, and Gaussian noise, if that is better for this
        number of releases; else it is one for Laplace noise, which needs no delta. `Plan.errors` has both.
    groups
        Groups of users, each of which has to keep to alpha and beta: how many users each has, as ``{"north": 40_000,
        "south": 20_000}``, or the label of each user, as for `pp.Density`. Listed users have theirs with them. The plan
        is then about the group that errs most, and `Plan.groups` has the error of each.
    categories, other
        The same for categories of events, as for `pp.Density`: each user is asked about one.
    up_to, only
        Plan for `pp.Counts` instead: how often users appear, at most `up_to` times. `alpha` is then the error of each
        share of users who appear at least so often, or, with ``only="mean"``, of the mean.

    Examples
    --------
    >>> from panprivacy import plan
    >>> wanted = plan(universe=1_000_000, epsilon=0.4, alpha=0.1)
    >>> wanted.sample, wanted.memory, round(wanted.probability, 4)
    (4085, 512, 0.0493)
    >>> wanted.build()  # doctest: +ELLIPSIS
    <Density of 1,000,000 users, 4,0... tracked in 512 B; epsilon 0.4: ... spent, 0 of 1 releases made>
    >>> visitors = plan(epsilon=1.0, alpha=0.1, count=100_000)
    >>> visitors.buckets, visitors.counts
    (1750, (5257, 1000000000000))
    >>> plan(universe=1000, epsilon=0.4, alpha=0.1)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    panprivacy.errors.CannotPlan: alpha = 0.1 ... possible: alpha = 0.2352 at epsilon = 0.4; or epsilon = 0.8181 for ...
    >>> often = plan(universe=1_000_000, epsilon=1.0, up_to=4)
    >>> round(often.stderr, 4), often.memory, often.build().up_to
    (0.0022, 375000, 4)

    The error of each region, and the least epsilon with which each errs by less than a hundredth:

    >>> regions = plan(epsilon=1.0, groups={"north": 40_000, "south": 10_000})
    >>> [(row.group, row.alpha) for row in regions.groups]
    [('north', 0.01024), ('south', 0.02172)]
    >>> plan(alpha=0.01, groups={"north": 40_000, "south": 10_000}).epsilon
    1.936

    Every hour of a year, and then every month:

    >>> hourly, monthly = (plan(1_000_000, 1.0, releases=looks, delta=1e-9) for looks in (8760, 12))
    >>> hourly.noise, hourly.delta, [round(error, 5) for error in hourly.errors]
    ('Gaussian', 1e-09, [0.07075, 0.00415])
    >>> monthly.noise, monthly.delta, [round(error, 5) for error in monthly.errors]
    ('Laplace', 0.0, [0.00111, 0.00113])

    Notes
    -----
    Some bits of a sample belong to no user, and the key decides how many (see `slots.UserSample`). The plan counts on
    the expected number. A sample that is built has a few users more or fewer, and one user in a hundred moves the
    probability by about 4 in a hundred. Where every user has a bit, every bit has a user.

    The probability is not quite monotone in the size, since counts are whole numbers: a size slightly above the
    smallest can exceed beta by a hair. `docs/explanation/planning.md` says how the smallest is found, and what is
    certain about it.
    """
    bits = None if memory is None else 8 * parse_bytes(memory)
    users, parts = planned_parts(universe, groups, categories, other, bits)
    if up_to is not None:
        unknown = {"memory": memory, "intrusions": intrusions or None, "density": density, "count": count}
        asked: Any = {"epsilon": epsilon, "alpha": alpha, "beta": beta, "delta": delta, "parts": parts}
        asked["releases"] = check_whole(releases, "releases")
        return _counts_wish(users, check_whole(up_to, "up_to"), only, unknown, **asked).best()
    if only is not None:
        raise InvalidValue('only="mean" is for plans of Counts: say up_to=T, too', code="plan-only")
    wish = DensityWish(
        universe=users,
        epsilon=None if epsilon is None else check_number(epsilon, "epsilon"),
        alpha=None if alpha is None else as_fraction("alpha", alpha),
        beta=float(as_fraction("beta", beta)),
        bits=bits,
        releases=check_whole(releases, "releases"),
        intrusions=check_whole(intrusions, "intrusions"),
        density=None if density is None else float(as_fraction("density", density)),
        count=None if count is None else check_number(count, "count"),
        delta=check_delta(delta),
        parts=parts,
    )
    _check(wish)
    return wish.best()


def _check(wish: DensityWish) -> None:
    """Raise if a plan cannot be asked for like this."""
    if wish.epsilon is not None:
        check_epsilon(wish.epsilon)
    open_universe = wish.universe is None
    refused: list[tuple[bool, str, str]] = [
        (
            wish.releases < 1 or wish.intrusions < 0,
            f"plan at least one release and no negative intrusions, got {wish.releases} and {wish.intrusions}",
            "plan-releases",
        ),
        (
            wish.beta < _LEAST_BETA,
            f"beta = {wish.beta} is too small to be told from zero; take at least {_LEAST_BETA:g}",
            "beta-range",
        ),
        (
            wish.epsilon is None and (wish.alpha is None or open_universe),
            "give epsilon; or universe and alpha, to be told the smallest epsilon",
            "plan-epsilon",
        ),
        (
            open_universe and wish.density is not None,
            "an expected density needs a universe; without one, say the expected count",
            "plan-density",
        ),
        (
            not open_universe and wish.count is not None,
            "an expected count is for an open universe; with a universe, say the expected density",
            "plan-count",
        ),
        (
            open_universe and wish.count is None,
            "an open universe needs the expected count: relative errors are larger where few users come",
            "plan-count",
        ),
        (
            wish.count is not None and not 1 <= wish.count <= OPEN_UNIVERSE,
            f"the expected count must be between 1 and {OPEN_UNIVERSE:,}, got {wish.count}",
            "count-range",
        ),
    ]
    for wrong, message, code in refused:
        if wrong:
            raise InvalidValue(message, code=code)


def _counts_wish(
    users: Universe | None, up_to: int, only: Literal["mean"] | None, unknown: dict[str, Any], **asked: Any
) -> ShareWish:
    """The wishes for a `Counts`, checked; the error of the mean is in units of `up_to`."""
    for name, value in unknown.items():
        if value is not None:
            raise InvalidValue(
                f"a plan of Counts knows no {name}: every user has a counter, which may be read once",
                code=f"plan-{name}",
            )
    check_frequency(up_to, only)
    epsilon, alpha = asked["epsilon"], asked["alpha"]
    if epsilon is None and alpha is None:
        raise InvalidValue("give epsilon; or alpha, to be told the smallest epsilon", code="plan-epsilon")
    if epsilon is not None:
        check_epsilon(epsilon)
    most = up_to if only else 1
    if alpha is not None and not 0 < alpha < most:
        raise InvalidValue(f"alpha must be between 0 and {most}, got {alpha}", code="alpha-range")
    as_fraction("beta", asked["beta"])
    check_delta(asked["delta"])
    if users is None:
        raise InvalidValue(
            "a plan of Counts needs a universe: the users whose appearances are counted", code="plan-universe"
        )
    law = partial(_counts_law, up_to, only is not None)
    more = {"up_to": up_to, "only": only, "of": "mean" if only else "share"}
    places = None if only else up_to
    return ShareWish(estimator="Counts", universe=users, law=law, places=places, more=more, **asked)


def _counts_law(up_to: int, only_mean: bool, split: Split, part: Part) -> ErrorVariance:
    if only_mean:
        return MeanErrors(split.pair, *part, split.noise).variance_at(0.5).times(up_to)
    return ShareErrors(split.pair, *part, split.noise, up_to=up_to).variance_at(0.5)
