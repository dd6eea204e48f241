"""What each estimator can do for a wish."""

from dataclasses import dataclass
from fractions import Fraction

from panprivacy.errors import CannotPlan
from panprivacy.planning.counting import (
    LARGEST_RELATIVE_ERROR,
    OPEN_UNIVERSE,
    Counter,
    Crowd,
    first_count,
    least_error_counter,
    smallest_counter,
)
from panprivacy.planning.result import Plan, table_bytes
from panprivacy.planning.search import LARGEST_EPSILON, smallest_alpha, smallest_epsilon, smallest_size
from panprivacy.planning.terms import Terms
from panprivacy.planning.worst import worst_case
from panprivacy.privacy.budget import and_delta
from panprivacy.release import Spread
from panprivacy.sizes import format_bytes
from panprivacy.universe import Universe


@dataclass(frozen=True)
class Wish:
    """What is wanted of an estimator, checked."""

    universe: Universe | None
    epsilon: float | None
    alpha: Fraction | None
    beta: float
    bits: int | None
    releases: int
    intrusions: int
    density: float | None
    count: float | None
    delta: float | None

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
        """What is settled of a wish at some epsilon, its error apart."""
        population = self.universe.size if self.universe else OPEN_UNIVERSE
        return Terms(population, epsilon, self.releases, self.intrusions, self.delta)


def as_fraction(name: str, value: float) -> Fraction:
    """Read a share as the decimal that it prints as: 0.1 is a tenth."""
    if not 0 < value < 1:
        raise ValueError(f"{name} must be between 0 and 1, got {value}")
    return Fraction(str(float(value)))


def best_density(wish: Wish) -> Plan:
    """The `Density` of the smallest size, or error, or epsilon, that does what is wished for."""
    size, alpha, epsilon = wish.largest, wish.alpha, wish.epsilon
    if epsilon is None:
        assert alpha is not None  # `plan` asks for one of the two
        epsilon = smallest_epsilon(wish.terms(1.0), size, alpha, wish.beta)
    elif alpha is None:
        alpha = smallest_alpha(wish.terms(epsilon), size, wish.beta)
    else:
        size = smallest_size(wish.terms(epsilon), alpha, wish.beta, size) or 0
    if epsilon is None or alpha is None or not size:
        raise CannotPlan(_instead(wish))
    return _density_plan(wish, wish.terms(epsilon), size, alpha)


def _density_plan(wish: Wish, terms: Terms, size: int, alpha: Fraction) -> Plan:
    design, density = terms.design(size), wish.density or 0.5
    worst = worst_case(design, alpha)
    spread = Spread(design.pair, design.bits, design.users, design.population, design.noise)
    return Plan(
        estimator="Density",
        universe=wish.universe,
        size=size,
        users=design.users,
        buckets=None,
        levels=None,
        split=terms.split(size),
        density=density,
        density_stderr=spread.stderr(density),
        relative_stderr=None,
        alpha=float(alpha),
        beta=wish.beta,
        probability=worst.probability,
        worst_density=worst.seen / design.population,
        count=None,
        counts=None,
        errors=None,
    )


def _instead(wish: Wish) -> str:
    """What is impossible, and what would be possible."""
    terms, alpha = wish.terms(wish.epsilon or LARGEST_EPSILON), wish.alpha or Fraction(1, 2)
    every = wish.largest == terms.population
    possible = []
    if nearest := smallest_alpha(terms, wish.largest, wish.beta):
        possible.append(f"alpha = {float(nearest):g} at epsilon = {terms.epsilon:g}")
    if wish.epsilon and (more := smallest_epsilon(terms, wish.largest, alpha, wish.beta)):
        possible.append(f"epsilon = {more:g} for alpha = {float(alpha):g}")
    if wish.epsilon and not every and (size := smallest_size(terms, alpha, wish.beta, terms.population)):
        possible.append(f"memory of {format_bytes(table_bytes(size))} for alpha = {float(alpha):g}")
    asked = f"alpha = {float(alpha):g}" if wish.alpha else "any alpha below 1"
    at = (f"epsilon = {wish.epsilon:g}" if wish.epsilon else "any epsilon") + and_delta(wish.delta or 0.0)
    return (
        f"{asked} with beta = {wish.beta:g} is out of reach for {terms.population:,} users at {at}, "
        f"{'with a bit for each' if every else f'in {wish.largest:,} bits'}; possible: "
        f"{'; or '.join(possible) or 'nothing but a larger beta'}"
    )


def best_counter(wish: Wish) -> Plan:
    """The `DistinctCount` of the fewest buckets, or the least error, that does what is wished for."""
    assert wish.epsilon is not None  # `plan` asks for it where this is an option
    terms = wish.terms(wish.epsilon)
    if wish.alpha is None:
        found = least_error_counter(terms, wish.crowd, wish.bits)
    else:
        found = smallest_counter(terms, wish.crowd, float(wish.alpha), wish.beta, wish.largest)
    if found is None:
        raise CannotPlan(_instead_of_a_counter(wish, terms))
    return _counter_plan(wish, found)


def _instead_of_a_counter(wish: Wish, terms: Terms) -> str:
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


def _counter_plan(wish: Wish, found: Counter) -> Plan:
    alpha = found.alpha(wish.beta) if wish.alpha is None else float(wish.alpha)
    return Plan(
        estimator="DistinctCount",
        universe=wish.universe,
        size=found.size,
        users=None,
        buckets=found.buckets,
        levels=found.levels,
        split=found.split,
        density=wish.density,
        density_stderr=found.stderr if wish.universe else None,
        relative_stderr=None if wish.universe else found.stderr,
        alpha=alpha,
        beta=wish.beta,
        probability=found.probability(alpha),
        worst_density=wish.density,
        count=wish.count,
        counts=None if wish.universe else found.counts(alpha, wish.beta),
        errors=None,
    )
