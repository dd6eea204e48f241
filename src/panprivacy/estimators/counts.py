"""`Counts`: how often do people appear?"""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import check_delta, check_epsilon, check_whole
from panprivacy.display import Rows, format_bytes
from panprivacy.errors import InvalidValue
from panprivacy.estimates import FrequencyRelease
from panprivacy.estimates.frequency import MeanErrors, ShareErrors, frequencies
from panprivacy.estimators.known import UniverseEstimator
from panprivacy.memory.scratch import Scratch
from panprivacy.privacy import coins as coin_sources
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.pairs import Pair
from panprivacy.privacy.splitting import best_split
from panprivacy.registry import Traits
from panprivacy.slots import Ranges
from panprivacy.slots.choosing import choose_slots
from panprivacy.slots.users import CountedSlots, with_counters
from panprivacy.table import Counters
from panprivacy.table.counters import LEAST_UP_TO, check_frequency
from panprivacy.universe import Universe
from panprivacy.universe.groups import Label


class Counts(UniverseEstimator[FrequencyRelease]):
    r"""Estimate how often the users of a known universe appear in a stream, pan-privately.

    Every user owns a counter c, drawn uniformly from 0..t-1 with ``t = up_to``, and a bit, drawn with probability p0.
    An appearance adds 1 to the counter; where it wraps to 0, the bit is redrawn with probability ``p1 = 1 - p0``. After
    n appearances c is still uniform, and the bit was redrawn exactly if n > c: the users at c tell who appeared more
    than c times. A release publishes, for each c, A_c, the ones less the zeros among the users at c, plus exact noise:

        share who appeared more than c times = 1/2 + t*A_c / (2*m*(p1-p0)),      m users.

    "At least k times" is the share of k-heavy hitters, differences of two shares tell who appeared exactly k times, and
    the sum of all shares is the cropped mean: the mean of min(n, t).

    **A batch that is fed twice counts twice**, unlike with the other estimators. A batch is taken whole or not at all,
    whatever breaks it off; what was taken must not be fed again. An iterator is taken in chunks, each a batch: what was
    counted before a bad chunk stays counted.

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

    `remove` takes one appearance back; a user at 0 stays there. The state then has the law of a count that goes up to
    t and down to 0 and never beyond, so the release is exactly right for users who have appeared at most t times when
    something is taken back.

    There is no `rerandomize`: two readings show every counter twice, and the difference tells how often its user came
    in between. Tables that saw the same users cannot be merged: two counters that hide where they began cannot be
    added.
    """

    KIND: ClassVar[int] = 5
    OVERLAPPING: ClassVar[str] = (
        "counters of the same users cannot be merged: each hides where it began, so that two of them cannot be added; "
        "feed one estimator, or shards that own different users"
    )
    NOT_REDRAWN: ClassVar[str] = (
        "Counts has no rerandomize: a second reading shows every counter again, and the difference tells how often "
        "its user came in between; a counter that is drawn anew would forget what came before"
    )
    TRAITS: ClassVar[Traits] = Traits(
        "counts",
        ("up_to", "only", "releases", "delta", "categories", "other"),
        small={"up_to": 2},
        example={"up_to": 5},
        in_folder=True,
    )
    TABLE: ClassVar[type[Counters]] = Counters
    REPEATABLE = Counters.repeatable
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
        source = coin_sources.given(coins)
        up_to = check_frequency(up_to, only)
        chosen = choose_slots(universe, source, groups=groups, categories=categories, other=other, shard=shard, key=key)
        delta = check_delta(delta)
        places = None if only else up_to
        planned = check_whole(releases, "releases")
        split = best_split(check_epsilon(epsilon), chosen.each, planned, delta=delta, up_to=places)
        self._start(chosen.users, with_counters(chosen.slots, up_to), split, source)

    def _differences(self, other: Self) -> list[str]:
        return ([] if self.up_to == other.up_to else ["up_to"]) + super()._differences(other)

    # --- what leaves --------------------------------------------------------------------------------------------

    def _counts(self, scratch: Scratch) -> NDArray[np.int64]:
        """A number for each place of the counters of a group, or the ones of it.

        One user is at one of the places of one group, and may have come from another of the same group: these numbers
        move by 2 in all, the ones by 1.
        """
        if self.only:
            return super()._counts(scratch)
        counts: NDArray[np.int64] = scratch.empty("counts", self._counts_released(), np.int64)
        self._table.count_excesses(self._edges, counts)
        return counts

    def _counts_released(self) -> int:
        return super()._counts_released() * (1 if self.only else self.up_to)

    def _law(self, ranges: Ranges | None = None, pair: Pair | None = None) -> ShareErrors | MeanErrors:
        law = self._tracked(ranges, pair)
        if ranges is not None:
            law = tuple(each[:, None] if isinstance(each, np.ndarray) else each for each in law)
        return MeanErrors(*law) if self.only else ShareErrors(*law, up_to=self.up_to)

    def _estimates(self, law: Any, noisy: NDArray[np.int64], level: float) -> Iterator[tuple[Any, float]]:
        return frequencies(law, noisy, level, self.up_to)

    def _release(self, **parts: Any) -> FrequencyRelease:
        return FrequencyRelease(up_to=self.up_to, **parts)

    # --- what it says of itself ---------------------------------------------------------------------------------

    @property
    def up_to(self) -> int:
        """How many appearances of a user count."""
        return self._slots.up_to

    @property
    def only(self) -> Literal["mean"] | None:
        """``"mean"`` if only the mean is released."""
        return "mean" if self._ledger.split.places == 1 else None

    @property
    def share_stderr(self) -> float | None:
        """The standard error of each share of a release, at any frequencies; None if only the mean is released.

        Of an estimator with categories, which releases no share of all, it is the largest of the category that errs
        most.
        """
        law = self._law(self._slots.ranges if self.categories else None)
        return None if self.only else float(np.max(law.stderr(0.5)))

    @property
    def mean_stderr(self) -> float:
        """The standard error of the mean of a release, at most; with categories, of the worst category."""
        return float(self._mean_stderrs(self._slots.ranges if self.categories else None).max())

    def expected_errors(self) -> dict[str, float | None]:
        """The standard errors of the mean and of each share."""
        return {"mean_stderr": self.mean_stderr, "share_stderr": self.share_stderr}

    def _mean_stderrs(self, ranges: Ranges | None) -> NDArray[np.float64]:
        """The largest standard errors that the mean can have."""
        law = self._law(ranges)
        if isinstance(law, MeanErrors):
            return np.asarray(law.stderr(0.5) * self.up_to)
        # Where covariances help least: half of the users came `up_to` times, and the other half never.
        half = np.repeat([1.0, 0.0], [(self.up_to + 1) // 2, self.up_to // 2])
        return law.sum_stderr(half[None, :])

    def _described(self) -> str:
        tracked = "" if self.users == self._universe.size else f"{self.users:,} of them "
        return (
            f"<Counts of {self._whom()}, {tracked}counted up to {self.up_to} times in {format_bytes(self.memory)}"
            f"{', mean only' if self.only else ''}; {self._spent()}>"
        )

    def _rows(self) -> Rows:
        share, of = self.share_stderr, ", of the worst category" if self.categories else ""
        of_share = "" if share is None else f"± {share:.4f} of each share, "
        return (
            ("universe", self._whom()),
            ("counted", f"{self.users:,} users up to {self.up_to} times in {format_bytes(self.memory)}"),
            *self.budget.card().rows,
            ("error", f"{of_share}± {self.mean_stderr:.4f} of the mean at most (standard errors{of})"),
            *self._group_rows(self._mean_stderrs, "of the mean "),
        )

    # --- bytes --------------------------------------------------------------------------------------------------

    def _parameters(self) -> bytes:
        return super()._parameters() + bytes([self.up_to - 1])

    def _from_parameters(self, parameters: bytes, universe: Any) -> tuple[Universe, CountedSlots]:
        up_to = int.from_bytes(parameters[-1:]) + 1
        if up_to < LEAST_UP_TO:
            raise InvalidValue(f"counters up to {up_to} are not possible", code="up-to-range")
        known, slots = super()._from_parameters(parameters[:-1], universe)
        return known, with_counters(slots, up_to)
