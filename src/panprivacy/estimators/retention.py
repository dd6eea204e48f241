"""`Retention`: how many of those who came in one period came back in the next?"""

from collections.abc import Sequence
from math import inf, nan
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import check_delta, check_epsilon, check_flag, check_level, check_whole
from panprivacy.display import Rows, Tabular, format_bytes
from panprivacy.errors import InvalidValue, PanPrivacyError
from panprivacy.estimates import ErrorModel, Release
from panprivacy.estimates.estimate import NOTHING
from panprivacy.estimates.retention import PARTS, Counts, RetentionRelease, TwoPeriods
from panprivacy.estimators.known import PartedEstimator
from panprivacy.memory.intrinsics import wipe_stack
from panprivacy.memory.scratch import Scratch
from panprivacy.privacy import coins as coin_sources
from panprivacy.privacy.budget import Published
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.splitting import best_split
from panprivacy.registry import Traits
from panprivacy.slots.choosing import grouped, table_size
from panprivacy.slots.parts import PermutedParts, choose_parts
from panprivacy.universe import Universe, universe_of
from panprivacy.universe.groups import Label

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

_MAIN, _CONTROL = (0, PARTS - 1), (PARTS - 1, PARTS)  # which parts of the users are asked which question
_NOT_YET = -(2**63)  # stands for a count that is not released yet: no count is below 0, and no noise so far out


