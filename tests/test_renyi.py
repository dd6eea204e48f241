"""The law of watched releases holds for every pair of streams of up to three releases, and it is not slack."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import exp, log

import numpy as np
import pytest
from numpy.typing import NDArray

from panprivacy.privacy import gaussian, renyi
from panprivacy.privacy.renyi import ORDERS, _best, _log_moments, _loss_at, _Moment, _terms

Weights = NDArray[np.float64]
"""Of a bit of 0 and of a bit of 1, for every sequence of released numbers so far: an array of shape (2, numbers)."""

NOTHING, EVENT, DELETION = range(3)
Gap = tuple[int, int, bool]
"""What happens to the user between two releases: in one world, in the other, and which of the two comes first."""


class Pairs:
    """All that two worlds may see, with a moment of their ratio in place of a divergence."""

    def __init__(self, order: int, state: float, square: float) -> None:
        self.order, self.p1, self.growth = order, 1 / (1 + exp(-state)), exp(state)
        far = int(6 * square**0.5) + order + 2  # the moments reach further than the law
        numbers = np.arange(-far, far + 1)
        noise = np.exp(-(numbers**2) / (2 * square))
        self.noise = np.stack([noise, np.roll(noise, 1)]) / noise.sum()
        self.fresh = np.array([[self.p1], [1 - self.p1]])
        self.read: dict[object, NDArray[np.float64]] = {}

    def redrawn(self, weights: Weights, what: int) -> Weights:
        if what == NOTHING:
            return weights
        p = self.p1 if what == EVENT else 1 - self.p1
        return np.asarray(weights.sum(axis=0) * np.array([[1 - p], [p]]))

    def released(self, weights: Weights) -> Weights:
        return np.asarray((weights[:, :, None] * self.noise[:, None, :]).reshape(2, -1))

    def moment(self, here: Weights, there: Weights) -> NDArray[np.float64]:
        """``A^alpha * B^(1-alpha)`` of each sequence, the bit not being read."""
        one, other = here.sum(axis=0), there.sum(axis=0)
        seen = one > 0
        logs = self.order * np.log(one, where=seen, out=np.full_like(one, -np.inf))
        return np.asarray(np.exp(logs - (self.order - 1) * np.log(other, where=seen, out=np.zeros_like(other))))

    def read_and_on(self, here: Weights, there: Weights, gaps: list[Gap]) -> NDArray[np.float64]:
        """The moment of all that follows, for each sequence so far, if the bit is read now: many streams share it."""
        key = hash(here.tobytes()), hash(there.tobytes()), tuple(gap[:2] for gap in gaps[:-1])
        if key not in self.read:
            self.read[key] = np.zeros(here.shape[1])
            for bit in range(2):
                keep = np.array([[1.0 - bit], [float(bit)]])
                self.read[key] += self.unread(here * keep, self.growth * there * keep, gaps)
        return self.read[key]

    def unread(self, here: Weights, there: Weights, gaps: list[Gap]) -> NDArray[np.float64]:
        """The same if it is not read any more; the last gap matters to nobody."""
        many = here.shape[1]
        for one, other, _ in gaps[:-1]:
            here, there = self.released(self.redrawn(here, one)), self.released(self.redrawn(there, other))
        return np.asarray(self.moment(here, there).reshape(many, -1).sum(axis=1))

    def watched(self, here: Weights, there: Weights, gaps: list[Gap]) -> NDArray[np.float64]:
        """The largest moment if a reading may come at any moment, decided by what was released."""
        one, other, first = gaps[0]
        best = self.read_and_on(here, there, gaps)
        half = (one, NOTHING) if first else (NOTHING, other)
        rest = (NOTHING, other, first) if first else (one, NOTHING, first)
        middle = self.redrawn(here, half[0]), self.redrawn(there, half[1])
        best = np.maximum(best, self.read_and_on(*middle, [rest, *gaps[1:]]))
        both = self.redrawn(here, one), self.redrawn(there, other)
        best = np.maximum(best, self.read_and_on(*both, [(NOTHING, NOTHING, first), *gaps[1:]]))
        if len(gaps) > 1:
            following = self.watched(self.released(both[0]), self.released(both[1]), gaps[1:])
            best = np.maximum(best, following.reshape(here.shape[1], -1).sum(axis=1))
        return best


def streams(releases: int) -> Iterator[list[Gap]]:
    """Every pair of streams: what happens in each gap, in both worlds and in either order."""
    within = [gap for gap in product(range(3), range(3), (True, False)) if gap[2] or (gap[0] and gap[1])]
    yield from (list(gaps) for gaps in product(within, repeat=releases + 1))


CASES = [(2, 0.4, 1.0), (6, 0.4, 4.0), (6, 1.5, 1.0)]
"""Order, epsilon of the state, square of the noise."""


@pytest.mark.slow
@pytest.mark.parametrize(("order", "state", "square"), CASES)
@pytest.mark.parametrize("releases", [1, 2])
def test_no_pair_of_streams_exceeds_the_moment_and_one_attains_it(
    order: int, state: float, square: float, releases: int
) -> None:
    """Whatever is read when; it is attained by a user who is present at the reading and deleted right after it."""
    pairs = Pairs(order, state, square)
    whole = exp(_Moment(order, pairs.p1, releases / square).log_h(np.array([releases / square]))[0])
    read = whole * (pairs.p1 + (1 - pairs.p1) * exp(-2 * state * (order - 1)))
    most = 0.0
    for gaps in streams(releases):
        here, there = pairs.fresh, pairs.fresh
        for done, (one, other, first) in enumerate(gaps):
            found = pairs.read_and_on(here, there, gaps[done:]).sum()
            half = (one, NOTHING) if first else (NOTHING, other)
            rest = (NOTHING, other, first) if first else (one, NOTHING, first)
            middle = pairs.redrawn(here, half[0]), pairs.redrawn(there, half[1])
            found = max(found, pairs.read_and_on(*middle, [rest, *gaps[done + 1 :]]).sum())
            here, there = pairs.redrawn(here, one), pairs.redrawn(there, other)
            found = max(found, pairs.read_and_on(here, there, [(0, 0, first), *gaps[done + 1 :]]).sum())
            assert found <= read * (1 + 1e-9)
            most = max(most, found)
            if done < releases:
                here, there = pairs.released(here), pairs.released(there)
        assert pairs.moment(here, there).sum() <= whole * (1 + 1e-9)  # not read at all
    assert most >= pairs.p1 * whole * (1 - 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("order", "state", "square"), CASES)
def test_no_watching_intruder_exceeds_the_watched_moment(order: int, state: float, square: float) -> None:
    pairs = Pairs(order, state, square)
    releases = 2
    moment = _Moment(order, pairs.p1, releases / square)
    whole = float(moment.log_h(np.array([releases / square]))[0])
    bound = exp(whole + _log_moments(moment, releases / square, releases, whole))
    found = max(pairs.watched(pairs.fresh, pairs.fresh, gaps).sum() for gaps in streams(releases))
    assert pairs.p1 * exp(whole) * (1 - 1e-9) <= found <= bound


@pytest.mark.slow
def test_a_reading_that_is_not_charged_for_would_be_noticed() -> None:
    pairs = Pairs(6, 1.5, 4.0)
    pairs.growth = 1.0
    moment = _Moment(6, pairs.p1, 0.5)
    whole = float(moment.log_h(np.array([0.5]))[0])
    bound = exp(whole + _log_moments(moment, 0.5, 2, whole))
    assert max(pairs.watched(pairs.fresh, pairs.fresh, gaps).sum() for gaps in streams(2)) > bound


@pytest.mark.parametrize("p", [0.01, 0.3, 0.5, 0.7, 0.99])
@pytest.mark.parametrize("order", [2, 3, 10])
def test_a_drawn_bit_against_a_known_one_is_the_worse_direction(p: float, order: int) -> None:
    """``E_0[(1-p+p*x)^(1-alpha)] <= E_0[(1-p+p*x)^alpha]``."""
    numbers, square = np.arange(-60, 61), 4.0
    law = np.exp(-(numbers**2) / (2 * square))
    law /= law.sum()
    mixed = 1 - p + p * np.exp((2 * numbers - 1) / (2 * square))
    assert (law * mixed ** (1 - order)).sum() <= (law * mixed**order).sum()


@pytest.mark.parametrize("releases", [1, 2, 3, 7, 48, 49, 96, 97, 1000, 8736])
@pytest.mark.parametrize("ratio", [1e-3, 0.02, 0.5])
def test_the_sum_over_moments_is_never_too_small_and_at_most_a_third_too_large(releases: int, ratio: float) -> None:
    moment = _Moment(20, 0.7, ratio)
    whole = float(moment.log_h(np.array([ratio]))[0])
    i = np.arange(1, releases + 1)
    each = moment.log_h(ratio * i / releases) + moment.log_h(ratio * (releases - i) / releases) - whole
    exact = log(0.7 * (1 + (3 / 7) ** 19)) + log(1 + 2 * float(np.exp(each).sum()))
    assert exact - 1e-9 <= _log_moments(moment, ratio, releases, whole) <= exact + log(4 / 3)


@pytest.mark.parametrize("delta", [1e-12, 1e-9, 1e-5])
@pytest.mark.parametrize("releases", [1, 30, 365, 8736])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 4.0])
def test_what_is_affordable_loses_what_it_may(epsilon: float, delta: float, releases: int) -> None:
    ratio = renyi.affordable(epsilon, releases, delta, 0.7)
    lost = renyi.loss(Fraction(releases / ratio), releases, delta, Fraction(0.7))
    assert lost == pytest.approx(epsilon, rel=1e-7)


@pytest.mark.parametrize(("epsilon", "releases"), [(3e-5, 1), (1e-4, 2), (1e-5, 5)])
def test_a_delta_far_above_epsilon_affords_a_ratio_too(epsilon: float, releases: int) -> None:
    """There the loss is negative for small ratios, and has no logarithm."""
    ratio = renyi.affordable(epsilon, releases, 8e-4, 0.6)
    assert _best(ratio, releases, 8e-4, 0.6)[0] == pytest.approx(epsilon, rel=1e-6)


def test_where_the_delta_alone_takes_more_nothing_is_affordable() -> None:
    assert renyi.affordable(1e-5, 100, 1e-9, 0.6) == 0.0


@pytest.mark.parametrize("read", [True, False])
def test_every_release_adds_to_the_loss_and_noise_takes_from_it(read: bool) -> None:
    p1 = Fraction(7, 10)
    losses = [renyi.loss(Fraction(100), releases, 1e-9, p1, read=read) for releases in (0, 1, 2, 3, 10, 100, 1000)]
    assert losses == sorted(set(losses))
    noisier = [renyi.loss(Fraction(square), 100, 1e-9, p1, read=read) for square in (10, 100, 10_000)]
    assert noisier == sorted(set(noisier), reverse=True)


def test_many_releases_lose_less_than_counts_that_always_differ() -> None:
    square, p1 = Fraction(3000**2), Fraction(63, 100)
    watched = gaussian.loss(square, 8736, 1e-9, 1, gaussian.log_choices(8736))
    assert renyi.loss(square, 8736, 1e-9, p1) < 0.75 * watched


@pytest.mark.parametrize("ratio", [1e-6, 1e-3, 0.05, 2.0])
@pytest.mark.parametrize("p1", [0.501, 0.7, 0.99])
def test_the_order_that_is_found_loses_little_more_than_the_best(ratio: float, p1: float) -> None:
    found = _best(ratio, 100, 1e-9, p1)[0]
    best = min(_loss_at(order, ratio, 100, 1e-9, p1) for order in ORDERS)
    assert best <= found <= best * (1 + 1e-9)
    near = min(_loss_at(order, ratio, 100, 1e-9, p1) for order in range(2, 400))
    assert best <= near * 1.001


@pytest.mark.parametrize(("order", "p1"), [(2, 0.6), (50, 0.7), (800, 0.55), (4000, 0.9)])
def test_no_term_of_a_moment_that_counts_is_left_out(order: int, p1: float) -> None:
    weights, rates = _terms(order, p1)
    for most in (1e-9, 1e-4, 0.1):
        ratios = np.array([0.0, 0.3, 1.0]) * most
        logs = weights + np.multiply.outer(ratios, rates)
        top = logs.max(axis=1)
        whole = top + np.log(np.exp(logs - top[:, None]).sum(axis=1))
        assert _Moment(order, p1, most).log_h(ratios) == pytest.approx(whole, abs=1e-12 * order**2)
