r"""The largest delta among laws at a claimed epsilon: the hockey-stick divergence, summed over all outputs.

For a fixed state seen, noisy numbers o = (o_1..o_k) have the likelihood ``f(o) = sum of weight * prod P(o_i - v_i)``
over the values v that the noise may have hidden, and g(o) under the other law. Their divergence is

    sum over all integers o_1..o_k of  max(f(o) - e^epsilon * g(o), 0).

**Few dimensions.** `Contrast` is what tells two laws apart, reduced. A number under which all values are the same tells
nothing and sums to 1. Numbers under which the values move alike, such as two releases with no event between them, tell
no more than their sum if the noise is Gaussian: ``P(o - v)`` is proportional to ``P(o) * e^(o*v/s - v^2/(2s))``, so the
product for several o depends on v through their sum alone. The noise of that sum is a convolution. Adding the same to
all values moves the outputs and not the divergence, and a common factor of all weights is a factor of it.

**Never too small.** All terms of f and g are positive, so floats know each of them up to a relative error far below
`_ROUNDING`; f is raised and g lowered by that much before they are compared. Outputs are summed up to a reach on either
side of the values, beyond which the noise of one number has a probability below 1e-18; the probability, under f, of
all that lies beyond is added.

`Watcher` finds the delta against an intruder who watches the releases and decides by them what happens next.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from itertools import permutations, product
from math import ceil, exp, fsum, gcd, lcm, log, prod, sqrt, tanh
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.audit.enumeration.loss import Hidden, Judge, Weights
from panprivacy.audit.enumeration.machine import Laws, Machine, Step
from panprivacy.audit.enumeration.outcomes import Noised, RealLaplace, TooManyOutcomes
from panprivacy.audit.enumeration.search import READ, Finished, Left, steps_of
from panprivacy.privacy.noise import Gaussian, Noise

Reals: TypeAlias = NDArray[np.float64]
States: TypeAlias = tuple[int, ...]

MOST_OUTPUTS = 2**26
"""More combinations of noisy numbers than this are refused: they could not be summed."""

_ROUNDING = 1e-12
_BEYOND = log(2e18)
_FINE = 1e-6  # how closely an epsilon is bracketed
_MOST_ROWS = 2**18  # histories that are worked on at once
_GRID = 1e-4  # of the logarithm of a ratio
_MARGIN = 1e-9  # far more than floats err
_TINY = 1e-13
_UNFOLLOWED = log(2e10)


class Drawn(NamedTuple):
    """The sum of `times` independent draws of a law."""

    law: Noise | RealLaplace
    times: int


class Mass(NamedTuple):
    """Values under the noise, which kind of noise is on them, and the weight of all that under either law."""

    values: tuple[int, ...]
    kind: int
    a: int
    b: int


class Contrast(NamedTuple):
    """The weights of one sight under two laws, in lowest terms, the smallest value under each number being 0."""

    masses: tuple[Mass, ...]
    kinds: tuple[tuple[Drawn, ...], ...]
    """The noise on each number: of one kind, unless its width is hidden."""

    @property
    def whole(self) -> int:
        """The sum of all weights."""
        return sum(mass.a + mass.b for mass in self.masses)


class Place(NamedTuple):
    """Where a contrast lies: which of the numbers seen each of its own is the sum of, and how far that was moved."""

    told: tuple[tuple[int, ...], ...]
    moved: tuple[int, ...]


def contrast_of(a: Weights | None, b: Weights | None) -> tuple[Contrast, Fraction, Place]:
    """The contrast of two laws of one sight, its share of them, and its place. None stands for an impossible sight."""
    common = lcm(*(law.whole for law in (a, b) if law))
    shares = [
        {hidden: share * (common // law.whole) for hidden, share in law.shares.items()} if law else {} for law in (a, b)
    ]
    hidden = tuple(dict.fromkeys(one for each in shares for one in each))
    keys, kinds, place = _laid_out(hidden)
    masses: dict[tuple[tuple[int, ...], int], list[int]] = {}
    for one, key in zip(hidden, keys, strict=True):
        both = masses.setdefault(key, [0, 0])
        for side in range(2):
            both[side] += shares[side].get(one, 0)
    factor = gcd(*(share for both in masses.values() for share in both))
    found = (Mass(*key, share_a // factor, share_b // factor) for key, (share_a, share_b) in masses.items())
    return Contrast(tuple(sorted(found)), kinds), Fraction(factor, common), place


@lru_cache(maxsize=4096)
def _laid_out(
    hidden: tuple[Hidden, ...],
) -> tuple[list[tuple[tuple[int, ...], int]], tuple[tuple[Drawn, ...], ...], Place]:
    """The values under the noise in each outcome, with the number of its kind of noise; these kinds; and the place.

    Numbers that tell nothing are left out. Those that move alike are put together.
    """
    columns = list(zip(*(one.numbers for one in hidden), strict=True))
    least = [min(int(number.value) for number in column) for column in columns]
    alike: dict[object, list[int]] = {}
    for i, column in enumerate(columns):
        law = column[0].law
        if any(number != column[0] for number in column):
            if any(isinstance(number.law, RealLaplace) for number in column):
                raise NotImplementedError(
                    "a delta is a sum over whole numbers: noise on real numbers is not audited for it"
                )
            one_gaussian = isinstance(law, Gaussian) and all(n.law is law or n.law == law for n in column)
            moves = (law, *(int(number.value) - least[i] for number in column)) if one_gaussian else i
            alike.setdefault(moves, []).append(i)
    groups = tuple(tuple(group) for group in alike.values())
    moved = tuple(sum(least[i] for i in group) for group in groups)
    kinds: dict[tuple[Drawn, ...], int] = {}
    keys = []
    for one in hidden:
        sums = (sum(int(one.numbers[i].value) for i in group) for group in groups)
        noise = tuple(Drawn(one.numbers[group[0]].law, len(group)) for group in groups)
        values = tuple(total - by for total, by in zip(sums, moved, strict=True))
        keys.append((values, kinds.setdefault(noise, len(kinds))))
    return keys, tuple(kinds), Place(groups, moved)


def divergence(contrast: Contrast, epsilon: float) -> float:
    """The divergence of a contrast, never too small, as a share of all its weights."""
    outputs = _Outputs(contrast)
    growth = exp(epsilon) * (1 - _ROUNDING)
    parts = [float(np.maximum(a * (1 + _ROUNDING) - growth * b, 0.0).sum()) for _, a, b in outputs.blocks()]
    return fsum([*parts, outputs.beyond]) * (1 + _ROUNDING)


@dataclass(frozen=True)
class Region:
    """The outputs that are more than e^epsilon times likelier under the first law, and their probabilities."""

    a: float
    b: float
    likeliest: tuple[int, ...]
    """The one among them that is likeliest under the first law."""
    least_sum: int | None
    """They are all those that add up to at least this, if so."""
    most_sum: int | None
    """They are all those that add up to at most this, if so."""


def region(contrast: Contrast, epsilon: float) -> Region | None:
    """Where the divergence of a contrast comes from; None if from nowhere."""
    outputs = _Outputs(contrast)
    growth = exp(epsilon)
    above, below = [], []
    best = 0.0
    likeliest: tuple[int, ...] = ()
    inside: list[int] = []
    outside: list[int] = []
    for leading, a, b in outputs.blocks():
        likelier = a > growth * b
        rows, columns = outputs.axes[-2:]
        sums = sum(leading) + rows[:, np.newaxis] + columns
        for ends, part in ((inside, sums[likelier]), (outside, sums[~likelier])):
            ends.extend([int(part.min()), int(part.max())] if part.size else [])
        above.append(float(a[likelier].sum()))
        below.append(float(b[likelier].sum()))
        top = np.where(likelier, a, -1.0)
        if top.max() > best:
            best, (row, column) = float(top.max()), np.unravel_index(int(top.argmax()), top.shape)
            likeliest = (*leading, int(rows[row]), int(columns[column]))[: outputs.numbers]
    if not inside:
        return None
    return Region(
        a=fsum(above),
        b=fsum(below),
        likeliest=likeliest,
        least_sum=min(inside) if outside and min(inside) > max(outside) else None,
        most_sum=max(inside) if outside and max(inside) < min(outside) else None,
    )


class _Outputs:
    """All outputs up to the reach, in blocks of the last two numbers, with their likelihoods under both laws."""

    def __init__(self, contrast: Contrast) -> None:
        masses, kinds, whole = contrast.masses, contrast.kinds, contrast.whole
        self.numbers = len(masses[0].values)
        self._weights = np.array([[mass.a / whole, mass.b / whole] for mass in masses]).T
        columns = [[(mass.values[i], kinds[mass.kind][i]) for mass in masses] for i in range(self.numbers)]
        columns += [[] for _ in range(2 - self.numbers)]  # a number that is always 0
        reach = [max((_reach(noise) for _, noise in column), default=0) for column in columns]
        self.axes = [
            np.arange(-far, max((value for value, _ in column), default=0) + far + 1)
            for column, far in zip(columns, reach, strict=True)
        ]
        if prod(len(axis) for axis in self.axes) > MOST_OUTPUTS:
            raise TooManyOutcomes(
                f"{self.numbers} noisy numbers have too many outputs; audit fewer releases or a larger epsilon",
                code="too-many-outputs",
            )
        self._chances = [
            np.array([_chances(noise, axis - value) for value, noise in column] or [np.ones(1)] * len(masses))
            for column, axis in zip(columns, self.axes, strict=True)
        ]
        self.beyond = fsum(
            mass.a / whole * _beyond(noise, far)
            for mass in masses
            for noise, far in zip(kinds[mass.kind], reach, strict=False)
        )

    def blocks(self) -> Iterator[tuple[tuple[int, ...], Reals, Reals]]:
        """All numbers but the last two, and the likelihoods of those two under either law."""
        *leading, rows, columns = self._chances
        for places in product(*(range(len(axis)) for axis in self.axes[:-2])):
            so_far = prod((chances[:, i] for chances, i in zip(leading, places, strict=True)), start=np.ones(len(rows)))
            a, b = ((weights * so_far * rows.T) @ columns for weights in self._weights)
            yield tuple(int(axis[i]) for axis, i in zip(self.axes, places, strict=False)), a, b


def _reach(noise: Drawn, beyond: float = _BEYOND) -> int:
    """How far out noise is followed: beyond, it has a probability below 1e-18, or twice ``e^-beyond``."""
    law, times = noise
    if isinstance(law, Gaussian):
        return ceil(sqrt(2 * times * float(law.square) * beyond))
    return ceil(beyond / float(law.epsilon))


def _beyond(noise: Drawn, reach: int) -> float:
    """A bound of ``P(|X| > reach)``: sums of discrete Gaussians have no longer tails than continuous ones."""
    law, times = noise
    if isinstance(law, Gaussian):
        return 2 * exp(-((reach + 1) ** 2) / (2 * times * float(law.square)))
    return 2 * exp(-(reach + 1) * float(law.epsilon))


def _chances(noise: Drawn, distances: NDArray[np.int64]) -> Reals:
    """Probabilities of noise."""
    law, times = noise
    if isinstance(law, Gaussian):
        reach = max(int(abs(distances).max()), _reach(noise))
        known = _bell(law.square, times, 2 ** reach.bit_length())
        return known[distances + len(known) // 2]
    return np.asarray(tanh(float(law.epsilon) / 2) * np.exp(-float(law.epsilon) * np.abs(distances)))


@lru_cache(maxsize=64)
def _bell(square: Fraction, times: int, reach: int) -> Reals:
    """The probabilities of a sum of Gaussians from -reach to reach."""
    heights = np.exp(-(np.arange(-reach, reach + 1, dtype=np.float64) ** 2) / (2 * float(square)))
    bell = one = heights / fsum(heights)
    for _ in range(1, times):
        bell = np.convolve(bell, one, "same")
    return np.asarray(bell)


Profile: TypeAlias = frozenset[tuple[Contrast | None, Fraction]]
"""All that tells two laws apart: contrasts and their shares. None stands for what was left out of the first law."""


@dataclass(frozen=True)
class Excess:
    """Two laws whose divergence is the delta, and the steps that lead to each."""

    law_a: int
    law_b: int
    steps_a: tuple[Step, ...]
    steps_b: tuple[Step, ...]


class DeltaJudge(Judge):
    """Finds the largest divergence, at one epsilon, of any two laws of a finished timeline, in either direction."""

    def __init__(self, laws: Laws, epsilon: float) -> None:
        super().__init__(laws)
        self.epsilon = epsilon
        self._profiles: set[Profile] = set()
        self._profile = cache(self._make_profile)
        self._divergence = cache(divergence)

    def is_certain(self) -> bool:
        return self.delta >= 1

    def _compare(self, finished: Finished) -> None:
        for a, b in permutations(finished, 2):
            profile = self._profile(a, b)
            if profile in self._profiles:
                continue
            self._profiles.add(profile)
            delta = self._delta(profile, self.epsilon)
            if delta > self.delta:
                self.delta = delta
                self.worst = Excess(a, b, steps_of(finished[a]), steps_of(finished[b]))

    def loss_at(self, delta: float) -> float:
        """The epsilon at which no divergence is above delta, from above and to six digits."""
        loss = 0.0
        for profile in self._profiles:
            if self._delta(profile, loss) <= delta:
                continue
            low, high = loss, max(2 * self.epsilon, 1.0)
            while self._delta(profile, high) > delta:
                low, high = high, 2 * high
                if high > 700:
                    return float("inf")
            while high - low > _FINE:
                middle = (low + high) / 2
                low, high = (middle, high) if self._delta(profile, middle) > delta else (low, middle)
            loss = high
        return loss

    def _delta(self, profile: Profile, epsilon: float) -> float:
        """The divergence of two laws: at most 1, and never too small."""
        delta = 0.0
        for contrast, share in profile:
            whole = 1.0 if contrast is None else self._divergence(contrast, epsilon)
            delta += float(share * contrast.whole if contrast else share) * whole
        return min(delta, 1.0)

    def _make_profile(self, a: int, b: int) -> Profile:
        one, other = self.views.of(a), self.views.of(b)
        shares: dict[Contrast | None, Fraction] = {}
        for visible, weights in one.items():  # a sight that is impossible under the first law adds nothing
            contrast, share, _ = contrast_of(weights, other.get(visible))
            shares[contrast] = shares.get(contrast, Fraction(0)) + share
        if missing := self.views.missing(a):
            shares[None] = missing
        return frozenset(shares.items())


class Seen(NamedTuple):
    """All releases that look alike but for their noisy numbers: for each state and output, the weight of each next."""

    after: States
    weights: Reals
    """From each state, through each output, to each next state."""
    fresh: Reals | None
    """The law of the next state, if it does not depend on anything before: a window or a cycle has ended."""


class Watcher:
    """The intruder, for one machine and one set of things that the users may do between two observations.

    After every output the intruder chooses the user's actions in either world, and the next observation: a release, or
    a reading of the whole state. The largest sum over all that can be seen of

        max(P(seen) - e^epsilon * P'(seen), 0)

    is the smallest delta that holds with this epsilon. It is found by trying every choice after every output, backwards
    from the end: an optimal stopping problem. What the state does comes from `Machine`: the shipping code was run under
    every outcome of its coins.

    **Never too small.** Outputs are followed until the noise of a number has a probability below 1e-10 left, and
    histories that have a probability below 1e-13 are not followed. Their probability is added.
    """

    def __init__(self, machine: Machine, actions: Sequence[Sequence[Step]]) -> None:
        self._machine, self._actions = machine, actions
        self._after_actions = cache(self._make_kernels)
        self._sights = cache(self._make_sights)
        self.left_out = 0.0
        """The probability, at most, of outputs that were not followed."""

    def smallest_delta(self, epsilon: float, releases: int, readings: int = 1, *, stretch: int = 0) -> float:
        """The smallest delta that holds with this epsilon, never too small."""
        start = self._machine.start
        states = tuple(move.state for move in start.each)
        first = np.array([[move.share / start.whole for move in start.each]])
        self._growth = exp(epsilon) * (1 - _MARGIN)
        found = self._value(first * (1 + _MARGIN), first, states, Left(releases, readings, stretch=stretch))
        return min(float(found[0]) + releases * self.left_out, 1.0)

    def _value(self, a: Reals, b: Reals, states: States, left: Left) -> Reals:
        """The largest sum from here on, for each history of a batch: the weights of the states in either world."""
        if len(a) > _MOST_ROWS:
            cuts = range(0, len(a), _MOST_ROWS)
            return np.concatenate(
                [self._value(a[i : i + _MOST_ROWS], b[i : i + _MOST_ROWS], states, left) for i in cuts]
            )
        likely = _sums(a)
        best: Reals = np.maximum(likely - self._growth * _sums(b), 0.0)
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
            for point, rest in left.choices(self._machine.release):
                observed = self._read if point is READ else self._released
                np.maximum(best, observed(first, second, closed, rest), out=best)
        return best

    def _read(self, a: Reals, b: Reals, states: States, left: Left) -> Reals:
        if left.done:
            return _sums(np.maximum(a - self._growth * b, 0.0))
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
                    values = self._value_of_fresh(_sums(one), _sums(other), seen, left)
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

    def _make_kernels(self, states: States) -> tuple[States, list[Reals]]:
        """The states that the user's actions lead to, and the kernel of each action; equal kernels once."""
        laws = [[self._machine.after(state, steps) for state in states] for steps in self._actions]
        closed = tuple(sorted({to for law in laws for each in law for to in each}))
        kernels: list[Reals] = []
        for law in laws:
            kernel = np.array([[float(each.get(to, 0)) for to in closed] for each in law])
            if not any(np.array_equal(kernel, known) for known in kernels):
                kernels.append(kernel)
        return closed, kernels

    def _make_sights(self, states: States) -> list[Seen]:
        alike: dict[object, list[tuple[int, int, tuple[Noised, ...], float]]] = {}
        for i, state in enumerate(states):
            each, whole = self._machine.moves(state, self._machine.release)
            for move in each:
                sight = self._machine.sights[move.sight]
                looks = sight.returned, tuple(number.law for number in sight.noised)
                alike.setdefault(looks, []).append((i, move.state, sight.noised, move.share / whole))
        return [self._sight(found, len(states)) for found in alike.values()]

    def _sight(self, found: list[tuple[int, int, tuple[Noised, ...], float]], states: int) -> Seen:
        after = tuple(sorted({to for _, to, _, _ in found}))
        axes: dict[int, NDArray[np.int64]] = {}
        for i, column in enumerate(zip(*(numbers for _, _, numbers, _ in found), strict=True)):
            values = [int(number.value) for number in column]
            if min(values) < max(values):  # else it tells nothing
                if not isinstance(column[0].law, Gaussian):
                    raise NotImplementedError("a delta is audited for discrete Gaussian noise")
                reach = _reach(Drawn(column[0].law, 1), _UNFOLLOWED)
                axes[i] = np.arange(min(values) - reach, max(values) + reach + 1)
        self.left_out = max(self.left_out, len(axes) * 2 * exp(-_UNFOLLOWED))
        weights = np.zeros((states, prod(len(axis) for axis in axes.values()), len(after)))
        for state, to, numbers, share in found:
            chances = np.ones(1)
            for i, axis in axes.items():
                chances = np.outer(chances, _chances(Drawn(numbers[i].law, 1), axis - int(numbers[i].value))).ravel()
            weights[state, :, after.index(to)] += share * chances
        # The law of the next state may be the same from every state and after every output.
        laws = weights.reshape(-1, len(after))
        laws = laws[laws.sum(axis=1) > 0]
        laws /= laws.sum(axis=1, keepdims=True)
        same = len(after) > 1 and np.allclose(laws, laws[0], rtol=1e-12, atol=1e-15)
        return Seen(after, weights, laws[0] if same else None)


def _sums(rows: Reals) -> Reals:
    """The sum of each row, column by column: NumPy's own takes many times longer where rows are short and many."""
    total = rows[:, 0].copy()
    for column in range(1, rows.shape[1]):
        total += rows[:, column]
    return total