class Retention(Tabular, PartedEstimator[Release | RetentionRelease]):
    r"""Estimate how many users of a first period came back in a second one, pan-privately, with one bit a user.

    In the first period an appearance redraws the user's bit with probability p1, as in `Density`. `close` ends the
    period and releases the number of ones, o1: the cohort. From then on an appearance *removes*: it redraws the bit
    with ``p0 = 1 - p1``, as if the user had never come. So the ones that are missing at a later release, o2, are the
    users who came back: ``returned = (o1 - o2) / (m*(p1-p0))``, exactly unbiased. An intruder who reads the whole state
    once, at any moment, and sees all releases, learns at most `epsilon` about any one user, however often that user
    appears.

    Parameters
    ----------
    universe, epsilon
        The users there could be and the total budget, as in `pp.Density`.
    releases
        How many releases of the second period are planned, beside the one of the cohort: the curve "returned by day k".
    newcomers
        Ask who came in the second period only, instead: appearances then go on inserting, and ``o2 - o1`` tells.
    delta
        A probability with which more than epsilon may be lost, for Gaussian noise, as in `pp.Density`.
    sample, memory
        Track a random sample of this many users, or as many as fit in this memory, instead of all.
    groups
        The group of each user, as in `pp.Density`: each release has every group, at no extra epsilon. A group without
        a user of each question (below) has nan.
    key
        16 bytes that decide who is asked which question; drawn if left out.
    coins
        The source of randomness, as in `pp.Density`.

    Examples
    --------
    >>> import panprivacy as pp
    >>> est = pp.Retention(universe=100_000, epsilon=1.0)
    >>> est.update_many(range(40_000))
    >>> cohort = est.close()
    >>> est.update_many(range(30_000, 60_000))
    >>> r = est.release()
    >>> 0.07 < r.returned < 0.13, 0.17 < r.rate < 0.33, r.epsilon_remaining
    (True, True, 0.0)

    Notes
    -----
    The error depends on how many users were touched in the second period at all, those who are new included, which o1
    and o2 do not tell. So one user in sixteen, chosen by the key, is asked the other question: for these, appearances
    go on inserting (with ``newcomers=True``: remove). Returned and new users together are those that were touched;
    their standard error is added, so that the errors stated are rather too large. Every user is asked one question
    only, so it costs nothing but a sixteenth of the users: `release.change` has the formulas.

    It loses as much as a `pp.Density` with ``1 + releases`` releases, whose streams may delete, too: the streams of a
    `Retention` are some of those. A user cannot be removed in the second period, where removing means something else.
    Announced readings and merging are not planned for.
    """

    KIND: ClassVar[int] = 7
    TRAITS: ClassVar[Traits] = Traits(
        "retention", ("newcomers", "releases", "delta", "sample", "memory"), own_periods=True
    )
    MORE = Struct("<?")
    NOT_MERGED: ClassVar[str] = "a Retention cannot be merged: its keyed control group is no part of another's"
    NOT_REDRAWN: ClassVar[str] = "a Retention plans no announced readings: a redraw would hide who came back"

    def __init__(
        self,
        universe: int | Universe,
        epsilon: float,
        *,
        releases: int = 1,
        newcomers: bool = False,
        delta: float | None = None,
        sample: int | None = None,
        memory: str | int | None = None,
        groups: Any = None,
        key: bytes | None = None,
        coins: Coins | None = None,
    ) -> None:
        source = coin_sources.given(coins)
        users, ranges = grouped(universe_of(universe), groups)
        size = table_size(users.size, sample, memory)
        delta = check_delta(delta)
        planned = check_whole(releases, "releases")
        if planned < 1:
            raise InvalidValue(
                f"plan at least one release of the second period, got releases={releases}", code="releases-range"
            )
        each = max(size // (len(ranges.labels) if ranges else 1), 1)
        split = best_split(check_epsilon(epsilon), each, planned + 1, 0, delta)
        slots = choose_parts(users.size, size, PARTS, key, source, runs=(_MAIN, _CONTROL), groups=ranges)
        self._newcomers = check_flag(newcomers, "newcomers")
        self._start(users, slots, split, source)

    # --- periods ------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether the first period is over."""
        return self._ledger.published is not None

    @property
    def asked(self) -> Literal["returned", "newcomers"]:
        """What nearly all users are asked in the second period."""
        return "newcomers" if self._newcomers else "returned"

    def close(self, level: float = 0.95) -> Release:
        """End the first period, and spend a planned release on the cohort; from now on events are of the second."""
        level = check_level(level)
        with self._lock:
            self._check_in_use()
            if self.closed:
                raise PanPrivacyError(
                    "the first period is over already; release() tells who came back since", code="period-over"
                )
            self._ledger.spend_release()
            noisy = self._noisy_counts()
            with self._table.restored_on_error():
                # From now on these bits stand for their opposites. So one coin serves both groups: p0 for a bit is p1
                # for its opposite.
                self._table.invert(self._control.first)
                published = self._publish(noisy, level)  # last: what breaks off before it has not closed the period
        wipe_stack()
        cohort = self._interpret(published)
        assert isinstance(cohort, Release)
        return cohort

    def next_release(self, level: float = 0.95) -> Release | RetentionRelease:
        """End the first period with a release of the cohort, or, in the second one, make a release of it."""
        return self.release(level) if self.closed else self.close(level)

    def release(self, level: float = 0.95) -> RetentionRelease:
        """Spend one planned release on who came back since the first period, with intervals of the given level."""
        level = check_level(level)
        with self._lock:
            self._check_in_use()
            if not self.closed:
                raise PanPrivacyError(
                    "the first period is not over: close() ends it, and releases the cohort", code="period-open"
                )
            self._ledger.spend_release()
            released = self._interpret(self._publish(self._noisy_counts(), level))
            assert isinstance(released, RetentionRelease)
            return released

    def to_polars(self) -> "pl.DataFrame":
        """The curve so far as a frame, with a row for each release of the second period."""
        return self._curve().to_polars()

    def to_dict(self) -> dict[str, Any]:
        """The curve so far as plain numbers and text, for JSON."""
        return self._curve().to_dict()

    def plot(self, path: str | Path | None = None, *, ax: "Axes | None" = None) -> "Axes":
        """Draw the curve so far beside the cohort, a panel for each group, and return Matplotlib's axes.

        With a path, the picture is also written into a file. The bars of ``last.plot()`` compare groups.
        """
        from panprivacy.estimates.timelines import draw_retention

        return draw_retention(self._curve(), path, ax)

    def _curve(self) -> RetentionRelease:
        last = self.last
        if not isinstance(last, RetentionRelease):
            raise PanPrivacyError("there is no curve before a release of the second period", code="nothing-released")
        return last

    def _threshold(self, remove: bool) -> int:
        if not self.closed:
            return super()._threshold(remove)
        if remove:
            raise PanPrivacyError(
                "the first period is over: its users, and users who came back, can no longer be removed",
                code="period-over",
            )
        return super()._threshold(remove=not self._newcomers)

    # --- what leaves --------------------------------------------------------------------------------------------

    def _counts(self, scratch: Scratch) -> NDArray[np.int64]:
        """The ones of those who are asked the main question, and of those who are asked the other: of each group."""
        counts: NDArray[np.int64] = scratch.empty("counts", 2 * self._answers, np.int64)
        by_group = counts.reshape(self._answers, 2)
        if self._slots.groups is None:
            self._table.count_ones(np.array([0, self._control.first, self._slots.size]), counts)
        else:
            parts = scratch.empty("parts", self._answers * PARTS, np.int64).reshape(self._answers, PARTS)
            self._slots.count_groups(self._table, parts)
            for column, run in enumerate((_MAIN, _CONTROL)):
                np.sum(parts[:, slice(*run)], axis=1, out=by_group[:, column])
        if self.closed:  # the bits of the control group stand for their opposites
            by_group[:, 1] *= -1
            by_group[:, 1] += [self._periods_of(group).control.bits for group in range(self._answers)]
        return counts

    def _publish(self, noisy: Sequence[int], level: float) -> Published:
        """Note what leaves beside what left before: later releases need the cohort, and their curve each other."""
        so_far = [*self._so_far(self._ledger.published), *noisy]
        return self._ledger.publish((*so_far, *[_NOT_YET] * (self._counts_released() - len(so_far))), level)

    @staticmethod
    def _so_far(published: Published | None) -> list[int]:
        return [count for count in published.noisy if count != _NOT_YET] if published else []

    def _counts_released(self) -> int:
        return 2 * self._answers * self._ledger.split.releases

    def _interpret(self, published: Published) -> Release | RetentionRelease:
        so_far = np.array(self._so_far(published), dtype=np.int64).reshape(-1, self._answers, 2)
        rows = tuple(self._row(published, so_far[:, i], i, group=label) for i, label in enumerate(self.groups))
        whole: Release | RetentionRelease = self._row(published, so_far.sum(axis=1), None, groups=rows)
        return whole

    def _row(self, published: Published, counts: NDArray[np.int64], number: int | None, **of: Any) -> Any:
        """What the counts of all releases so far say of a group, or of all users."""
        (first, *later), periods = (Counts(*release) for release in counts.tolist()), self._periods_of(number)
        of |= {"cost": self._cost_of(published), "universe": periods.main.population}
        if number is not None:
            of["users"] = periods.main.users + periods.control.users
        cohort, level = periods.main, published.level
        of["noise_stderr"] = cohort.noise_stderr if cohort.users else nan
        if later:
            return RetentionRelease(estimates=periods.estimates(first, later, level), asked=self.asked, **of)
        share = cohort.estimate(first.main, level) if cohort.users else NOTHING
        return Release(estimates=Release.of_share(share, cohort.population), **of)

    def _periods_of(self, group: int | None = None) -> TwoPeriods:
        """The errors of both questions, for one group, or for all users: sums of a noisy count for each group."""
        parts: Sequence[Any] = (self._main, self._control)
        if self.groups:
            parts = [self._slots.part_of(group, *run) for run in (_MAIN, _CONTROL)]
        pair, noise, times = self._ledger.pair, self._ledger.split.noise, self._answers if group is None else 1
        main, control = (ErrorModel(pair, part.size, part.users, part.universe, noise, times) for part in parts)
        return TwoPeriods(main, control, self._newcomers)

    # --- what it says of itself ---------------------------------------------------------------------------------

    def stderr_at(self, share: float, touched: float | None = None, group: Label | None = None) -> float:
        """The standard error of those who came back (or are new), if this share of the universe did, or is.

        `touched` is the share that comes in the second period at all; without it, everybody does: the largest error.
        `group` asks about one group, instead of all users.
        """
        periods = self._periods_of(None if group is None else self._slots.group_number(group))
        if not periods.main.users:
            return inf
        return periods.main.difference_variance(1.0 if touched is None else touched, share).stderr

    def expected_errors(self) -> dict[str, float | None]:
        """The standard error of those who came back, if half of the users did."""
        return {"returned_stderr": self.stderr_at(0.5)}

    def _prepare(self) -> None:
        self._main, self._control = self._slots.part(*_MAIN), self._slots.part(*_CONTROL)

    def _described(self) -> str:
        return f"<{type(self).__name__} of {self._tracked()}, {self._period()}; {self._spent()}>"

    def _period(self) -> str:
        return "in the second period" if self.closed else "in the first period"

    def _rows(self) -> Rows:
        return (
            ("universe", self._universe.describe()),
            ("tracked", f"{self.users:,} users in {format_bytes(self.memory)}"),
            ("now", f"{self._period()}, which asks who {'is new' if self._newcomers else 'came back'}"),
            *self.budget.card().rows,
            ("error", f"± {self.stderr_at(0.25):.4f} (standard error of a quarter, if everybody comes)"),
        )

    # --- bytes --------------------------------------------------------------------------------------------------

    def _more(self) -> tuple[str, bool]:
        return "UTC", self._newcomers

    def _keep_more(self, slots: PermutedParts, zone: str, *saved: Any) -> bool:  # noqa: ARG002 - it has no days
        (self._newcomers,) = saved
        return slots.parts == PARTS
