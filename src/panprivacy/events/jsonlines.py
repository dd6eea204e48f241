"""NDJSON: one JSON object a line, parsed by Polars."""

import json
from typing import TYPE_CHECKING

from panprivacy.events.batch import Columns, Kind

if TYPE_CHECKING:
    import polars as pl


class JsonLines:
    """Parses blocks of one NDJSON file. A key that is not there is a missing value."""

    quotes = False
    skip = 0

    def __init__(self, file: str, columns: Columns, first_block: bytes) -> None:
        self._columns = columns
        self.kind = columns.kind or self._kind_in(first_block)
        self._types = columns.types(self.kind)
        first = _object(first_block.lstrip().split(b"\n", 1)[0])
        if first and not set(first) & set(columns.names):
            # Keys may come and go from line to line; where not even one is known, the name is wrong.
            columns.check_names(file, list(first))

    def parse(self, block: bytes) -> "pl.DataFrame":
        """Read the keys that were asked for; raises what Polars raises."""
        import polars as pl

        return pl.read_ndjson(block, schema=self._types)

    def cause(self, row: bytes) -> str:
        """Say what is wrong with one row that `parse` refuses."""
        found = _object(row)
        if found is None:
            return f"not a JSON object: {_shortened(row)}"
        for name in self._types:
            if not self._fits(name, found.get(name)):
                what = "a whole number of 64 bits" if name in self._columns.ids else "a number"
                return f"{name} {json.dumps(found[name])} is not {what}"
        return f"not readable: {_shortened(row)}"

    def _fits(self, name: str, value: object) -> bool:
        import polars as pl

        if value is None or self._types[name] == pl.String:
            return True
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return self._types[name] == pl.Float64 or (isinstance(value, int) and -(2**63) <= value < 2**63)

    def _kind_in(self, block: bytes) -> Kind:
        """Tell integers from text by the first row that has an id."""
        for line in block.split(b"\n"):
            for name in self._columns.ids:
                value = (_object(line) or {}).get(name)
                if value is not None:
                    return Kind.integers if isinstance(value, int) else Kind.text
        return Kind.integers


def keys_of(line: bytes) -> list[str]:
    """The keys of one object."""
    return list(_object(line) or {})


def _object(line: bytes) -> dict[str, object] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _shortened(row: bytes) -> str:
    text = row.decode("utf-8", errors="replace").strip()
    return repr(text if len(text) <= 60 else text[:57] + "...")
