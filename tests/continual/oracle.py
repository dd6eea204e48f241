"""The exact worst case of one user's bit under continual observation, computed apart from the shipping code.

The user owns one bit, nobody else is there, and what the observer keeps is that bit and the threshold's walk. An
adversary sees every answer, the released numbers, and once, at any moment, bit and walk. Before each of these the user
may appear, be deleted, or do nothing. For each thing seen, its probability under every such stream is computed by
carrying along the joint weights of bit and walk; the loss is the largest logarithm of a ratio of two of them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Self

import numpy as np
from numpy.typing import NDArray

from panprivacy.estimators.continual_law import Shares
from panprivacy.privacy.noise import Laplace

Weights = NDArray[np.float64]
"""By what was read (one row if nothing was), bit and walk."""

READ = "read"
NOT_YET = "not yet"
HIGH, LOW = "moved, at least 1", "moved, at most 0"
"""A released number beyond the values that noise can hide tells the same as the nearest of them."""


@dataclass(frozen=True)
class Model:
    """An observer with a single user; epsilons may be set apart from any plan, to model a mistake."""

    p0: float
    threshold: float
    test: float
    value: float
    moves: int
    bar: int = 1
    reach: int = 40
    """The walk is followed so far from zero; what leads beyond is left out."""
    rising: bool = False
    """Whether the test asks how far the count is above the last one, or how far it is from it."""
    above: bool | None = None
    """Where others have put the count, as seen from the last one released; None: nobody else is there."""

    @classmethod
    def of(cls, shares: Shares, bar: int = 1, reach: int = 40) -> Self:
        """The model of shares that the package chose."""
        assert isinstance(shares.value, Laplace)
        threshold, test, value = (float(x) for x in (shares.threshold, shares.test, shares.value.epsilon))
        return cls(float(shares.pair.p0), threshold, test, value, shares.moves, bar, reach, shares.rising)

    def start(self) -> Weights:
        """Nobody has appeared, and the walk is at zero."""
        weights = np.zeros((1, 2, 2 * self.reach + 1))
        weights[0, :, self.reach] = 1 - self.p0, self.p0
        return weights

    def redrawn(self, weights: Weights, action: str) -> Weights:
        """After the user has done something."""
        if action == "nothing":
            return weights
        p1 = self.p0 if action == "removed" else 1 - self.p0
        both = weights.sum(axis=1, keepdims=True)
        return np.concatenate([(1 - p1) * both, p1 * both], axis=1)

    def seen(self, weights: Weights, what: str, moved: int) -> Weights:
        """The weights together with one more thing seen, `moved` moves having been made before it."""
        if what == READ:
            rows = weights[0].size
            return np.asarray(np.eye(rows).reshape(rows, *weights.shape[1:]) * weights)
        weights = self._walked(weights)
        bit = np.arange(2)[:, np.newaxis]
        # The first distance is from 0; then the released number is 1, as in an audit, and the distance from it.
        distance = bit - bool(moved) if self.above is None else bit
        if not self.rising:
            distance = np.abs(distance) if self.above in (None, True) else 1 - bit
        reached = _reaches(self.bar + self._places() - distance, self.test)
        weights = weights * (1 - reached if what == NOT_YET else reached)
        if what in (HIGH, LOW):
            weights = weights * np.exp(-self.value * (1 - bit if what == HIGH else bit))
        return weights

    def _places(self) -> NDArray[np.int64]:
        return np.arange(-self.reach, self.reach + 1)

    def _walked(self, weights: Weights) -> Weights:
        steps = np.subtract.outer(self._places(), self._places())
        a = np.exp(-self.threshold)
        return np.asarray(weights @ ((1 - a) / (1 + a) * a ** np.abs(steps)))


class Unrefreshed(Model):
    """The textbook's test: the threshold's noise is drawn once, before anything is seen, and kept."""

    def start(self) -> Weights:
        return super()._walked(super().start())

    def _walked(self, weights: Weights) -> Weights:
        return weights


def worst_loss(model: Model, observations: int, *, deletions: bool = False) -> float:
    """The largest loss over all streams, all moments of the reading, and all that can be seen."""
    actions = ("nothing", "appears", "removed") if deletions else ("nothing", "appears")
    timelines = _timelines(observations, model.moves)
    return max(loss_of(likelihoods(model, seen, product(actions, repeat=len(seen)))) for seen in timelines)


def likelihoods(
    model: Model,
    timeline: Sequence[str],
    streams: Iterable[Sequence[str]],
    bars: Sequence[int] | None = None,
    above: Sequence[bool] | None = None,
) -> Weights:
    """How likely the timeline is, with every value that may be read: a row for each stream.

    A stream says what the user does before each point of the timeline. Other users move the count, and so the bar as
    this user sees it: `bars` has one for each point; and `above` says on which side of the last release they put it.
    """
    here = bars or [model.bar] * len(timeline)
    sides: Sequence[bool | None] = above or [model.above] * len(timeline)
    models = [replace(model, bar=bar, above=side) for bar, side in zip(here, sides, strict=True)]
    return np.stack([_likelihood(models, timeline, stream) for stream in streams])


def loss_of(rows: Weights) -> float:
    """The largest logarithm of a ratio of two rows."""
    rows = rows[:, rows.min(axis=0) > 0]
    return float(np.log(rows.max(axis=0) / rows.min(axis=0)).max())


def _timelines(observations: int, moves: int) -> Iterator[list[str]]:
    """All that can be seen, in order; once the moves are spent nothing new is."""
    for answers in product((NOT_YET, HIGH, LOW), repeat=observations):
        if sum(answer != NOT_YET for answer in answers) <= moves:
            for at in range(observations + 1):
                yield [*answers[:at], READ, *answers[at:]]


def _likelihood(models: Sequence[Model], timeline: Sequence[str], stream: Sequence[str]) -> Weights:
    weights, moved = models[0].start(), 0
    for model, what, action in zip(models, timeline, stream, strict=True):
        weights = model.redrawn(weights, action)
        if what == READ or moved < model.moves:
            weights = model.seen(weights, what, moved)
        moved += what in (HIGH, LOW)
    return np.asarray(weights.sum(axis=(1, 2)))


def unscaled(shares: Shares, moves: int) -> Model:
    """The mistake of giving each of several moves what was planned for one."""
    return replace(Model.of(shares), moves=moves)


def _reaches(bar: NDArray[np.int64], epsilon: float) -> NDArray[np.float64]:
    """``P(X >= bar)`` for discrete Laplace noise X."""
    a = np.exp(-epsilon)
    far = a ** np.maximum(bar, 1 - bar) / (1 + a)
    return np.asarray(np.where(bar > 0, far, 1 - far))
