"""`Continual`: the density at any time, any number of times, within one budget."""

from math import ceil
from operator import index
from pathlib import Path
from typing import Any, Self

import numpy as np

from panprivacy import lifetime, state
from panprivacy.checks import check_delta
from panprivacy.continual import saved
from panprivacy.continual.accuracy import Accuracy, accuracy_of, bar_for
from panprivacy.continual.bits import new_bits, taken_over, tracked_by
from panprivacy.continual.observation import ContinualBudget, Observation, budget_of
from panprivacy.continual.saved import Observed
from panprivacy.continual.sharing import Plan
from panprivacy.continual.watch import Watch
from panprivacy.density import Density
from panprivacy.display import Card, grid_of, html_of, warning_of
from panprivacy.memory import Scratch
from panprivacy.privacy.budget import and_delta
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.stack import wipe_stack
from panprivacy.sizes import format_bytes
from panprivacy.state import Sealed, StateFile
from panprivacy.universe import Ids, Universe

_MOST_OBSERVATIONS = 10**15  # one a microsecond for thirty years


class Continual:
    r"""Look at the density at any time, any number of times: the published one moves when the true one has drifted.

    Each `observe` asks a sparse-vector test whether the number of ones is above the last released one by more than a
    bar: ``ones - last + noise >= bar + threshold noise``. Only if it is, a new count is released. So the budget is
    spent on moves, of which a stream without deletions causes at most ``ceil(1/step)``, and not on observations. At a
    move the released density is published, and after it the middle of what the density can be until the next one.
    Whoever reads the whole state once, at any moment, and sees every observation, however many, learns at most
    `epsilon` about any one user. `panprivacy.continual.shares` has the formula and why it holds.

    Parameters
    ----------
    universe, epsilon
        The users there could be and the total budget, as in `pp.Density`. Or, in place of both, a `pp.Density` that
        has released nothing: its bits and its whole epsilon are taken over, and it refuses any further use.
    step
        The published density moves when the true one has drifted by more than this; a smaller step costs more noise.
    moves
        Plan for a stream *with deletions*, and for so many moves: the test then asks for ``|ones - last|``, and the
        last released density is published. Without it users cannot be removed, ``ceil(1/step)`` moves are planned, and
        the published density never falls.
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

    KIND = saved.KIND
    _lock: Any

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
        step, beta = float(step), float(beta)
        if not 0 < step <= 1:
            raise ValueError(f"step is a part of the universe, above 0 and at most 1, got {step}")
        if not 0 < beta < 1:
            raise ValueError(f"beta is a probability between 0 and 1, got {beta}")
        planned = index(observations)
        if planned > _MOST_OBSERVATIONS:
            raise ValueError(f"plan for at most {_MOST_OBSERVATIONS:,} observations, got {planned:,}")
        most = ceil(1 / step) if moves is None else index(moves)
        plan = Plan(size=0, moves=most, observations=planned, rising=moves is None)
        if isinstance(universe, Density):
            if (epsilon, delta, sample, memory, coins) != (None,) * 5:
                raise ValueError("a Density brings its own epsilon, delta, size and coins: give none of them again")
            # Everything that can go wrong goes wrong before the bits are taken.
            self._density, shares = taken_over(
                universe, plan, lambda shares: bar_for(step, shares, tracked_by(universe), planned, beta)
            )
        elif epsilon is None:
            raise ValueError("how much privacy? Give epsilon, the total budget; 1 is usual")
        else:
            size: Any = {"sample": sample, "memory": memory, "coins": coins}
            allowed = None if delta is None else check_delta(delta)
            self._density, shares = new_bits(universe, float(epsilon), allowed, plan, **size)
        bar = bar_for(step, shares, tracked_by(self._density), planned, beta)
        self._observed = Observed(Watch(shares, bar), step, beta, planned, moves is None)
        lifetime.give_lock(self, rank=1)

    # --- events -------------------------------------------------------------------------------------------------

    def update(self, user: Any) -> None:
        """Note that a user appeared."""
        self._density.update(user)

    def update_many(self, ids: Ids, *, threads: int | None = None) -> None:
        """Note that these users appeared; takes what `Density.update_many` takes."""
        self._density.update_many(ids, threads=threads)

    def remove(self, user: Any) -> None:
        """Note that a user was deleted."""
        self._check_deletions()
        self._density.remove(user)

    def remove_many(self, ids: Ids, *, threads: int | None = None) -> None:
        """Note that these users were deleted."""
        self._check_deletions()
        self._density.remove_many(ids, threads=threads)

    def _check_deletions(self) -> None:
        if self._observed.insert_only:
            raise ValueError("this observer was planned for a stream without deletions; plan them with moves=K")

    # --- what is seen -------------------------------------------------------------------------------------------

    def observe(self) -> Observation:
        """Return the published density, which moves now if the test says that the true one has drifted."""
        observed = self._observed
        with self._lock:
            observed.observations += 1
            moved = self.moves_left > 0 and self._has_drifted()
            if moved:
                self._density.release()
            if moved or self.moves_left:
                estimate = self._estimate(moved)
                observed.published = max(estimate, observed.published) if observed.insert_only else estimate
            return self._observation(moved)

    def _has_drifted(self) -> bool:
        """Test how far the number of ones is from the last released one, upwards only if nobody can be removed."""
        density = self._density
        try:
            with Scratch() as scratch:
                with density._lock:
                    distance = density._counts(scratch)
                distance -= self._last_ones()
                if not self._observed.insert_only:
                    np.abs(distance, out=distance)
                return self._observed.watch.has_drifted(distance, density._coins)
        finally:
            wipe_stack()

    def _last_ones(self) -> int:
        """The last released number of ones, or its mean while nobody has appeared."""
        published, pair = self._density._ledger.published, self._observed.watch.shares.pair
        return published.noisy[0] if published else round(self._density._slots.size * pair.p0)

    def _last(self) -> float:
        """The last released density."""
        tracked = tracked_by(self._density)
        raw = (self._last_ones() - tracked.bits * float(tracked.pair.p0)) / tracked.whole
        return min(max(raw, 0.0), 1.0)

    def _estimate(self, moved: bool) -> float:
        """The density to publish: the one just released; without deletions, the middle of what it can be since."""
        if moved or not self._observed.insert_only:
            return self._last()
        # Always that of the plan: a band that widens beyond it must not move what is published.
        return sum(self._band(self.accuracy(), moved)) / 2

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
        return Observation(
            density=density,
            density_band=(min(low, density), max(high, density)),
            level=1 - observed.beta,
            moved=moved,
            number=observed.observations,
            moves_left=self.moves_left,
            universe=self._density._slots.population,
            epsilon_spent=self.budget.spent,
            delta_spent=self.budget.delta_spent,
            secure=self.secure,
        )

    # --- what it says of itself ---------------------------------------------------------------------------------

    def accuracy(self, observations: int | None = None, beta: float | None = None) -> Accuracy:
        """How far the published density can be from the truth, over so many observations, but for a probability."""
        observed = self._observed
        times = observed.planned if observations is None else index(observations)
        chance = observed.beta if beta is None else beta
        if times < 1 or not 0 < chance < 1:
            raise ValueError(f"an accuracy needs at least one observation and 0 < beta < 1, got {times} and {chance}")
        step = observed.step if observed.insert_only else None
        tracked, shares = tracked_by(self._density), observed.watch.shares
        return accuracy_of(observed.watch.bar, step, shares, tracked, observations=times, beta=chance)

    @property
    def budget(self) -> ContinualBudget:
        """Where epsilon goes: shares, spent, left, and the total."""
        return budget_of(self._observed.watch.shares, self._density._ledger.releases)

    @property
    def moves_left(self) -> int:
        """How often the published density may still move."""
        return self._observed.watch.shares.moves - self._density._ledger.releases

    @property
    def epsilon(self) -> float:
        """The total budget."""
        return self._observed.watch.shares.epsilon

    @property
    def delta(self) -> float:
        """The probability, at most, with which more than epsilon is lost: 0 unless one was given, and is used."""
        return self._observed.watch.shares.delta

    @property
    def universe(self) -> Universe:
        """The users there could be."""
        return self._density.universe

    @property
    def secure(self) -> bool:
        """Whether every coin so far came from the operating system."""
        return self._density.secure

    @property
    def memory(self) -> int:
        """Bytes that the bits take."""
        return self._density.memory

    def __repr__(self) -> str:
        if self._density.emptied:
            return f"<Continual, emptied: {self._density.emptied}>"
        insecure = "" if self.secure else "; NOT SECURE: seeded coins"
        budget, spent = self.budget, f"{self.budget.spent:.3g} spent"
        return (
            f"<Continual of {self.universe.describe()}, step {self._observed.step:g}; epsilon {self.epsilon:g}"
            f"{and_delta(self.delta)}: {spent}, {self.moves_left} of {budget.moves} moves left{insecure}>"
        )

    def card(self) -> Card:
        """What is shown of it."""
        if self._density.emptied:
            return Card("Continual", (("emptied", self._density.emptied),))
        rows = (
            ("universe", self.universe.describe()),
            ("tracked", f"{self._density.users:,} users in {format_bytes(self.memory)}"),
            *self.budget.card().rows,
            ("accuracy", str(self.accuracy())),
        )
        return Card("Continual", rows, warning_of(self.secure))

    __rich__ = grid_of
    _repr_html_ = html_of

    # --- bytes --------------------------------------------------------------------------------------------------

    def to_bytes(self, *, insecure: bool = False) -> bytes:
        """The whole state, to be read by `pp.load`: one more reading of it, which `save` is not.

        An observer on seeded coins is refused unless `insecure=True` says that this is known.
        """
        with self._lock, saved.sealed(self._density, self._observed, insecure=insecure) as parts:
            return state.seal(parts)

    def save(self, file: str | Path | StateFile, *, insecure: bool = False) -> None:
        """Move the state to a file, or keep it in a file that this process holds, as `pp.Density.save` does."""
        with (
            state.opened(file) as kept,
            self._lock,
            saved.sealed(self._density, self._observed, insecure=insecure) as parts,
        ):
            kept.write(parts)
            if isinstance(file, StateFile):
                file.keeps(self._density)
            else:
                self._density._empty(state.moved_to(file))

    @classmethod
    def from_bytes(cls, blob: bytes, universe: Any = None) -> Self:
        """Read what `to_bytes` wrote; a list of users must be given again before more can be fed."""
        return cls.from_sealed(state.unseal(blob), universe)

    @classmethod
    def from_sealed(cls, parts: Sealed, universe: Any = None) -> Self:
        """Make an observer of the parts of a saved state; their words become its bits."""
        return cls._of_parts(*saved.from_sealed(parts, universe))

    @classmethod
    def _of_parts(cls, density: Density, observed: Observed) -> Self:
        observer = cls.__new__(cls)
        observer._density, observer._observed = density, observed
        lifetime.give_lock(observer, rank=1)
        return observer

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(), self.universe)

    __copy__ = lifetime.refuse_copy
