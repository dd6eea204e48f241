"""`Density`: what fraction of these users has shown up?"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import index
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import check_delta, check_epsilon, check_key
from panprivacy.display import Rows
from panprivacy.errors import CannotMerge
from panprivacy.growing import Growing
from panprivacy.memory import Scratch
from panprivacy.privacy import coins as coin_sources
from panprivacy.privacy.budget import and_delta, budget_of
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.ledger import Ledger, Published
from panprivacy.privacy.pairs import Pair
from panprivacy.privacy.splitting import best_split
from panprivacy.release import CategoryRelease, GroupDensity, Release, Spread
from panprivacy.release.ranges import rows_of, spreads_of
from panprivacy.sizes import counted, format_bytes, parse_bytes
from panprivacy.slots import Asked, Every, Sampled, SlotMap, Slots
from panprivacy.slots.choosing import asked_about, check_ranges, choose_asked, drawn_key, grouped
from panprivacy.slots.places import joined
from panprivacy.slots.saved import slots_bytes, slots_from, universe_bytes, universe_from
from panprivacy.table import Table
from panprivacy.universe import Universe, Users, universe_of
from panprivacy.universe.categories import Categories, by_categories
from panprivacy.universe.groups import Groups, Label
from panprivacy.universe.users import in_groups


class Density(Growing[Release]):
    r"""Estimate what fraction of a known universe of users has appeared in a stream, pan-privately.

    Every tracked user owns one bit. It starts as a coin of probability p0; each appearance redraws it with
    probability ``p1 = 1 - p0``, a deletion with p0 again. A release publishes the number of ones plus exact
    discrete noise, scaled to ``(noisy - m*p0) / (m*(p1-p0))``. Whoever reads the whole state once, at any
    moment, and sees all releases, learns at most `epsilon` about any one user, however often that user appears.

    Parameters
    ----------
    universe
        The users there could be: a number N for ids 0..N-1, `pp.Users` for a list, `pp.Edges` for a graph.
    epsilon
        The total budget of this object's life.
    sample, memory
        Track a random sample of this many users, or as many as fit in this memory (``"16 KiB"``), instead of all.
    releases, intrusions
        How many releases, and how many announced readings of the state (each followed by `rerandomize`), the
        budget is planned for.
    delta
        A probability, such as 1e-9, with which more than epsilon may be lost. It buys Gaussian noise, which grows with
        the root of the number of releases; without it noise is Laplace's, which grows with the number, and nothing is
        ever lost beyond epsilon. Where Laplace noise errs less, up to about 20 releases, it is used, and `est.delta` is
        0.
    groups
        The group of each of the users 0..N-1, such as a region: one label each, text or integers, public like the
        universe. Each release then has every group, at no extra epsilon, since a user is in one. If the users of each
        group stand together, bits are all the memory it takes; else the users become a list in order of groups. For
        listed users: ``pp.Users(ids, groups=column)``.
    categories, other
        What events can be in, such as clinics: ``update(user, category)``. A user may be in all of them, and is asked
        about one, which the key chooses; events in others leave no trace. Each release has every category, from as
        many users as there are to each. An event in a category that is not listed is refused, or, with ``other=True``,
        gathered in one called "other".
    shard
        ``(i, n)``: this object owns part i of n of the slots, to be merged with the others by `pp.merge`. It may be
        fed the whole stream. Sampled shards must share a `key` of 16 bytes.
    coins
        The source of randomness; anything but the default makes the estimator insecure, and it says so.

    Examples
    --------
    >>> import panprivacy as pp
    >>> est = pp.Density(universe=100_000, epsilon=1.0)
    >>> est.update_many(range(63_000))
    >>> r = est.release()
    >>> 0.6 < r.density < 0.66, r.epsilon_remaining
    (True, 0.0)
    >>> clinics = pp.Density(universe=300_000, epsilon=1.0, categories=["flu", "cold"])
    >>> clinics.update_many(range(90_000), "flu"); clinics.update(7, "cold")
    >>> {row.group: round(row.density, 1) for row in clinics.release().groups}
    {'flu': 0.3, 'cold': 0.0}

    Notes
    -----
    This is the paper's OptBern (Alg. 2) with one bit for every user or a keyed sample, noise of the right size, and
    the split of the budget that errs least. Two readings without `rerandomize` between them are not protected, by
    this or any other algorithm of its kind.
    """

    KIND = 1
    _slots: Slots | Asked
    _table: Table

    def __init__(
        self,
        universe: int | Universe,
        epsilon: float,
        *,
        sample: int | None = None,
        memory: str | int | None = None,
        releases: int = 1,
        intrusions: int = 0,
        delta: float | None = None,
        groups: Any = None,
        categories: Iterable[Label] | None = None,
        other: bool = False,
        shard: tuple[int, int] | None = None,
        key: bytes | None = None,
        coins: Coins | None = None,
    ) -> None:
        source = coins or coin_sources.system
        users, ranges = grouped(universe_of(universe), groups)
        kinds = asked_about(categories, other)
        sample = None if sample is None else index(sample)
        size = _table_size(users.size, sample, memory)
        delta = None if delta is None else check_delta(delta)
        check_ranges(ranges, kinds, sampled=size < users.size, shard=shard)
        # All ranges together err as one of their mean size does, but for a factor that no split changes.
        parts = len(ranges.labels) if ranges else len(kinds) if kinds else 1
        split = best_split(check_epsilon(epsilon), max(size // parts, 1), index(releases), index(intrusions), delta)
        slots: Slots | Asked = (
            choose_asked(users.size, size, kinds, key, source)
            if kinds
            else _choose_slots(users.size, size, shard, key, source)
        )
        if isinstance(slots, Every) and ranges:
            slots = replace(slots, groups=ranges)
        table = self.TABLE.drawn(slots.size, split.pair, source)
        self._assemble(users, slots, Ledger(split), table, source)

    @classmethod
    def _merged(cls, parts: Sequence[Self], *, overlapping: bool) -> Self:
        """Put shards that own neighbouring slots together."""
        if overlapping:
            raise CannotMerge("shards do not overlap: merge them without overlapping=True (--overlapping)")
        if any(part._slots.ranges is not None for part in parts):
            raise CannotMerge("a Density with groups or categories has no shards: feed one with the whole stream")
        ordered = sorted(parts, key=lambda part: part._slots.first)
        head = ordered[0]
        for part in ordered[1:]:
            different = [] if universe_bytes(head._universe) == universe_bytes(part._universe) else ["universes"]
            different += head._ledger.differences(part._ledger)
            if different:
                raise CannotMerge(f"the parts have different {' and '.join(different)}")
        return cls._of_parts(
            head._universe,
            joined([part._slots for part in ordered if not isinstance(part._slots, Asked)]),
            head._ledger.with_releases(max(part._ledger.releases for part in parts)),
            Table.joined([part._table for part in ordered]),
            head._coins,
            secure=all(part.secure for part in parts),
        )

    def _drawn_table(self, slots: SlotMap) -> Table:
        return Table.drawn(slots.size, self._ledger.pair, self._coins)

    # --- what leaves --------------------------------------------------------------------------------------------

    def _counts(self, scratch: Scratch) -> NDArray[np.int64]:
        ranges = self._slots.ranges
        counts: NDArray[np.int64] = scratch.empty("counts", self._counts_released(), np.int64)
        self._table.count_ones(np.array([0, self._slots.size]) if ranges is None else ranges.bounds, counts)
        return counts

    def _counts_released(self) -> int:
        return 1 if self._slots.ranges is None else len(self._slots.ranges)

    def _interpret(self, published: Published) -> Release:
        split = self._ledger.split
        pair = split.pair_after(published.redraws)
        budget = budget_of(split, published.number, published.redraws)
        cost: dict[str, Any] = {
            "level": published.level,
            "number": published.number,
            "epsilon_spent": budget.spent,
            "epsilon_remaining": budget.remaining,
            "delta_spent": budget.delta_spent,
            "secure": self.secure,
        }
        rows = self._rows_of(published, pair)
        if isinstance(self._slots, Asked):
            return cast("Release", CategoryRelease(rows, **cost))  # what it lacks, it says so
        spread = self._spread_under(pair)
        raw = spread.density(sum(published.noisy))
        density = min(max(raw, 0.0), 1.0)
        return Release(
            density=density,
            density_stderr=spread.stderr(density),
            density_interval=spread.interval(raw, published.level),
            raw_density=raw,
            universe=spread.population,
            noise_stderr=spread.noise_stderr,
            groups=rows,
            **cost,
        )

    def _rows_of(self, published: Published, pair: Pair) -> tuple[GroupDensity, ...]:
        """The groups or categories of a release."""
        ranges = self._slots.ranges
        return () if ranges is None else rows_of(ranges, published, pair, self._ledger.split.noise)

    @property
    def users(self) -> int:
        """How many users own a bit."""
        return self._slots.users

    @property
    def groups(self) -> tuple[Label, ...]:
        """The labels of the groups or categories, in the order in which a release has them; none without them."""
        return self._slots.ranges.labels if self._slots.ranges else ()

    @property
    def categories(self) -> Categories | None:
        """What events can be in, where they are in categories."""
        return self._slots.categories if isinstance(self._slots, Asked) else None

    def density_stderr_at(self, density: float, group: Label | None = None) -> float:
        """The standard error that a release now would have, if this were the true density: of all, or of one group.

        Of an estimator with categories, which releases no density of all, it is that of the category that errs most.
        """
        ranges = self._slots.ranges
        if ranges is None or (group is None and not isinstance(self._slots, Asked)):
            return self._spread_under(self._ledger.pair).stderr(density)
        errors = spreads_of(ranges, self._ledger.pair, self._ledger.split.noise).stderr(density)
        return float(errors.max() if group is None else errors[ranges.number(group)])

    def _spread_under(self, pair: Pair) -> Spread:
        slots = self._slots
        return Spread(
            pair, slots.size, slots.users, slots.population, self._ledger.split.noise, self._counts_released()
        )

    def _described(self) -> str:
        budget = self.budget
        tracked = "all" if self.users == self._universe.size else f"{self.users:,}"
        return (
            f"<{type(self).__name__} of {self._whom()}, {tracked} tracked in {format_bytes(self.memory)}; "
            f"epsilon {self.epsilon:g}{and_delta(self.delta)}: {budget.spent:.3g} spent, {budget.releases_made} of "
            f"{budget.releases} releases made{'' if self.secure else '; NOT SECURE: seeded coins'}>"
        )

    def _whom(self) -> str:
        """Whom it counts: the universe, and by what it is divided."""
        listed = isinstance(self._universe, Users)  # which says so itself
        divided = by_categories(self.categories) if self.categories else in_groups(None if listed else self._groups())
        return self._universe.describe() + divided

    def _groups(self) -> Groups | None:
        return self._slots.groups if isinstance(self._slots, Every) else None

    def _rows(self) -> Rows:
        of = " of the worst category" if self.categories else ""
        return (
            ("universe", self._whom()),
            ("tracked", f"{self.users:,} users in {format_bytes(self.memory)}"),
            *self.budget.card().rows,
            ("error", f"± {self.density_stderr_at(0.5):.4f} (standard error at density 1/2{of})"),
            *self._group_rows(),
        )

    def _group_rows(self) -> Rows:
        """How much the groups will err: the smallest most."""
        ranges = self._slots.ranges
        if ranges is None or isinstance(self._slots, Asked):
            return ()
        errors = spreads_of(ranges, self._ledger.pair, self._ledger.split.noise).stderr(0.5)
        most, least = int(errors.argmax()), int(errors.argmin())
        said = (
            f"{ranges.labels[i]} ± {errors[i]:.4f} ({counted(int(ranges.users[i]), 'user')})" for i in (least, most)
        )
        return (("groups", f"{len(ranges):,}, from {' to '.join(said)}"),)

    # --- bytes --------------------------------------------------------------------------------------------------

    def _parameters(self) -> bytes:
        return universe_bytes(self._universe) + slots_bytes(self._slots)

    @classmethod
    def _from_parameters(cls, parameters: bytes, universe: Any) -> tuple[Universe, Slots | Asked]:
        known, rest = universe_from(parameters, universe)
        return known, slots_from(rest, known.size)


def _table_size(universe: int, sample: int | None, memory: str | int | None) -> int:
    if sample is not None and memory is not None:
        raise ValueError("give sample or memory, not both")
    if memory is not None:
        return min(8 * parse_bytes(memory), universe)
    if sample is None:
        return universe
    if not 1 <= sample <= universe:
        raise ValueError(f"sample must be between 1 and the universe of {universe}, got {sample}")
    return sample


def _choose_slots(universe: int, size: int, shard: tuple[int, int] | None, key: bytes | None, coins: Coins) -> Slots:
    part, parts = shard or (0, 1)
    if not 0 <= part < parts <= size:
        raise ValueError(f"shard (i, n) needs 0 <= i < n <= {size} slots, got {shard}")
    check_key(key)
    first, end = part * size // parts, (part + 1) * size // parts
    if size == universe:
        return Every(universe, first, end - first)
    if key is None and parts > 1:
        raise ValueError(
            "sampled shards must share a key: pass the same key=secrets.token_bytes(16) to each; in a shell, --shard "
            "I/N:KEY with 32 hexadecimal digits, from openssl rand -hex 16"
        )
    slots = Sampled(universe, first, end - first, key or drawn_key(coins))
    while not slots.users and key is None:  # a few slots are nobody's: take others
        slots = Sampled(universe, first, end - first, drawn_key(coins))
    if not slots.users:
        raise ValueError(f"under this key the {slots.size} slots are nobody's; take a larger sample or another key")
    return slots
