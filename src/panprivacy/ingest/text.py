"""Streams of text: cut into blocks of whole rows and parsed by Polars. `delimited` parses CSV.

NDJSON, one JSON object a line: a column is a key, or like ``user.id`` a key of an inner object. Which of the two it is,
each row says for itself: no row decides where the ids of others are looked for.
"""

import json
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from panprivacy.ingest.batch import BadInput, Cause, Columns, Kind
from panprivacy.ingest.delimited import MERGED, Cutter, Delimited, Layout, is_padded, record_ends
from panprivacy.ingest.files import NOT_UTF8, Format, Stream, is_utf8, refuse_known

if TYPE_CHECKING:
    import polars as pl

EXACT = 2**53
"""From which on a float stands for several integers."""


class JsonLines:
    """Parses blocks of one NDJSON file. A key that is not there is a missing value."""

    skip = 0

    def __init__(self, file: str, columns: Columns, first_block: bytes) -> None:
        self._columns = columns
        first = next(_objects(first_block), {})
        self.names = list(_keys(first))
        if first and not any(name in first or _has_path(name.split("."), first) for name in columns.names):
            # Keys may come and go from line to line; where not even one is known, the name is wrong.
            columns.check_names(file, self.names)
        for name in columns.names:
            if any(other.startswith(f"{name}.") for other in columns.names):
                cause = f"{name} is asked for as a value, and as an object that holds another column"
                raise BadInput(file, cause, code="column-value-or-object")
        self._kind = columns.kind or self._kind_in(file, first_block)

    def parse(self, block: bytes) -> "pl.DataFrame":
        """Read the keys that were asked for; raises what Polars raises, or `ValueError` for a float that is no id.

        Where ids are integers, some of them may be written like 12.0.
        """
        import polars as pl

        ids = self._columns.ids
        try:
            return self._read(block, pl.String if self._kind is Kind.text else pl.Int64)
        except pl.exceptions.PolarsError:
            if self._kind is Kind.text:
                raise
        floats = self._read(block, pl.Float64)  # text is refused here
        if not all((floats[name].floor() == floats[name]).all() for name in ids):
            raise ValueError("a float is no whole number")
        if any((floats[name].abs() >= EXACT).any() for name in ids):  # Polars has read 2**53 + 1 and 2**53 + 1.0 alike
            values = (value_of(name, found) for found in _objects(block) for name in ids)
            if any(isinstance(value, float) and abs(value) >= EXACT for value in values):
                raise ValueError("a float may stand for several ids")
        return self._read(block, pl.String).with_columns(pl.col(ids).cast(pl.Int64))  # as text, large numbers are exact

    def _read(self, block: bytes, ids: "type[pl.DataType]") -> "pl.DataFrame":
        import polars as pl

        def value_at(path: tuple[str, ...]) -> pl.Expr:
            return reduce(lambda outer, key: outer.struct.field(key), path[1:], pl.col(path[0]))

        types = self._columns.types(ids)
        paths = {name: dict.fromkeys(((name,), tuple(name.split(".")))) for name in types}  # two if there is a dot
        frame = pl.read_ndjson(block, schema=_schema({path: types[name] for name in paths for path in paths[name]}))
        if all(len(each) == 1 for each in paths.values()):
            return frame
        return frame.select(pl.coalesce(map(value_at, each)).alias(name) for name, each in paths.items())

    def cause(self, row: bytes) -> Cause:
        """The error for a row that `parse` refuses."""
        found = _object(row)
        if found is None:
            return Cause(f"not a JSON object: {_shortened(row)}")
        for name in self._columns.names:
            wrong = self._wrong_id(name, value_of(name, found)) if name in self._columns.ids else None
            if wrong is not None:
                return wrong
            outer = _lookup(name.split(".")[:-1], found)
            if not isinstance(outer, dict | None):
                return Cause(f"{name} may be inside an object, and {json.dumps(outer)} stands in its place")
        return Cause(f"not readable: {_shortened(row)}")

    def _wrong_id(self, name: str, id_: object) -> Cause | None:
        if id_ is None or self._kind is Kind.text:
            return None
        spelled = json.dumps(id_)
        if isinstance(id_, str) and is_padded(id_):
            return self._columns.if_padded(name, spelled)
        if isinstance(id_, float) and id_.is_integer():
            return Cause(f"{name} {spelled} {MERGED}") if abs(id_) >= EXACT else None
        if type(id_) is int and -(2**63) <= id_ < 2**63:
            return None
        hints = self._columns.if_text if isinstance(id_, str) else ()
        return Cause(f"{name} {spelled} is not a whole number of 64 bits", hints)

    def _kind_in(self, file: str, block: bytes) -> Kind:
        """Tell integers from text by the first row that has an id."""
        for found in _objects(block):
            for name in self._columns.ids:
                value = value_of(name, found)
                if isinstance(value, dict | list):
                    advice = f"; say which of its keys, such as {name}.{next(iter(value))}" if value else ""
                    cause = f"{name} is {'an object' if isinstance(value, dict) else 'a list'}{advice}"
                    raise BadInput(file, cause, code="column-is-object")
                if value is not None:
                    return Kind.text if isinstance(value, str) else Kind.integers
        return Kind.integers


