"""CSV and TSV: bytes cut where a record ends, a header, and blocks of rows parsed by Polars.

A record of NDJSON ends at a newline. One of CSV ends at a newline outside quotes: from the start of a record on, that
is one with an even number of quotes before it.
"""

import csv
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from panprivacy.display import counted
from panprivacy.ingest.batch import REPEATS_HEADER, BadInput, Cause, Columns, Hint, Kind, shown_names
from panprivacy.ingest.files import NOT_UTF8, is_utf8

if TYPE_CHECKING:
    import polars as pl

LONGEST = 2**24
"""Bytes after which a record that has not ended is an error."""
MOST_COLUMNS = 10_000
"""Columns of what comes through a pipe, or in a body."""
_BOM = b"\xef\xbb\xbf"
WHOLE = r"^(-?[0-9]{1,15})\.0+$"
"""A whole number as programs write it that know only floats, such as 12.0: floats tell integers of 15 digits apart."""
ROUNDED = r"^-?([0-9]{16,}\.0+|[0-9](\.[0-9]+)?[eE]\+[0-9]+)$"
"""A float that may stand for several integers, such as 1.2E+17."""
MERGED = "was written as a float, which merges large ids (2**53 and 2**53 + 1 are one float): write integers or text"
"""Why an id that is written as a float is refused."""
_LIKE_NOTHING = ("na", "n/a", "nan", "null", "none", "nil", "-")  # how programs write that there is no id
_LOOKED_AT = 1_000  # rows that tell integers from text


class Cutter:
    """Takes pieces of any length and gives back blocks of whole records.

    >>> cutter = Cutter(quotes=True)
    >>> cutter.cut(b'1,a\\n2,"b\\nc'), cutter.cut(b'"\\n3,'), cutter.rest
    (b'1,a\\n', b'2,"b\\nc"\\n', b'3,')
    """

    def __init__(self, quotes: bool, longest: int = 0) -> None:
        self._quotes = quotes
        self.longest = longest or LONGEST
        """Bytes after which a record that has not ended is an error."""
        self.stuck = False
        """Whether the record that has begun is longer than any should be."""
        self.quoted = False
        """Whether the rest is inside quotes."""
        self._parts: list[bytes] = []  # joined when the record ends: so each byte is looked at once
        self._size = 0

    @property
    def rest(self) -> bytes:
        """What has been taken and not given back: the beginning of a record."""
        return b"".join(self._parts)

    def cut(self, piece: bytes) -> bytes:
        """Take a piece; give back all records that it completes."""
        has_quotes = self._quotes and (self.quoted or b'"' in piece)
        if has_quotes:
            from panprivacy.ingest.csv_kernels import last_end  # compiles: only where there are quotes

            end = last_end(piece, self.quoted)
        else:
            end = piece.rfind(b"\n") + 1
        block = b"".join((*self._parts, piece[:end])) if end else b""
        if end:
            self._parts, self._size, self.quoted = [], 0, False
        self._parts.append(piece[end:])
        self._size += len(piece) - end
        self.stuck = self._size > self.longest
        if has_quotes:
            self.quoted ^= piece.count(b'"', end) % 2 == 1
        return block


def record_ends(block: bytes, quotes: bool, most: int | None = None) -> list[int]:
    r"""Where each record of a block ends, or the first `most` of them do; many are needed only to name a bad one.

    >>> record_ends(b'1,a\n2,"b\nc"\n3', quotes=True), record_ends(b'1,a\n2,"b\nc"\n3', quotes=True, most=1)
    ([4, 12, 13], [4])
    """
    ends: list[int] = []
    odd, start = 0, 0
    while start < len(block) and len(ends) != most:
        end = block.find(b"\n", start) + 1 or len(block)
        odd ^= block.count(b'"', start, end) % 2 if quotes else 0
        if not odd:
            ends.append(end)
        start = end
    return [*ends, len(block)] if odd or not block else ends


@dataclass(frozen=True)
class Layout:
    """How the fields of a row are told apart, and named."""

    separator: str = ","
    header: bool = True
    """Whether the first row names the columns; otherwise they are called 1, 2, 3..."""
    missing: tuple[str, ...] = ()
    """What a missing value may look like, besides nothing at all."""

    def __post_init__(self) -> None:
        if len(self.separator) != 1 or self.separator in '"\r\n' or not self.separator.isascii():
            raise ValueError(f"a separator is one plain character, got {self.separator!r}")


