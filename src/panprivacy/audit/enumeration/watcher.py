r"""The delta against an intruder who watches the releases and decides by them what happens next.

After every output the intruder chooses the user's actions in either world, and the next observation: a release, or a
reading of the whole state. The largest sum over all that can be seen of

    max(P(seen) - e^epsilon * P'(seen), 0)

is the smallest delta that holds with this epsilon. It is found by trying every choice after every output, backwards
from the end: an optimal stopping problem. What the state does comes from `Machine`: the shipping code was run under
every outcome of its coins.

**Never too small.** Outputs are followed until the noise of a number has a probability below 1e-10 left, and histories
that have a probability below 1e-13 are not followed. Their probability is added.
"""

from collections.abc import Sequence
from itertools import product
from math import ceil, exp, log, sqrt
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.audit.enumeration.machine import Machine, Step
from panprivacy.audit.enumeration.outcomes import Noised
from panprivacy.audit.enumeration.search import Left
from panprivacy.privacy.noise import Gaussian

Reals: TypeAlias = NDArray[np.float64]
States: TypeAlias = tuple[int, ...]

_BEYOND = log(2e10)
_TINY = 1e-13
_ROUNDING = 1e-9  # far more than floats err
_GRID = 1e-4  # of the logarithm of a ratio
_MOST_ROWS = 2**18  # histories that are worked on at once


class Seen(NamedTuple):
    """All releases that look alike but for their noisy numbers: for each state and output, the weight of each next."""

    after: States
    weights: Reals
    """From each state, through each output, to each next state."""
    fresh: Reals | None
    """The law of the next state, if it does not depend on anything before: a window or a cycle has ended."""


