"""Bugs planted in the core: each must be noticed by a check that the real core passes."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

import panprivacy as pp
from checks import assert_discrete_laplace
from panprivacy import table
from panprivacy.memory.scratch import Scratch
from panprivacy.privacy import noise, pairs
from panprivacy.privacy.coins import Coins, Flips
from panprivacy.privacy.noise import Laplace, Noise, discrete_laplace
from panprivacy.testing import SeededCoins, ledger_of, table_of

pytestmark = pytest.mark.slow

Patch = Callable[[pytest.MonkeyPatch], None]


def noise_follows_its_epsilon() -> None:
    """Chi-square on the difference between what is released and the true count, at 1e-6."""
    source, draws = SeededCoins(1), []
    for _ in range(4000):
        draws.append(source.noisy(1000, Laplace(Fraction(1, 4))) - 1000)
    assert_discrete_laplace(draws, Fraction(1, 4))


def estimates_are_unbiased() -> None:
    """600 runs; five standard errors."""
    source, raws = SeededCoins(2), []
    for _ in range(600):
        est = pp.Density(3000, 2.0, coins=source)
        est.update_many(range(1000))
        est.update_many(range(1000))
        raws.append(est.release().raw_density)
    assert np.mean(raws) == pytest.approx(1 / 3, abs=5 * est.density_stderr_at(1 / 3) / np.sqrt(600))


def releases_differ() -> None:
    """Two releases of one state are equal with probability below 1e-60 for 200 pairs at this noise."""
    source, same = SeededCoins(3), 0
    for _ in range(200):
        est = pp.Density(1000, 0.5, releases=2, coins=source)
        same += est.release().raw_density == est.release().raw_density
    assert same < 100


def bits_are_independent() -> None:
    """The number of ones among 3,000 fresh bits varies like a binomial; five standard errors of a variance."""
    source, ones = SeededCoins(4), []
    for _ in range(800):
        est = pp.Density(3000, 2.0, coins=source)
        est.update_many(np.arange(3000))
        ones.append(table_of(est).ones())
    p = float(ledger_of(est).pair.p1)
    assert np.var(ones) == pytest.approx(3000 * p * (1 - p), rel=5 * np.sqrt(2 / 800))


def wrong_scale(patch: pytest.MonkeyPatch) -> None:
    right = discrete_laplace
    patch.setattr(noise, "discrete_laplace", lambda epsilon, draw: right(epsilon * 10 / 13, draw))


def skipped_redraw(patch: pytest.MonkeyPatch) -> None:
    """An event of a user whose bit is 1 already is taken for a repetition and left out."""
    right = table.Table.redraw

    def redraw(
        self: table.Table, slots: np.ndarray, threshold: int, source: Coins, scratch: Scratch, **kind: bool
    ) -> None:
        zero = np.array([int(self.words[int(slot) >> 6]) >> (int(slot) & 63) & 1 == 0 for slot in slots], dtype=bool)
        right(self, slots[zero], threshold, source, scratch, **kind)

    patch.setattr(table.Table, "redraw", redraw)


def swapped_pair(patch: pytest.MonkeyPatch) -> None:
    right = table.Table.drawn

    def drawn(size: int, pair: pairs.Pair, source: Coins) -> table.Table:
        return right(size, pairs.Pair(pair.present, pair.absent), source)

    patch.setattr(table.Table, "drawn", drawn)


def reused_noise(patch: pytest.MonkeyPatch) -> None:
    kept: dict[int, int] = {}

    def noisy(self: Coins, value: int, noise: Noise) -> int:
        if value not in kept:
            kept[value] = noise.draw(self.randbelow)
        return value + kept[value]

    patch.setattr(SeededCoins, "noisy", noisy)


def reused_coin(patch: pytest.MonkeyPatch) -> None:
    right = SeededCoins.below

    def below(self: SeededCoins, threshold: int, n: int) -> Flips:
        half = right(self, threshold, -(-n // 2))
        return np.concatenate([half, half])[:n]

    patch.setattr(SeededCoins, "below", below)


MUTANTS: list[tuple[Patch, Callable[[], None]]] = [
    (wrong_scale, noise_follows_its_epsilon),
    (skipped_redraw, estimates_are_unbiased),
    (swapped_pair, estimates_are_unbiased),
    (reused_noise, releases_differ),
    (reused_coin, bits_are_independent),
]


@pytest.mark.parametrize(("plant", "check"), MUTANTS, ids=lambda f: f.__name__)
def test_a_planted_bug_is_noticed(plant: Patch, check: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    check()
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        check()
