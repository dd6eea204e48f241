r"""Several estimators as one, which takes over: the parts keep nothing.

**Overlapping tables.** A cell of the union of two tables is occupied if it is in either. The bits of the two tables are
read, and a new one is drawn, 1 with probability ``K[b1][b2]``, such that it looks as if a single table had seen
everybody: Bernoulli(p1*) if either cell is occupied, Bernoulli(p0*) if neither is. With ``gap_i = p1_i - p0_i`` those
four equations have one solution,

    K[b1][b2] = p1* - (p1* - p0*) * v1(b1) * v2(b2),        v_i(0) = p1_i/gap_i,    v_i(1) = -p0_i/gap_i,

since v_i has the mean 1 over the bit of an empty cell and 0 over that of an occupied one. The largest symmetric pair
for which all four are probabilities is the one with ``K[0][0] = 0``:

    p1* = A / (2A - 1),    A = v1(0) * v2(0),        that is    1 - e^-eps* = (1 - e^-eps1) * (1 - e^-eps2).

The other three are then below 1, because ``v_i(0) = 1/(1 - e^-eps_i) > 1`` and ``v_i(1) = 1 - v_i(0)``. No merge into
a symmetric pair keeps more: a larger gap makes K[0][0] negative, and K is the only solution. Hehir, Ting and Cormode,
"Sketch-Flip-Merge: Mergeable Sketches for Private Distinct Counting" (2023).

Coins have 32-bit probabilities. K is worked out exactly for a pair one step short of the one that is claimed and then
rounded, so that every cell of the merged table lies within the claimed pair, and its loss within the claimed loss.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from fractions import Fraction
from functools import reduce
from math import exp, floor, log1p, prod
from typing import Any, TypeAlias, TypeVar

import numpy as np

from panprivacy.errors import CannotMerge, InvalidType
from panprivacy.estimators.base import Estimator
from panprivacy.memory.scratch import Scratch
from panprivacy.memory.threads import CHUNK
from panprivacy.privacy.coins import ONE, Coins
from panprivacy.privacy.pairs import Pair
from panprivacy.table import Table, kernels

Kernel: TypeAlias = tuple[tuple[int, int], tuple[int, int]]
"""``kernel[b1][b2] / 2**32`` is the probability that the merged bit is 1."""


def merged_epsilon(*epsilons: float) -> float:
    """The part of the state's epsilon that is left after a merge: ``-ln(1 - prod(1 - e^-eps_i))``.

    >>> round(merged_epsilon(1.0, 1.0), 4)
    0.5101
    >>> round(merged_epsilon(1.0, 1.0, 1.0, 1.0), 4)
    0.174
    """
    return -log1p(-prod(1 - exp(-epsilon) for epsilon in epsilons))


def merged_pair(one: Pair, other: Pair) -> Pair:
    """The pair of a merged table."""
    keep = _weight(one) * _weight(other)
    present = floor(ONE * keep / (2 * keep - 1))
    if 2 * (present - 1) <= ONE:
        raise CannotMerge("these states are too noisy: a merge would leave nothing of them", code="too-noisy-to-merge")
    return Pair(ONE - present, present)


def union_pair(pair: Pair, tables: int) -> Pair:
    """The pair of the union of this number of tables of one pair."""
    return reduce(merged_pair, [pair] * tables)


def kernel(one: Pair, other: Pair) -> Kernel:
    """The thresholds K of the four patterns of two bits."""
    present = Fraction(merged_pair(one, other).present - 1, ONE)
    gap = 2 * present - 1
    first, second = _weight(one), _weight(other)

    def threshold(u: Fraction, v: Fraction) -> int:
        return round(ONE * (present - gap * u * v))

    return (
        (threshold(first, second), threshold(first, 1 - second)),
        (threshold(1 - first, second), threshold(1 - first, 1 - second)),
    )


def united(tables: Sequence[Table], pairs: Sequence[Pair], coins: Coins) -> Table:
    """Draw one table from several, two at a time; tables drawn on the way are wiped."""
    table, pair = Table.joined(tables[:1]), pairs[0]
    for other, other_pair in zip(tables[1:], pairs[1:], strict=True):
        before, table = table, merge_tables(table, other, kernel(pair, other_pair), coins)
        before.wipe()
        pair = merged_pair(pair, other_pair)
    return table


def merge_tables(one: Table, other: Table, thresholds: Kernel, coins: Coins) -> Table:
    """Draw every bit of the merged table from the two bits in its place."""
    merged, step = Table.empty(one.size), CHUNK // 64
    for start in range(0, len(one.words), step):
        first, second, drawn = (table.words[start : start + step] for table in (one, other, merged))
        bits = min(CHUNK, one.size - 64 * start)
        for pattern in range(4):
            threshold = thresholds[pattern >> 1][pattern & 1]
            if threshold:  # none for two zeros, unless rounding left a trace
                with Scratch() as scratch:
                    flips = scratch.empty("flips", kernels.count_pattern(first, second, bits, pattern), np.uint8)
                    coins.draw(threshold, flips)
                    kernels.scatter(first, second, bits, pattern, flips, drawn)
    return merged


def _weight(pair: Pair) -> Fraction:
    """``v(0) = p1/(p1 - p0)``, which is ``1/(1 - e^-epsilon)``."""
    return pair.p1 / (pair.p1 - pair.p0)


E = TypeVar("E", bound=Estimator[Any])
"""The class of the parts, and of their merge."""


def merge(parts: Sequence[E], *more: object, overlapping: bool = False) -> E:
    """Make one estimator of several.

    `Density`: shards of one universe become one table; counts add, one noise.

    `DistinctCount`: tables that saw disjoint users stay side by side in one object that releases their sum. A user is
    in one table only, so that costs no more than one of them, and loses nothing; it cannot be fed any more. Whether
    the users are disjoint is for the caller to know: one who is in two tables counts twice, and loses twice.

    Either way each user has a bit in one part only, so what the parts spent is not added up: the merged ledger is that
    of the part that spent most.

    `DistinctCount` with ``overlapping=True``: tables that may have seen the same users become one table, as if it had
    seen them all, which can be fed and released. The price is a noisier state: of the states' epsilons only
    ``-ln(1 - prod(1 - e^-eps_i))`` is left, which `merged_epsilon` tells beforehand. A user may have been in every
    part, so the releases of all parts are added up and come off those that were planned, and the budget of a part
    stays, since it may have been read. The promise is then kept against one reading of one table, be it a part or
    the merge; against one reading of all the parts at once, a user in k of them is protected by k times epsilon.

    The merge takes over: the parts are emptied, and refuse any further use. Otherwise one reading of a part and of
    the merge, which is fed on, would be two readings of the same people.

    >>> import panprivacy as pp
    >>> north, south = (pp.Density(universe=1000, epsilon=1.0, shard=(i, 2)) for i in range(2))
    >>> pp.merge([north, south]).users
    1000
    """
    _check_parts(parts, more)
    head = parts[0]
    with ExitStack() as locks:
        for part in sorted(parts, key=id):  # in one order everywhere, so that two merges do not wait for each other
            locks.enter_context(part._lock)
        for part in parts:
            part._check_in_use()
        merged: E = type(head)._merged(parts, overlapping=overlapping)
        tables = [part._table for part in parts]
        try:
            for part in parts:
                part._detach_table(
                    f"this {type(part).__name__} was merged into another, which holds its bits: use that one"
                )
        except BaseException:  # interrupted: the parts get their tables back, and stay as they were
            for part, table in zip(parts, tables, strict=True):
                part._table, part._gone = table, None
            merged.end("the merge was interrupted, and its parts have kept their bits")
            raise
        for table in tables:
            table.wipe()
    return merged


def _check_parts(parts: Sequence[Estimator[Any]], more: tuple[object, ...]) -> None:
    """Refuse parts that are not several estimators of one class, each with bits that no file keeps."""
    if more or not isinstance(parts, list | tuple):
        got = f"{1 + len(more)} arguments" if more else f"a {type(parts).__name__}"
        raise InvalidType(f"merge takes a list of estimators, pp.merge([a, b]), got {got}", code="merge-type")
    if not parts:
        raise CannotMerge("there is nothing to merge", code="nothing-to-merge")
    if len({id(part) for part in parts}) < len(parts):
        raise CannotMerge(
            "the same part is there twice: its users would count twice, and lose twice", code="same-part-twice"
        )
    head, *others = parts
    if not hasattr(head, "_merged"):
        raise CannotMerge(
            f"a {type(head).__name__} cannot be merged; merge the parts of a Density first, and observe the result",
            code="not-mergeable",
        )
    for part in others:
        if type(part) is not type(head):
            raise CannotMerge(
                f"a {type(head).__name__} and a {type(part).__name__} have nothing in common", code="different-classes"
            )
    for part in parts:
        part.check_unbound("merged")
