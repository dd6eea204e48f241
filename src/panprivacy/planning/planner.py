"""`plan`: from what is wanted to what to build."""

from math import inf
from operator import index
from typing import Literal, overload

from panprivacy.checks import check_delta, check_epsilon
from panprivacy.errors import CannotPlan
from panprivacy.planning.appearances import CountsPlan, CountsWish, best_counts, refuse_beside_counts
from panprivacy.planning.counting import OPEN_UNIVERSE
from panprivacy.planning.noises import better_noise
from panprivacy.planning.options import Wish, as_fraction, best_counter, best_density
from panprivacy.planning.result import Plan
from panprivacy.sizes import parse_bytes
from panprivacy.universe import Universe, universe_of

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
    up_to: None = None,
    only: None = None,
) -> Plan: ...


@overload
def plan(
    universe: int | Universe,
    epsilon: float | None = ...,
    *,
    alpha: float | None = ...,
    beta: float = ...,
    releases: int = ...,
    delta: float | None = ...,
    up_to: int,
    only: Literal["mean"] | None = ...,
) -> CountsPlan: ...


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
    up_to: int | None = None,
    only: Literal["mean"] | None = None,
) -> Plan | CountsPlan:
    r"""Say what to build so that a release errs by `alpha` or more with a probability of at most `beta`.

    For `Density` the probability is exact and holds at every density d. It is summed from the true law,

        S ~ Hypergeometric(N, N*d, users),    ones ~ Binomial(S, p1) + Binomial(bits - S, p0),
        estimate = (ones + noise - bits*p0) / (users*(p1-p0)),  brought into [0, 1],

    not bounded as in Thm 3.3 and 4.3 of the paper, and the size is the smallest: one bit less does not do.

    Parameters
    ----------
    universe
        The users there could be, as for `pp.Density`. None if nobody knows them: then `pp.DistinctCount` is planned
        for, `alpha` is relative to the count, and the expected `count` is needed.
    epsilon
        The total budget. None asks for the smallest, to four digits, that keeps to alpha and beta.
    alpha, beta
        The error, and how probable it may be. Without alpha the plan says which alpha goes with beta.
    memory
        The most memory for the bits, such as ``"16 KiB"``. Without alpha all of it is used.
    releases, intrusions
        As for `pp.Density`. The error is that of the last release, after all intrusions.
    density
        The expected density. If it is small, `pp.DistinctCount` may do with less memory, and is planned for if it
        does. What is then said of its error is approximate and holds only up to this density.
    count
        How many users are expected in an open universe. What is said of the relative error is approximate and holds
        from this count on: below some count, which `Plan.counts` tells, the same table errs by a larger share.
    delta
        A delta that may be used, as for `pp.Density`. The plan takes it, and Gaussian noise, if that is better for this
        number of releases; else it is one for Laplace noise, which needs no delta. `Plan.errors` has both.
    up_to, only
        Plan for `pp.Counts` instead: how often users appear, up to so many times. `alpha` is then the error of each
        share of users who appear at least so often, or, with ``only="mean"``, of the mean.

    Examples
    --------
    >>> from panprivacy.planning import plan
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

    Every hour of a year, and then every month:

    >>> hourly, monthly = (plan(1_000_000, 1.0, releases=looks, delta=1e-9) for looks in (8760, 12))
    >>> hourly.noise, hourly.delta, [round(error, 5) for error in hourly.errors]
    ('Gaussian', 1e-09, [0.07075, 0.00415])
    >>> monthly.noise, monthly.delta, [round(error, 5) for error in monthly.errors]
    ('Laplace', 0.0, [0.00111, 0.00113])

    Notes
    -----
    Some bits of a sample belong to no user, and the key decides how many (see `slots.Sampled`). The plan counts on
    the expected number. A sample that is built has a few users more or fewer, and one user in a hundred moves the
    probability by about 4 in a hundred. Where every user has a bit, every bit has a user.

    The probability is not quite monotone in the size, since counts are whole numbers: a size slightly above the
    smallest can exceed beta by a hair. `docs/plan.md` says how the smallest is found, and what is certain about it.
    """
    if up_to is not None:
        refuse_beside_counts(memory=memory, intrusions=intrusions or None, density=density, count=count)
        users = None if universe is None else universe_of(universe)
        return best_counts(CountsWish(users, epsilon, index(up_to), only, alpha, beta, index(releases), delta))
    if only is not None:
        raise ValueError('only="mean" is for plans of Counts: say up_to=T, too')
    wish = Wish(
        universe=None if universe is None else universe_of(universe),
        epsilon=None if epsilon is None else float(epsilon),
        alpha=None if alpha is None else as_fraction("alpha", alpha),
        beta=float(as_fraction("beta", beta)),
        bits=None if memory is None else 8 * parse_bytes(memory),
        releases=index(releases),
        intrusions=index(intrusions),
        density=None if density is None else float(as_fraction("density", density)),
        count=None if count is None else float(count),
        delta=None if delta is None else check_delta(delta),
    )
    if wish.epsilon is not None:
        check_epsilon(wish.epsilon)
    if wish.releases < 1 or wish.intrusions < 0:
        raise ValueError(f"plan at least one release and no negative intrusions, got {releases} and {intrusions}")
    if wish.beta < _LEAST_BETA:
        raise ValueError(f"beta = {beta} is too small to be told from zero; take at least {_LEAST_BETA:g}")
    if wish.epsilon is None and (wish.alpha is None or wish.universe is None):
        raise ValueError("give epsilon; or universe and alpha, to be told the smallest epsilon")
    if wish.universe is None and wish.density is not None:
        raise ValueError("an expected density needs a universe; without one, say the expected count")
    if wish.universe is not None and wish.count is not None:
        raise ValueError("an expected count is for an open universe; with a universe, say the expected density")
    if wish.universe is None and wish.count is None:
        raise ValueError("an open universe needs the expected count: relative errors are larger where few users come")
    if wish.count is not None and not 1 <= wish.count <= OPEN_UNIVERSE:
        raise ValueError(f"the expected count must be between 1 and {OPEN_UNIVERSE:,}, got {count}")
    return _choose(wish) if wish.delta is None else better_noise(wish, _choose)


def _choose(wish: Wish) -> Plan:
    """The estimator that does what is wished for: of two, the one of less memory, or of less error in given memory.

    If both are equally good, it is `Density`, whose error is exact, holds at every density, and which can remove users.
    """
    if wish.universe is None:
        return best_counter(wish)
    if wish.density is None or wish.epsilon is None:
        return best_density(wish)
    try:
        sparse = best_counter(wish)
    except ValueError:  # too few buckets, or too little epsilon
        return best_density(wish)
    try:
        every = best_density(wish)
    except CannotPlan:
        return sparse
    if wish.alpha is None:
        return min(every, sparse, key=lambda plan: plan.density_stderr or inf)  # the first of equals
    return sparse if sparse.memory < every.memory else every
