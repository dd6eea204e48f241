"""What commands print: answers on standard output, notes, progress and one-line errors on standard error."""

import csv
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from panprivacy.display import finite
from panprivacy.errors import InvalidValue, PanPrivacyError
from panprivacy.ingest.batch import BadInput, Hint
from panprivacy.ingest.files import size_of

if TYPE_CHECKING:
    from rich.progress import Progress

    from panprivacy.ingest import Batch

HINTS = {
    "broker-password": "say --options FILE.toml",
    "format": "say --format {value}",
    "half-counted": "--batch till3:17 names a batch",
    "missing": "if the id is missing there, --missing {value} --skip-missing leaves such rows out",
    "no-header": "if it is no header, say --no-header --column NUMBER",
    "other": "--other gathers such rows",
    "overlapping-shards": "leave --overlapping out",
    "rerandomisations-planned": "--intrusions J plans them",
    "separator": "is {value!r} its separator? Say --separator '{value}'",
    "separator-of-tsv": "is {value!r} its separator? Say --format csv --separator '{value}'",
    "separator-tab": "is {value!r} its separator? Say --format tsv",
    "shard-key": "--shard I/N:KEY with 32 hexadecimal digits, from openssl rand -hex 16",
    "skip-missing": "--skip-missing leaves such rows out",
    "normalize": "--normalize {value} reads both as one, --normalize none as two",
    "skip-outside": "--skip-outside leaves such rows out",
    "text-ids": "ids that are text need --universe-file FILE, or distinct --ids text",
    "plan-epsilon": "--epsilon E, or --universe N --alpha A",
    "text-nodes": "nodes that are text need --nodes FILE",
}
"""What a command adds to an error of the library, by its code or the names of its hints: the option that helps."""

_NARROWEST = 10  # letters of a column on a terminal, whose later rows may be longer than the first


class Ended(KeyboardInterrupt):
    """The signal of this number asks this process to end."""


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Have SIGTERM and SIGHUP end a command as Ctrl-C does: locks are given back, and files mended."""

    def end(number: int, _frame: FrameType | None) -> None:
        raise Ended(number)

    ours = threading.current_thread() is threading.main_thread()  # Python gives signals to this thread alone
    before = {
        number: signal.signal(number, end)
        for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))  # only POSIX has SIGHUP
        if ours and signal.getsignal(number) not in (signal.SIG_IGN, end)  # nohup has SIGHUP ignored
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def cause_of(error: Exception) -> str:
    """What went wrong, and which option helps."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {(error.strerror or str(error)).lower()}"
    return with_hints(str(error), error.hints if isinstance(error, BadInput) else [Hint(getattr(error, "code", ""))])


def with_hints(text: str, hints: Iterable[Hint]) -> str:
    """A text, and behind it the options that help."""
    return "; ".join([text, *(HINTS[hint.name].format(value=hint.value) for hint in hints if hint.name in HINTS)])


class CannotShow(PanPrivacyError):
    """The answer could not be written to standard output; the release that it shows is spent all the same."""


class Output:
    """Shows answers on standard output, and everything else on standard error."""

    def __init__(self, *, as_json: bool = False, as_csv: bool = False, quiet: bool = False) -> None:
        if as_json and as_csv:
            raise InvalidValue("--json and --csv are two ways to print one answer: say one of them", code="two-formats")
        self.as_json = as_json
        """Whether answers are objects of JSON, one a line."""
        self.as_csv = as_csv
        """Whether answers are rows of CSV below one header."""
        self.quiet = quiet
        self._header: list[str] = []  # of the table that rows are printed below
        self._widths: list[int] = []
        self._curve = 0  # how many releases of a retention are in it
        self.clear: Callable[[], AbstractContextManager[object]] = nullcontext
        """Takes the progress bar off the terminal while a line is written there."""

    @property
    def for_programs(self) -> bool:
        return self.as_json or self.as_csv

    def answer(self, thing: Any) -> None:
        """Show a result: a table on a terminal, else one line, or what programs read if that was asked for."""
        if sys.stdout is None:  # Python's word for a descriptor that was closed from the start
            raise CannotShow("standard output is closed")
        try:
            with self.clear():
                self._write(thing)
        except BrokenPipeError:
            raise
        except OSError as error:
            # The rest of the buffer would fail again when Python ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise CannotShow(f"standard output cannot be written: {(error.strerror or str(error)).lower()}") from None

    def _write(self, thing: Any) -> None:
        """Write a result; one with `cells` and `frame_rows` is part of a table, which is printed as its rows come."""
        if self.as_json:
            print(json.dumps(finite(as_fields(thing))))
        elif self.as_csv:
            self._write_rows(thing)
        elif not sys.stdout.isatty():
            print(*lines_of(thing), sep="\n")
        elif hasattr(thing, "frame_rows"):
            for row in thing.cells():
                self._print_cells(row)
        else:
            from rich.console import Console

            Console().print(thing)
        sys.stdout.flush()  # a pipe may be read long before this process ends

    def _write_rows(self, thing: Any) -> None:
        """Print the rows of a thing as CSV; the header comes once, before the first of them."""
        rows = csv_rows(thing)
        if rows and "release" in rows[-1]:  # a release of a retention has all that came before it, too
            rows = [row for row in rows if row["release"] > self._curve]
            self._curve = rows[-1]["release"] if rows else self._curve
        writer = csv.writer(sys.stdout, lineterminator="\n")
        for row in rows:
            if not self._header:
                self._header = list(row)
                writer.writerow(self._header)
            writer.writerow([_spelled(row.get(name)) for name in self._header])

    def _print_cells(self, row: dict[str, str]) -> None:
        """Print a row of a table on a terminal, below its header. Rows come one by one, so widths are those known."""
        lines = [list(row.values())]
        if list(row) != self._header:
            self._header = list(row)
            self._widths = [max(len(name), len(text), _NARROWEST) for name, text in row.items()]
            lines.insert(0, self._header)
        for line in lines:
            print("  ".join(text.ljust(width) for text, width in zip(line, self._widths, strict=True)).rstrip())

    def note(self, text: str) -> None:
        """Say something that is not the answer."""
        if not self.quiet:
            with self.clear():
                print(f"panprivacy: {text}", file=sys.stderr)


