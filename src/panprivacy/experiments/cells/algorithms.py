"""The algorithms that are compared: how each is built, run once, and how many bits its state takes."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from panprivacy.density import Density
from panprivacy.distinct import DistinctCount
from panprivacy.distinct.buckets import levels_for
from panprivacy.experiments.cells.streams import Ids
from panprivacy.paper import PPDS, Dwork, FixedLevelPPDS, NotPrivateAsPrinted, OptBern
from panprivacy.privacy.coins import Coins

Build: TypeAlias = Callable[[int, float, int, Coins], Any]
"""Makes an estimator from universe, total budget, size and coins."""


@dataclass(frozen=True)
class Algorithm:
    """What an experiment must know of an algorithm."""

    private: bool
    """False for the printed algorithms, which lose more than they claim."""
    build: Build
    read: Callable[[Any, int], float]
    """The estimated density, not brought into [0, 1], from the estimator and the universe."""
    size: Callable[[int, int], int]
    """The size (sampled users, ids or buckets) for which the state takes so many bits, in a universe."""

    def run(self, universe: int, total: float, size: int, ids: Ids, coins: Coins) -> float:
        """Feed a whole stream and return the estimate."""
        with knowingly():
            est = self.build(universe, total, size, coins)
        est.update_many(ids)
        return self.read(est, universe)


@contextmanager
def knowingly() -> Iterator[None]:
    """Build printed algorithms without being warned: that they are not private is what is shown here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateAsPrinted)
        yield


def bits_of_an_id(universe: int) -> int:
    """``ceil(log2 |U|)``: 17 at |U| = 10^5."""
    return max((universe - 1).bit_length(), 1)


def _all_bits(universe: int, bits: int) -> int:
    return min(bits, universe)


def _ids(universe: int, bits: int) -> int:
    return max(bits // bits_of_an_id(universe), 1)


def _buckets(universe: int, bits: int) -> int:
    """The most buckets that fit, with as many levels as the universe asks for."""
    levels = 1
    while levels_for(max(bits // levels, 1), universe) > levels:
        levels += 1
    return bits // levels


def _printed(kind: type[Dwork] | type[OptBern] | type[PPDS]) -> Build:
    """A printed algorithm is given half of the total, since it claims ``2 * epsilon``."""
    return lambda universe, total, size, coins: kind(universe, total / 2, size, coins=coins)


def _density(universe: int, total: float, size: int, coins: Coins) -> Density:
    return Density(universe, total, sample=size, coins=coins)


def _fixed_level(universe: int, total: float, size: int, coins: Coins) -> FixedLevelPPDS:
    return FixedLevelPPDS(universe, total, size, coins=coins)


def _distinct(universe: int, total: float, size: int, coins: Coins) -> DistinctCount:
    return DistinctCount(total, size, levels=levels_for(size, universe), coins=coins)


def _estimate(est: Any, universe: int) -> float:  # noqa: ARG001 (DistinctCount needs it)
    return float(est.estimate())


def _raw_density(est: Any, universe: int) -> float:  # noqa: ARG001
    return float(est.release().raw_density)


def _raw_count(est: Any, universe: int) -> float:
    return float(est.release().raw_count) / universe


ALGORITHMS = {
    "Dwork": Algorithm(False, _printed(Dwork), _estimate, _all_bits),
    "OptBern": Algorithm(False, _printed(OptBern), _estimate, _all_bits),
    "PPDS": Algorithm(False, _printed(PPDS), _estimate, _ids),
    "FixedLevelPPDS": Algorithm(True, _fixed_level, _raw_density, _ids),
    "Density": Algorithm(True, _density, _raw_density, _all_bits),
    "DistinctCount": Algorithm(True, _distinct, _raw_count, _buckets),
}
"""The algorithms by name, in the order of every legend."""
