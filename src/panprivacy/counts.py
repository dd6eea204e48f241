"""`Counts`: how often do people appear?"""

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any, ClassVar, Literal, NoReturn, Self, cast

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import check_delta, check_epsilon
from panprivacy.display import Rows
from panprivacy.errors import CannotMerge, PanPrivacyError
from panprivacy.growing import Growing
from panprivacy.memory import Scratch
from panprivacy.privacy import coins as coin_sources
from panprivacy.privacy.budget import and_delta, budget_of
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.ledger import Ledger, Published
from panprivacy.privacy.splitting import best_split
from panprivacy.release import CategoryRelease, FrequencyRelease, GroupFrequency
from panprivacy.release.appearing import MeanSpreads, ShareSpreads
from panprivacy.release.frequencies import frequencies
from panprivacy.sizes import counted, format_bytes
from panprivacy.slots import Asked, Every, Ranges, SlotMap
from panprivacy.slots.choosing import asked_about, check_ranges, choose_asked, grouped
from panprivacy.slots.counted import Counted, CountedSlots, with_counters
from panprivacy.slots.places import joined
from panprivacy.slots.saved import slots_bytes, slots_from, universe_bytes, universe_from
from panprivacy.table import Counters
from panprivacy.table.counters import LARGEST_UP_TO, LEAST_UP_TO
from panprivacy.universe import Ids, Universe, Users, universe_of
from panprivacy.universe.categories import Categories, by_categories
from panprivacy.universe.groups import Label
from panprivacy.universe.users import in_groups


