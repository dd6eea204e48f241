"""`Continual`: the density at any time, any number of times, within one budget.

First what an observer says, then what it keeps, and how that is saved; then the observer.
"""

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from math import ceil, sqrt
from typing import Any, ClassVar, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import LARGEST_DELTA, check_delta, check_epsilon, check_number, check_whole
from panprivacy.display import Card, Rows, format_bytes, grid_of, html_of, text_of
from panprivacy.errors import CorruptState, InvalidValue, PanPrivacyError
from panprivacy.estimates import Cost, Estimate
from panprivacy.estimates.errors import SampleDesign, within
from panprivacy.estimates.estimate import Interval, OfPart, Part, numbers
from panprivacy.estimates.release import AnyRelease
from panprivacy.estimators.base import Saveable
from panprivacy.estimators.continual_law import (
    Accuracy,
    Shares,
    Workload,
    accuracy_of,
    bar_for,
    best_shares,
    farthest_walk,
)
from panprivacy.estimators.density import Density
from panprivacy.memory import ownership
from panprivacy.memory.intrinsics import wipe_stack
from panprivacy.memory.scratch import Scratch
from panprivacy.privacy import coins as coin_sources
from panprivacy.privacy.budget import RELEASE_STEPS, Ledger, Spending, Split, and_delta, noise_of, spent_under, steps_of
from panprivacy.privacy.coins import ONE, Coins
from panprivacy.privacy.noise import Laplace
from panprivacy.privacy.noisy_counts import add_kept_noise, reaches
from panprivacy.privacy.pairs import Pair
from panprivacy.registry import Traits
from panprivacy.slots.choosing import choose_users, table_size
from panprivacy.state import Snapshot, StateFile
from panprivacy.universe import Ids, Universe, ungrouped, universe_of
from panprivacy.universe.columns import BatchOptions

_MOST_OBSERVATIONS = 10**15  # one a microsecond for thirty years
_ROUNDING = 1e-6  # relative


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


# epsilon, present, moves, three shares, bar, walk, step, beta, planned, insert-only, observed, published, whether it
# only rises, delta
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


def walk_in(parameters: bytes | bytearray) -> NDArray[np.int64]:
    """The walk, where it stands among the parameters of a saved observer."""
    return np.frombuffer(parameters, dtype="<i8", count=1, offset=_WALK)


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

    def to_bytes(self) -> bytes:
        """What an observer keeps beside its bits, in a length that never changes; the walk is left out."""
        shares = self.drift_test.shares
        return _OBSERVER.pack(
            shares.epsilon,
            shares.pair.present,
            shares.moves,
            *(int(share * RELEASE_STEPS) for share in (shares.threshold, shares.test)),
            steps_of(shares.value),
            self.drift_test.bar,
            self.step,
            self.beta,
            self.planned,
            self.insert_only,
            self.observations,
            self.published,
            shares.rising,
            shares.delta,
        )

    @classmethod
    def from_bytes(cls, parameters: bytes | bytearray) -> tuple[Self, bytes | bytearray]:
        """Read `to_bytes` and the walk off the front of some bytes, and return the rest of them."""
        (epsilon, present, moves, *rest) = _OBSERVER.unpack_from(parameters)
        threshold, test = (Fraction(steps, RELEASE_STEPS) for steps in rest[:2])
        value, bar, step, beta, planned, insert_only, observations, published, rising, delta = rest[2:]
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
        observed = cls(test_so_far, step, beta, planned, insert_only, observations, published)
        return observed, parameters[_OBSERVER.size :]


# --- the observer -----------------------------------------------------------------------------------------------------


