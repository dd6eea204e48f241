"""Which period of the events' own time each row belongs to, and whether it is its turn: ``--time NAME[@START]``."""

from typing import Self

import numpy as np
from numpy.typing import NDArray

from panprivacy.cli.published import shown
from panprivacy.cli.timed import bad_row, moments_of_rows, parsed_moment
from panprivacy.events import Batch
from panprivacy.memory import Scratch
from panprivacy.periods import DAY, END_OF_TIME, length_of

START = "NAME@2026-01-05"
"""How the start of the first period is said."""


class Calendar:
    """Periods of one length, numbered from 0, of which each is released when it is over, as long as that is planned.

    Times depend on people as ids do, so what is made of them is scratch.
    """

    def __init__(
        self, column: str, every: str, start: int | None, *, passed: int, planned: int, in_order: bool = True
    ) -> None:
        self.column = column
        self._in_order = in_order  # else a row that comes late counts in the period that is open
        self.start = start
        """When the first period starts; if nobody says, at the first event."""
        self.passed = passed
        """How many periods have been released. A state that has released before goes on where it was."""
        self._passed_before = passed
        self._planned = planned  # all that comes after the last planned release is one period that never ends
        self._every = every
        self._length = length_of(every)

    @classmethod
    def parsed(cls, option: str, every: str, *, passed: int, planned: int, in_order: bool = True) -> Self:
        """Read the option: ``NAME`` or ``NAME@START``."""
        name, at, start = option.rpartition("@")
        moment = parsed_moment(f"--time {option}", start) if at else None
        return cls(name if at else option, every, moment, passed=passed, planned=planned, in_order=in_order)

    @property
    def due(self) -> int:
        """When the period ends that is not over yet."""
        due = self._start_of(self.passed + 1)
        if due >= END_OF_TIME:
            raise ValueError(f"a period of {self._every} from {shown(self._start_of(self.passed))} on ends after 9999")
        return due

    def moments(self, batch: Batch, scratch: Scratch) -> NDArray[np.int64]:
        """The times of a batch, or which row has none."""
        return moments_of_rows(batch, self.column, scratch)

    def periods(self, batch: Batch, moments: NDArray[np.int64], scratch: Scratch) -> NDArray[np.int64]:
        """The period of each row of a batch, or which row is not in its turn."""
        if self.start is None:
            self.start = _round(int(moments[0]), self._length)
        periods = scratch.own(moments - self.start)
        periods //= self._length
        np.minimum(periods, self._planned, out=periods)
        self._check(batch, moments, periods, scratch)
        return periods

    def _check(self, batch: Batch, moments: NDArray[np.int64], periods: NDArray[np.int64], scratch: Scratch) -> None:
        """Refuse a batch with a time before the period that is open by then, or too far after it."""
        open_: NDArray[np.int64] = scratch.empty("open", len(periods), np.int64)
        open_[0], open_[1:] = self.passed, periods[:-1]
        np.maximum.accumulate(open_, out=open_)
        if not self._in_order:
            np.maximum(periods, open_, out=periods)
        wrong = scratch.own(periods == self._planned)
        wrong &= scratch.own(open_ < self._planned - 1)  # far ahead
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
        return (
            f"{time} is so long after the period from {opened} on that it would spend all {period - open_} releases "
            "left; mend the time, plan more --releases, or spend some first (panprivacy release)"
        )

    def _start_of(self, period: int) -> int:
        if self.start is None:
            raise ValueError(f"there are no events, so nobody knows when a period starts: say --time {START}")
        return self.start + self._length * period


def _round(moment: int, length: int) -> int:
    """The midnight before, or for periods shorter than a day a multiple of them."""
    return moment - moment % min(length, DAY)
