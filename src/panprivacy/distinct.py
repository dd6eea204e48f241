"""`DistinctCount`: how many different users have shown up, whoever they are?"""

import struct
from operator import index
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from panprivacy import coins as coin_sources
from panprivacy.budget import best_split, budget_of
from panprivacy.coins import Coins
from panprivacy.counting.buckets import buckets_for, levels_for, model_of, relative_error
from panprivacy.counting.likelihood import CountModel
from panprivacy.counting.overlap import union_pair
from panprivacy.counting.release import CountRelease, not_negative, total
from panprivacy.errors import PanPrivacyError
from panprivacy.estimator import Estimator
from panprivacy.ledger import Ledger, Published
from panprivacy.pairs import Pair
from panprivacy.sizes import format_bytes
from panprivacy.slots import SlotMap, Universe
from panprivacy.slots.anyone import Anyone
from panprivacy.slots.hashed import Hashed
from panprivacy.slots.places import KEY_BYTES
from panprivacy.table import Table

if TYPE_CHECKING:
    from rich.table import Table as RichTable

_PARAMETERS = struct.Struct("<IIII16s")  # levels, buckets, parts, unions, key


class DistinctCount(Estimator[CountRelease]):
    r"""Estimate how many different users have appeared in a stream, pan-privately, without knowing who could.

    A keyed hash gives every user one bit among levels x buckets, in level l with probability ``2**-(l+1)``. The bit
    starts as a coin of probability p0 and each appearance redraws it with probability ``p1 = 1 - p0``. A release
    publishes the number of ones in every level plus exact discrete Laplace noise (one user changes one of these
    numbers, by at most 1); the count is the one that makes them likeliest. Whoever reads the whole state once, at any
    moment, and sees all releases, learns at most `epsilon` about any one user, however often that user appears.

    With few users the standard error is ``0.87 sqrt(buckets) / sinh(eps_state/2)`` users, and from about 4 x buckets
    on it is the same fraction of every count, ``0.83 / (sqrt(buckets) tanh(eps_state/2))``; the noise of the release
    adds a little to either.

    Parameters
    ----------
    epsilon
        The total budget of this object's life.
    buckets, error
        How many buckets a level has (4,096 unless told), or how large the relative standard error may be.
    levels
        How many levels there are; by default enough for 10^12 users.
    releases, intrusions
        How many releases, and how many announced readings of the state (each followed by `rerandomize`), the
        budget is planned for.
    key
        16 bytes that decide which bit a user owns; drawn unless given. Tables to be merged must share one.
    coins
        The source of randomness; anything but the default makes the estimator insecure, and it says so.

    Examples
    --------
    >>> import panprivacy as pp
    >>> est = pp.DistinctCount(epsilon=1.0)
    >>> est.update_many(f"visitor {i % 50_000}" for i in range(60_000))
    >>> r = est.release()
    >>> 40_000 < r.count < 60_000, r.epsilon_remaining
    (True, 0.0)

    Notes
    -----
    This is the multiplicative guarantee that the paper mentions and leaves out, with the bits of its OptBern (Alg. 2)
    in the levels of a probabilistic counter (Flajolet and Martin 1985). The split of the budget that errs least is
    that of a `Density` of `buckets` users: since ``r(1-r) = p0*p1 + (p1-p0)^2 * o(1-o)``, the error in every level
    and at every count falls with the same ``(buckets*p0*p1 + Var(noise)) / (p1-p0)^2``.

    Users share bits, so nobody can be removed: clearing a bit would remove all who share it. Two readings without
    `rerandomize` between them are not protected, by this or any other algorithm of its kind.
    """

    KIND = 2
    _slots: Hashed
    _universe: Anyone

    def __init__(
        self,
        epsilon: float,
        buckets: int | None = None,
        *,
        error: float | None = None,
        levels: int | None = None,
        releases: int = 1,
        intrusions: int = 0,
        key: bytes | None = None,
        coins: Coins | None = None,
    ) -> None:
        source = coins or coin_sources.system
        if buckets is not None and error is not None:
            raise ValueError("give buckets or error, not both")
        plan = float(epsilon), index(releases), index(intrusions)
        width = buckets_for(error, *plan) if error is not None else 4096 if buckets is None else index(buckets)
        slots = Hashed(levels_for(width) if levels is None else index(levels), width)
        if key is not None and len(key) != KEY_BYTES:
            raise ValueError(f"key needs {KEY_BYTES} bytes, got {len(key)}")
        split = best_split(plan[0], width, *plan[1:])
        users = Anyone(key or source.randbelow(2 ** (8 * KEY_BYTES)).to_bytes(KEY_BYTES, "little"))
        self._assemble(users, slots, Ledger(split), Table.drawn(slots.size, split.pair, source), source)

    def _assemble(self, universe: Universe, slots: SlotMap, ledger: Ledger, table: Table, coins: Coins) -> None:
        super()._assemble(universe, slots, ledger, table, coins)
        # The plan stays that of the tables that were merged, any of which may have been read; the coins do not.
        ledger.pair = union_pair(ledger.pair, self._slots.unions)

    # --- events -------------------------------------------------------------------------------------------------

    def remove(self, user: Any) -> NoReturn:  # noqa: ARG002 - whoever it is
        """Refuse: users share bits, and clearing one would remove all who share it."""
        raise _no_removal()

    def remove_many(self, ids: Any, weight: Any = None) -> NoReturn:  # noqa: ARG002
        """Refuse, like `remove`."""
        raise _no_removal()

    # --- what leaves --------------------------------------------------------------------------------------------

    def release(self, level: float = 0.95, universe: int | None = None) -> CountRelease:
        """Spend one planned release on an estimate, with a confidence interval of the given level.

        Told how many users there could be, the release also has a density.
        """
        if universe is not None and index(universe) < 1:
            raise ValueError(f"a universe has at least one user, got {universe}")
        released = super().release(level)
        return released if universe is None else released.within(index(universe))

    def _counts(self) -> tuple[int, ...]:
        """The ones of every level of every part."""
        step, size = self._slots.buckets, self._slots.size
        return tuple(_ones(self._table, start, start + step) for start in range(0, size, step))

    def _interpret(self, published: Published) -> CountRelease:
        split = self._ledger.split
        model = self._model(union_pair(split.pair_after(published.redraws), self._slots.unions))
        noisy = np.array(published.noisy, dtype=np.float64).reshape(self._slots.parts, self._slots.levels)
        raw = total([model.fit(part, published.level) for part in noisy])
        found = not_negative(raw)
        budget = budget_of(split, published.number, published.redraws)
        return CountRelease(
            count=found.count,
            stderr=found.stderr,
            interval=(found.low, found.high),
            level=published.level,
            raw_count=raw.count,
            universe=None,
            number=published.number,
            epsilon_spent=budget.spent,
            epsilon_remaining=budget.remaining,
            secure=self.secure,
        )

    # --- what it says of itself ---------------------------------------------------------------------------------

    def stderr_at(self, count: float) -> float:
        """The standard error that a release now would have, if this were the true count (of each part alike)."""
        parts = self._slots.parts
        return float(np.sqrt(parts)) * self._model(self._ledger.pair).stderr(count / parts)

    @property
    def relative_error(self) -> float:
        """The relative standard error of a release now, at every count from about 4 x buckets on (of each part)."""
        return relative_error(self._ledger.pair, self._slots.buckets, float(self._ledger.split.release))

    @property
    def buckets(self) -> int:
        """How many bits a level has."""
        return self._slots.buckets

    @property
    def levels(self) -> int:
        """How many levels there are."""
        return self._slots.levels

    def _model(self, pair: Pair) -> CountModel:
        return model_of(pair, self.levels, self.buckets, float(self._ledger.split.release))

    def __repr__(self) -> str:
        budget, slots = self.budget, self._slots
        tables = f"{slots.parts} side by side, " * (slots.parts > 1) + f"union of {slots.unions}, " * (slots.unions > 1)
        return (
            f"<DistinctCount within {self.relative_error:.1%}, {tables}{format_bytes(self.memory)}; "
            f"epsilon {self.epsilon:g}: {budget.spent:.3g} spent, "
            f"{budget.releases_made} of {len(budget.releases)} releases made"
            f"{'' if self.secure else '; NOT SECURE: seeded coins'}>"
        )

    def __rich__(self) -> "RichTable":
        from rich.table import Table as Grid

        grid = Grid(title="DistinctCount", show_header=False)
        grid.add_row("memory", f"{self.levels} levels x {self.buckets:,} buckets in {format_bytes(self.memory)}")
        for line in str(self.budget).splitlines():
            grid.add_row(*line.split(maxsplit=1))
        if self._slots.unions > 1:
            grid.add_row("union", f"of {self._slots.unions} tables: {self._ledger.pair.loss:.4g} of its epsilon left")
        grid.add_row("error", f"± {self.relative_error:.2%} (standard error from {4 * self.buckets:,} users on)")
        if not self.secure:
            grid.add_row("warning", "[bold red]not private: seeded coins")
        return grid

    # --- bytes --------------------------------------------------------------------------------------------------

    def _counts_released(self) -> int:
        return self._slots.parts * self._slots.levels

    def _parameters(self) -> bytes:
        slots = self._slots
        return _PARAMETERS.pack(slots.levels, slots.buckets, slots.parts, slots.unions, self._universe.key)

    @classmethod
    def _from_parameters(cls, parameters: bytes, universe: Any) -> tuple[Universe, SlotMap]:
        levels, buckets, parts, unions, key = _PARAMETERS.unpack(parameters)
        known = Anyone(key)
        if universe not in (None, known):
            raise ValueError("this universe is not the one that the estimator was built with")
        return known, Hashed(levels, buckets, parts, unions)


def _ones(table: Table, start: int, stop: int) -> int:
    """How many bits from start up to stop are 1."""
    before = start % 64
    return int(np.count_nonzero(table.bits(start - before, stop)[before:]))


def _no_removal() -> PanPrivacyError:
    return PanPrivacyError(
        "DistinctCount cannot remove a user: users share bits, and clearing one removes all who share it; with a known "
        "universe, pp.Density can"
    )
