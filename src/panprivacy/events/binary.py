"""Columns of bytes, which Parquet and Arrow files have for UUIDs, hashes, and text that nobody declared as text.

Polars does not tell what a column of bytes was written as, so each value is told by itself: 16 bytes that are not all
printable ASCII are a UUID, which as ASCII it cannot be; other bytes are text if they are UTF-8, and are written in
hexadecimal if they are not.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

_ASCII_16 = r"^([2-6].|7[0-9a-e]){16}$"
_TAIL = "[89ab]."
_UTF8 = (  # table 3-7 of the Unicode standard, two digits a byte
    rf"^([0-7].|(c[2-9a-f]|d.){_TAIL}|e0[ab].{_TAIL}|(e[1-9a-cef])({_TAIL}){{2}}|ed[89].{_TAIL}"
    rf"|f0[9ab].({_TAIL}){{2}}|f[1-3]({_TAIL}){{3}}|f48.({_TAIL}){{2}})*$"
)


def as_text(column: "pl.Expr") -> "pl.Expr":
    """The text that each value of a column of bytes stands for.

    >>> import polars as pl
    >>> ids = pl.DataFrame({"id": [b"ada", b"\\xff\\x00", bytes(15) + b"\\x07", None]})
    >>> ids.select(as_text(pl.col("id")))["id"].to_list()
    ['ada', 'ff00', '00000000-0000-0000-0000-000000000007', None]
    """
    import polars as pl

    digits = column.bin.encode("hex")
    dashed = digits.str.replace(r"^(.{8})(.{4})(.{4})(.{4})(.{12})$", "$1-$2-$3-$4-$5")
    is_uuid = (column.bin.size() == 16) & ~digits.str.contains(_ASCII_16)
    is_text = digits.str.contains(_UTF8)
    text = pl.when(is_text).then(column).otherwise(pl.lit(b"")).cast(pl.String)
    return pl.when(is_uuid).then(dashed).when(is_text).then(text).otherwise(digits)