def _keys(found: dict[str, Any], before: str = "") -> Iterator[str]:
    """The keys of an object; keys of inner objects are like ``user.id``.

    >>> list(_keys({"user": {"id": 7}, "at": 3}))
    ['user.id', 'at']
    """
    for key, value in found.items():
        if isinstance(value, dict) and value:
            yield from _keys(value, f"{before}{key}.")
        else:
            yield before + key


def _has_path(path: list[str], found: Any) -> bool:
    """Whether an object has these keys; an inner object that is missing could have them."""
    if not path or found is None:
        return True
    return isinstance(found, dict) and path[0] in found and _has_path(path[1:], found[path[0]])


def value_of(name: str, found: dict[str, Any]) -> Any:
    """The value of a column in a row: under a key of just that name, if there is a value, or inside."""
    return _lookup(name.split("."), found) if found.get(name) is None else found[name]


def _lookup(path: list[str], found: Any) -> Any:
    """The value that the keys lead to, or the value that stands in their way."""
    return reduce(lambda outer, key: outer.get(key) if isinstance(outer, dict) else outer, path, found)


def _schema(types: "dict[tuple[str, ...], type[pl.DataType]]") -> dict[str, Any]:
    """Types of columns as Polars takes them, nested for inner objects."""
    import polars as pl

    inner: dict[str, dict[tuple[str, ...], type[pl.DataType]]] = {}
    for path, type_ in types.items():
        inner.setdefault(path[0], {})[path[1:]] = type_
    return {key: parts[()] if () in parts else pl.Struct(_schema(parts)) for key, parts in inner.items()}


def _objects(block: bytes) -> Iterator[dict[str, Any]]:
    """The objects in the lines of a block."""
    return (found for line in block.split(b"\n") if (found := _object(line)))


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _shortened(row: bytes) -> str:
    text = row.decode("utf-8", errors="replace").strip()
    return repr(text if len(text) <= 60 else text[:57] + "...")


class Text(Stream):
    """CSV or NDJSON. Its blocks are without the header, and without blank lines at the end."""

    def __init__(
        self, file: str, columns: Columns, format_: Format, layout: Layout | None, *, piped: bool, longest: int = 0
    ) -> None:
        super().__init__(file, columns)
        self._format, self._layout, self._piped = format_, layout or Layout(), piped
        if format_ is Format.tsv:
            self._layout = replace(self._layout, separator="\t")
        self._cutter = Cutter(format_ is not Format.ndjson, longest)
        self._parser: Delimited | JsonLines | None = None
        self._begun = False
        self._waiting: list[bytes] = []  # the header, until a row has come; blank lines, until a row comes after them

    @property
    def names(self) -> list[str] | None:
        return None if self._parser is None else self._parser.names

    def block(self, piece: bytes, last: bool = False) -> bytes:
        if not self._begun:
            refuse_known(self._file, piece)
            self._begun = True
        come = self._cutter.cut(piece)
        self.broken = self._cutter.stuck or (last and self._cutter.quoted)
        if last and not self.broken:
            come += self._cutter.rest
        if not (last or come.strip(b"\r\n")):
            self._waiting.append(come)
            return b""
        block, self._waiting = b"".join((*self._waiting, come)), []
        if self._parser is None:
            block = self._first(block, last)
        if self._format is Format.ndjson or not block:
            return block
        # Blank lines are kept back until a row comes after them: at the end of a file they are no rows.
        rows = len(block.rstrip(b"\r\n"))
        end = (block.find(b"\n", rows) + 1 or len(block)) if rows else 0
        self._waiting = [block[end:]]
        return block[:end]

    def fault(self) -> BadInput:
        cause = f"a row does not end within {self._cutter.longest:,} bytes, or not at all; is a quote left open?"
        return BadInput(self._file, cause, self.rows + 1, code="endless-row")

    def _first(self, block: bytes, last: bool) -> bytes:
        is_blank = not block.strip()
        if is_blank and last and not self.broken:
            raise BadInput(self._file, "there is nothing in it", code="empty-file")
        needs_header = self._format is not Format.ndjson and self._layout.header and not last
        if is_blank or (needs_header and len(record_ends(block, quotes=True, most=2)) < 2):
            self._waiting = [block]
            return b""
        if self._format is Format.ndjson:
            self._parser = JsonLines(self._file, self._columns, block)
        else:
            self._parser = Delimited(self._file, self._columns, self._layout, block, piped=self._piped)
        return block[self._parser.skip :]

    def parse(self, block: bytes) -> "pl.DataFrame":
        assert self._parser is not None
        return self._parser.parse(block)

    def blame(self, block: bytes) -> BadInput:
        """Find the first row that cannot be parsed, while the rows before it can."""
        from polars.exceptions import PanicException, PolarsError

        def is_refused(end: int) -> bool:
            try:
                self.parse(block[:end])
            except (PolarsError, PanicException, ValueError):
                return True
            return False

        assert self._parser is not None
        ends = record_ends(block, quotes=self._format is not Format.ndjson)
        place = bisect_left(ends, True, key=is_refused)
        if place == len(ends):
            return BadInput(self._file, "cannot be read as text in rows", self.rows + 1, code="not-text")
        row = block[ends[place - 1] if place else 0 : ends[place]]
        cause = self._parser.cause(row) if is_utf8(row) else Cause(NOT_UTF8)
        return BadInput(self._file, cause.text, self.rows + place + 1, hints=cause.hints)