class Continual(Saveable):
    r"""Look at the density at any time, any number of times: the published one moves when the true one has drifted.

    Each `observe` asks a sparse-vector test whether the number of ones is above the last released one by more than a
    bar: ``ones - last + noise >= bar + threshold noise``. Only if it is, a new count is released. So the budget is
    spent on moves, of which a stream without deletions causes at most ``ceil(1/step)``, and not on observations. At a
    move the released density is published, and after it the middle of what the density can be until the next one.
    An intruder who reads the whole state once, at any moment, and sees every observation, learns at most
    `epsilon` about any one user. `panprivacy.estimators.continual_law` has the formula and why it holds.

    Parameters
    ----------
    universe, epsilon
        The users there could be and the total budget, as in `pp.Density`. Or, in place of both, a `pp.Density` that
        has released nothing: its bits and its whole epsilon are taken over, and it refuses any further use.
    step
        The published density moves when the true one has drifted by more than this; a smaller step costs more noise.
    moves
        Plan for a stream *with deletions*, and for this number of moves: the test then asks for ``|ones - last|``, and
        the last released density is published. Without it users cannot be removed, ``ceil(1/step)`` moves are planned,
        and the published density never falls.
    delta
        A probability, such as 1e-9, with which more than epsilon may be lost. It is used, for Gaussian noise and moves
        that add up like the root of their number, only where that is better: from some hundred moves on. `delta` of
        the observer is 0 where it is not used.
    observations, beta
        For how many observations the accuracy is promised, but for a probability of beta. Privacy holds for any
        number; beyond this one the error grows, like its square root.
    sample, memory, coins
        As in `pp.Density`.

    Examples
    --------
    >>> import panprivacy as pp
    >>> watch = pp.Continual(universe=2_000_000, epsilon=2.0, step=0.1, observations=100)
    >>> watch.observe().density_band[0]
    0.0
    >>> watch.update_many(range(600_000))
    >>> now = watch.observe()
    >>> 0.29 < now.density < 0.31, now.moved, now.moves_left
    (True, True, 9)

    Notes
    -----
    The paper's section 2.2 points to Dwork's density estimator under continual observation ("Differential privacy in
    new settings", 2010); this is one for a bit a user, and safe from an intruder who reads the threshold. Where the
    number of releases is known, ``pp.Density(..., releases=K)`` errs less, with a delta by far: it shows every change,
    not only those beyond a step. Once all moves are spent the value stands still, and its band says so.
    Announced readings (`rerandomize`) are not planned for.
    """

    KIND = 4
    TRAITS = Traits(
        "continual",
        ("step", "moves", "observations", "beta", "delta", "sample", "memory"),
        small={"step": 1.0, "moves": 1, "observations": 1},
        example={"moves": 5},
        unit="moves",
    )
    REPEATABLE: ClassVar[bool] = True

    def __init__(
        self,
        universe: int | Universe | Density,
        epsilon: float | None = None,
        *,
        step: float = 0.05,
        moves: int | None = None,
        observations: int = 1000,
        beta: float = 0.05,
        delta: float | None = None,
        sample: int | None = None,
        memory: str | int | None = None,
        coins: Coins | None = None,
    ) -> None:
        step, beta = check_number(step, "step"), check_number(beta, "beta")
        if not 0 < step <= 1:
            raise InvalidValue(f"step is a part of the universe, above 0 and at most 1, got {step}", code="step-range")
        if not 0 < beta < 1:
            raise InvalidValue(f"beta is a probability between 0 and 1, got {beta}", code="beta-range")
        planned = check_whole(observations, "observations")
        if planned > _MOST_OBSERVATIONS:
            raise InvalidValue(
                f"plan for at most {_MOST_OBSERVATIONS:,} observations, got {planned:,}", code="observations-range"
            )
        most = ceil(1 / step) if moves is None else check_whole(moves, "moves")
        plan = Workload(size=0, moves=most, observations=planned, rising=moves is None)
        bar_of = partial(bar_for, step, observations=planned, beta=beta)
        if isinstance(universe, Density):
            if (epsilon, delta, sample, memory, coins) != (None,) * 5:
                raise InvalidValue(
                    "a Density brings its own epsilon, delta, size and coins: give none of them again",
                    code="continual-of-density",
                )
            self._density, shares = taken_over(universe, plan, bar_of)
        elif epsilon is None:
            raise InvalidValue("how much privacy? Give epsilon, the total budget; 1 is usual", code="epsilon-missing")
        else:
            total, allowed, source = check_epsilon(epsilon), check_delta(delta), coin_sources.given(coins)
            users = ungrouped(universe_of(universe), "a Continual")
            size = table_size(users.size, sample, memory)
            shares = best_shares(total, replace(plan, size=size), allowed)
            self._density = drawn_bits(users, size, shares, source)
        bar = bar_of(shares, self._density._law())
        self._begin(Observed(DriftTest(shares, bar), step, beta, planned, moves is None))

    def _begin(self, observed: Observed) -> None:
        self._observed, self._law = observed, self._density._law()
        ownership.give_lock(self, rank=1)

    # --- events -------------------------------------------------------------------------------------------------

    def update(self, user: Any) -> None:
        """Note that a user appeared."""
        self._density.update(user)

    def update_many(self, ids: Ids, **options: Unpack[BatchOptions]) -> None:
        """Note that these users appeared; takes what `Density.update_many` takes."""
        self._density.update_many(ids, **options)

    def remove(self, user: Any) -> None:
        """Note that a user was deleted."""
        self._check_deletions()
        self._density.remove(user)

    def remove_many(self, ids: Ids, **options: Unpack[BatchOptions]) -> None:
        """Note that these users were deleted."""
        self._check_deletions()
        self._density.remove_many(ids, **options)

    def _check_deletions(self) -> None:
        if self._observed.insert_only:
            raise InvalidValue(
                "this observer was planned for a stream without deletions; plan them with moves=K",
                code="no-deletions-planned",
            )

    # --- observations -------------------------------------------------------------------------------------------

    def observe(self) -> Observation:
        """Return the published density, which moves now if the test says that the true one has drifted."""
        observed = self._observed
        with self._lock:
            observed.observations += 1
            moved = self.moves_left > 0 and self._has_drifted()
            if moved:
                self._density.release()
            if moved or self.moves_left:
                if moved or not observed.insert_only:
                    estimate = self._last()
                else:
                    # The middle of what it can be since the last release. Always by the accuracy of the plan: a band
                    # that widens beyond it must not move the published value.
                    estimate = sum(self._band(self.accuracy(), moved)) / 2
                observed.published = max(estimate, observed.published) if observed.insert_only else estimate
            return self._observation(moved)

    def next_release(self, level: float = 0.95) -> Observation:  # noqa: ARG002 - `beta` decides the level
        """Observe: the counterpart of a release of other estimators."""
        return self.observe()

    def expected_errors(self) -> dict[str, float | None]:
        """The largest error of the published density, with probability ``1 - beta``."""
        return {"density_error": self.accuracy().alpha}

    def _has_drifted(self) -> bool:
        """Test how far the number of ones is from the last released one, upwards only if users cannot be removed."""
        density = self._density
        try:
            with Scratch() as scratch:
                with density._lock:
                    distance = density._counts(scratch)
                distance -= self._last_ones()
                if not self._observed.insert_only:
                    np.abs(distance, out=distance)
                return self._observed.drift_test.has_drifted(distance, density._coins)
        finally:
            wipe_stack()

    def _last_ones(self) -> int:
        """The last released number of ones, or its mean while no user has appeared."""
        published, size = self._density._ledger.published, self._density._slots.size
        return published.noisy[0] if published else round(size * self._shares.pair.p0)

    def _last(self) -> float:
        """The last released density."""
        return float(within(self._law.density(self._last_ones())))

    def _band(self, accuracy: Accuracy, moved: bool) -> tuple[float, float]:
        """What the density can be."""
        insert_only, last = self._observed.insert_only, self._last()
        low, high = last - accuracy.below, last + accuracy.above
        if moved:
            low, high = last - accuracy.released, last + accuracy.released
        elif not self.moves_left:  # it stands still, whatever happens
            low, high = (low, 1.0) if insert_only else (0.0, 1.0)
        return max(low, 0.0), min(high, 1.0)

    def _observation(self, moved: bool) -> Observation:
        observed, density = self._observed, self._observed.published
        # Beyond the plan, promised in powers of two: to work out an accuracy takes longer than to observe.
        beyond = observed.observations > observed.planned
        low, high = self._band(self.accuracy(2 ** (observed.observations - 1).bit_length() if beyond else None), moved)
        universe = self._density._slots.population
        share = Estimate(density, None, (min(low, density), max(high, density)))
        cost = Cost(
            level=1 - observed.beta,
            number=observed.observations,
            epsilon_spent=self.budget.spent,
            delta_spent=self.budget.delta_spent,
            secure=self.secure,
        )
        return Observation(
            estimates={"density": share, "count": share.times(universe)},
            cost=cost,
            universe=universe,
            moved=moved,
            moves_left=self.moves_left,
        )

    # --- what it says of itself ---------------------------------------------------------------------------------

    def accuracy(self, observations: int | None = None, beta: float | None = None) -> Accuracy:
        """How far the published density can be from the truth in all observations, with probability ``1 - beta``."""
        observed = self._observed
        times = observed.planned if observations is None else check_whole(observations, "observations")
        chance = observed.beta if beta is None else beta
        if times < 1 or not 0 < chance < 1:
            raise InvalidValue(
                f"an accuracy needs at least one observation and 0 < beta < 1, got {times} and {chance}",
                code="accuracy-range",
            )
        step = observed.step if observed.insert_only else None
        bar = observed.drift_test.bar
        return accuracy_of(bar, step, self._shares, self._law, observations=times, beta=chance)

    @property
    def budget(self) -> ContinualBudget:
        """Where epsilon goes: shares, spent, left, and the total."""
        return budget_of(self._shares, self._density._ledger.releases)

    @property
    def moves_left(self) -> int:
        """How often the published density may still move."""
        return self._shares.moves - self._density._ledger.releases

    releases_left = moves_left

    universe: ClassVar[OfPart[Universe]] = OfPart("_density")
    """The users there could be."""

    @property
    def _shares(self) -> Shares:
        return self._observed.drift_test.shares

    epsilon: ClassVar[OfPart[float]] = OfPart("_shares")
    """The total budget."""

    delta: ClassVar[OfPart[float]] = OfPart("_shares")
    """The probability, at most, with which more than epsilon is lost: 0 unless one was given, and is used."""

    secure: ClassVar[OfPart[bool]] = OfPart("_density")
    """Whether every coin so far came from the operating system."""

    memory: ClassVar[OfPart[int]] = OfPart("_density")
    """Bytes that the bits take."""

    emptied: ClassVar[OfPart[str | None]] = OfPart("_density")
    """Why this observer holds nothing any more and refuses all use; None while it holds bits."""

    def _described(self) -> str:
        budget, spent = self.budget, f"{self.budget.spent:.3g} spent"
        return (
            f"<Continual of {self.universe.describe()}, step {self._observed.step:g}; epsilon {self.epsilon:g}"
            f"{and_delta(self.delta)}: {spent}, {self.moves_left} of {budget.moves} moves left{self._unsafe()}>"
        )

    def _rows(self) -> Rows:
        return (
            ("universe", self.universe.describe()),
            ("tracked", f"{self._density.users:,} users in {format_bytes(self.memory)}"),
            *self.budget.card().rows,
            ("accuracy", str(self.accuracy())),
        )

    # --- bytes --------------------------------------------------------------------------------------------------

    @contextmanager
    def sealed_state(self, insecure: bool) -> Iterator[Snapshot]:
        """The parts of the saved state; bits and observations keep still meanwhile."""
        with self.held(), self._density.sealed_state(insecure) as bits, Scratch() as scratch:
            parameters = bytearray(self._observed.to_bytes() + bits.parameters)
            scratch.own(np.frombuffer(parameters, dtype=np.uint8))
            walk_in(parameters)[:] = self._observed.drift_test.walk
            yield bits._replace(kind=self.KIND, parameters=parameters)

    def bind_to(self, file: StateFile) -> None:
        """Write every change to the file, also changes of the bits: observer and bits share one lock."""
        super().bind_to(file)
        self._density._lock = self._lock

    def _empty(self, why: str) -> None:
        self._density._empty(why)

    @classmethod
    def from_sealed(cls, parts: Snapshot, universe: Any = None) -> Self:
        """Make an observer of the parts of a saved state; their words become its bits."""
        if parts.kind != cls.KIND:
            raise CorruptState("this is not the state of a Continual", code="other-estimator")
        try:
            observed, rest = Observed.from_bytes(parts.parameters)
            density = Density.from_sealed(parts._replace(kind=Density.KIND, parameters=rest), universe)
            test = observed.drift_test
            if density.split != split_of(test.shares):
                raise CorruptState("its bits have another plan")
            # The bar follows from the plan, but for last digits, which differ between machines.
            bar = bar_for(observed.step, test.shares, density._law(), observed.planned, observed.beta)
            if abs(test.bar - bar) > 1 + _ROUNDING * bar:
                raise CorruptState(f"its bar is {test.bar:,}, and its plan has {bar:,}")
        except (PanPrivacyError, ValueError, ArithmeticError, struct.error) as error:
            raise CorruptState(f"the state contradicts itself: {error}", code="state-contradictory") from error
        return cls._of_parts(density, observed)

    @classmethod
    def _of_parts(cls, density: Density, observed: Observed) -> Self:
        observer = cls.__new__(cls)
        observer._density = density
        observer._begin(observed)
        return observer
