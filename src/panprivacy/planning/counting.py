"""`DistinctCount` as an answer: its error is relative, so where few users of many appear it needs less memory.

What is said of it rests on the Fisher information of its counts and a normal law (`likelihood.CountModel`), not on an
exact sum, so it is offered only where its relative error is at most a fifth.
"""

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import ceil, log2

from panprivacy.budget import Split
from panprivacy.counting.likelihood import CountModel
from panprivacy.planning.search import first_true
from panprivacy.planning.terms import Terms
from panprivacy.slots.hashed import LARGEST_BUCKETS, LARGEST_LEVELS

OPEN_UNIVERSE = 10**12
"""Users that an open universe has room for."""

_LEAST_BUCKETS, _USUAL_BUCKETS = 64, 4096
_FAR = 1024  # users to a bucket: there the relative error has settled
_LARGEST_RELATIVE_ERROR = 0.2


@dataclass(frozen=True)
class Counter:
    """A `DistinctCount` of so many buckets, and its error."""

    split: Split
    levels: int
    buckets: int
    stderr: float
    """Standard error of the density, or relative standard error of the count in an open universe."""
    relative: float
    """Relative standard error of the count."""

    @property
    def size(self) -> int:
        """Bits of the table."""
        return self.levels * self.buckets

    @property
    def sound(self) -> bool:
        """Whether the error is small enough for what is said of it to be about right."""
        return self.relative <= _LARGEST_RELATIVE_ERROR

    def probability(self, alpha: float) -> float:
        """About ``P(error >= alpha)``, taking the estimate for normal."""
        from scipy.special import ndtr

        return float(2 * ndtr(-alpha / self.stderr))

    def alpha(self, beta: float) -> float:
        """About the error that is exceeded with probability beta."""
        from scipy.special import ndtri

        return float(-ndtri(beta / 2) * self.stderr)


def counter(terms: Terms, density: float | None, buckets: int) -> Counter:
    """The counter of so many buckets, and its error at this density, or far out in an open universe.

    >>> about = counter(Terms(10**6, epsilon=1.0), density=0.01, buckets=1024)
    >>> about.levels, round(about.stderr, 5), round(about.relative, 3)
    (11, 0.00069, 0.069)
    """
    split = terms.split(buckets)
    levels = min(max(1 + ceil(log2(terms.population / buckets)), 1), LARGEST_LEVELS)
    model = CountModel(split.pair_after(terms.intrusions), levels, buckets, float(split.release))
    count = float(_FAR * buckets) if density is None else density * terms.population
    relative = model.stderr(count) / count
    return Counter(split, levels, buckets, relative if density is None else relative * density, relative)


def smallest_counter(terms: Terms, density: float | None, alpha: float, beta: float, bits: int) -> Counter | None:
    """The counter of fewest buckets whose errors are alpha or more with a probability of about beta at most."""
    of = partial(counter, terms, density)

    def meets(buckets: int) -> bool:
        found = of(buckets)
        return found.sound and found.probability(alpha) <= beta

    widths = [0, *_widths(terms, bits)]
    for before, buckets in pairwise(widths):
        if meets(buckets):
            further = first_true(lambda more: meets(before + more), buckets - before, buckets - before)  # noqa: B023
            return of(before + (further or 0))
    return None


def least_error_counter(terms: Terms, density: float | None, bits: int | None) -> Counter | None:
    """The counter that errs least in so many bits; in an open universe without a limit, one of 4,096 buckets."""
    widths = [_USUAL_BUCKETS] if density is None and bits is None else _widths(terms, bits or terms.population)
    found = [counter(terms, density, buckets) for buckets in widths]
    return min((each for each in found if each.sound), key=lambda each: each.stderr, default=None)


def _widths(terms: Terms, bits: int) -> list[int]:
    """Numbers of buckets to try, growing by a fifth, and the largest that fits into so many bits."""

    def too_large(buckets: int) -> bool:
        return (1 + ceil(log2(terms.population / buckets))) * buckets > bits

    most = (first_true(too_large, bits // 16, LARGEST_BUCKETS) or LARGEST_BUCKETS + 1) - 1
    widths = [round(_LEAST_BUCKETS * 2 ** (k / 4)) for k in range(73)]
    return [*(width for width in widths if width < most), *([most] if most >= _LEAST_BUCKETS else [])]
