"""The `DistinctCount` of the fewest buckets, or of the least error.

Its error is relative, so where few users of many appear it needs less memory than a `Density`. The error is found from
the Fisher information of its counts and a normal law (`distinct_law.CountModel`), not on an exact sum, so it is offered
only where its relative error is at most a fifth.
"""

from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from panprivacy.estimators.distinct_law import LARGEST_COUNT, CountModel, counts_within, levels_for, relative_stderr
from panprivacy.planning.search import Terms, first_true, rounded_up
from panprivacy.privacy.budget import Split
from panprivacy.slots.users import LARGEST_BUCKETS

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
