"""Which period of the events' own time each row belongs to, and whether it is its turn: ``--time NAME[@START]``."""

from collections.abc import Callable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from panprivacy.cli.published import shown
from panprivacy.cli.timed import bad_row, moments_of_rows, parsed_moment
from panprivacy.clock import NO_TIME, RowPolicy, Untimely, different_periods
from panprivacy.events import Batch
from panprivacy.memory import Scratch
from panprivacy.periods import DAY, END_OF_TIME, SECOND, length_of

START = "NAME@2026-01-05"
"""How the start of the first period is said."""
TOLERANCE = 60 * SECOND
"""How far the clock of whoever writes times may be ahead of this one."""
_OF_FILES = RowPolicy()


class Calendar:
    """Periods of one length, numbered from 0, of which each is released when it is over, as long as that is planned.

    Times depend on people as ids do, so what is made of them is scratch. `now` is the wall clock, in microseconds since
    1970, of a pipe or a broker; files have none.
    """

    def __init__(
        self,
        column: str,
        every: str,
        start: int | None,
        *,
        passed: int,
        planned: int,
        policy: RowPolicy = _OF_FILES,
        now: Callable[[], int] | None = None,
    ) -> None:
        self.column = column
        self.policy = policy
        self._now = now
        self.start = start
        """When the first period starts; if nobody says, at the first event."""
        self.passed = passed
        """How many periods have been released. A state that has released before goes on where it was."""
        self._passed_before = passed
        self._planned = planned  # all that comes after the last planned release is one period that never ends
        self._every = every
        self._length = length_of(every)

    @classmethod
    def parsed(
        cls,
        option: str,
        every: str,
        *,
        passed: int,
        planned: int,
        policy: RowPolicy = _OF_FILES,
        now: Callable[[], int] | None = None,
    ) -> Self:
        """Read the option: ``NAME`` or ``NAME@START``."""
        name, at, start = option.rpartition("@")
        moment = parsed_moment(f"--time {option}", start) if at else None
        return cls(name if at else option, every, moment, passed=passed, planned=planned, policy=policy, now=now)

    @property
    def due(self) -> int:
        """When the period ends that is not over yet."""
        due = self._start_of(self.passed + 1)
        if due >= END_OF_TIME:
            raise ValueError(f"a period of {self._every} from {shown(self._start_of(self.passed))} on ends after 9999")
        return due

    @property
    def by_clock(self) -> bool:
        """Whether the wall clock ends periods, and rows never do."""
        return self._now is not None and self.policy.ahead == 0

    @property
    def over(self) -> int:
        """How many periods are over by the wall clock, and not released yet."""
        assert self._now is not None
        return min((self._now() - self._start_of(0)) // self._length, self._planned) - self.passed

    def moments(self, batch: Batch, scratch: Scratch) -> NDArray[np.int64]:
        """The times of a batch, or which row has none."""
        return moments_of_rows(batch, self.column, scratch, NO_TIME if self.policy.early == "skip" else None)

    def periods(
        self, batch: Batch, moments: NDArray[np.int64], scratch: Scratch
    ) -> tuple[NDArray[np.int64], list[int]]:
        """The period that each row of a batch counts in, and which periods these are, in order; or which row is wrong.

        Rows of a file come in order of periods where late and early ones are refused. Elsewhere the rows of a batch
        have no order.
        """
        if self.start is None:
            self.start = _round(int(moments[0]), self._length)
        periods = scratch.own(moments - self.start)
        periods //= self._length
        if self._now is None and self.policy.late == self.policy.early == "refuse":
            self._check(batch, moments, periods, scratch)
            np.minimum(periods, self._planned, out=periods)
            return periods, different_periods(periods, scratch)
        latest = None
        if self._now is not None:
            latest = (self._now() + TOLERANCE - self.start) // self._length
            if self.by_clock:  # a clock of a sender is a little ahead
                np.minimum(periods, self.passed, out=periods, where=scratch.own(periods <= latest))
        try:
            counted = self.policy.place_all(
                periods, self.passed, scratch, latest=None if self.by_clock else latest, endless=self._planned
            )
        except Untimely as row:
            time = f"{self.column} {shown(int(moments[row.row]))}"
            raise bad_row(batch, row.row, self._wrong(time, row.period, row.reached)) from None
        return periods, counted

    def _check(self, batch: Batch, moments: NDArray[np.int64], periods: NDArray[np.int64], scratch: Scratch) -> None:
        """Refuse a batch with a time before the period that is open by then, or too far after it."""
        open_: NDArray[np.int64] = scratch.empty("open", len(periods), np.int64)
        open_[0], open_[1:] = self.passed, periods[:-1]
        np.maximum.accumulate(open_, out=open_)
        np.minimum(open_, self._planned, out=open_)
        wrong = scratch.own(scratch.own(periods - open_) > self.policy.ahead)
        wrong &= scratch.own(open_ < self._planned)  # the period after the last planned release never ends
        wrong |= scratch.own(periods < open_)  # late
        if wrong.any():
            row = int(wrong.argmax())
            time = f"{self.column} {shown(int(moments[row]))}"
            raise bad_row(batch, row, self._wrong(time, int(periods[row]), int(open_[row])))

    def _wrong(self, time: str, period: int, open_: int) -> str:
        """What is wrong with a time of one period, when another is open."""
        opened, sort = shown(self._start_of(open_)), f"sort by {self.column}"
        if self._passed_before and period < self._passed_before:
            until = shown(self._start_of(self._passed_before))
            return f"{time} is before {until}, until which this state has released; feed later events only"
        if period < 0:
            first = shown(self._start_of(0))
            return f"{time} is before {first}, when the first period starts; {sort}, or give an earlier start"
        if period < open_:
            return f"{time} comes after a row of the period from {opened} on; {sort}"
        ahead = f"{period - open_:,} periods after the one from {opened} on, which is open by then"
        return f"{time} is {ahead}; mend the time, or, if nothing came in between, say --ahead {period - open_}"

    def _start_of(self, period: int) -> int:
        if self.start is None:
            raise ValueError(f"there are no events, so nobody knows when a period starts: say --time {START}")
        return self.start + self._length * period


def _round(moment: int, length: int) -> int:
    """The midnight before, or for periods shorter than a day a multiple of them."""
    return moment - moment % min(length, DAY)
