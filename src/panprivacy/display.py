"""How things show themselves: a title and rows, as lines of text, as a grid in a terminal, as a table in a notebook.

At the end: numbers as people write them, memory and how many of something.
"""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from html import escape
from math import isfinite
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from panprivacy.errors import InvalidType, InvalidValue

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table as RichTable

# The warning alone has a colour: text and lines take the colours of the page, light or dark.
_CELL = "text-align: left; vertical-align: top; padding: 0.15em 0.8em; border-top: 1px solid rgba(128, 128, 128, 0.35);"
_WARNING = "color: #e5484d; font-weight: bold;"

Rows: TypeAlias = tuple[tuple[str, str], ...]
"""Names, and a text for each."""


@dataclass(frozen=True)
class Card:
    """What a thing says of itself: a title, rows of a name and a value, and a warning if there is one.

    >>> card = Card("Release 1", (("density", "0.25"), ("epsilon", "1 spent, 0 left")))
    >>> card.line
    'density 0.25; epsilon 1 spent, 0 left'
    >>> print(card.text)
    density 0.25
    epsilon 1 spent, 0 left
    """

    title: str
    rows: Rows
    warning: str | None = None

    @property
    def line(self) -> str:
        """All rows in one line, for logs and pipes."""
        warning = [self.warning.upper()] if self.warning else []
        return "; ".join([*(f"{name} {value}" for name, value in self.rows), *warning])

    @property
    def text(self) -> str:
        """A line for each row, the values below each other."""
        width = max(len(name) for name, _ in self.rows)
        return "\n".join(f"{name:<{width}} {value}" for name, value in self.rows)

    @property
    def grid(self) -> "RichTable":
        """A grid for a terminal."""
        from rich.table import Table
        from rich.text import Text

        grid = Table(title=Text(self.title), show_header=False)
        for name, value in self.rows:
            grid.add_row(Text(name), Text(value))
        if self.warning:
            grid.add_row("warning", Text(self.warning, "bold red"))
        return grid

    @property
    def html(self) -> str:
        """A table for a notebook."""
        rows = [_html_row(name, value) for name, value in self.rows]
        if self.warning:
            rows.append(_html_row("warning", self.warning, _WARNING))
        title = f'<caption style="text-align: left; font-weight: bold;">{escape(self.title)}</caption>'
        return (
            f'<table style="border-collapse: collapse; color: inherit; font-size: 90%;">{title}{"".join(rows)}</table>'
        )


@dataclass(frozen=True)
class Sheet(Card):
    """A card with a table under it: a header, and lines of as many cells.

    >>> sheet = Sheet("Release 1", (("groups", "2"),), None, ("group", "density"), (("north", "0.2"), ("south", "0.3")))
    >>> print(sheet.text)
    groups 2
    group density
    north     0.2
    south     0.3
    """

    header: tuple[str, ...] = ()
    lines: tuple[tuple[str, ...], ...] = ()

    @property
    def text(self) -> str:
        """The card, and the table in columns."""
        table = [self.header, *self.lines]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        first, *rest = widths
        columns = (
            [f"{line[0]:<{first}}", *(f"{cell:>{w}}" for cell, w in zip(line[1:], rest, strict=True))] for line in table
        )
        return "\n".join([super().text, *(" ".join(cells) for cells in columns)])

    @property
    def grid(self) -> Any:
        """The card and the table for a terminal."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table()
        for place, name in enumerate(self.header):
            table.add_column(Text(name), justify="right" if place else "left")
        for line in self.lines:
            table.add_row(*map(Text, line))
        return Group(super().grid, table)

    @property
    def html(self) -> str:
        """The card and the table for a notebook."""
        head = _html_cells(self.header, "font-weight: bold;")
        body = "".join(_html_cells(line) for line in self.lines)
        style = "border-collapse: collapse; color: inherit; font-size: 90%; margin-top: 0.6em;"
        return f'{super().html}<table style="{style}">{head}{body}</table>'


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


def grid_of(thing: Displayed) -> "RichTable":
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
