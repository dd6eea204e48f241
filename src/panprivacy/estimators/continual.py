"""`Continual`: the density at any time, any number of times, within one budget."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import ceil
from typing import Any, ClassVar, Self, Unpack

import numpy as np

from panprivacy.checks import check_delta, check_epsilon, check_number, check_whole
from panprivacy.display import Rows, format_bytes
from panprivacy.errors import CorruptState, InvalidValue, PanPrivacyError
from panprivacy.estimates import Cost, Estimate
from panprivacy.estimates.errors import SampleDesign, within
from panprivacy.estimates.estimate import OfPart
from panprivacy.estimators.base import Saveable
from panprivacy.estimators.continual_law import Accuracy, Shares, Workload, accuracy_of, bar_for, best_shares
from panprivacy.estimators.continual_state import (
    ContinualBudget,
    DriftTest,
    Observation,
    Observed,
    budget_of,
    drawn_bits,
    observed_bytes,
    observed_from,
    split_of,
    taken_over,
    walk_in,
)
from panprivacy.estimators.density import Density
from panprivacy.memory import ownership
from panprivacy.memory.intrinsics import wipe_stack
from panprivacy.memory.scratch import Scratch
from panprivacy.privacy import coins as coin_sources
from panprivacy.privacy.budget import and_delta
from panprivacy.privacy.coins import Coins
from panprivacy.registry import Traits
from panprivacy.slots.choosing import table_size
from panprivacy.state import Snapshot, StateFile
from panprivacy.universe import Ids, Universe, ungrouped, universe_of
from panprivacy.universe.columns import BatchOptions

_MOST_OBSERVATIONS = 10**15  # one a microsecond for thirty years
_ROUNDING = 1e-6  # relative


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

        def bar_of(shares: Shares, tracked: SampleDesign) -> int:
            return bar_for(step, shares, tracked, planned, beta)

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
        self._observed = Observed(DriftTest(shares, bar), step, beta, planned, moves is None)
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
                estimate = self._last()
                if observed.insert_only and not moved:
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
        return float(within(self._density._law().density(self._last_ones())))

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
        tracked, bar = self._density._law(), observed.drift_test.bar
        return accuracy_of(bar, step, self._shares, tracked, observations=times, beta=chance)

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
            parameters = bytearray(observed_bytes(self._observed) + bits.parameters)
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
            observed, rest = observed_from(parts.parameters, parts.version)
            density = Density.from_sealed(parts._replace(kind=Density.KIND, parameters=rest), universe)
            test = observed.drift_test
            if density.split != split_of(test.shares):
                raise CorruptState("its bits have another plan")
            if parts.version > 1:  # the bar follows from the plan, but for last digits, which differ between machines
                bar = bar_for(observed.step, test.shares, density._law(), observed.planned, observed.beta)
                if abs(test.bar - bar) > 1 + _ROUNDING * bar:
                    raise CorruptState(f"its bar is {test.bar:,}, and its plan has {bar:,}")
        except (PanPrivacyError, ValueError, ArithmeticError, struct.error) as error:
            raise CorruptState(f"the state contradicts itself: {error}", code="state-contradictory") from error
        return cls._of_parts(density, observed)

    @classmethod
    def _of_parts(cls, density: Density, observed: Observed) -> Self:
        observer = cls.__new__(cls)
        observer._density, observer._observed = density, observed
        ownership.give_lock(observer, rank=1)
        return observer
