r"""Two tables that saw some of the same users, as one: the randomised merge.

A cell of the union is occupied if it is in either table. The bits of the two tables are read, and a new one is drawn,
1 with probability ``K[b1][b2]``, such that it looks as if a single table had seen everybody: Bernoulli(p1*) if either
cell is occupied, Bernoulli(p0*) if neither is. With ``gap_i = p1_i - p0_i`` those four equations have one solution,

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
from fractions import Fraction
from math import exp, floor, log1p
from typing import TypeAlias

import numpy as np

from panprivacy.errors import CannotMerge
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
    product = 1.0
    for epsilon in epsilons:
        product *= 1 - exp(-epsilon)
    return -log1p(-product)


def merged_pair(one: Pair, other: Pair) -> Pair:
    """The pair of a merged table."""
    keep = _weight(one) * _weight(other)
    present = floor(ONE * keep / (2 * keep - 1))
    if 2 * (present - 1) <= ONE:
        raise CannotMerge("these states are too noisy: a merge would leave nothing of them", code="too-noisy-to-merge")
    return Pair(ONE - present, present)


def union_pair(pair: Pair, tables: int) -> Pair:
    """The pair of the union of this number of tables of one pair."""
    merged = pair
    for _ in range(1, tables):
        merged = merged_pair(merged, pair)
    return merged


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
