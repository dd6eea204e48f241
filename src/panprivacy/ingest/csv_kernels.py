"""Loops over CSV: the integers of one column where all is plain, and what Polars does not look at.

**Plain.** A body is plain if it has no quotes, no blank lines and no letters beyond ASCII, its rows have as many fields
as the header, and the column that is asked for has integers of at most 18 digits.

**Checks.** Does every row of a block have as many fields as the header, and is no integer written with leading zeros? A
row with a field too many or too few has its id in the wrong place, and Polars does not mind as long as it is not
asked for the whole row. Nor does it mind leading zeros: it would read the ids 007 and 7 as one user.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-decorators=False
from collections.abc import Sequence

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from panprivacy.ingest.ndjson_kernels import after_integer, value_of
from panprivacy.memory.scratch import Scratch

_QUOTE, _NEWLINE, _RETURN = 34, 10, 13
_SPACE, _PLUS, _MINUS = 32, 43, 45
_ZERO, _NINE = 48, 57
_OCTETS = types.Array(types.uint8, 1, "C", readonly=True)
_COMMA, _DELETE = 44, 127
_NOT_PLAIN = -1
_LONGEST_HEADER = 2**10


def integers_in_column(octets: NDArray[np.uint8], name: str, scratch: Scratch) -> NDArray[np.int64] | None:
    """The integers of a column, one of each row; None if the body is not plain."""
    if not len(octets):
        return None
    end = int(scratch.own(octets[:_LONGEST_HEADER] == _NEWLINE).argmax())
    header = octets[:end].tobytes()
    names = header.removesuffix(b"\r").split(b",")
    if not header.isascii() or b'"' in header or names.count(name.encode()) != 1 or b"" in names:
        return None
    integers = scratch.empty("integers", len(octets) // (2 * len(names)) + 1, np.int64)
    rows = octets[end + 1 :]
    rows.flags.writeable = False
    found = _integers(rows, names.index(name.encode()), len(names), integers)
    return integers[:found] if found > 0 else None


def first_refused(block: bytes, separator: str, columns: int, integers: Sequence[int] = ()) -> int:
    """The first row that has not this many fields, or leading zeros in one of `integers`; -1 if there is none.

    `integers` are the places of columns that hold integers. A blank line is a row whose fields are missing.

    >>> first_refused(b'1,"a,b"\\n\\n2,c\\n3\\n', ",", 2), first_refused(b"10,07\\n07,10\\n", ",", 2, [0])
    (3, 1)
    """
    text = np.frombuffer(block, dtype=np.uint8)
    if columns == 1 and separator.encode() not in block and not (integers and _may_be_padded(text)):
        return -1
    padded = np.zeros(columns + 1, dtype=np.bool_)  # one place more, for the fields that are too many
    padded[list(integers)] = True
    return int(_first_refused(text, ord(separator), columns, padded))


def last_end(block: bytes, quoted: bool) -> int:
    """Where the last record that is whole ends; 0 if none is. `quoted` is whether the block begins inside quotes.

    >>> last_end(b'1,a\\n2,"b\\nc', False), last_end(b'b"\\n3\\n', True)
    (4, 5)
    """
    return int(_last_end(np.frombuffer(block, dtype=np.uint8), quoted))


@njit(types.int64(_OCTETS, types.boolean), nogil=True, cache=True)
def _last_end(block, quoted):
    end = 0
    for i in range(len(block)):
        if block[i] == _QUOTE:
            quoted = not quoted
        elif block[i] == _NEWLINE and not quoted:
            end = i + 1
    return end


@njit(nogil=True, inline="always")
def _blank(block, start, end):
    return start == end or (start + 1 == end and block[start] == _RETURN)


@njit(nogil=True, inline="always")
def _padded(block, start, separator):
    """Whether the field that starts here is an integer with leading zeros, signs, blanks and a quote apart."""
    i, end = start, len(block) - 1
    while i < end and block[i] != separator and block[i] in (_QUOTE, _SPACE, _PLUS, _MINUS):
        i += 1
    return i < end and block[i] == _ZERO and _ZERO <= block[i + 1] <= _NINE


@njit(types.boolean(_OCTETS), nogil=True, cache=True)
def _may_be_padded(block):
    """Whether a digit comes after a zero that no digit comes before: quick, as it needs no rows."""
    found = len(block) > 1 and block[0] == _ZERO and _ZERO <= block[1] <= _NINE
    for i in range(1, len(block) - 1):
        digit = block[i + 1] - np.uint8(_ZERO) <= np.uint8(9)
        found |= (block[i - 1] < _ZERO) & (block[i] == _ZERO) & digit
    return found


@njit(types.int64(_OCTETS, types.int64, types.int64, types.boolean[::1]), nogil=True, cache=True)
def _first_refused(block, separator, columns, integers):
    row, start, fields, quoted = 0, 0, 1, False
    if integers[0] and _padded(block, 0, separator):
        return row
    for i in range(len(block)):
        byte = block[i]
        if byte == _QUOTE:
            quoted = not quoted
        elif not quoted:
            if byte == separator:
                if integers[min(fields, columns)] and _padded(block, i + 1, separator):
                    return row
                fields += 1
            elif byte == _NEWLINE:
                if fields != columns and not _blank(block, start, i):
                    return row
                row, start, fields = row + 1, i + 1, 1
                if integers[0] and _padded(block, i + 1, separator):
                    return row
    return row if fields != columns and not _blank(block, start, len(block)) else -1


@njit(nogil=True, inline="always")
def _after_field(text, at):
    """Where the field that begins here ends: at a comma or at the end of its line; or `_NOT_PLAIN`."""
    while at < len(text) and text[at] != _COMMA and text[at] != _NEWLINE and text[at] != _RETURN:
        if text[at] == _QUOTE or not _SPACE <= text[at] < _DELETE:
            return _NOT_PLAIN
        at += 1
    return at


@njit(nogil=True, inline="always")
def _after_line(text, at):
    """Where the next line begins, if this one ends here."""
    if at + 1 < len(text) and text[at] == _RETURN and text[at + 1] == _NEWLINE:
        return at + 2
    return at + 1 if at < len(text) and text[at] == _NEWLINE else (at if at == len(text) else _NOT_PLAIN)


@njit(types.int64(_OCTETS, types.int64, types.int64, types.int64[::1]), nogil=True, cache=True)
def _integers(text, column, columns, integers):
    """Write the integers of a column; return how many there are, or `_NOT_PLAIN`."""
    at, rows = 0, 0
    while 0 <= at < len(text) and rows < len(integers):
        for field in range(columns):
            start = at
            at = after_integer(text, at) if field == column else _after_field(text, at)
            if field == column and at > 0:
                integers[rows] = value_of(text, start, at)
            if at >= 0 and field < columns - 1:
                at = at + 1 if at < len(text) and text[at] == _COMMA else _NOT_PLAIN
            if at < 0:
                return _NOT_PLAIN
        at, rows = _after_line(text, at), rows + 1
    return rows if at >= len(text) else _NOT_PLAIN
