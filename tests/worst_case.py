"""The exact worst case of one user's bit, by going through every schedule: an oracle for the budget's formula.

All that one user touches is one bit. Two streams differ in that user's insertions and deletions, which may fall
between any two things an adversary sees: a release, a reading of the state, a redraw. What has been seen so far
weighs the two values the bit may have, once for each stream; nothing else of the past matters.
"""

from collections.abc import Iterator
from math import exp, log

from panprivacy.privacy.budget import Split
from panprivacy.privacy.coins import ONE
from panprivacy.privacy.noise import Laplace

Moment = tuple[int, int, bool]
"""Releases seen, redraws made, and whether the state was read since the last redraw."""

Shape = tuple[float, float]
"""Probability that the bit is 1, given what was seen, under either stream."""


def worst_loss(split: Split, releases: int, redraws: int) -> float:
    """The largest log-likelihood ratio of two streams, over all schedules, streams and observations.

    Two histories with the same moment and shapes have the same futures, so only the worst of them is carried on.
    """
    start = split.pair.absent / ONE
    histories: dict[Moment, dict[Shape, float]] = {(0, 0, False): {(start, start): 0.0}}
    moments = [(k, j, read) for j in range(redraws + 1) for read in (False, True) for k in range(releases + 1)]
    worst = 0.0
    for moment in sorted(moments, key=lambda m: (m[1], m[0] + m[2])):  # every moment after all that can precede it
        for shape, loss in histories.get(moment, {}).items():
            worst = max(worst, loss)
            for after, new, gained in _steps(split, moment, shape, releases, redraws):
                best = histories.setdefault(after, {})
                best[new] = max(best.get(new, float("-inf")), loss + gained)
    return worst


def _steps(
    split: Split, moment: Moment, shape: Shape, releases: int, redraws: int
) -> Iterator[tuple[Moment, Shape, float]]:
    """Every pair of things the user may do now, followed by everything an adversary may see."""
    seen, redrawn, read = moment
    pair = split.pair_after(redrawn)
    coins = (pair.absent / ONE, pair.present / ONE)
    assert isinstance(split.noise, Laplace)
    flip = split.flip / ONE
    for first in {shape[0], *coins}:
        for second in {shape[1], *coins}:
            ones = (first, second)
            if seen < releases:
                grown = exp(float(split.noise.epsilon))
                for zero_weight, one_weight in ((1.0, grown), (grown, 1.0)):
                    yield (seen + 1, redrawn, read), *_weighed(ones, zero_weight, one_weight)
            if not read:
                for zero_weight, one_weight in ((1.0, 0.0), (0.0, 1.0)):
                    yield (seen, redrawn, True), *_weighed(ones, zero_weight, one_weight)
            if redrawn < redraws:
                yield (seen, redrawn + 1, False), _rounded(tuple(p * (1 - flip) + (1 - p) * flip for p in ones)), 0.0


def _weighed(ones: Shape, zero_weight: float, one_weight: float) -> tuple[Shape, float]:
    """Shapes after an observation that is `weight` times as likely, and what its ratio adds to the loss."""
    totals = [(1 - p) * zero_weight + p * one_weight for p in ones]
    shape = tuple(p * one_weight / total for p, total in zip(ones, totals, strict=True))
    return _rounded(shape), log(totals[0] / totals[1])


def _rounded(shape: tuple[float, ...]) -> Shape:
    return round(shape[0], 14), round(shape[1], 14)
