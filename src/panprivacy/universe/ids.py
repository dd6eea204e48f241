"""What many ids are, for annotations."""

from collections.abc import Hashable, Iterable
from typing import Any, TypeAlias

Ids: TypeAlias = Iterable[Hashable | Iterable[Any]]
"""Many users at once, as `update_many` takes them.

A list, a set or a range of ids, a NumPy array, an Arrow, Polars or pandas column, or any iterator of ids. An id is an
integer, a text, bytes or a UUID, or whatever `pp.Users` lists. Edges are pairs: a list of them, an (n, 2) array, two
columns in a tuple, or a frame of two columns.
"""
