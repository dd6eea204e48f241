"""Does every row of a CSV block have as many fields as the header?

A row with a field too many or too few has its id in the wrong place, and Polars does not mind as long as it is not
asked for the whole row.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-decorators=False
import numpy as np
from numba import njit

_QUOTE, _NEWLINE, _RETURN = 34, 10, 13


def first_ragged(block: bytes, separator: str, columns: int) -> int:
    """The first row that has not this many fields, or -1; a blank line is a row whose fields are missing.

    >>> first_ragged(b'1,"a,b"\\n\\n2,c\\n3\\n', ",", 2)
    3
    """
    if columns == 1 and separator.encode() not in block:
        return -1
    return int(_first_ragged(np.frombuffer(block, dtype=np.uint8), ord(separator), columns))


@njit(nogil=True, cache=True)
def _first_ragged(block, separator, columns):
    row, start, fields, quoted = 0, 0, 1, False
    for i in range(len(block)):
        byte = block[i]
        if byte == _QUOTE:
            quoted = not quoted
        elif not quoted:
            if byte == separator:
                fields += 1
            elif byte == _NEWLINE:
                if fields != columns and not _blank(block, start, i):
                    return row
                row, start, fields = row + 1, i + 1, 1
    return row if fields != columns and not _blank(block, start, len(block)) else -1


@njit(nogil=True, inline="always")
def _blank(block, start, end):
    return start == end or (start + 1 == end and block[start] == _RETURN)
