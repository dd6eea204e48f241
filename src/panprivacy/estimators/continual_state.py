"""The state of an observer: a test for drift, the bits behind it, and how both are saved.

What an observer says: the published density now, and where its budget goes.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import LARGEST_DELTA
from panprivacy.display import Card, Rows, grid_of, html_of, text_of
from panprivacy.errors import CorruptState, InvalidValue
from panprivacy.estimates.errors import SampleDesign
from panprivacy.estimates.estimate import Interval, Part, numbers
from panprivacy.estimates.release import AnyRelease
from panprivacy.estimators.continual_law import Shares, Workload, best_shares, farthest_walk
from panprivacy.estimators.density import Density
from panprivacy.memory.scratch import Scratch
from panprivacy.privacy.budget import RELEASE_STEPS, Ledger, Spending, Split, and_delta, noise_of, spent_under, steps_of
from panprivacy.privacy.coins import ONE, Coins
from panprivacy.privacy.noise import Laplace
from panprivacy.privacy.noisy_counts import add_kept_noise, reaches
from panprivacy.privacy.pairs import Pair
from panprivacy.slots.choosing import choose_users
from panprivacy.universe import Universe


@dataclass(frozen=True, kw_only=True)
class Observation(AnyRelease):
    """The published density at one moment, and how far it can be from the truth.

    Densities are fractions of the universe, counts are numbers of users. `epsilon_spent` covers any number of
    observations until the next move. `level` is one minus the beta of the accuracy statement.
    """

    universe: int
    """How many users the density speaks for."""
    moved: bool
    """Whether the published density moved at this observation."""
    moves_left: int
    """How often it may still move; at 0 it stands still for good."""

    BOUNDS: ClassVar[str] = "band"

    density: ClassVar[Part[float]]
    density_band: ClassVar[Part[Interval]]
    density, density_band = numbers("density")[0], numbers("density")[2]
    """The published fraction of the universe that has appeared, and its band.

    The band holds the true density, at all planned observations together, with probability `level`. It is narrow at a
    move. After one, on a stream without deletions, it goes up from the last release to where the next move is due, and
    its middle is published."""
    count: ClassVar[Part[float]]
    count_band: ClassVar[Part[Interval]]
    count, count_band = numbers("count")[0], numbers("count")[2]
    """The number of users who have appeared; its band is right whenever the band of the density is."""

    def _title(self) -> str:
        return f"Observation {self.number:,}"

    def _rows(self) -> Rows:
        found, band, moved = self.singles(), self.interval_name, "moved" if self.moved else "unmoved"
        return (
            ("density", found["density"].shown(band)),
            ("users", f"{found['count'].shown(band)}, of {self.universe:,}"),
            ("published", f"{moved} at observation {self.number:,}, {self.moves_left} moves left"),
        )


@dataclass(frozen=True)
class ContinualBudget(Spending):
    """Where an observer's epsilon goes, for any number of observations; `continual_law` has the formula."""

    threshold: float
    """Epsilon of one step of the threshold's walk; it counts three times, however many observations there are."""
    test: float
    """Epsilon of the noise in a test."""
    value: float | None
    """Epsilon of the count released at one move; None with Gaussian noise, whose releases do not just add up."""
    value_stderr: float
    """Standard deviation of the noise of that count."""
    moves: int
    """How many moves are planned."""
    moves_made: int

    def card(self) -> Card:
        """The card that shells and notebooks show."""
        value = f"value {self.value:.4g}" if self.value else f"Gaussian noise ± {self.value_stderr:,.1f}"
        rows = (
            ("total", f"{self.total:.6f} of epsilon {self.epsilon:g}{and_delta(self.delta)}"),
            ("state", f"{self.state:.6f}"),
            ("threshold", f"3 x {self.threshold:.4g}"),
            ("moves", f"{self.moves_made} of {self.moves} made (test {self.test:.4g}, {value})"),
            ("spent", f"{self.spent:.6f}{and_delta(self.delta_spent)}"),
            ("remaining", f"{self.remaining:.6f}"),
        )
        return Card("Budget", rows)

    __str__ = text_of
    __rich__ = grid_of
    _repr_html_ = html_of


