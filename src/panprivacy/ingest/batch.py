"""The columns that readers are asked for, the batches they return, and errors about files."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from panprivacy.errors import PanPrivacyError

if TYPE_CHECKING:
    import polars as pl

    Types: TypeAlias = dict[str, type[pl.DataType]]
    """The type that each column is to be read as."""


class Hint(NamedTuple):
    """What would help: a name, which each shell puts in its own words, and the value that it is about."""

    name: str
    value: str = ""


class Cause(NamedTuple):
    """An error, and the options that help."""

    text: str
    hints: tuple[Hint, ...] = ()


class BadInput(PanPrivacyError, ValueError):
    """A file, or one row of it, that cannot be counted.

    Rows are counted from 1; the header of a CSV file is not a row. The code names a problem of the service: it
    names the problem without repeating the content of a row.

    >>> print(BadInput("visits.csv", "user 'x' is not a whole number", row=7))
    visits.csv: row 7: user 'x' is not a whole number
    """

    def __init__(
        self,
        file: str,
        cause: str,
        row: int | None = None,
        *,
        code: str = "unreadable",
        hints: Sequence[Hint] = (),
        lacks: str = "",
        has: Sequence[str] = (),
    ) -> None:
        self.row = row
        self.hints = tuple(hints)
        """What would help."""
        self.lacks, self.has = lacks, tuple(has)
        """The column that is missing, and the names of those that are there, which may be a row that is no header."""
        place = file if row is None else f"{file}: row {row}"
        line = " ".join(cause.split())
        # What a file holds may be quoted here, and a terminal would obey some characters.
        super().__init__(f"{place}: {''.join(c if c.isprintable() else '?' for c in line)}", code=code)


REPEATS_HEADER = "this row repeats the header: files that were joined have one each; leave it out"
"""The error for a row that repeats the header."""


class Kind(StrEnum):
    """What ids can be."""

    integers = "integers"
    text = "text"


@dataclass(frozen=True)
class Columns:
    """The columns that a command asks for.

    `kind` is what ids are to be: integers, text, or, if it is None, what the first file says.
    """

    ids: tuple[str, ...]
    """One column, or the two ends of an edge."""
    kind: Kind | None = None
    action: str | None = None
    time: str | None = None
    category: str | None = None

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.names):
            raise ValueError(f"a column has one role only, and here it has more: {', '.join(self.names)}")

    @property
    def names(self) -> list[str]:
        """All columns, ids first."""
        return [*self.ids, *(name for name in (self.action, self.time, self.category) if name is not None)]

    @property
    def needed(self) -> list[str]:
        """Those without which a row cannot be counted: ids, and the category where there is one."""
        return [*self.ids, *([self.category] if self.category is not None else [])]

    @property
    def if_text(self) -> tuple[Hint, ...]:
        """What would help where ids are read as integers and turn out to be text."""
        return (Hint("text-nodes" if len(self.ids) == 2 else "text-ids"),)

    def if_padded(self, name: str, value: str) -> Cause:
        """The error for an id like 007 where ids are integers, and the options that help."""
        said = f"{name} {value} has leading zeros, and ids are integers here: if it is the id without them, write it so"
        return Cause(said, self.if_text)

    def check_names(self, file: str, present: list[str], told: Cause | None = None) -> None:
        """Refuse a file that lacks one of the columns; `told` is what to say of those that it has."""
        there = told or Cause(f"it has {shown_names(present)}")
        for name in self.names:
            if name not in present:
                cause = f"no column {name!r}; {there.text}"
                raise BadInput(file, cause, code="no-column", hints=there.hints, lacks=name, has=present)
            if present.count(name) > 1:
                raise BadInput(file, f"{present.count(name)} columns are called {name!r}", code="repeated-column")

    def types(self, kind: Kind) -> "Types":
        """How text is to be read, given the kind of the ids."""
        import polars as pl

        ids = pl.String if kind is Kind.text else pl.Int64
        types: Types = dict.fromkeys(self.ids, ids)
        if self.action is not None:
            types[self.action] = pl.String
        if self.time is not None:
            types[self.time] = pl.String
        if self.category is not None:
            types[self.category] = pl.String
        return types


def shown_names(names: list[str]) -> str:
    """The names of columns, each in quotes; of very many or very long ones, their beginnings."""
    return ", ".join(repr(name[:40]) for name in names[:20]) + (", ..." if len(names) > 20 else "")


@dataclass(frozen=True)
class Batch:
    """Some rows of a file, in order, that are counted whole or not at all."""

    file: str
    rows: "pl.DataFrame"
    before: int
    """How many rows of the file came before."""
    position: int
    """How many bytes of the file have been read, for a progress bar."""
