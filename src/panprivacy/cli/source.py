"""Where events come from: files, read from one end to the other, or what is listened to, as a pipe is."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from panprivacy.cli.keeping import Keeper
from panprivacy.cli.plainly import Speaker
from panprivacy.cli.progress import Meter
from panprivacy.cli.rows import SkipOrRefuse
from panprivacy.estimator import Estimator
from panprivacy.events import STDIN, Batch, Bell, Columns, Format, Layout, Live, expand, read
from panprivacy.feeding import Feed


@dataclass(frozen=True)
class Rows:
    """The columns of events that are counted, and which rows are left out, wherever they come from."""

    columns: Columns
    skip_missing: bool
    skip_outside: bool
    skip_unlisted: bool
    live = True
    """Whether the first batch may be one row; of a file, it says more."""

    def feed_to(self, est: Estimator[Any], columns: Columns | None = None) -> Feed:
        """What counts their batches; with more columns, if something else is read from them as well."""
        skip: dict[str, bool] = {
            "skip_missing": self.skip_missing,
            "skip_outside": self.skip_outside,
            "skip_unlisted": self.skip_unlisted,
        }
        return Feed(est, columns or self.columns, **skip, live=self.live)


class Listened(Protocol):
    """Events that arrive while they are counted: those of a pipe, or of a broker."""

    @property
    def columns(self) -> Columns:
        """The columns that are read."""

    @property
    def name(self) -> str:
        """What is listened to."""

    def feed_to(self, est: Estimator[Any], columns: Columns | None = None) -> Feed:
        """As `Rows.feed_to`."""

    def listen(
        self,
        columns: Columns,
        keeper: Keeper,
        speaker: Speaker,
        bell: Bell,
        *,
        take: Callable[[Batch], None],
        ring: Callable[[], None],
    ) -> None:
        """Take what comes, save what is counted, and do something when the bell rings."""


@dataclass(frozen=True)
class Files(Rows):
    """Files, and how they are read."""

    files: Sequence[str]
    format: Format | None
    layout: Layout
    live = False

    def read(self, columns: Columns, keeper: Keeper, speaker: Speaker, take: Callable[[Batch], None]) -> None:
        """Take all batches of the files, in order, and save what is counted."""
        files = expand(self.files)
        with Meter(files, speaker) as meter:
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

    def listen(
        self,
        columns: Columns,
        keeper: Keeper,
        speaker: Speaker,
        bell: Bell,
        *,
        take: Callable[[Batch], None],
        ring: Callable[[], None],
    ) -> None:
        """Take what comes, save what is counted, and do something when the bell rings."""
        live = Live(sys.stdin.fileno(), columns, self.format, self.layout, bell)
        with Meter([], speaker) as meter:
            for batch in live.batches():
                if batch is not None:
                    take(batch)
                    meter.advance(batch)
                    keeper.counted(live=True)
                elif bell.rings():
                    ring()
                else:
                    keeper.write_if_due()
                bell.wake_at = keeper.due


Events: TypeAlias = Files | Listened
"""Where events come from."""


def source_of(
    files: Sequence[str],
    columns: Columns,
    format_: Format | None,
    layout: Layout,
    skip_missing: bool,
    skip_outside: bool = False,
    unlisted: SkipOrRefuse | None = None,
) -> Files | Pipe:
    """The files of a command, or the pipe that a dash stands for."""
    if list(files) == [STDIN]:
        return Pipe(columns, skip_missing, skip_outside, unlisted != "refuse", format_, layout)
    return Files(columns, skip_missing, skip_outside, unlisted == "skip", files, format_, layout)
