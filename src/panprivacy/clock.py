"""Which period each row of a batch counts in. Rows that are late or early are handled one by one.

A clock is the number of the period that is open. `advance` and the wall clock move it freely. A row may move it, too,
but by at most `ahead` periods: a row that is dated further ahead is *early*, and moves nothing. With ``ahead=0`` no row
moves the clock, so the rows of one user cannot change what becomes of the rows of others.
"""

from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.memory import Scratch

LATE = ("count", "skip", "refuse")
"""What may become of a late row: it counts in the open period, is left out, or refuses its batch."""
EARLY = ("skip", "refuse")
"""What may become of an early row: it is left out, or refuses its batch."""
SKIPPED = -(2**63)
"""The period of a row that is left out."""
NO_TIME = 2**62
"""The moment of a row that has no time: it is after all moments, so the row is early."""
_CLOSE = 2**14  # periods that are counted, one by one, in less than the time that sorting would take


class Untimely(Exception):
    """A row that refuses its batch; whoever reads the times says it in the words of the reader."""

    def __init__(self, row: int, period: int, reached: int, *, early: bool) -> None:
        super().__init__()
        self.row, self.period, self.early = row, period, early
        self.reached = reached
        """The last period that the rows of the batch reach, or the open one if the row is late."""


@dataclass(frozen=True)
class RowPolicy:
    """How far a row may move the clock, and what becomes of rows that are late or early.

    >>> RowPolicy(late="drop")
    Traceback (most recent call last):
        ...
    ValueError: late is one of count, skip, refuse, got 'drop'
    """

    ahead: int = 1
    """By how many periods a row may move the clock; 0: rows never do."""
    late: str = "refuse"
    early: str = "refuse"

    def __post_init__(self) -> None:
        for name, allowed in (("late", LATE), ("early", EARLY)):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} is one of {', '.join(allowed)}, got {getattr(self, name)!r}")
        if index(self.ahead) < 0:
            raise ValueError(f"ahead is a number of periods from 0 on, got {self.ahead}")

    def place(self, period: int, open_: int, latest: int | None = None) -> int | None:
        """The period that one row counts in; None if it is left out.

        `latest` is the last period that has begun by the wall clock, where there is one.

        >>> RowPolicy(late="skip", early="skip").place(7, open_=5), RowPolicy().place(6, open_=5)
        (None, 6)
        """
        if period < open_:
            if self.late == "refuse":
                raise Untimely(0, period, open_, early=False)
            return open_ if self.late == "count" else None
        if self._is_early(period, open_, latest):
            if self.early == "refuse":
                raise Untimely(0, period, open_, early=True)
            return None
        return period

    def place_all(
        self,
        periods: NDArray[np.int64],
        open_: int,
        scratch: Scratch,
        *,
        latest: int | None = None,
        endless: int | None = None,
    ) -> list[int]:
        """Put the period that each row counts in into its place, and return the periods that count, in order.

        The rows of a batch have no order: they are counted period by period. So each of them may be `ahead` periods
        after another one of the batch. `latest` is as in `place`; `endless` is a period that never ends, if there is
        one: no row is after it.
        """
        different = different_periods(periods, scratch)
        if not different:
            return []
        reached = open_
        for period in different:
            if period > reached and reached != endless:
                if self._is_early(period, reached, latest):
                    break
                reached = period if endless is None else min(period, endless)
        if reached == endless and different[-1] > reached:
            np.minimum(periods, reached, out=periods)
            different = [period for period in different if period < reached] + [reached]
        if different[-1] > reached:
            self._mark(periods, scratch.own(periods > reached), reached, early=True)
        if different[0] < open_:
            late = scratch.own(periods < open_)
            if different[-1] > reached:
                late &= scratch.own(periods != SKIPPED)
            self._mark(periods, late, open_, early=False)
        counted = {period for period in different if open_ <= period <= reached}
        if different[0] < open_ and self.late == "count":
            counted.add(open_)
        return sorted(counted)

    def _is_early(self, period: int, reached: int, latest: int | None) -> bool:
        return period - reached > self.ahead or (latest is not None and period > max(latest, reached))

    def _mark(self, periods: NDArray[np.int64], rows: NDArray[np.bool_], reached: int, *, early: bool) -> None:
        if (self.early if early else self.late) == "refuse":
            row = int(rows.argmax())
            raise Untimely(row, int(periods[row]), reached, early=early)
        np.copyto(periods, SKIPPED if early or self.late == "skip" else reached, where=rows)


def rows_of(periods: NDArray[np.int64], period: int, scratch: Scratch) -> Any:
    """Which rows count in a period."""
    return scratch.own(periods == period)


def different_periods(periods: NDArray[np.int64], scratch: Scratch) -> list[int]:
    """The different periods, in order.

    Nearly always there is one, which two passes tell; periods that lie close to each other are counted, others sorted.
    """
    if not len(periods):
        return []
    lowest, highest = int(periods.min()), int(periods.max())
    if lowest == highest:
        return [lowest]
    ordered: NDArray[np.int64] = scratch.empty("ordered periods", len(periods), np.int64)
    np.subtract(periods, lowest, out=ordered)
    if highest - lowest < _CLOSE:
        return [lowest + int(at) for at in scratch.own(np.flatnonzero(scratch.own(np.bincount(ordered))))]
    ordered.sort()
    changes = scratch.own(np.flatnonzero(scratch.own(ordered[1:] != ordered[:-1])))
    return [lowest, *(lowest + int(ordered[at + 1]) for at in changes)]
