"""Where events come from: files, read from one end to the other, or what is listened to, as a pipe is."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from panprivacy.cli.kept import Keeper
from panprivacy.cli.output import Meter, Output
from panprivacy.estimators.base import Estimator
from panprivacy.ingest import Batch, Columns, Format, Layout, Live, SignalTimer, expand, read
from panprivacy.ingest.feed import BatchFeeder


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
    """What is done with events that arrive: which columns are read, how a batch is counted, kept and shown."""

    columns: Columns
    keeper: Keeper
    output: Output
    timer: SignalTimer
    take: Callable[[Batch], None]
    """Counts a batch."""
    ring: Callable[[], None]
    """Is called when the timer rings."""


class Listened(Protocol):
    """Events that arrive while they are counted, from a pipe or a broker."""

    @property
    def columns(self) -> Columns:
        """The columns that are read."""

    @property
    def name(self) -> str:
        """What is listened to."""

    def feed_to(self, est: Estimator[Any], columns: Columns | None = None) -> BatchFeeder:
        """As `Rows.feed_to`."""

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
        """Take all batches of the files, in order, and save what is counted."""
        files = expand(self.files)
        with Meter(files, output) as meter:
            for batch in read(files, columns, format_=self.format, layout=self.layout):
                take(batch)
                meter.advance(batch)
                if keeper.repeatable:  # else files are kept whole or not at all: part of them cannot be fed again
                    keeper.counted()


@dataclass(frozen=True)
class Pipe(Rows):
    """Standard input, and how it is read. It is `Listened`."""

    format: Format | None
    layout: Layout
    name = "standard input"

    def listen(self, counting: Counting) -> None:
        """Count what arrives and save it, until the input ends."""
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