@lru_cache(maxsize=256)
def budget_of(shares: Shares, moves_made: int) -> ContinualBudget:
    """Lay shares open, with what has been spent of them."""
    return ContinualBudget(
        **spent_under(shares, moves_made),
        threshold=float(shares.threshold),
        test=float(shares.test),
        value=float(shares.value.epsilon) if isinstance(shares.value, Laplace) else None,
        value_stderr=sqrt(shares.value.variance),
        moves=shares.moves,
        moves_made=moves_made,
    )


# --- the state --------------------------------------------------------------------------------------------------------


# epsilon, present, moves, three shares, bar, walk, step, beta, planned, insert-only, observed, published
_WITHOUT_DELTA = struct.Struct("<dII3Qq8xddQ?Qd")
# and: whether it only rises, delta
_OBSERVER = struct.Struct("<dII3Qq8xddQ?Qd?d")
_WALK = struct.calcsize("<dII3Qq")  # where the walk is: copied from array to array, since integers cannot be wiped

_UNUSED = 0.01  # of epsilon, that a plan leaves at most: the search for the best shares ends before the last digits
_USABLE = 20.0  # the largest epsilon of which that holds: a coin of 32 bits cannot use more
_NEVER = 1e-12  # the probability that an honest walk is refused


class DriftTest:
    """Compares a distance with a bar, both behind noise, and keeps the threshold's noise as a walk.

    This is `AboveThreshold` (Dwork and Roth 2014, Alg. 1) made fit for an intruder: every test, also the first after a
    move and the first after a reading, is behind threshold noise that was not there before. The walk goes on when the
    published value moves: to begin it anew would cost another `threshold` each time and hide nothing more (Lyu, Su
    and Li 2017, Alg. 1, which scale the noise of the tests by the number of moves, as is done here).
    """

    def __init__(self, shares: Shares, bar: int) -> None:
        self.shares = shares
        self.bar = bar
        """The distance in counts at which to move."""
        self.walk: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        """The threshold's noise so far, all that a test leaves behind; each step overwrites where it was before."""

    def has_drifted(self, distance: NDArray[np.int64], coins: Coins) -> bool:
        """Test once. One user changes the distance, which is used up and which the caller wipes, by at most 1."""
        add_kept_noise(self.walk, Laplace(self.shares.threshold), coins)
        return self._reached(distance, coins)

    def _reached(self, distance: NDArray[np.int64], coins: Coins) -> bool:
        """Whether a distance, behind noise, reaches the bar where it stands now."""
        with Scratch() as scratch:
            threshold = scratch.own(self.walk.copy())
            threshold += self.bar
            return reaches(distance, threshold, Laplace(self.shares.test), coins)


def drawn_bits(users: Universe, size: int, shares: Shares, source: Coins) -> Density:
    """Draw this number of bits by the shares of an observer."""
    density = Density.__new__(Density)
    density._start(users, choose_users(users.size, size, None, None, source), split_of(shares), source)
    return density


def taken_over(est: Density, plan: Workload, bar_of: Callable[[Shares, SampleDesign], int]) -> tuple[Density, Shares]:
    """Take the bits and the budget of an estimator that has released nothing; it refuses all use afterwards.

    Whatever can go wrong with its shares goes wrong while it still has its bits. Users may have been removed from it,
    which its state does not tell: its shares are planned for any stream.
    """
    if est.TABLE is not Density.TABLE:
        raise InvalidValue(
            f"the bits of a {type(est).__name__} are kept in another way than in a Density", code="other-table"
        )
    if est.groups:
        raise InvalidValue(
            "a Continual watches one density: it takes over none with groups or categories", code="continual-of-groups"
        )
    est.check_unbound("taken over by a Continual")
    with est._lock:
        est._check_in_use()
        ledger, split = est._ledger, est.split
        if ledger.releases or split.intrusions:
            raise InvalidValue(
                "only a Density that has released nothing, and plans no announced readings, can be taken over",
                code="already-released",
            )
        plan = replace(plan, size=est._slots.size, rising=False)
        shares = best_shares(split.epsilon, plan, split.delta or None, ledger.pair)
        bar_of(shares, est._law())
        table = est._detach_table("this Density was taken over by a Continual, which holds its bits: use that one")
        ledger = Ledger(split_of(shares))
        return Density._of_parts(est._universe, est._slots, ledger, table, est._coins, secure=est.secure), shares


