"""`DistinctCount`: how many different users have shown up?"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from math import inf, sqrt
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import check_delta, check_epsilon, check_key, check_number, check_whole
from panprivacy.display import Rows, format_bytes
from panprivacy.errors import CannotMerge, InvalidValue, PanPrivacyError
from panprivacy.estimates import Cost, CountRelease
from panprivacy.estimates.estimate import OfPart
from panprivacy.estimators.base import Estimator
from panprivacy.estimators.distinct_law import (
    CountModel,
    buckets_for,
    counts_within,
    levels_for,
    model_of,
    relative_error,
    settled_from,
    total,
)
from panprivacy.estimators.merge import union_pair, united
from panprivacy.memory.scratch import Scratch
from panprivacy.privacy import coins as coin_sources
from panprivacy.privacy.budget import Published
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.pairs import Pair
from panprivacy.privacy.splitting import best_split
from panprivacy.registry import Traits
from panprivacy.slots import SlotMap
from panprivacy.slots.choosing import parse_categories
from panprivacy.slots.users import Hashed, drawn_key
from panprivacy.table import Table
from panprivacy.universe import Ids, Universe
from panprivacy.universe.categories import Categories, by_categories
from panprivacy.universe.groups import Label
from panprivacy.universe.open import INTEGERS, TEXT, OpenUniverse

_HARDLY = 1e-9  # a probability that is taken for impossible
_PARAMETERS = struct.Struct("<IIII16s")  # levels, buckets, parts, unions, key
_UNDECLARED = b"\0"  # written only where categories follow
_DECLARED = {None: b"", INTEGERS: b"\1", TEXT: b"\2"}  # what ids are comes last, where it was declared

_BUCKETS = 4096
"""Buckets of a level, unless told."""


class DistinctCount(Estimator[CountRelease]):
    r"""Estimate how many different users have appeared in a stream, pan-privately, without knowing who could.

    A keyed hash gives every user one bit among levels x buckets, in level l with probability ``2**-(l+1)``. The bit
    starts as a coin of probability p0 and each appearance redraws it with probability ``p1 = 1 - p0``. A release
    publishes the number of ones in every level plus exact discrete noise (one user changes one of these
    numbers, by at most 1); the estimate is the likeliest count. An intruder who reads the whole state once,
    at any moment, and sees all releases, learns at most `epsilon` about any one user, however often that user appears.

    With few users the standard error is ``0.87 sqrt(buckets) / sinh(eps_state/2)`` users, and from about 3 x buckets
    on it is the same fraction of every count, ``0.83 / (sqrt(buckets) tanh(eps_state/2))``; the noise of the release
    adds a little to either.

    Parameters
    ----------
    epsilon
        The total budget of this object's life.
    buckets, error
        How many buckets a level has (4,096 unless told), or how large the relative standard error may be. An error
        holds from about 3 x buckets users on, which is more for a smaller error; `counts_within` tells exactly. For
        fewer users a larger table is the worse one: `pp.plan(epsilon=..., count=...)` finds the best.
    levels
        How many levels there are; by default enough for 10^12 users.
    releases, intrusions
        How many releases, and how many announced readings of the state (each followed by `rerandomize`), the
        budget is planned for.
    delta
        A probability with which more than epsilon may be lost, as for `pp.Density`: it buys Gaussian noise.
    key
        16 bytes that decide which bit a user owns; drawn unless given. Tables to be merged must share one.
    categories, other
        What events can be in, such as pages: ``update(user, category)``. A user may be in all of them, and is asked
        about one, which the hash chooses; events in others leave no trace. Each category has levels and buckets of its
        own, and a release has every category, with its error. An event in a category that is not listed is refused, or,
        with ``other=True``, gathered in one called "other".
    ids
        ``"integers"`` or ``"text"`` (which bytes and UUIDs are, too): ids of the other kind are refused. Without it all
        are taken, and 5 is one user and "5" another. The declaration is public, and part of the state.
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

    Users share bits, so no user can be removed: clearing a bit would remove all who share it. Two readings without
    `rerandomize` between them are not protected, by this or any other algorithm of its kind.
    """

    KIND: ClassVar[int] = 2
    TRAITS: ClassVar[Traits] = Traits(
        "distinct",
        ("buckets", "error", "releases", "intrusions", "delta", "categories", "other", "ids"),
        small={"buckets": 2, "levels": 1},
        example={"buckets": 256},
        removes=False,
        in_folder=True,
    )
    _slots: Hashed
    _universe: OpenUniverse
    _table: Table

    def __init__(
        self,
        epsilon: float,
        buckets: int | None = None,
        *,
        error: float | None = None,
        levels: int | None = None,
        releases: int = 1,
        intrusions: int = 0,
        delta: float | None = None,
        categories: Iterable[Label] | None = None,
        other: bool = False,
        key: bytes | None = None,
        ids: str | None = None,
        coins: Coins | None = None,
    ) -> None:
        source = coin_sources.given(coins)
        if buckets is not None and error is not None:
            raise InvalidValue("give buckets or error, not both", code="buckets-and-error")
        epsilon, planned = check_epsilon(epsilon), check_whole(releases, "releases")
        plan = planned, check_whole(intrusions, "intrusions"), check_delta(delta)
        width = _BUCKETS if buckets is None else check_whole(buckets, "buckets")
        if error is not None:
            width = buckets_for(check_number(error, "error"), epsilon, *plan)
        height = levels_for(max(width, 1)) if levels is None else check_whole(levels, "levels")
        slots = Hashed(height, width, categories=parse_categories(categories, other))
        check_key(key)
        split = best_split(epsilon, width, *plan)
        users = OpenUniverse(key or drawn_key(source), ids)
        self._start(users, slots, split, source)

    def _prepare(self) -> None:
        import polars_hash  # noqa: F401 - loaded now, and Polars with it: at the first event they would tell of it

        # The plan of the merged tables stays, since any of them may have been read; the coins do not.
        self._ledger.pair = union_pair(self._ledger.pair, self._slots.unions)

    @classmethod
    def _merged(cls, parts: Sequence[Self], *, overlapping: bool) -> Self:
        """Draw one table from all of them, or keep the tables side by side: see `panprivacy.merge`."""
        _check_alike(parts)
        declared = {part.ids for part in parts} - {None}
        if len(declared) > 1:
            raise CannotMerge(
                "some parts have integer ids, others text: the same user would count twice", code="different-ids"
            )
        head, made = parts[0], [part._ledger.releases for part in parts]
        tables, slots = [part._table for part in parts], [part._slots for part in parts]
        if not overlapping:
            ledger, one, table = head._ledger.with_releases(max(made)), head._slots.beside(slots), Table.joined(tables)
        elif head._ledger.split.intrusions:
            raise CannotMerge(
                "tables that are planned for announced readings cannot be merged with others",
                code="merge-with-readings",
            )
        else:
            ledger, one = head._ledger.with_releases(sum(made)), head._slots.united(slots)
            table = united(tables, [part._ledger.pair for part in parts], head._coins)
        secure, universe = all(part.secure for part in parts), replace(head._universe, ids=next(iter(declared), None))
        return cls._of_parts(universe, one, ledger, table, head._coins, secure=secure)

    # --- events -------------------------------------------------------------------------------------------------

    def remove(self, user: Any, category: Any = None) -> NoReturn:  # noqa: ARG002
        """Refuse: users share bits, and clearing one would remove all who share it."""
        raise PanPrivacyError(
            "DistinctCount cannot remove a user: users share bits, and clearing one removes all who share it; with a "
            "known universe, pp.Density can",
            code="no-deletions",
        )

    def remove_many(self, ids: Ids, categories: Any = None, **_: Any) -> NoReturn:  # noqa: ARG002
        """Refuse, like `remove`."""
        self.remove(ids)

    # --- what leaves --------------------------------------------------------------------------------------------

    def release(self, level: float = 0.95, universe: int | None = None) -> CountRelease:
        """Spend one planned release on an estimate, with a confidence interval of the given level.

        Told how many users there could be, the release also has a density.
        """
        if universe is not None and check_whole(universe, "universe") < 1:
            raise InvalidValue(f"a universe has at least one user, got {universe}", code="universe-range")
        released = super().release(level)
        return released if universe is None else released.within(int(universe))

    def _counts(self, scratch: Scratch) -> NDArray[np.int64]:
        """The ones of every level of every part."""
        edges = np.arange(0, self._slots.size + 1, self._slots.buckets)
        counts: NDArray[np.int64] = scratch.empty("counts", len(edges) - 1, np.int64)
        self._table.count_ones(edges, counts)
        return counts

    def _interpret(self, published: Published) -> CountRelease:
        split = self._ledger.split
        model = self._model(union_pair(split.pair_after(published.redraws), self._slots.unions))
        slots, cost = self._slots, self._cost_of(published)
        noisy = np.array(published.noisy, dtype=np.float64).reshape(slots.parts, slots.tables, slots.levels)
        if slots.categories is None:
            return self._estimated(model, noisy[:, 0], cost)
        labels = slots.categories.labels
        rows = tuple(self._estimated(model, noisy[:, table], cost, label) for table, label in enumerate(labels))
        return CountRelease(estimates={}, cost=cost, universe=None, groups=rows)

    def _estimated(
        self, model: CountModel, noisy: NDArray[np.float64], cost: Cost, group: Label | None = None
    ) -> CountRelease:
        """The release of noisy counts of levels, with a row for each part: of all users, or of one category."""
        count, parts = total([model.fit(part, cost.level) for part in noisy]), len(noisy)
        # Wide Laplace noise errs by less than a normal law of its variance would: the fit sees its peak.
        noise = min(sqrt(parts) * model.noise_stderr(count.value / parts), count.stderr or inf)
        return CountRelease(estimates={"count": count}, cost=cost, universe=None, noise_stderr=noise, group=group)

    # --- what it says of itself ---------------------------------------------------------------------------------

    def count_stderr_at(self, count: float) -> float:
        """The standard error that a release now would have, if this were the true count.

        Of a merge, each part is taken to have an equal share of it. With categories, it is the count of one category.
        """
        parts = self._slots.parts
        return sqrt(parts) * self._model(self._ledger.pair).stderr(count / parts)

    def expected_errors(self) -> dict[str, float | None]:
        """The relative standard error of a count."""
        return {"count_relative_stderr": self.relative_error}

    @property
    def relative_error(self) -> float:
        """The relative standard error of a release now, at every count from about 3 x buckets on (of each part)."""
        return relative_error(self._ledger.pair, self._slots.buckets, self._ledger.split.noise)

    def counts_within(self, error: float) -> tuple[int, int] | None:
        """From which count up to which a release now has at most this relative standard error; None if for none.

        >>> import panprivacy as pp
        >>> [pp.DistinctCount(epsilon=1.0, error=error).counts_within(error)[0] for error in (0.05, 0.01, 0.001)]
        [5450, 99532, 8617688]
        """
        parts = self._slots.parts
        found = counts_within(self._model(self._ledger.pair), error * sqrt(parts))
        return found and (parts * found[0], parts * found[1])

    @property
    def ids(self) -> str | None:
        """What ids are declared to be: integers, text, or None for both."""
        return self._universe.ids

    def declare_ids(self, kind: str) -> None:
        """Say for good that ids are ``"integers"``, or that they are ``"text"``: from now on, others are refused.

        The declaration is public and part of the state, so it must be a fact about where ids come from, such as the
        type of a column, and not about one of them.
        """
        with self._lock:
            self._check_in_use()
            declared = replace(self._universe, ids=kind)
            if self.ids not in (None, kind):
                raise InvalidValue(
                    f"ids of this estimator are {self.ids}, and cannot be declared {kind}", code="ids-declared"
                )
            self._set_universe(declared)

    buckets: ClassVar[OfPart[int]] = OfPart("_slots")
    """How many bits a level has."""

    levels: ClassVar[OfPart[int]] = OfPart("_slots")
    """How many levels there are."""

    def _model(self, pair: Pair) -> CountModel:
        return model_of(pair, self.levels, self.buckets, self._ledger.split.noise, 1 / self._slots.tables)

    categories: ClassVar[OfPart[Categories | None]] = OfPart("_slots")
    """What events can be in, where they are in categories."""

    @property
    def _settled(self) -> int:
        """About the count from which on the relative error stays the same."""
        return self._slots.parts * settled_from(self._model(self._ledger.pair), self.relative_error)

    def _described(self) -> str:
        slots = self._slots
        tables = f"{slots.parts} side by side, " * (slots.parts > 1) + f"union of {slots.unions}, " * (slots.unions > 1)
        return (
            f"<DistinctCount{by_categories(slots.categories)} within {self.relative_error:.1%} from "
            f"{self._settled:,} users on, {tables}{format_bytes(self.memory)}; {self._spent()}>"
        )

    def _rows(self) -> Rows:
        unions, tables = self._slots.unions, self._slots.tables
        times = f"{tables:,} categories x " if self._slots.categories else ""
        union = ("union", f"of {unions} tables: {self._ledger.pair.loss:.4g} of its epsilon left")
        return (
            ("memory", f"{times}{self.levels} levels x {self.buckets:,} buckets in {format_bytes(self.memory)}"),
            *self.budget.card().rows,
            *([union] if unions > 1 else []),
            ("error", f"± {self.relative_error:.2%} (standard error from {self._settled:,} users on)"),
        )

    # --- bytes --------------------------------------------------------------------------------------------------

    def _counts_released(self) -> int:
        return self._slots.parts * self._slots.tables * self._slots.levels

    def _parameters(self) -> bytes:
        slots = self._slots
        fixed = _PARAMETERS.pack(slots.levels, slots.buckets, slots.parts, slots.unions, self._universe.key)
        if slots.categories is None:
            return fixed + _DECLARED[self._universe.ids]
        return fixed + (_DECLARED[self._universe.ids] or _UNDECLARED) + slots.categories.to_bytes()

    def _from_parameters(self, parameters: bytes, universe: Any) -> tuple[Universe, SlotMap]:
        levels, buckets, parts, unions, key = _PARAMETERS.unpack_from(parameters)
        rest, declared = parameters[_PARAMETERS.size :], {written: kind for kind, written in _DECLARED.items()}
        kind = b"" if rest[:1] == _UNDECLARED else rest[:1]
        if kind not in declared:
            raise InvalidValue(
                "ids of this state are declared to be something that this release does not know", code="ids-declared"
            )
        known = OpenUniverse(key, declared[kind])
        categories = Categories.from_bytes(rest[1:]) if len(rest) > 1 else None
        if universe not in (None, known):
            raise InvalidValue("the estimator was built with another universe", code="other-universe")
        return known, Hashed(levels, buckets, parts, unions, categories)


def _check_alike(parts: Sequence[DistinctCount]) -> None:
    """Refuse parts of different designs, and copies of one state."""
    head = parts[0]
    for part in parts[1:]:
        different = [] if head._universe.key == part._universe.key else ["keys"]
        different += [] if (head.levels, head.buckets) == (part.levels, part.buckets) else ["sizes"]
        different += [] if head.categories == part.categories else ["categories"]
        different += head._ledger.differences(part._ledger)
        if different:
            raise CannotMerge(f"the parts have different {' and '.join(different)}", code="different-plans")
    for one, other in combinations(parts, 2):
        # Two tables that were drawn apart have the same bits with a probability of at most p0^2 + p1^2 a bit.
        pair = one._ledger.pair
        by_chance = float(pair.p0**2 + pair.p1**2) ** one._table.size
        if by_chance < _HARDLY and np.array_equal(one._table.words, other._table.words):
            raise CannotMerge(
                "two of the parts are copies of one state: its users would count twice, and lose twice", code="copies"
            )
