"""How things show themselves: a title and rows, as lines of text, as a grid in a terminal, as a table in a notebook.

Then numbers as people write them: memory, and how many of something. And how far a long iterator or reader has been
counted, for a person who watches: the number of events and their pace, which anyone who watches a process sees anyway.
"""

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from html import escape
from math import isfinite
from operator import length_hint
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from panprivacy.checks import shown as described
from panprivacy.errors import InvalidType, InvalidValue

if TYPE_CHECKING:
    import polars as pl
    from rich.console import RenderableType

# The warning alone has a colour: text and lines take the colours of the page, light or dark.
_CELL = "text-align: left; vertical-align: top; padding: 0.15em 0.8em; border-top: 1px solid rgba(128, 128, 128, 0.35);"
_TABLE = "border-collapse: collapse; color: inherit; font-size: 90%;"
_WARNING = "color: #e5484d; font-weight: bold;"

Rows: TypeAlias = tuple[tuple[str, str], ...]
"""Names, and a text for each."""


@dataclass(frozen=True)
class Card:
    """What a thing says of itself: a title, rows of a name and a value, and a warning if there is one.

    There may be a table under it: a header, and lines of as many cells.

    >>> card = Card("Release 1", (("density", "0.25"), ("epsilon", "1 spent, 0 left")))
    >>> card.line
    'density 0.25; epsilon 1 spent, 0 left'
    >>> print(Card("Release", (("groups", "2"),), None, ("group", "density"), (("north", "0.2"), ("all", "0.3"))).text)
    groups 2
    group density
    north     0.2
    all       0.3
    """

    title: str
    rows: Rows
    warning: str | None = None
    header: tuple[str, ...] = ()
    lines: tuple[tuple[str, ...], ...] = ()

    @property
    def line(self) -> str:
        """All rows in one line, for logs and pipes."""
        warning = [self.warning.upper()] if self.warning else []
        return "; ".join([*(f"{name} {value}" for name, value in self.rows), *warning])

    @property
    def text(self) -> str:
        """A line for each row, the values below each other; then the table in columns."""
        width = max(len(name) for name, _ in self.rows)
        lines = [f"{name:<{width}} {value}" for name, value in self.rows]
        table = [self.header, *self.lines] if self.header else []
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for first, *rest in table:
            cells = [f"{cell:>{width}}" for cell, width in zip(rest, widths[1:], strict=True)]
            lines.append(" ".join([f"{first:<{widths[0]}}", *cells]))
        return "\n".join(lines)

    @property
    def grid(self) -> "RenderableType":
        """A grid for a terminal."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        grid = Table(title=Text(self.title), show_header=False)
        for name, value in self.rows:
            grid.add_row(Text(name), Text(value))
        if self.warning:
            grid.add_row("warning", Text(self.warning, "bold red"))
        if not self.header:
            return grid
        table = Table()
        for place, name in enumerate(self.header):
            table.add_column(Text(name), justify="right" if place else "left")
        for line in self.lines:
            table.add_row(*map(Text, line))
        return Group(grid, table)

    @property
    def html(self) -> str:
        """A table for a notebook, or two."""
        rows = [_html_row(name, value) for name, value in self.rows]
        if self.warning:
            rows.append(_html_row("warning", self.warning, _WARNING))
        title = f'<caption style="text-align: left; font-weight: bold;">{escape(self.title)}</caption>'
        card = f'<table style="{_TABLE}">{title}{"".join(rows)}</table>'
        if not self.header:
            return card
        table = [_html_cells(self.header, "font-weight: bold;"), *map(_html_cells, self.lines)]
        return f'{card}<table style="{_TABLE} margin-top: 0.6em;">{"".join(table)}</table>'


def _html_cells(cells: tuple[str, ...], style: str = "") -> str:
    found = (f'<td style="{_CELL} {style}">{escape(cell)}</td>' for cell in cells)
    return f"<tr>{''.join(found)}</tr>"


def _html_row(name: str, value: str, style: str = "") -> str:
    head = (
        f'<th scope="row" style="{_CELL} font-weight: normal; opacity: 0.75; white-space: nowrap;">{escape(name)}</th>'
    )
    return f'<tr>{head}<td style="{_CELL} {style}">{escape(value)}</td></tr>'


class Displayed(Protocol):
    """Whatever has a card; its class takes displays from here: ``__rich__ = grid_of``, ``_repr_html_ = html_of``."""

    def card(self) -> Card:
        """The card that shells and notebooks show."""
        ...


def line_of(thing: Displayed) -> str:
    """All that a thing says of itself, in one line."""
    return thing.card().line


def text_of(thing: Displayed) -> str:
    """What a thing says of itself, in several lines."""
    return thing.card().text


def grid_of(thing: Displayed) -> "RenderableType":
    """What a thing says of itself, as Rich shows it in a terminal."""
    return thing.card().grid


def html_of(thing: Displayed) -> str:
    """What a thing says of itself, as a notebook shows it."""
    return thing.card().html


def warning_of(secure: bool) -> str | None:
    """What has to be said of coins that can be guessed."""
    return None if secure else "not private: seeded coins"


def measured(value: float, stderr: float | None, bounds: tuple[float, float], named: str, digits: int) -> str:
    """An estimate with its standard error, if it has one, and its bounds, all in one unit.

    >>> measured(0.25, 0.001, (0.248, 0.252), "95% interval", 4)
    '0.2500 ± 0.0010 (standard error), 95% interval 0.2480 to 0.2520'
    """
    low, high = bounds
    error = "" if stderr is None else f" ± {stderr:,.{digits}f} (standard error)"
    return f"{value:,.{digits}f}{error}, {named} {low:,.{digits}f} to {high:,.{digits}f}"


def finite(value: Any) -> Any:
    """The same with None for numbers that are infinite, or none at all: JSON has no word for them.

    >>> finite({"rate": float("nan"), "interval": (0.0, float("inf"))})
    {'rate': None, 'interval': (0.0, None)}
    """
    if isinstance(value, dict):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return list(map(finite, value))
    if isinstance(value, tuple):
        return tuple(map(finite, value))
    return None if isinstance(value, float) and not isfinite(value) else value


def group_column(label: int | str | None) -> "pl.Expr":
    """A column that has the label of a group in every row; null stands for all users."""
    import polars as pl

    return pl.lit(label, dtype=pl.Int64 if isinstance(label, int) else None).alias("group")


def plain_labels(labels: list[Any]) -> list[Any]:
    """Labels of groups for one column: numbers beside a text are texts.

    >>> plain_labels([1, 2, "others", None]), plain_labels([1, 2])
    (['1', '2', 'others', None], [1, 2])
    """
    if len({type(label) for label in labels if label is not None}) < 2:
        return labels
    return [None if label is None else str(label) for label in labels]


class Tabular(ABC):
    """Has ``to_dict()``, ``to_polars()`` and ``to_pandas()``."""

    __slots__ = ()

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers and text, for JSON."""

    @abstractmethod
    def to_polars(self) -> "pl.DataFrame":
        """All numbers as a Polars frame."""

    def to_pandas(self) -> Any:
        """The frame of `to_polars` for pandas, which has to be installed."""
        import pandas as pd

        return pd.DataFrame(self.to_polars().to_dict(as_series=False))