def split_of(shares: Shares) -> Split:
    """What the moves spend, as the releases of a `Density`; the tests spend more beside it."""
    noise, delta = shares.value, shares.delta
    split = Split(shares.epsilon, shares.pair, noise, shares.moves, flip=0, intrusions=0, delta=delta)
    return replace(split, epsilon=split.loss(shares.moves, 0)) if delta else split  # a delta is used up to its epsilon


@dataclass
class Observed:
    """What an observer keeps beside its bits."""

    drift_test: DriftTest
    step: float
    beta: float
    planned: int
    insert_only: bool
    observations: int = 0
    """How many have been made."""
    published: float = 0.0


def observed_bytes(observed: Observed) -> bytes:
    """What an observer keeps beside its bits, in a length that never changes; the walk is left out."""
    shares = observed.drift_test.shares
    return _OBSERVER.pack(
        shares.epsilon,
        shares.pair.present,
        shares.moves,
        *(int(share * RELEASE_STEPS) for share in (shares.threshold, shares.test)),
        steps_of(shares.value),
        observed.drift_test.bar,
        observed.step,
        observed.beta,
        observed.planned,
        observed.insert_only,
        observed.observations,
        observed.published,
        shares.rising,
        shares.delta,
    )


def walk_in(parameters: bytes | bytearray) -> NDArray[np.int64]:
    """The walk, where it stands among the parameters of a saved observer."""
    return np.frombuffer(parameters, dtype="<i8", count=1, offset=_WALK)


def observed_from(parameters: bytes | bytearray, version: int) -> tuple[Observed, bytes | bytearray]:
    """Read `observed_bytes` and the walk off the front of some bytes, and return the rest of them."""
    written = _OBSERVER if version > 1 else _WITHOUT_DELTA
    (epsilon, present, moves, *rest) = written.unpack_from(parameters)
    threshold, test = (Fraction(steps, RELEASE_STEPS) for steps in rest[:2])
    value, bar, step, beta, planned, insert_only, observations, published, *law = rest[2:]
    rising, delta = law or (False, 0.0)
    if not (0 < step <= 1 and 0 < beta < 1 and planned and bar > 0 and 0 <= published <= 1):
        raise CorruptState("its plan is impossible")
    if not (2 * present > ONE and min(threshold, test, value) > 0 and 0 <= delta <= LARGEST_DELTA):
        raise CorruptState("its shares are impossible")
    if rising and not insert_only:
        raise CorruptState("its stream cannot have deletions and only rise")
    if insert_only and moves != ceil(1 / step):
        raise CorruptState("its moves do not follow from its step")
    noise = noise_of(value, delta)
    shares = Shares(epsilon, Pair(ONE - present, present), moves, threshold, test, noise, rising, delta=delta)
    if rising and not delta and epsilon <= _USABLE and shares.loss(moves) < (1 - _UNUSED) * epsilon:
        raise CorruptState("its shares are planned for a stream with deletions, and it claims to have none")
    test_so_far = DriftTest(shares, bar)
    test_so_far.walk[:] = walk = walk_in(parameters)
    farthest = farthest_walk(shares, observations, _NEVER)
    if not ((walk <= farthest) & (walk >= -farthest)).all():
        raise CorruptState("its walk is farther than its steps can have led")
    walk.fill(0)  # the parameters are not needed any more
    observed = Observed(test_so_far, step, beta, planned, insert_only, observations, published)
    return observed, parameters[written.size :]
