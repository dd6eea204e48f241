"""Where events come from: files, which have an end, or pipes and brokers, whose events arrive."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from panprivacy.cli.output import Meter, Output
from panprivacy.cli.run import Keeper
from panprivacy.estimators.base import Estimator
from panprivacy.ingest import Batch, Columns, Format, Layout, Live, SignalTimer, expand, read
from panprivacy.ingest.feed import BatchFeeder
from panprivacy.memory.scratch import Scratch
from panprivacy.periods import END_OF_TIME, length_of, moments_in

if TYPE_CHECKING:
    from panprivacy.cli.calendar import Calendar


@dataclass(frozen=True)
class Rows:
    """The columns of events that are counted, and which rows are left out, wherever they come from."""

    columns: Columns
    skip_missing: bool
    skip_outside: bool
    skip_unlisted: bool
    live = True
    """Whether the first batch may be one row; of a file, it says more."""

    def feed_to(self, est: Estimator[Any], columns: Columns | None = None) -> BatchFeeder:
        """What counts their batches; with more columns, if something else is read from them as well."""
        skip: dict[str, bool] = {
            "skip_missing": self.skip_missing,
            "skip_outside": self.skip_outside,
            "skip_unlisted": self.skip_unlisted,
        }
        return BatchFeeder(est, columns or self.columns, **skip, live=self.live)


@dataclass(frozen=True)
class Counting:
    """How events that arrive are read, counted, kept and shown."""

    columns: Columns
    keeper: Keeper
    output: Output
    timer: SignalTimer
    take: Callable[[Batch], None]
    """Counts a batch."""
    ring: Callable[[], None]
    """Is called when the timer rings."""


class Listened(Rows, ABC):
    """Events that arrive while they are counted, from a pipe or a broker."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the source, for people."""

    @abstractmethod
    def listen(self, counting: Counting) -> None:
        """Count what arrives and save it, until the input ends."""


@dataclass(frozen=True)
class Files(Rows):
    """Files, and how they are read."""

    files: Sequence[str]
    format: Format | None
    layout: Layout
    live = False

    def read(self, columns: Columns, keeper: Keeper, output: Output, take: Callable[[Batch], None]) -> None:
        """Take all batches of the files, in order, and save the counts."""
        files = expand(self.files)
        with Meter(files, output) as meter:
            for batch in read(files, columns, format_=self.format, layout=self.layout):
                take(batch)
                meter.advance(batch)
                del batch  # before the next one is waited for
                if keeper.repeatable:  # else files are kept whole or not at all: part of them cannot be fed again
                    keeper.counted()


@contextmanager
def in_order_of_time(
    take: Callable[[Batch], None], calendar: "Calendar", lateness: str
) -> Iterator[Callable[[Batch], None]]:
    """Give rows of files on in order of time, if none is later than `lateness`: until then, rows wait in memory.

    A row without a time refuses its batch or is left out, as the calendar's policy says; the others wait all the same.
    """
    import polars as pl

    waiting: list[Batch] = []
    patience, moment = length_of(lateness), "\0moment"  # a name that no column of a file has

    def give(batch: Batch, until: int) -> None:
        rows = batch.rows.filter(pl.col(moment) < until).sort(moment, maintain_order=True).drop(moment)
        if len(rows):
            take(replace(batch, file=f"{batch.file}, in order of time", rows=rows, before=0))

    def wait(batch: Batch) -> None:
        assert calendar.column is not None
        moments = moments_in(batch.rows[calendar.column], calendar.zone)
        with Scratch() as scratch:
            if moments.null_count():
                calendar.moments(batch, scratch)  # which says which row has no time, unless such rows are left out
            timed = batch.rows.with_columns(moments.alias(moment)).drop_nulls(moment)
            rows = pl.concat([*(each.rows for each in waiting), timed])
            if not len(rows):
                return
            waited = scratch.own(rows[moment].to_numpy().copy())
            until = calendar.reached(replace(batch, rows=timed), waited, patience, scratch) - patience
        give(replace(batch, rows=rows), until)
        waiting[:] = [replace(batch, rows=rows.filter(pl.col(moment) >= until))]

    yield wait
    for batch in waiting:
        give(batch, END_OF_TIME)


@dataclass(frozen=True)
class Pipe(Listened):
    """Standard input, and how it is read."""

    format: Format | None
    layout: Layout
    name = "standard input"

    def listen(self, counting: Counting) -> None:
        keeper, timer = counting.keeper, counting.timer
        live = Live(sys.stdin.fileno(), counting.columns, self.format, self.layout, timer)
        with Meter([], counting.output) as meter:
            for batch in live.batches():
                if batch is not None:
                    counting.take(batch)
                    meter.advance(batch)
                    keeper.counted(live=True)
                elif timer.rings():
                    counting.ring()
                else:
                    keeper.write_if_due()
                timer.wake_at = keeper.due


Events: TypeAlias = Files | Listened
"""Where events come from."""
