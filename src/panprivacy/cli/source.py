"""Where events come from: files, read from one end to the other, or what is taken as it arrives, as from a pipe."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from panprivacy.cli.keeping import Keeper
from panprivacy.cli.plainly import Speaker
from panprivacy.cli.progress import Meter
from panprivacy.estimator import Estimator
from panprivacy.events import STDIN, Batch, Bell, Columns, Format, Layout, Live, expand, read
from panprivacy.feeding import Feed


class Events(Protocol):
    """Where events come from: files, a pipe, a broker."""

    @property
    def columns(self) -> Columns:
        """The columns that are read."""

    @property
    def live(self) -> bool:
        """Whether events are listened to, and not read from one end to the other."""

    @property
    def name(self) -> str:
        """What is listened to."""

    @property
    def in_order(self) -> bool:
        """Whether an event of a period that is over is an error; else it counts in the one that is open."""

    def feed_to(self, est: Estimator[Any], columns: Columns | None = None) -> Feed:
        """What counts its batches; with more columns, if something else is read from them as well."""

    def read(self, columns: Columns, keeper: Keeper, speaker: Speaker, take: Callable[[Batch], None]) -> None:
        """Take all batches, in order, and save what is counted."""

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
class Source:
    """Files or standard input, and how they are read."""

    files: Sequence[str]
    columns: Columns
    format: Format | None
    layout: Layout
    skip_missing: bool
    skip_outside: bool = False
    name = "standard input"
    in_order = True

    def feed_to(self, est: Estimator[Any], columns: Columns | None = None) -> Feed:
        """What counts its batches; with more columns, if something else is read from them as well."""
        skip: dict[str, bool] = {"skip_missing": self.skip_missing, "skip_outside": self.skip_outside}
        return Feed(est, columns or self.columns, **skip, live=self.live)

    @property
    def live(self) -> bool:
        """Whether this is standard input."""
        return list(self.files) == [STDIN]

    def read(self, columns: Columns, keeper: Keeper, speaker: Speaker, take: Callable[[Batch], None]) -> None:
        """Take all batches of the files, in order, and save what is counted."""
        files = expand(self.files)
        with Meter(files, speaker) as meter:
            for batch in read(files, columns, format_=self.format, layout=self.layout):
                take(batch)
                meter.advance(batch)
                if keeper.repeatable:  # else files are kept whole or not at all: part of them cannot be fed again
                    keeper.counted()

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
        """Take what comes through standard input, save what is counted, and do something when the bell rings."""
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