class Delimited:
    """Parses blocks of one CSV file, whose columns its first block tells."""

    def __init__(self, file: str, columns: Columns, layout: Layout, first_block: bytes, *, piped: bool = False) -> None:
        self._layout, self._columns, self._piped = layout, columns, piped
        end = record_ends(first_block, quotes=True, most=1)[0]
        if not is_utf8(first_block[:end]):
            raise BadInput(file, NOT_UTF8, code="not-utf8")
        if any(b"\r" in unquoted for unquoted in first_block[:end].rstrip(b"\r\n").split(b'"')[::2]):
            cause = r"its lines end in CR alone, as on old Macs; convert it, for example with tr '\r' '\n'"
            raise BadInput(file, cause, code="line-ends")
        if piped and first_block.count(layout.separator.encode(), 0, end) >= MOST_COLUMNS:
            raise BadInput(file, f"there are more than {MOST_COLUMNS:,} columns", code="too-many-columns")
        first_row = split_row(first_block[:end], layout.separator)
        self.names = first_row if layout.header else [str(i + 1) for i in range(len(first_row))]
        columns.check_names(file, self.names, told_of(first_row, layout, piped=piped))
        self.skip = end if layout.header else 0
        """Bytes of the first block that are the header."""
        self._ids = [self.names.index(name) for name in columns.ids]
        self.kind = columns.kind or self._kind_in(first_block[self.skip :])
        # Polars calls the columns of a file without header so; the header was in the first block only.
        self._names = {f"column_{self.names.index(name) + 1}": name for name in columns.names}

    def parse(self, block: bytes) -> "pl.DataFrame":
        """Read the columns asked for; raises what Polars raises, or `ValueError` for a row that it would misread."""
        from panprivacy.ingest.csv_kernels import first_refused  # compiles: only where there is something to parse

        integers = self._ids if self.kind is Kind.integers else ()
        if first_refused(block, self._layout.separator, len(self.names), integers) >= 0:
            raise ValueError("a row is ragged, or an integer has leading zeros")
        if block.startswith((b"\n", b"\r\n")):  # Polars takes the first row for all the fields there are
            block = self._layout.separator.encode() * (len(self.names) - 1) + block
        frame = self._typed(block)
        frame.columns = [self._names[place] for place in frame.columns]  # `rename` takes as long as a short block does
        return frame

    def _typed(self, block: bytes) -> "pl.DataFrame":
        """Read a block in which 12.0 is another way to write the id 12, whether ids are integers or text."""
        import polars as pl

        if self.kind is Kind.integers or not _may_have_floats(block, rounded=not self._piped):
            try:
                return self._read(block, pl.String if self.kind is Kind.text else pl.Int64)
            except pl.exceptions.PolarsError:
                if not _may_have_floats(block, rounded=False):
                    raise
        spelled = self._read(block, pl.String)
        ids = pl.col([f"column_{i + 1}" for i in self._ids])
        # In a pipe, one user's text must not refuse the rows of others; it counts as it is written.
        if not self._piped and spelled.select(pl.any_horizontal(ids.str.contains(ROUNDED).any())).item():
            raise ValueError("an id was written as a float")
        ids = ids.str.replace(WHOLE, "$1")
        return spelled.with_columns(ids.cast(pl.Int64) if self.kind is Kind.integers else ids)

    def _read(self, block: bytes, ids: "type[pl.DataType]") -> "pl.DataFrame":
        import polars as pl

        schema: dict[str, type[pl.DataType]] = {f"column_{i + 1}": pl.String for i in range(len(self.names))}
        schema.update({f"column_{i + 1}": ids for i in self._ids})
        return pl.read_csv(
            block,
            has_header=False,
            separator=self._layout.separator,
            schema=schema,
            columns=list(self._names),
            null_values=list(self._layout.missing) or None,
        )

    def cause(self, row: bytes) -> Cause:
        """The error for a row that `parse` refuses."""
        if row.count(self._layout.separator.encode()) > max(MOST_COLUMNS, 2 * len(self.names)):
            return Cause(f"too many fields, where the header has {len(self.names):,}")
        fields = split_row(row, self._layout.separator)
        if len(fields) != len(self.names):
            return Cause(f"{counted(len(fields), 'field')} where the header has {len(self.names):,}")
        if self._layout.header and fields == self.names:
            return Cause(REPEATS_HEADER)
        wrong = (self._wrong_id(self.names[i], fields[i]) for i in self._ids)
        return next(filter(None, wrong), Cause("the row is malformed: look at its quotes"))

    def _wrong_id(self, name: str, id_: str) -> Cause | None:
        """The error for an id, and the options that help."""
        if self.kind is Kind.integers and is_padded(id_):
            return self._columns.if_padded(name, repr(id_))
        if re.fullmatch(ROUNDED, id_):
            return Cause(f"{name} {id_!r} {MERGED}")
        spelled = re.sub(WHOLE, r"\1", id_)
        is_whole = re.fullmatch("[+-]?[0-9]{1,19}", spelled) is not None and -(2**63) <= int(spelled) < 2**63
        if self.kind is Kind.text or is_whole or id_ in ("", *self._layout.missing):
            return None
        hints = (Hint("missing", id_),) if id_.lower() in _LIKE_NOTHING else self._columns.if_text
        return Cause(f"{name} {id_!r} is not a whole number of 64 bits", hints)

    def _kind_in(self, block: bytes) -> Kind:
        """Tell integers from text by the first rows: text as soon as one of their ids is not spelled like a number."""
        ends = [0, *record_ends(block, quotes=True, most=_LOOKED_AT)]
        for start, end in pairwise(ends):
            fields = split_row(block[start:end], self._layout.separator)
            found = [fields[i] for i in self._ids if i < len(fields) and fields[i] not in ("", *self._layout.missing)]
            if not all(is_canonical(re.sub(WHOLE, r"\1", value)) for value in found):
                return Kind.text
        return Kind.integers


