"""Cells: a 64-bit hash owns one bit of levels x buckets.

The level is the number of trailing zeros of the hash, so half of all users fall in level 0, a quarter in level 1 and
so on; the bucket comes from the high half of the hash, which the level never looks at.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.errors import CannotMerge, InvalidValue, PanPrivacyError
from panprivacy.memory.scratch import Scratch
from panprivacy.slots import hashed_kernels, kernels
from panprivacy.universe.categories import Categories
from panprivacy.universe.integers import Lookup, Words

_MASK = 2**64 - 1
LARGEST_LEVELS = 32
LARGEST_BUCKETS = 2**24
LARGEST_UNIONS = 1000


@dataclass(frozen=True)
class Hashed:
    """One bit for every level and bucket, in `parts` tables one after the other, each the union of `unions` tables.

    A user is in level l with probability ``2**-(l+1)``, in the last level with the rest, and in each bucket of
    its level alike. Several parts are tables that saw disjoint users: which part a user belongs to, a hash cannot
    tell, so such slots only count.
    """

    lookup = Lookup.HASHED
    KERNELS = ("slots.hashed_kernels",)

    levels: int
    buckets: int
    parts: int = 1
    unions: int = 1
    categories: Categories | None = None
    """What users are asked about, each of them about one, which the hash chooses: each has levels and buckets."""

    def __post_init__(self) -> None:
        if not 2 <= self.buckets <= LARGEST_BUCKETS:
            raise InvalidValue(
                f"buckets must be between 2 and {LARGEST_BUCKETS:,}, got {self.buckets}", code="buckets-range"
            )
        if not 1 <= self.levels <= LARGEST_LEVELS:
            raise InvalidValue(f"levels must be between 1 and {LARGEST_LEVELS}, got {self.levels}", code="levels-range")
        if self.parts < 1 or not 1 <= self.unions <= LARGEST_UNIONS:
            raise ValueError(f"{self.parts} parts, each the union of {self.unions} tables, are not possible")

    @property
    def size(self) -> int:
        """How many bits there are."""
        return self.parts * self.tables * self.levels * self.buckets

    @property
    def tables(self) -> int:
        """How many tables a part has: one for each category."""
        return 1 if self.categories is None else len(self.categories)

    def beside(self, parts: "Sequence[Hashed]") -> "Hashed":
        """The slots of several tables of disjoint users, one after the other."""
        if any(part.unions != self.unions for part in parts):
            raise CannotMerge("some of the parts are unions of more tables than others", code="different-unions")
        return replace(self, parts=sum(part.parts for part in parts))

    def united(self, parts: "Sequence[Hashed]") -> "Hashed":
        """The slots of the union of several tables, this one among them."""
        if any(part.parts > 1 for part in parts):
            raise CannotMerge("tables side by side cannot be merged with others", code="side-by-side")
        return replace(self, unions=sum(part.unions for part in parts))

    def slot(self, index: Any) -> int:
        """The bit of one hash; the same as `select` for an array of one."""
        self._refuse_parts()
        if self.categories is None:
            return self._cell(index)
        hash_, code = index
        rank = self.categories.rank(code)
        asked = _digit(hash_, len(self.categories)) == rank
        return rank * self.levels * self.buckets + self._cell(hash_) if asked else -1

    def _cell(self, index: int) -> int:
        marked = index | 1 << self.levels - 1
        level = (marked & -marked).bit_length() - 1
        return level * self.buckets + ((index >> 32) * self.buckets >> 32)

    def select(self, indices: Any, scratch: Scratch) -> NDArray[np.unsignedinteger]:
        """The bits of these hashes, in order: every user has one, unless asked about another category."""
        self._refuse_parts()
        if self.categories is not None:
            hashes, codes = indices
            found: Words = scratch.empty("slots", len(hashes) + 1, np.uint64)
            layout = (self.categories.ranks, len(self.categories), self.levels, self.buckets)
            return found[: hashed_kernels.category_cells(hashes, codes, *layout, found)]
        # Half the memory to fetch, and enough for every size.
        slots: NDArray[np.uint32] = scratch.empty("cells", len(indices), np.uint32)
        lowest = scratch.empty("lowest", kernels.WINDOW, np.float64)
        hashed_kernels.cells(indices, self.levels, self.buckets, slots, lowest)
        return slots

    def _refuse_parts(self) -> None:
        if self.parts > 1:
            raise PanPrivacyError(
                "this is a merge of tables over disjoint users, and a hash does not tell whose table a user is in: "
                "feed the parts, and merge them afterwards",
                code="merged-not-fed",
            )


def _digit(hash_: int, categories: int) -> int:
    """`hashed_kernels._digit` for one hash."""
    h = (hash_ ^ hash_ >> 33) * 0x3C79AC492BA7B653 & _MASK
    h = (h ^ h >> 27) * 0x1C69B3F74AC4AE35 & _MASK
    return (h >> 32) * categories >> 32