_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def parse_bytes(text: str | int) -> int:
    """Read ``"16 KiB"``, ``"2MB"`` or a plain number of bytes.

    >>> parse_bytes("16 KiB"), parse_bytes("2MB"), parse_bytes(512)
    (16384, 2000000, 512)
    """
    if isinstance(text, int) and not isinstance(text, bool):
        size = text
    elif not isinstance(text, str):
        raise InvalidType(
            f'memory is text like "16 KiB" or a number of bytes, got a {type(text).__name__}', code="memory-type"
        )
    else:
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)\s*", text.lower())
        if not match or (match[2] or "b") not in _UNITS:
            raise InvalidValue(
                f'memory {text!r} is not understood; write it like "16 KiB" or "2 MB"', code="memory-format"
            )
        size = int(float(match[1]) * _UNITS[match[2] or "b"])
    if size < 1:
        raise InvalidValue(f"memory must be at least one byte, got {text!r}", code="memory-range")
    return size


def counted(number: int, thing: str) -> str:
    """Say how many there are of something.

    >>> counted(1, "field"), counted(2000, "field")
    ('1 field', '2,000 fields')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def format_bytes(size: int) -> str:
    """Write a number of bytes the same way.

    >>> format_bytes(16384), format_bytes(100)
    ('16.0 KiB', '100 B')
    """
    for unit in ("GiB", "MiB", "KiB"):
        if size >= _UNITS[unit.lower()]:
            return f"{size / _UNITS[unit.lower()]:.1f} {unit}"
    return f"{size} B"


def magnitude(number: int, least: int) -> int:
    """A number rounded down to a power of ten, or 0 if it is below `least`: too coarse to tell of single events.

    >>> magnitude(99, 100), magnitude(100, 100), magnitude(54_321, 100)
    (0, 100, 10000)
    """
    return 0 if number < least else 10 ** (len(str(number)) - 1)


PATIENCE = 2.0
"""Seconds after which progress is shown; shorter waits need no display."""


_PAUSE = 10.0  # seconds between two lines of a log
_wanted: bool | None = None


def use_progress(shown: bool | None) -> None:
    """Show how far long iterators, lazy frames and readers have been counted, or do not.

    None, the default, shows a bar after two seconds if standard error is a terminal, or a line in a notebook, and is
    quiet elsewhere. False is always quiet. True writes lines also where there is no terminal, as into a log. Shown are
    the number of events and their pace, as in a shell.

    >>> import panprivacy as pp
    >>> pp.use_progress(False)
    >>> pp.use_progress(None)
    """
    global _wanted  # noqa: PLW0603 - a switch of the whole process
    if shown is not None and not isinstance(shown, bool):
        raise InvalidType(
            f"progress is True, False, or None for terminals only; got {described(shown)}", code="progress-type"
        )
    _wanted = shown


class EventCounter(ExitStack):
    """Counts events as they are taken, and shows how many once that has lasted; nothing if there is no terminal.

    An iterator that shows its own progress (tqdm) is left to do so.
    """

    def __init__(self, ids: object) -> None:
        super().__init__()
        watched = (_on_terminal() or _in_notebook()) if _wanted is None else _wanted
        self._watched = watched and type(ids).__module__.partition(".")[0] != "tqdm"
        # Most iterators do not know; one that fails when asked is not to fail here.
        self._expected = 0
        with suppress(Exception):
            self._expected = length_hint(ids) if self._watched else 0
        self._start = monotonic()
        self._events = 0
        self._show: Callable[[int, float], None] | None = None

    def advance(self, events: int) -> None:
        """Add to the number of events taken."""
        self._events += events
        seconds = monotonic() - self._start
        if not self._watched or seconds < PATIENCE:
            return
        if self._show is None:
            self._show = self._bar() if _on_terminal() else _line_in_notebook() if _in_notebook() else _lines_in_log()
        self._show(self._events, seconds)

    def _bar(self) -> Callable[[int, float], None]:
        """A bar on the last line of a terminal, taken away in the end."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (BarColumn(), TextColumn("{task.fields[said]}"), TimeElapsedColumn())
        # Without a thread of its own: a bar that nobody closes does not go on drawing.
        progress = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
        task = progress.add_task("", total=self._expected or None, said="")
        progress.start()
        self.callback(progress.stop)
        return lambda events, seconds: progress.update(
            task, completed=events, said=_said(events, seconds), refresh=True
        )


def _line_in_notebook() -> Callable[[int, float], None]:
    """A line under the cell of a notebook, which stays there with the last number."""
    from IPython.display import display

    handle: Any = display({"text/plain": ""}, raw=True, display_id=True)
    return lambda events, seconds: handle.update({"text/plain": _said(events, seconds)}, raw=True)


def _lines_in_log() -> Callable[[int, float], None]:
    """A line on standard error from time to time."""
    due = 0.0

    def show(events: int, seconds: float) -> None:
        nonlocal due
        if seconds >= due and sys.stderr is not None:
            print(_said(events, seconds), file=sys.stderr, flush=True)
            due = seconds + _PAUSE

    return show


def _said(events: int, seconds: float) -> str:
    return f"{events:,} events, {events / seconds:,.0f} a second"


def _on_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _in_notebook() -> bool:
    """Whether this is the kernel of a notebook, without importing IPython to find out."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"