class Counts(Growing[FrequencyRelease]):
    r"""Estimate how often the users of a known universe appear in a stream, pan-privately.

    Every user owns a counter c, drawn uniformly from 0..t-1 with ``t = up_to``, and a bit, drawn with probability p0.
    An appearance adds 1 to the counter; where it wraps to 0, the bit is redrawn with probability ``p1 = 1 - p0``. After
    n appearances c is still uniform, and the bit was redrawn exactly if n > c: the users at c tell who appeared more
    than c times. A release publishes, for each c, A_c, the ones less the zeros among the users at c, plus exact noise:

        share who appeared more than c times = 1/2 + t*A_c / (2*m*(p1-p0)),      m users.

    "At least k times" is the share of k-heavy hitters, differences of two shares tell who appeared exactly k times, and
    the sum of all shares is the cropped mean: that of min(n, t).

    **A batch that is fed twice counts twice**, unlike with the other estimators. A batch is taken whole or not at all,
    whatever breaks it off; what was taken must not be fed again.

    Parameters
    ----------
    universe
        The users there could be: a number N for ids 0..N-1, `pp.Users` for a list, `pp.Edges` for a graph.
    epsilon
        The total budget of this object's life.
    up_to
        How many appearances of a user count, from 2 to 256: the standard error grows with the root of it.
    releases
        How many releases the budget is planned for.
    only
        ``"mean"`` releases the cropped mean alone: one number that a user moves by 1, instead of many that a user
        moves by 2, so that more of epsilon is left for the bits.
    delta
        A probability with which more than epsilon may be lost, as for `pp.Density`: it buys Gaussian noise.
    groups
        The group of each of the users 0..N-1, as for `pp.Density`; listed users have theirs with them:
        ``pp.Users(ids, groups=column)``. Each release then has every group beside the total, at no extra epsilon.
    categories, other, key
        What events can be in, as for `pp.Density`: ``update(user, category)``. A user is asked how often it appeared in
        one of them, which the key chooses; events in others leave no trace. Each release has every category, and no
        total.
    shard
        ``(i, n)``: this object owns part i of n of the users, to be merged with the others by `pp.merge`. It may be fed
        the whole stream.
    coins
        The source of randomness; anything but the default makes the estimator insecure, and it says so.

    Examples
    --------
    >>> import panprivacy as pp
    >>> est = pp.Counts(universe=100_000, epsilon=1.0, up_to=4)
    >>> est.update_many(range(50_000))
    >>> est.update_many(range(20_000))
    >>> r = est.release()
    >>> [round(share, 1) for share in r.at_least], round(r.mean, 1)
    ([0.5, 0.2, 0.0, 0.0], 0.7)
    >>> regions = pp.Counts(100_000, epsilon=2.0, up_to=2, groups=["north"] * 60_000 + ["south"] * 40_000)
    >>> regions.update_many([*range(30_000)] * 2)
    >>> {row.group: round(row.mean, 1) for row in regions.release().groups}
    {'north': 1.0, 'south': 0.0}

    Notes
    -----
    Dwork, Naor, Pitassi, Rothblum and Yekhanin, "Pan-private streaming algorithms" (2010), call these statistics the
    t-cropped mean, the fraction of k-heavy hitters and the t-incidence; one state gives them all. The state loses
    eps_state, what one bit of a pair loses, and the releases R on top of it; with ``only="mean"`` it is the formula of
    `Density`. The auditor finds both exactly.

    `remove` takes one appearance back. The state then has the law of a count that goes up to t and down to 0 and never
    beyond, so the release is exactly right for users who have appeared at most t times when something is taken back.

    There is no `rerandomize`: two readings show every counter twice, and the difference tells how often its user came
    in between. Tables that saw the same users cannot be merged: nobody can add two counters that hide where they began.
    """

    KIND = 5
    TABLE = Counters
    REPEATABLE: ClassVar[bool] = False
    _slots: CountedSlots
    _table: Counters

    def __init__(
        self,
        universe: int | Universe,
        epsilon: float,
        up_to: int = 8,
        *,
        releases: int = 1,
        only: Literal["mean"] | None = None,
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
        check_ranges(ranges, kinds, sampled=False, shard=shard)
        up_to = index(up_to)
        if not LEAST_UP_TO <= up_to <= LARGEST_UP_TO:
            raise ValueError(
                f"up_to must be between {LEAST_UP_TO} and {LARGEST_UP_TO}, got {up_to}; who appeared at all is what "
                "pp.Density estimates"
            )
        if only not in (None, "mean"):
            raise ValueError(f'only="mean" releases the mean alone, got only={only!r}')
        part, parts = shard or (0, 1)
        if not 0 <= part < parts <= users.size:
            raise ValueError(f"shard (i, n) needs 0 <= i < n <= {users.size} users, got {shard}")
        delta = None if delta is None else check_delta(delta)
        places = None if only else up_to
        answers = len(ranges.labels) if ranges else len(kinds) if kinds else 1
        size = max(users.size // answers, 1)  # that of the mean group, as for `Density`
        split = best_split(check_epsilon(epsilon), size, index(releases), delta=delta, up_to=places)
        first, end = part * users.size // parts, (part + 1) * users.size // parts
        slots = with_counters(
            choose_asked(users.size, users.size, kinds, key, source)
            if kinds
            else Every(users.size, first, end - first, ranges),
            up_to,
        )
        table = Counters.drawn(slots.size, split.pair, source, up_to)
        self._assemble(users, slots, Ledger(split), table, source)

    @classmethod
    def _merged(cls, parts: Sequence[Self], *, overlapping: bool) -> Self:
        """Put shards that own neighbouring users together."""
        if overlapping:
            raise CannotMerge(
                "counters of the same users cannot be merged: each hides where it began, so that nobody can add two of "
                "them; feed one estimator, or shards that own different users"
            )
        if any(part._slots.ranges is not None for part in parts):
            raise CannotMerge("a Counts with groups or categories has no shards: feed one with the whole stream")
        ordered = sorted(parts, key=lambda part: part._slots.first)
        head = ordered[0]
        for part in ordered[1:]:
            different = [] if universe_bytes(head._universe) == universe_bytes(part._universe) else ["universes"]
            different += [] if head.up_to == part.up_to else ["up_to"]
            different += head._ledger.differences(part._ledger)
            if different:
                raise CannotMerge(f"the parts have different {' and '.join(different)}")
        return cls._of_parts(
            head._universe,
            joined([part._slots for part in ordered if isinstance(part._slots, Counted)]),
            head._ledger.with_releases(max(part._ledger.releases for part in parts)),
            Counters.joined([part._table for part in ordered]),
            head._coins,
            secure=all(part.secure for part in parts),
        )

    def _slots_of(self, slots: Every) -> CountedSlots:
        return with_counters(slots, self.up_to)

    def _drawn_table(self, slots: SlotMap) -> Counters:
        return Counters.drawn(slots.size, self._ledger.pair, self._coins, self.up_to)

    # --- events -------------------------------------------------------------------------------------------------

    def update_many(self, ids: Ids, categories: Any = None, *, threads: int | None = None) -> None:
        """Note that these users appeared, each as often as it is there.

        Takes what `Density.update_many` takes. A batch is counted whole or not at all: not at all if anything is wrong
        with it; if Ctrl-C breaks it off, one or the other. **Feeding it twice counts it twice**. An iterator is taken
        in chunks, each a batch, and what was counted before a bad chunk stays counted.
        """
        super().update_many(ids, categories, threads=threads)

    def remove(self, user: Any, category: Any = None) -> None:
        """Take one appearance of a user back; one who is at 0 stays there."""
        super().remove(user, category)

    def remove_many(self, ids: Ids, categories: Any = None, *, threads: int | None = None) -> None:
        """Take one appearance back for each time that a user is there; takes what `update_many` takes."""
        super().remove_many(ids, categories, threads=threads)

    def rerandomize(self) -> NoReturn:
        """Refuse: whoever reads a counter twice knows how often its user came in between."""
        self._table.in_use()
        raise PanPrivacyError(
            "Counts has no rerandomize: a second reading shows every counter again, and the difference tells how often "
            "its user came in between; a counter that is drawn anew would forget what came before"
        )

    def _redraw_slot(self, slot: int, flip: bool, remove: bool) -> None:
        self._table.redraw_one(slot, flip, back=remove)

    def _redraw_slots(self, table: Any, slots: Any, remove: bool, scratch: Scratch) -> None:
        table.redraw(slots, self._threshold(remove), self._coins, scratch, back=remove)

    # --- what leaves --------------------------------------------------------------------------------------------

    def _counts(self, scratch: Scratch) -> NDArray[np.int64]:
        """A number for each place of the counters of a group, or the ones of it.

        One user is at one of the places of one group, and may have come from another of the same group: these numbers
        move by 2 in all, the ones by 1.
        """
        ranges = self._slots.ranges
        edges = np.array([0, self._slots.size]) if ranges is None else ranges.bounds
        counts: NDArray[np.int64] = scratch.empty("counts", self._counts_released(), np.int64)
        if self.only:
            self._table.count_ones(edges, counts)
        else:
            self._table.count_excesses(edges, counts)
        return counts

    def _interpret(self, published: Published) -> FrequencyRelease:
        budget = budget_of(self._ledger.split, published.number, published.redraws)
        cost: dict[str, Any] = {
            "level": published.level,
            "number": published.number,
            "epsilon_spent": budget.spent,
            "epsilon_remaining": budget.remaining,
            "delta_spent": budget.delta_spent,
            "secure": self.secure,
        }
        noisy = np.array(published.noisy).reshape(-1, 1 if self.only else self.up_to)
        rows = self._rows_of(noisy, published.level)
        if isinstance(self._slots, Asked):
            return cast("FrequencyRelease", CategoryRelease(rows, **cost))  # what it lacks, it says so
        (total,) = frequencies(self._law(), noisy.sum(axis=0, keepdims=True), published.level, self.up_to)
        return FrequencyRelease(**total, universe=self.users, up_to=self.up_to, groups=rows, **cost)

    def _rows_of(self, noisy: NDArray[np.int64], level: float) -> tuple[GroupFrequency, ...]:
        """The groups or categories of a release."""
        ranges = self._slots.ranges
        if ranges is None:
            return ()
        of = zip(ranges.labels, ranges.users.tolist(), ranges.population.tolist(), strict=True)
        found = frequencies(self._law(ranges), noisy, level, self.up_to)
        return tuple(
            GroupFrequency(**told, group=group, users=users, universe=universe, up_to=self.up_to)
            for (group, users, universe), told in zip(of, found, strict=True)
        )

    def _law(self, ranges: Ranges | None = None) -> ShareSpreads | MeanSpreads:
        """The law of the estimates of all users together, or of those of each range."""
        split, slots = self._ledger.split, self._slots
        if ranges is None:
            times = 1 if slots.ranges is None else len(slots.ranges)
            tracked: Any = (split.pair, slots.size, slots.users, slots.population, split.noise, times)
        else:
            columns = (each[:, None] for each in (ranges.bits, ranges.users, ranges.population))
            tracked = (split.pair, *columns, split.noise)
        return MeanSpreads(*tracked) if self.only else ShareSpreads(*tracked, up_to=self.up_to)

    # --- what it says of itself ---------------------------------------------------------------------------------

    @property
    def users(self) -> int:
        """How many users own a counter."""
        return self._slots.users

    @property
    def up_to(self) -> int:
        """How many appearances of a user count."""
        return self._slots.up_to

    @property
    def only(self) -> Literal["mean"] | None:
        """What is released, if it is not everything."""
        return "mean" if self._ledger.split.places == 1 else None

    @property
    def groups(self) -> tuple[Label, ...]:
        """The labels of the groups or categories, in the order in which a release has them; none without them."""
        return self._slots.ranges.labels if self._slots.ranges else ()

    @property
    def categories(self) -> Categories | None:
        """What events can be in, where they are in categories."""
        return self._slots.categories if isinstance(self._slots, Asked) else None

    @property
    def share_stderr(self) -> float | None:
        """The standard error of each share of a release, whoever appeared how often; None if only the mean leaves.

        Of an estimator with categories, which releases no share of all, it is the largest of the category that errs
        most.
        """
        law = self._law(self._slots.ranges if self.categories else None)
        return None if self.only else float(law.stderr(0.5).max())

    @property
    def mean_stderr(self) -> float:
        """The standard error of the mean of a release, at most; with categories, of the one that errs most."""
        return float(self._mean_stderrs(self._slots.ranges if self.categories else None).max())

    def _mean_stderrs(self, ranges: Ranges | None) -> NDArray[np.float64]:
        """The largest standard errors that the mean can have."""
        law = self._law(ranges)
        if isinstance(law, MeanSpreads):
            return np.asarray(law.stderr(0.5) * self.up_to)
        # Where covariances help least: half of the users came so often as counts, and half of them never.
        half = np.repeat([1.0, 0.0], [(self.up_to + 1) // 2, self.up_to // 2])
        return law.sum_stderr(half[None, :])

    def _described(self) -> str:
        budget = self.budget
        tracked = "" if self.users == self._universe.size else f"{self.users:,} of them "
        return (
            f"<Counts of {self._whom()}, {tracked}counted up to {self.up_to} times in "
            f"{format_bytes(self.memory)}{', mean only' if self.only else ''}; epsilon {self.epsilon:g}"
            f"{and_delta(self.delta)}: {budget.spent:.3g} spent, {budget.releases_made} of {budget.releases} releases "
            f"made{'' if self.secure else '; NOT SECURE: seeded coins'}>"
        )

    def _whom(self) -> str:
        """Whom it counts: the universe, and by what it is divided."""
        listed = isinstance(self._universe, Users)  # which says so itself
        groups = None if listed or not isinstance(self._slots, Every) else self._slots.groups
        return self._universe.describe() + (by_categories(self.categories) if self.categories else in_groups(groups))

    def _rows(self) -> Rows:
        share, of = self.share_stderr, ", of the worst category" if self.categories else ""
        of_share = "" if share is None else f"± {share:.4f} of each share, "
        return (
            ("universe", self._whom()),
            ("counted", f"{self.users:,} users up to {self.up_to} times in {format_bytes(self.memory)}"),
            *self.budget.card().rows,
            ("error", f"{of_share}± {self.mean_stderr:.4f} of the mean at most (standard errors{of})"),
            *self._group_rows(),
        )

    def _group_rows(self) -> Rows:
        """How much the groups will err: the smallest most."""
        ranges = self._slots.ranges
        if ranges is None or self.categories:
            return ()
        errors = self._mean_stderrs(ranges).ravel()
        said = (
            f"{ranges.labels[i]} ± {errors[i]:.4f} ({counted(int(ranges.users[i]), 'user')})"
            for i in (int(errors.argmin()), int(errors.argmax()))
        )
        return (("groups", f"{len(ranges):,}, of the mean from {' to '.join(said)}"),)

    # --- bytes --------------------------------------------------------------------------------------------------

    def _counts_released(self) -> int:
        return max(len(self.groups), 1) * (1 if self.only else self.up_to)

    def _parameters(self) -> bytes:
        return universe_bytes(self._universe) + slots_bytes(self._slots) + bytes([self.up_to - 1])

    @classmethod
    def _from_parameters(cls, parameters: bytes, universe: Any) -> tuple[Universe, CountedSlots]:
        known, rest = universe_from(parameters, universe)
        *saved, last = rest
        if last + 1 < LEAST_UP_TO:
            raise ValueError(f"counters up to {last + 1} are not possible")
        return known, with_counters(slots_from(bytes(saved), known.size), last + 1)

    @classmethod
    def _saved_table(cls, slots: SlotMap, words: NDArray[np.uint64]) -> Counters:
        assert isinstance(slots, CountedSlots)
        return Counters.from_words(slots.size, words, slots.up_to)
