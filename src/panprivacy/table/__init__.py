"""The table: what happens to the bits."""

from panprivacy.table.bits import Bits, Table
from panprivacy.table.counters import Counters

__all__ = ["Bits", "Counters", "Table"]
