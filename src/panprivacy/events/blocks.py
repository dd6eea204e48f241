"""Bytes as they come, cut where a record ends.

A record of NDJSON ends at a newline. One of CSV ends at a newline outside quotes: from the start of a record on, that
is one with an even number of quotes before it.
"""

BLOCK = 2**21
"""Bytes that are parsed at a time."""

LONGEST = 2**24
"""Bytes after which a record that has not ended is an error."""


class Cutter:
    """Takes pieces of any length and gives back blocks of whole records.

    >>> cutter = Cutter(quotes=True)
    >>> cutter.cut(b'1,a\\n2,"b\\nc'), cutter.cut(b'"\\n3,'), cutter.rest
    (b'1,a\\n', b'2,"b\\nc"\\n', b'3,')
    """

    def __init__(self, quotes: bool) -> None:
        self._quotes = quotes
        self.rest = b""
        """What has been taken and not given back: the beginning of a record."""

    def cut(self, piece: bytes) -> bytes:
        """Take a piece; give back all records that it completes."""
        data = self.rest + piece
        end = data.rfind(b"\n") + 1
        if self._quotes and b'"' in data:
            end = _outside_quotes(data, end)
        block, self.rest = data[:end], data[end:]
        return block

    @property
    def stuck(self) -> bool:
        """Whether the record that has begun is longer than any should be."""
        return len(self.rest) > LONGEST

    @property
    def quoted(self) -> bool:
        """Whether what is left is inside quotes."""
        return self._quotes and self.rest.count(b'"') % 2 == 1


def _outside_quotes(data: bytes, end: int) -> int:
    """Go back from the end of a line to the end of a record."""
    odd = data.count(b'"', 0, end) % 2
    while odd and end:
        line = data.rfind(b"\n", 0, end - 1) + 1
        odd ^= data.count(b'"', line, end) % 2
        end = line
    return end


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
