"""Tables of FlatBuffers, in which Arrow writes what its messages hold.

A table begins with the distance back to a list of 16-bit numbers: two lengths, and places of fields.
"""

import struct
from typing import Any, NamedTuple


class NotThere(Exception):
    """A field that is needed has been left out."""


class Table(NamedTuple):
    """A table in some metadata. What points out of the metadata is a `struct.error`."""

    data: memoryview
    at: int

    @classmethod
    def root(cls, data: memoryview) -> "Table":
        """The outermost table."""
        return cls(data, struct.unpack_from("<I", data)[0])

    def place(self, field: int) -> int | None:
        """Where a field is; None if it has its default."""
        (back,) = struct.unpack_from("<i", self.data, self.at)
        fields = self.at - back
        (length,) = struct.unpack_from("<H", self.data, fields)
        entry = 4 + 2 * field
        offset = struct.unpack_from("<H", self.data, fields + entry)[0] if entry < length else 0
        return self.at + offset if offset else None

    def number(self, field: int, form: str, default: int = 0) -> int:
        """The number in a field."""
        place = self.place(field)
        return default if place is None else int(struct.unpack_from(form, self.data, place)[0])

    def below(self, field: int) -> int:
        """Where the thing is that a field points to."""
        place = self.place(field)
        if place is None:
            raise NotThere
        return place + int(struct.unpack_from("<I", self.data, place)[0])

    def table(self, field: int) -> "Table":
        """The table that a field points to."""
        return Table(self.data, self.below(field))

    def tables(self, field: int) -> "list[Table]":
        """The tables of a list; none if there is no list."""
        if self.place(field) is None:
            return []
        start = self.below(field)
        places = self._places(start)
        return [Table(self.data, place + struct.unpack_from("<I", self.data, place)[0]) for place in places]

    def _places(self, start: int) -> range:
        (count,) = struct.unpack_from("<I", self.data, start)
        if start + 4 + 4 * count > len(self.data):
            raise NotThere
        return range(start + 4, start + 4 + 4 * count, 4)

    def structs(self, field: int, form: str) -> list[tuple[Any, ...]]:
        """The structs of a list, each with this format; none if there is no list."""
        if self.place(field) is None:
            return []
        start, each = self.below(field), struct.Struct(form)
        (count,) = struct.unpack_from("<I", self.data, start)
        found = self.data[start + 4 : start + 4 + count * each.size]
        if len(found) != count * each.size:
            raise NotThere
        return list(each.iter_unpack(found))

    def text(self, field: int) -> str:
        """The text in a field."""
        start = self.below(field)
        (length,) = struct.unpack_from("<I", self.data, start)
        return bytes(self.data[start + 4 : start + 4 + length]).decode()
