"""All computations: every number of a reproduction comes from this file and the library.

A cell is a piece of work of a second or so, whose table depends on its parameters and the seed alone. First the streams
and the algorithms that are compared, then the cells: runs on streams, parts of the printed algorithms, exact audits.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from panprivacy import theory
from panprivacy.audit import exact
from panprivacy.audit.subjects import SUBJECTS, Case
from panprivacy.estimators.density import Density
from panprivacy.estimators.distinct import DistinctCount
from panprivacy.estimators.distinct_law import levels_for
from panprivacy.paper import PPDS, Dwork, FixedLevelPPDS, NotPrivateAsPrinted, OptBern
from panprivacy.privacy.coins import Coins
from panprivacy.testing import SeededCoins


@dataclass(frozen=True)
class Scale:
    """The ranges of all experiments; the defaults are in section 6.

    The paper does not say which epsilons it plots beyond ``epsilon <= 1/2``, nor alpha and beta of figure 1.
    """

    name: str = "full"
    universe: int = 100_000
    epsilons: tuple[float, ...] = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
    """Budgets of the state alone, which is what the paper calls epsilon."""
    alpha: float = 0.1
    beta: float = 0.05
    tail_repetitions: int = 1000
    """Repetitions of figure 4."""
    repetitions: int = 300
    """Repetitions of figures 5 to 8 and 10."""
    goal_repetitions: int = 8000
    """Repetitions of the two settings that figure 8 compares: enough to tell a factor of 31.6 from the goal of 30."""
    fractions: tuple[float, ...] = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
    """Sample sizes of figure 7, as shares of the universe."""
    ids: tuple[int, ...] = (100, 200, 500, 1000, 2000, 5000, 10_000)
    """Sizes of memory in figure 8, as numbers of ids that fit in."""
    coin_users: int = 1_000_000
    """Users whose bits figure 2 counts."""

    def sample(self, fraction: float) -> int:
        """The number of users that is this share of the universe."""
        return max(round(fraction * self.universe), 1)

    @property
    def goal_ids(self) -> int:
        """The memory at which figure 8 compares: ids for 1 % of the universe."""
        return self.sample(0.01)


FULL = Scale()
QUICK = Scale(
    name="quick",
    epsilons=(0.05, 0.1, 0.2, 0.35, 0.5),
    tail_repetitions=100,
    repetitions=40,
    goal_repetitions=200,
    fractions=(0.001, 0.005, 0.01, 0.05, 0.2, 1.0),
    ids=(100, 1000, 10_000),
    coin_users=200_000,
)


class Cell(ABC):
    """What can be computed, stored and counted. A cell is a frozen dataclass: its fields are its key."""

    @property
    def runs(self) -> int:
        """How much work it is, in runs of an algorithm."""
        return 1

    @abstractmethod
    def compute(self, seed: int) -> pl.DataFrame:
        """Do the work."""


def sequence(root: int, *names: object) -> np.random.SeedSequence:
    """The seed sequence of one thing, found by its names and by nothing else.

    So a number does not depend on who computes it, when, or what else is computed.

    Examples
    --------
    >>> sequence(1, "zipf", 7).generate_state(1) == sequence(1, "zipf", 7).generate_state(1)
    array([ True])
    >>> sequence(1, "zipf", 7).generate_state(1) == sequence(1, "zipf", 8).generate_state(1)
    array([False])
    """
    words = np.frombuffer(sha256(repr(names).encode()).digest(), dtype="<u4")
    return np.random.SeedSequence(root, spawn_key=tuple(int(word) for word in words))


def coins_of(root: int, *names: object) -> SeededCoins:
    """The coins of a run, by its names, with a seed of 128 bits."""
    return SeededCoins(int.from_bytes(sequence(root, *names).generate_state(4).astype("<u4").tobytes(), "little"))


Ids: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Stream:
    """A way to draw a stream of ids from a universe 0..N-1.

    Examples
    --------
    >>> zipf = Stream("zipf", universe=100_000)
    >>> ids = zipf.draw(np.random.default_rng(1))
    >>> len(ids), round(zipf.density(ids), 2)
    (100000, 0.24)
    """

    name: str
    """A key of `KINDS`."""
    universe: int = 100_000
    """The number of users; uniform and Zipf streams have as many events."""

    def draw(self, generator: np.random.Generator) -> Ids:
        """Draw a stream."""
        return KINDS[self.name](self.universe, generator)

    def density(self, ids: Ids) -> float:
        """The truth: the share of the universe that is in the stream."""
        return int(np.count_nonzero(np.bincount(ids, minlength=self.universe))) / self.universe


@lru_cache(maxsize=4)
def _zipf_sums(universe: int) -> NDArray[np.float64]:
    sums = np.cumsum(1 / np.arange(1, universe + 1))
    return np.asarray(sums / sums[-1])


def _zipf(universe: int, generator: np.random.Generator) -> Ids:
    # Sorted numbers are looked up twice as fast, the shuffle included.
    ids = np.searchsorted(_zipf_sums(universe), np.sort(generator.random(universe)), side="right")
    generator.shuffle(ids)
    return ids


def _one_block(universe: int, generator: np.random.Generator) -> Ids:
    half = universe // 2
    return generator.integers(0, universe - half + 1) + generator.permutation(half)


KINDS: dict[str, Callable[[int, np.random.Generator], Ids]] = {
    # Every event is of a user drawn uniformly: 1 - 1/e of the users appear.
    "uniform": lambda universe, generator: generator.integers(0, universe, universe),
    # An event is of user r with probability proportional to 1/(r + 1): about a quarter of the users appear.
    "zipf": _zipf,
    # Half of the users, drawn at random, once each: no structure.
    "random half": lambda universe, generator: generator.permutation(universe)[: universe // 2],
    # Every user with an even id once, in random order.
    "even ids": lambda universe, generator: 2 * generator.permutation((universe + 1) // 2),
    # Half of the users, with consecutive ids from a random one on, once each in random order.
    "one block": _one_block,
}


@dataclass(frozen=True)
class Algorithm:
    """What an experiment must know of an algorithm."""

    private: bool
    """False for the printed algorithms, which lose more than they claim."""
    build: Callable[[int, float, int, Coins], Any]
    """Makes an estimator from universe, total budget, size and coins."""
    read: Callable[[Any, int], float]
    """The estimated density, not brought into [0, 1], from the estimator and the universe."""
    size: Callable[[int, int], int]
    """The size (sampled users, ids or buckets) for which the state takes this many bits, in a universe."""

    def run(self, universe: int, total: float, size: int, ids: Ids, coins: Coins) -> float:
        """Feed a whole stream and return the estimate."""
        with knowingly():
            est = self.build(universe, total, size, coins)
        est.update_many(ids)
        return self.read(est, universe)


@contextmanager
def knowingly() -> Iterator[None]:
    """Build printed algorithms without the warning that they are not private: experiments show that they are not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateAsPrinted)
        yield