def lines_of(thing: Any) -> list[str]:
    """What a thing says of itself; a release or a plan, with a line for each of its groups."""
    return thing.lines() if hasattr(thing, "lines") else [as_line(thing)]


def as_line(thing: Any) -> str:
    """What a thing says of itself, without the brackets that tell Python's programmers that it is no code."""
    text = str(thing)
    return text[1:-1] if text.startswith("<") and text.endswith(">") else text


def csv_rows(thing: Any) -> list[dict[str, Any]]:
    """The rows of a thing, as its frame has them; of a thing without a frame, one row with all its fields."""
    from panprivacy.estimates import AnyRelease

    if hasattr(thing, "frame_rows"):
        return list(thing.frame_rows())
    if isinstance(thing, AnyRelease):
        return thing.to_polars().to_dicts()
    fields = as_fields(thing)
    if groups := fields.get("groups"):  # of a plan: a row for each
        shared = _flat({name: value for name, value in fields.items() if name != "groups"})
        return [{"group": row["group"], **shared, **row} for row in groups]
    return [_flat(fields)]


def _flat(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields within fields, and lists, in columns of their own.

    >>> _flat({"alpha": 0.1, "errors": {"laplace": 0.2}, "counts": [1, 9]})
    {'alpha': 0.1, 'errors_laplace': 0.2, 'counts_1': 1, 'counts_2': 9}
    """
    found: dict[str, Any] = {}
    for name, value in fields.items():
        inner = dict(enumerate(value, 1)) if isinstance(value, list | tuple) else value
        if isinstance(inner, dict):
            found |= _flat({f"{name}_{each}": part for each, part in inner.items()})
        else:
            found[name] = inner
    return found


def _spelled(value: Any) -> Any:
    """A cell of CSV: empty where there is no number, as null is in JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else finite(value)


def as_fields(release: Any) -> dict[str, Any]:
    """The fields of a release, by their names in the library."""
    return dict(release if isinstance(release, dict) else release.to_dict())


class Meter(ExitStack):
    """A bar by bytes, with events a second and the time left, if a person watches standard error.

    The bar makes way for notes and answers. Rows without id count like others here, so the bar does not tell how
    many there were.
    """

    def __init__(self, files: Sequence[str], output: Output) -> None:
        super().__init__()
        self._sizes = {file: size_of(file) for file in files}
        self._done = 0
        self._file: str | None = None  # not the batch: its rows are to be gone once they are counted
        self._events = 0
        self._progress: Progress | None = None
        if not output.quiet and sys.stderr.isatty():
            from rich import progress as bars
            from rich.console import Console

            known = bool(self._sizes) and all(self._sizes.values())  # a pipe tells no size
            name, rate = bars.TextColumn("{task.description}"), bars.TextColumn("{task.fields[rate]}")
            left = [bars.TimeRemainingColumn()] if known else []
            columns = (name, bars.BarColumn(), bars.DownloadColumn(), rate, *left)
            progress = self._progress = bars.Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = progress.add_task("reading", total=sum(self._sizes.values()) if known else None, rate="")
            progress.start()
            self.callback(progress.stop)

            @contextmanager
            def hidden() -> Iterator[None]:
                progress.stop()
                try:
                    yield
                finally:
                    progress.start()

            output.clear = hidden
            self.callback(setattr, output, "clear", nullcontext)

    def advance(self, batch: "Batch") -> None:
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