class Watcher:
    """The intruder, for one machine and one set of things that the users may do between two observations."""

    def __init__(self, machine: Machine, actions: Sequence[Sequence[Step]], release: Step) -> None:
        self._machine = machine
        self._actions = [tuple(steps) for steps in actions]
        self._release = release
        self._closed: dict[States, tuple[States, list[Reals]]] = {}
        self._seen: dict[States, list[Seen]] = {}
        self.left_out = 0.0
        """The probability, at most, of outputs that were not followed."""

    def smallest_delta(self, epsilon: float, releases: int, readings: int = 1, *, stretch: int = 0) -> float:
        """The smallest delta that holds with this epsilon, never too small."""
        start = self._machine.start
        states = tuple(sorted({move.state for move in start.each}))
        first = np.zeros((1, len(states)))
        for move in start.each:
            first[0, states.index(move.state)] += move.share / start.whole
        self._growth = exp(epsilon) * (1 - _ROUNDING)
        self.left_out = 0.0
        found = self._value(first * (1 + _ROUNDING), first, states, Left(releases, readings, stretch=stretch))
        return min(float(found[0]) + releases * self.left_out, 1.0)

    def _value(self, a: Reals, b: Reals, states: States, left: Left) -> Reals:
        """The largest sum from here on, for each history of a batch: the weights of the states in either world."""
        if len(a) > _MOST_ROWS:
            cuts = range(0, len(a), _MOST_ROWS)
            return np.concatenate(
                [self._value(a[i : i + _MOST_ROWS], b[i : i + _MOST_ROWS], states, left) for i in cuts]
            )
        likely: Reals = a.sum(axis=1)
        best: Reals = np.maximum(likely - self._growth * b.sum(axis=1), 0.0)
        if left.done:
            return best
        followed = likely > _TINY
        if not followed.all():
            best[~followed] = likely[~followed]
            if followed.any():
                best[followed] = self._value(a[followed], b[followed], states, left)
            return best
        closed, kernels = self._after_actions(states)
        for one, other in product(kernels, kernels):
            first, second = a @ one, b @ other
            if left.readings:
                np.maximum(best, self._read(first, second, closed, left.after_reading()), out=best)
            if left.releases:
                np.maximum(best, self._released(first, second, closed, left.after_release()), out=best)
        return best

    def _read(self, a: Reals, b: Reals, states: States, left: Left) -> Reals:
        if left.done:
            return np.asarray(np.maximum(a - self._growth * b, 0.0).sum(axis=1))
        found = np.zeros(len(a))
        for i, state in enumerate(states):
            found += self._value(a[:, i : i + 1], b[:, i : i + 1], (state,), left)
        return found

    def _released(self, a: Reals, b: Reals, states: States, left: Left) -> Reals:
        found = np.zeros(len(a))
        for seen in self._sights(states):
            _, outputs, following = seen.weights.shape
            rows = max(_MOST_ROWS // outputs, 1)
            for i in range(0, len(a), rows):
                some = slice(i, i + rows)
                one, other = (np.tensordot(world[some], seen.weights, 1).reshape(-1, following) for world in (a, b))
                if seen.fresh is None or left.done:
                    values = self._value(one, other, seen.after, left)
                else:
                    values = self._value_of_fresh(one.sum(axis=1), other.sum(axis=1), seen, left)
                found[some] += values.reshape(-1, outputs).sum(axis=1)
        return found

    def _value_of_fresh(self, a: Reals, b: Reals, seen: Seen, left: Left) -> Reals:
        """Values where the state is drawn anew: of the past, only the ratio of its weights matters.

        Ratios are rounded down to a grid, so that values are rounded up, and each of them is worked out once.
        """
        assert seen.fresh is not None
        values = a.copy()  # of histories too unlikely to be followed
        followed = (a > _TINY) & (b > _TINY * a)
        steps, which = np.unique(np.floor(np.log(b[followed] / a[followed]) / _GRID), return_inverse=True)
        ones = np.tile(seen.fresh, (len(steps), 1))
        worth = self._value(ones, ones * np.exp(steps * _GRID)[:, np.newaxis], seen.after, left)
        values[followed] = a[followed] * worth[which]
        return values

    def _after_actions(self, states: States) -> tuple[States, list[Reals]]:
        """The states that the user's actions lead to, and the kernel of each action; equal kernels once."""
        if states not in self._closed:
            laws = [[self._after(state, steps) for state in states] for steps in self._actions]
            closed = tuple(sorted({to for law in laws for each in law for to in each}))
            kernels: list[Reals] = []
            for law in laws:
                kernel = np.array([[each.get(to, 0.0) for to in closed] for each in law])
                if not any(np.array_equal(kernel, known) for known in kernels):
                    kernels.append(kernel)
            self._closed[states] = closed, kernels
        return self._closed[states]

    def _after(self, state: int, steps: Sequence[Step]) -> dict[int, float]:
        law = {state: 1.0}
        for step in steps:
            after: dict[int, float] = {}
            for at, weight in law.items():
                each, whole = self._machine.moves(at, step)
                for move in each:
                    after[move.state] = after.get(move.state, 0.0) + weight * move.share / whole
            law = after
        return law

    def _sights(self, states: States) -> list[Seen]:
        if states not in self._seen:
            self._seen[states] = self._make_sights(states)
        return self._seen[states]

    def _make_sights(self, states: States) -> list[Seen]:
        alike: dict[object, list[tuple[int, int, tuple[Noised, ...], float]]] = {}
        for i, state in enumerate(states):
            each, whole = self._machine.moves(state, self._release)
            for move in each:
                sight = self._machine.sights[move.sight]
                looks = sight.returned, tuple(number.law for number in sight.noised)
                alike.setdefault(looks, []).append((i, move.state, sight.noised, move.share / whole))
        return [self._sight(found, len(states)) for found in alike.values()]

    def _sight(self, found: list[tuple[int, int, tuple[Noised, ...], float]], states: int) -> Seen:
        after = tuple(sorted({to for _, to, _, _ in found}))
        columns = list(zip(*(numbers for _, _, numbers, _ in found), strict=True))
        told = [i for i, column in enumerate(columns) if any(number.value != column[0].value for number in column)]
        axes = [_axis(columns[i]) for i in told]
        self.left_out = max(self.left_out, len(told) * 2 * exp(-_BEYOND))
        outputs = int(np.prod([len(axis) for axis in axes]))
        weights = np.zeros((states, outputs, len(after)))
        for state, to, numbers, share in found:
            chances = np.ones(1)
            for i, axis in zip(told, axes, strict=True):
                chances = np.outer(chances, _chances(numbers[i], axis)).ravel()
            weights[state, :, after.index(to)] += share * chances
        return Seen(after, weights, _common_law(weights))


def _common_law(weights: Reals) -> Reals | None:
    """The law of the next state, if it is the same from every state and after every output."""
    laws = weights.reshape(-1, weights.shape[-1])
    laws = laws[laws.sum(axis=1) > 0]
    laws /= laws.sum(axis=1, keepdims=True)
    return laws[0] if len(laws[0]) > 1 and np.allclose(laws, laws[0], rtol=1e-12, atol=1e-15) else None


def _axis(column: Sequence[Noised]) -> NDArray[np.int64]:
    law = column[0].law
    if not isinstance(law, Gaussian):
        raise NotImplementedError("a delta is audited for discrete Gaussian noise")
    reach = ceil(sqrt(2 * float(law.square) * _BEYOND))
    values = [int(number.value) for number in column]
    return np.arange(min(values) - reach, max(values) + reach + 1)


def _chances(number: Noised, axis: NDArray[np.int64]) -> Reals:
    assert isinstance(number.law, Gaussian)
    square = float(number.law.square)
    far = ceil(sqrt(2 * square * 100))
    whole = float(np.exp(-(np.arange(-far, far + 1) ** 2) / (2 * square)).sum())
    return np.asarray(np.exp(-((axis - int(number.value)) ** 2) / (2 * square)) / whole)