def bits_of_an_id(universe: int) -> int:
    """``ceil(log2 |U|)``: 17 at |U| = 10^5."""
    return max((universe - 1).bit_length(), 1)


def _buckets(universe: int, bits: int) -> int:
    """The most buckets that fit, with as many levels as the universe asks for."""
    levels = 1
    while levels_for(max(bits // levels, 1), universe) > levels:
        levels += 1
    return bits // levels


def _printed(kind: Any, size: Callable[[int, int], int] = lambda universe, bits: min(bits, universe)) -> Algorithm:
    """A printed algorithm is given half of the total, since it claims ``2 * epsilon``."""
    return Algorithm(
        False,
        lambda universe, total, size, coins: kind(universe, total / 2, size, coins=coins),
        lambda est, _: float(est.estimate()),
        size,
    )


def _ids(universe: int, bits: int) -> int:
    return max(bits // bits_of_an_id(universe), 1)


ALGORITHMS = {
    "Dwork": _printed(Dwork),
    "OptBern": _printed(OptBern),
    "PPDS": _printed(PPDS, _ids),
    "FixedLevelPPDS": Algorithm(
        True,
        lambda universe, total, size, coins: FixedLevelPPDS(universe, total, size, coins=coins),
        lambda est, _: float(est.release().raw_density),
        _ids,
    ),
    "Density": Algorithm(
        True,
        lambda universe, total, size, coins: Density(universe, total, sample=size, coins=coins),
        lambda est, _: float(est.release().raw_density),
        lambda universe, bits: min(bits, universe),
    ),
    "DistinctCount": Algorithm(
        True,
        lambda universe, total, size, coins: DistinctCount(total, size, levels=levels_for(size, universe), coins=coins),
        lambda est, universe: float(est.release().raw_count) / universe,
        _buckets,
    ),
}
"""The algorithms by name, in the order of every legend."""


@dataclass(frozen=True)
class Trial:
    """One setting of one algorithm."""

    algorithm: str
    total: float
    """The claim for state and output together: the budget of a private algorithm, ``2 * epsilon`` of a printed one."""
    size: int
    """Sampled users, ids or buckets, whichever the algorithm has."""


@dataclass(frozen=True)
class Runs(Cell):
    """Repetitions of several trials on the same streams.

    Repetition r has one stream, which all trials share (common random numbers: their difference owes nothing to the
    stream), and every trial has coins of its own.
    """

    stream: Stream
    trials: tuple[Trial, ...]
    first: int
    """The first repetition."""
    count: int

    @property
    def runs(self) -> int:
        return self.count * len(self.trials)

    def compute(self, seed: int) -> pl.DataFrame:
        """One row a run: the estimate beside the truth."""
        universe = self.stream.universe
        rows = []
        for repetition in range(self.first, self.first + self.count):
            ids = self.stream.draw(np.random.default_rng(sequence(seed, self.stream, repetition)))
            truth = self.stream.density(ids)
            for trial in self.trials:
                coins = coins_of(seed, self.stream, trial, repetition)
                estimate = ALGORITHMS[trial.algorithm].run(universe, trial.total, trial.size, ids, coins)
                rows.append((self.stream.name, trial.algorithm, trial.total, trial.size, repetition, truth, estimate))
        columns = ["stream", "algorithm", "total", "size", "repetition", "truth", "estimate"]
        return pl.DataFrame(rows, schema=columns, orient="row")


def runs(
    streams: Iterable[str], scale: Scale, trials: tuple[Trial, ...], repetitions: int, block: int = 20
) -> list[Cell]:
    """Cut the repetitions on each stream into cells; the cells of few repetitions are also cells of many."""
    return [
        Runs(Stream(name, scale.universe), trials, first, min(block, repetitions - first))
        for name in streams
        for first in range(0, repetitions, block)
    ]


@dataclass(frozen=True)
class SampleSize(Cell):
    """The first line of Alg. 1 or 2: "compute m*", as the printed algorithm does it."""

    algorithm: str
    epsilon: float
    alpha: float
    beta: float

    def compute(self, seed: int) -> pl.DataFrame:
        """Build the algorithm for (alpha, beta) and see how many users it samples."""
        printed: type[Dwork] | type[OptBern] = Dwork if self.algorithm == "Dwork" else OptBern
        needed = int(theory.sample_size(self.algorithm.lower(), self.epsilon, self.alpha, self.beta))
        with knowingly():
            est = printed.for_accuracy(2 * needed, self.epsilon, self.alpha, self.beta, coins=SeededCoins(seed))
        return pl.DataFrame([asdict(self) | {"sample": est.sample}])


@dataclass(frozen=True)
class CoinCount(Cell):
    """The bits of a printed algorithm after half of its users came: how often each half's are 1."""

    algorithm: str
    epsilon: float
    users: int

    def compute(self, seed: int) -> pl.DataFrame:
        """Count the ones of those who came and of those who did not."""
        with knowingly():
            est = ALGORITHMS[self.algorithm].build(self.users, 2 * self.epsilon, self.users, coins_of(seed, self))
        half = self.users // 2
        est.update_many(np.arange(half))
        ones = np.array(est.state.bits)
        row = {"algorithm": self.algorithm, "epsilon": self.epsilon, "came": half, "stayed": self.users - half}
        counts = {"came_ones": int(ones[:half].sum()), "stayed_ones": int(ones[half:].sum())}
        return pl.DataFrame([row | counts])


@dataclass(frozen=True)
class TrueLoss(Cell):
    """The worst-case loss of state and output together, over all streams of two events and three users."""

    algorithm: str
    total: float
    """The claim."""

    def compute(self, seed: int) -> pl.DataFrame:  # noqa: ARG002 (nothing is random)
        """Audit the shipping code."""
        subject = next(subject for subject in SUBJECTS if subject.name == self.algorithm)
        found = subject.audit(Case(epsilon=self.total, users=3, events=2))
        witness = found.witness.sentence if found.witness else ""
        row = {"algorithm": self.algorithm, "claimed": self.total, "loss": found.worst_loss, "settled": found.settled}
        return pl.DataFrame([row | {"witness": witness}])


@dataclass(frozen=True)
class StateLoss(Cell):
    """The worst-case loss of the state of a printed algorithm, seen by itself."""

    algorithm: str
    epsilon: float

    def compute(self, seed: int) -> pl.DataFrame:  # noqa: ARG002 (nothing is random)
        """Audit the shipping code, without any output."""
        build = ALGORITHMS[self.algorithm].build
        with knowingly():
            found = exact(lambda coins: build(2, 2 * self.epsilon, 2, coins), users=2, length=2, releases=0)
        return pl.DataFrame([asdict(self) | {"loss": found.worst_loss}])
