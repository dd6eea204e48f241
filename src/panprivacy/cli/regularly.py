"""`--release-every 7d` of a new state: how many periods there will be has to be said, as they share epsilon."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from panprivacy.cli.calendar import Calendar
from panprivacy.cli.published import shown
from panprivacy.clock import RowPolicy
from panprivacy.events import STDIN, Columns, Format, Kind, Layout, expand, is_pipe, read
from panprivacy.memory import Scratch
from panprivacy.periods import parse_period

_LITTLE = 2**26  # bytes of files that are read in a moment, only to name a number of periods
_EVER = 2**40  # more periods than there are


@dataclass(frozen=True)
class Regularly:
    """The options that say when releases are made, and the events whose times that may go by."""

    every: str | None
    time: str | None = None
    files: Sequence[str] = ()
    format: Format | None = None
    layout: Layout | None = None

    def planned(self, plan: dict[str, Any]) -> dict[str, Any]:
        """The plan of a new state, or an error if it leaves open how many periods share the budget.

        One release is what a state plans for if nobody says more, and the first period would spend all of epsilon.
        """
        if self.every is not None and plan["releases"] is None and (self.time is not None or not self._of_files):
            parse_period(self.every)
            raise ValueError(f"how many periods? Say --releases K, of which one is spent after each{self._found()}")
        return plan

    @property
    def _of_files(self) -> bool:
        """Whether events are in files, which have no clock to go by."""
        return bool(self.files) and list(self.files) != [STDIN]

    def _found(self) -> str:
        """How many periods there are in the files, if that is found out in a moment."""
        if not self._of_files:
            return ""
        files = expand(self.files)
        if any(map(is_pipe, files)) or sum(Path(file).stat().st_size for file in files) > _LITTLE:
            return ""
        return self._counted(files)

    def _counted(self, files: list[str]) -> str:
        assert self.time is not None
        assert self.every is not None
        calendar = Calendar.parsed(self.time, self.every, passed=0, planned=_EVER, policy=RowPolicy(ahead=_EVER))
        columns = Columns((), Kind.integers, time=calendar.column)
        last = -1
        with Scratch() as scratch:
            for batch in read(files, columns, format_=self.format, layout=self.layout):
                moments = calendar.moments(batch, scratch)
                if len(moments):
                    last = max(last, calendar.periods(batch, moments, scratch)[1][-1])
        if last < 0 or calendar.start is None:
            return ""
        return f"; from {shown(calendar.start)} on, these files have {last + 1:,} of {self.every}"
