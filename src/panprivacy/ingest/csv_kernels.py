"""Does every row of a CSV block have as many fields as the header, and is no integer written with leading zeros?

A row with a field too many or too few has its id in the wrong place, and Polars does not mind as long as it is not
asked for the whole row. Nor does it mind leading zeros: it would read the ids 007 and 7 as one user.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-decorators=False
from collections.abc import Sequence

import numpy as np
from numba import njit, types

_QUOTE, _NEWLINE, _RETURN = 34, 10, 13
_SPACE, _PLUS, _MINUS = 32, 43, 45
_ZERO, _NINE = 48, 57
_OCTETS = types.Array(types.uint8, 1, "C", readonly=True)


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
