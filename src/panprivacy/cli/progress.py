"""A bar by bytes, with events a second and the time left, for a person who watches."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from panprivacy.cli.plainly import Speaker
from panprivacy.events import Batch

if TYPE_CHECKING:
    from rich.progress import Progress


class Meter:
    """Shows how far reading has come; does nothing if nobody watches.

    The bar makes way for what the speaker says. Rows without id count like others here, so the bar does not tell how
    many there were.
    """

    def __init__(self, files: Sequence[str], speaker: Speaker) -> None:
        self._sizes = {file: Path(file).stat().st_size for file in files}
        self._speaker = speaker
        self._done = 0
        self._file: str | None = None  # not the batch: its rows are to be gone once they are counted
        self._events = 0
        self._progress: Progress | None = None

    def __enter__(self) -> Self:
        if self._speaker.shows_progress:
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

            known = bool(self._sizes) and all(Path(file).is_file() for file in self._sizes)  # a pipe tells no size
            columns = [
                TextColumn("{task.description}"),
                BarColumn(),
                DownloadColumn(),
                TextColumn("{task.fields[rate]}"),
            ]
            self._progress = Progress(
                *columns, *([TimeRemainingColumn()] if known else []), console=Console(stderr=True), transient=True
            )
            total = sum(self._sizes.values()) if known else None
            self._task = self._progress.add_task("reading", total=total, rate="")
            self._progress.start()
            self._speaker.clear = self._hidden
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._speaker.clear = nullcontext
            self._progress.stop()

    @contextmanager
    def _hidden(self) -> Iterator[None]:
        """Take the bar away, and put it back."""
        assert self._progress is not None
        self._progress.stop()
        try:
            yield
        finally:
            self._progress.start()

    def advance(self, batch: Batch) -> None:
        """Note that a batch has been counted."""
        if self._progress is None:
            return
        if self._file is not None and self._file != batch.file:
            self._done += self._sizes.get(self._file, 0)
        self._file = batch.file
        self._events += len(batch.rows)
        elapsed = self._progress.tasks[0].elapsed or 0.0
        rate = f"{self._events / elapsed:,.0f} events/s" if elapsed > 0.1 else ""
        name, completed = Path(batch.file).name, self._done + batch.position
        self._progress.update(self._task, completed=completed, description=name, rate=rate)
