"""`Counts`: how often do people appear?"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from math import sqrt
from operator import index
from typing import Any, ClassVar, Literal, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import check_delta, check_epsilon
from panprivacy.display import Rows
from panprivacy.errors import CannotMerge, PanPrivacyError
from panprivacy.estimator import Estimator
from panprivacy.memory import Scratch
from panprivacy.privacy import coins as coin_sources
from panprivacy.privacy.budget import and_delta, budget_of
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.ledger import Ledger, Published
from panprivacy.privacy.splitting import best_split
from panprivacy.release.appearing import (
    Estimate,
    MeanSpread,
    ShareSpread,
    exactly_of,
    mean_alone,
    mean_of,
    shares_of,
)
from panprivacy.release.frequency import FrequencyRelease
from panprivacy.sizes import format_bytes
from panprivacy.slots import Every, SlotMap
from panprivacy.slots.counted import Counted
from panprivacy.slots.places import joined
from panprivacy.slots.saved import slots_bytes, slots_from, universe_bytes, universe_from
from panprivacy.table import Counters
from panprivacy.table.counters import LARGEST_UP_TO, LEAST_UP_TO
from panprivacy.universe import Ids, Universe, universe_of
from panprivacy.universe.batches import Piece


class Counts(Estimator[FrequencyRelease]):
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
    _slots: Counted
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
        shard: tuple[int, int] | None = None,
        coins: Coins | None = None,
    ) -> None:
        source = coins or coin_sources.system
        users = universe_of(universe)
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
        split = best_split(check_epsilon(epsilon), users.size, index(releases), delta=delta, up_to=places)
        first, end = part * users.size // parts, (part + 1) * users.size // parts
        slots = Counted(users.size, first, end - first, up_to=up_to)
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
            joined([part._slots for part in ordered]),
            head._ledger.with_releases(max(part._ledger.releases for part in parts)),
            Counters.joined([part._table for part in ordered]),
            head._coins,
            secure=all(part.secure for part in parts),
        )

    # --- events -------------------------------------------------------------------------------------------------

    def update_many(self, ids: Ids, categories: Any = None) -> None:
        """Note that these users appeared, each as often as it is there.

        Takes what `Density.update_many` takes. A batch is counted whole or, if anything is wrong with it or breaks it
        off, not at all; **feeding it twice counts it twice**. An iterator is taken in chunks, each a batch, and what
        was counted before a bad chunk stays counted.
        """
        super().update_many(ids, categories)

    def remove(self, user: Any, category: Any = None) -> None:
        """Take one appearance of a user back; one who is at 0 stays there."""
        super().remove(user, category)

    def remove_many(self, ids: Ids, categories: Any = None) -> None:
        """Take one appearance back for each time that a user is there; takes what `update_many` takes."""
        super().remove_many(ids, categories)

    def rerandomize(self) -> NoReturn:
        """Refuse: whoever reads a counter twice knows how often its user came in between."""
        self._table.in_use()
        raise PanPrivacyError(
            "Counts has no rerandomize: a second reading shows every counter again, and the difference tells how often "
            "its user came in between; a counter that is drawn anew would forget what came before"
        )

    def _redraw_slot(self, slot: int, remove: bool) -> None:
        self._table.redraw_one(slot, self._coins.flip(self._threshold(remove)), back=remove)

    def _redraw_slots(self, slots: Any, remove: bool, scratch: Scratch) -> None:
        self._table.redraw(slots, self._threshold(remove), self._coins, scratch, back=remove)

    def _whole_or_not_at_all(self, pieces: list[Piece]) -> AbstractContextManager[None]:  # noqa: ARG002
        """Put the counters back whatever breaks a long batch off: part of it cannot be fed again."""
        return self._table.restored_on_error()

    # --- what leaves --------------------------------------------------------------------------------------------

    def _counts(self) -> tuple[int, ...]:
        """One user is at one of the places, and may have come from another: these move by 2 in all, the ones by 1."""
        return (self._table.ones(),) if self.only else self._table.excesses()

    def _interpret(self, published: Published) -> FrequencyRelease:
        level, noisy = published.level, published.noisy
        at_least: Sequence[Estimate] = ()
        exactly: Sequence[Estimate] = ()
        if self.only:
            mean, of_noise = mean_alone(self._of_mean, noisy[0], level, self.up_to), self._of_mean.noise_stderr
        else:
            spread, of_noise = self._of_share, self._of_share.noise_stderr
            at_least = shares_of(spread, noisy, level)
            exactly = exactly_of(spread, at_least, level)
            mean = mean_of(spread, at_least, level)
        budget = budget_of(self._ledger.split, published.number, published.redraws)
        return FrequencyRelease(
            mean=mean.value,
            mean_stderr=mean.stderr,
            mean_interval=mean.interval,
            raw_mean=mean.raw,
            at_least=tuple(share.value for share in at_least),
            at_least_stderr=tuple(share.stderr for share in at_least),
            at_least_interval=tuple(share.interval for share in at_least),
            raw_at_least=tuple(share.raw for share in at_least),
            exactly=tuple(share.value for share in exactly),
            exactly_stderr=tuple(share.stderr for share in exactly),
            exactly_interval=tuple(share.interval for share in exactly),
            raw_exactly=tuple(share.raw for share in exactly),
            level=level,
            universe=self.users,
            up_to=self.up_to,
            number=published.number,
            epsilon_spent=budget.spent,
            epsilon_remaining=budget.remaining,
            delta_spent=budget.delta_spent,
            noise_stderr=of_noise * (self.up_to if self.only else 1),
            secure=self.secure,
        )

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
        return "mean" if self._ledger.split.reach == 1 else None

    @property
    def share_stderr(self) -> float | None:
        """The standard error of each share of a release, whoever appeared how often; None if only the mean leaves."""
        return None if self.only else self._of_share.stderr(0.5)

    @property
    def mean_stderr(self) -> float:
        """The standard error of the mean of a release, at most."""
        if self.only:
            return self._of_mean.stderr(0.5) * self.up_to
        apart = np.repeat([1.0, 0.0], [(self.up_to + 1) // 2, self.up_to // 2])  # where covariances help least
        return sqrt(self._of_share.covariance(apart.tolist()).sum())

    @property
    def _of_share(self) -> ShareSpread:
        split, users = self._ledger.split, self.users
        return ShareSpread(split.pair, users, users, users, split.noise, up_to=self.up_to)

    @property
    def _of_mean(self) -> MeanSpread:
        split, users = self._ledger.split, self.users
        return MeanSpread(split.pair, users, users, users, split.noise)

    def _described(self) -> str:
        budget = self.budget
        tracked = "" if self.users == self._universe.size else f"{self.users:,} of them "
        return (
            f"<Counts of {self._universe.describe()}, {tracked}counted up to {self.up_to} times in "
            f"{format_bytes(self.memory)}{', mean only' if self.only else ''}; epsilon {self.epsilon:g}"
            f"{and_delta(self.delta)}: {budget.spent:.3g} spent, {budget.releases_made} of {budget.releases} releases "
            f"made{'' if self.secure else '; NOT SECURE: seeded coins'}>"
        )

    def _rows(self) -> Rows:
        share = self.share_stderr
        of_share = "" if share is None else f"± {share:.4f} of each share, "
        return (
            ("universe", self._universe.describe()),
            ("counted", f"{self.users:,} users up to {self.up_to} times in {format_bytes(self.memory)}"),
            *self.budget.card().rows,
            ("error", f"{of_share}± {self.mean_stderr:.4f} of the mean at most (standard errors)"),
        )

    # --- bytes --------------------------------------------------------------------------------------------------

    def _counts_released(self) -> int:
        return 1 if self.only else self.up_to

    def _parameters(self) -> bytes:
        return universe_bytes(self._universe) + slots_bytes(self._slots) + bytes([self.up_to - 1])

    @classmethod
    def _from_parameters(cls, parameters: bytes, universe: Any) -> tuple[Universe, Counted]:
        known, rest = universe_from(parameters, universe)
        *saved, last = rest
        slots = slots_from(bytes(saved), known.size)
        if last + 1 < LEAST_UP_TO or not isinstance(slots, Every):
            raise ValueError(f"counters up to {last + 1} of these slots are not possible")
        return known, Counted(known.size, slots.first, slots.size, up_to=last + 1)

    @classmethod
    def _saved_table(cls, slots: SlotMap, words: NDArray[np.uint64]) -> Counters:
        assert isinstance(slots, Counted)
        return Counters.from_words(slots.size, words, slots.up_to)
