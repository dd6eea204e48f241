"""The table: what happens to the bits."""

from panprivacy.table.bits import Bits, Table

__all__ = ["Bits", "Table"]