def _may_have_floats(block: bytes, *, rounded: bool) -> bool:
    """Whether an id may be written like 12.0, or `rounded` like 1.2E+17; most blocks have no point and no plus."""
    whole = b"." in block and b".0" in block
    return whole or (rounded and b"+" in block and (b"E+" in block or b"e+" in block))


def told_of(first_row: list[str], layout: Layout, *, piped: bool = False) -> Cause:
    """What columns there are, by name, unless the first row may be no header: then its fields may be users.

    The header of a file is quoted unless a field begins like a number. A pipe's header never is: no reader can
    look at it again, and the error may end up in a log.

    >>> told_of(["patient", "at"], Layout()).text, told_of(["P0550", "3"], Layout(header=False)).text
    ("it has 'patient', 'at'", 'its columns are called 1 to 2')
    """
    hints: tuple[Hint, ...] = ()
    if not layout.header:
        said = f"its columns are called 1 to {len(first_row)}"
    elif piped or any(re.match("[+-]?[0-9]", name) for name in first_row):
        said = f"its first row, of {counted(len(first_row), 'field')}, is not shown, since it may be a user's"
        hints = (Hint("no-header"),)
    else:
        said = f"it has {shown_names(first_row)}"
    other = next((each for each in ";\t|," if len(first_row) == 1 and each in first_row[0]), "")
    if other:  # with this separator all of the first row seems to be one column
        name = "separator-tab" if other == "\t" else "separator-of-tsv" if layout.separator == "\t" else "separator"
        hints = (*hints, Hint(name, other))
    return Cause(said, hints)


def is_padded(value: str) -> bool:
    """Whether a text is an integer with leading zeros.

    >>> is_padded("007"), is_padded("-07"), is_padded("0"), is_padded("0.0"), is_padded("7")
    (True, True, False, False, False)
    """
    return re.match(r"[ +-]*0[0-9]", value) is not None


def is_canonical(value: str) -> bool:
    """Whether a text is just how an integer is spelled: then nothing is lost by reading it as one.

    >>> is_canonical("-12"), is_canonical("007"), is_canonical("12a"), is_canonical("99999999999999999999")
    (True, False, False, False)
    """
    return re.fullmatch("0|-?[1-9][0-9]{0,18}", value) is not None and -(2**63) <= int(value) < 2**63


def split_row(row: bytes, separator: str) -> list[str]:
    """The fields of one row.

    >>> split_row(b'1,"a,b"\\r\\n', ",")
    ['1', 'a,b']
    """
    text = row.removeprefix(_BOM).decode("utf-8", errors="replace").rstrip("\r\n")
    try:
        return next(csv.reader([text], delimiter=separator), [""])
    except csv.Error:  # a field of more than 128 KiB, or a line break where none should be
        return text.split(separator)
