"""The exact worst case of one user's bit under continual observation, computed apart from the shipping code.

The user owns one bit, nobody else is there, and what the observer keeps is that bit and the threshold's walk. An
adversary sees every answer, the released numbers, and once, at any moment, bit and walk. Before each of these the user
may appear, be deleted, or do nothing. For each thing seen, its probability under every such stream is computed: the
joint weights of bit and walk are carried along up to the reading, and from the end back to it the probabilities of what
is seen later, given bit and walk. The loss is the largest logarithm of a ratio of two of them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Self

import numpy as np
from numpy.typing import NDArray

from panprivacy.estimators.continual_law import Shares
from panprivacy.privacy.noise import Laplace

Weights = NDArray[np.float64]
"""By bit and walk."""

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
        weights = np.zeros((2, 2 * self.reach + 1))
        weights[:, self.reach] = 1 - self.p0, self.p0
        return weights

    def redrawn(self, weights: Weights, action: str) -> Weights:
        """After the user has done something."""
        return weights if action == "nothing" else np.outer(self._bit(action), weights.sum(axis=0))

    def before(self, later: Weights, action: str) -> Weights:
        """The probability of what is seen later, given bit and walk before the user does something."""
        return later if action == "nothing" else np.tile(self._bit(action) @ later, (2, 1))

    def _bit(self, action: str) -> Weights:
        p1 = self.p0 if action == "removed" else 1 - self.p0
        return np.array([1 - p1, p1])

    @cache  # noqa: B019 - models are few
    def answered(self, what: str, moved: bool) -> Weights:
        """The probability of an answer, given bit and walk, some move having been made before it or not."""
        bit = np.arange(2)[:, np.newaxis]
        # The first distance is from 0; then the released number is 1, as in an audit, and the distance from it.
        distance = bit - moved if self.above is None else bit
        if not self.rising:
            distance = np.abs(distance) if self.above in (None, True) else 1 - bit
        reached = _reaches(self.bar + self._places() - distance, self.test)
        if what == NOT_YET:
            return 1 - reached
        return reached * np.exp(-self.value * (1 - bit if what == HIGH else bit))

    def _places(self) -> NDArray[np.int64]:
        return np.arange(-self.reach, self.reach + 1)

    def walked(self, weights: Weights) -> Weights:
        """After a step of the walk; or before it, since a step is as likely as the one back."""
        return weights @ _steps(self.threshold, self.reach)


@cache
def _steps(epsilon: float, reach: int) -> Weights:
    """The probability of each step between two places."""
    places, a = np.arange(2 * reach + 1), np.exp(-epsilon)
    return np.asarray((1 - a) / (1 + a) * a ** np.abs(np.subtract.outer(places, places)))


class Unrefreshed(Model):
    """The textbook's test: the threshold's noise is drawn once, before anything is seen, and kept."""

    def start(self) -> Weights:
        return super().walked(super().start())

    def walked(self, weights: Weights) -> Weights:
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
    moved = [sum(what in (HIGH, LOW) for what in timeline[:at]) for at in range(len(timeline))]
    points = list(zip(models, timeline, moved, strict=True))
    at = timeline.index(READ)

    @cache
    def until(stream: tuple[str, ...]) -> Weights:
        """The weights after the first points of the timeline."""
        if not stream:
            return model.start()
        (then, what, moved), weights = points[len(stream) - 1], until(stream[:-1])
        weights = then.redrawn(weights, stream[-1])
        if what == READ or moved >= then.moves:
            return weights
        return then.walked(weights) * then.answered(what, moved > 0)

    @cache
    def after(stream: tuple[str, ...]) -> Weights:
        """The probability of the last points of the timeline, given bit and walk before them."""
        if not stream:
            return np.ones((2, 2 * model.reach + 1))
        (then, what, moved), later = points[-len(stream)], after(stream[1:])
        if moved < then.moves:
            later = then.walked(later * then.answered(what, moved > 0))
        return then.before(later, stream[0])

    found = [until(tuple(stream[: at + 1])) * after(tuple(stream[at + 1 :])) for stream in streams]
    return np.stack([each.ravel() for each in found])


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


def unscaled(shares: Shares, moves: int) -> Model:
    """The mistake of giving each of several moves what was planned for one."""
    return replace(Model.of(shares), moves=moves)


def _reaches(bar: NDArray[np.int64], epsilon: float) -> NDArray[np.float64]:
    """``P(X >= bar)`` for discrete Laplace noise X."""
    a = np.exp(-epsilon)
    far = a ** np.maximum(bar, 1 - bar) / (1 + a)
    return np.asarray(np.where(bar > 0, far, 1 - far))
