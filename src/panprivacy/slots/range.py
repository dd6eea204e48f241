"""The universe 0..N-1."""

from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.errors import OutsideUniverse
from panprivacy.slots.batches import column
from panprivacy.slots.places import Indices


@dataclass(frozen=True)
class Range:
    """The users 0..size-1, each known by its number."""

    size: int

    def as_batch(self, ids: Any) -> Any:
        """Ids of this universe are one column already."""
        return ids

    def index(self, user: Any) -> int:
        """The position of one user."""
        number = user if type(user) is int else integer(user)
        if 0 <= number < self.size:
            return number
        raise outside([user], self.size)

    def indices(self, chunk: Any) -> Indices:
        """The positions of a chunk of users."""
        ids = column(chunk)
        # Read as unsigned, a negative number of 64 bits is beyond any universe: one comparison does for both ends.
        # A shorter one is not: -1 of 8 bits would be user 255.
        read = ids.view(np.uint64) if ids.dtype == np.int64 else ids
        if len(ids) and (read.max() >= self.size or (read.dtype.kind != "u" and ids.min() < 0)):
            raise outside(ids[~self.inside(ids)].tolist(), self.size)
        return ids if ids.dtype != object else ids.astype(np.uint64)

    def inside(self, chunk: Any) -> NDArray[np.bool_]:
        """Of each of a chunk of users, whether it is one of them."""
        ids = column(chunk)
        return np.asarray((ids >= 0) & (ids < self.size), dtype=np.bool_)

    def unchecked(self, chunk: Any) -> Indices:
        """The positions of a chunk of users; numbers outside the universe stay as they are, for slots to refuse."""
        ids = column(chunk)
        return ids if ids.dtype != object else self.indices(chunk)

    def describe(self) -> str:
        """What the universe is, in a few words."""
        return f"{self.size:,} users"


def integer(user: Any) -> int:
    """The number that an id is; True is none, though Python would let it pass for 1."""
    try:
        if not isinstance(user, bool):
            return index(user)
    except TypeError:
        pass
    raise TypeError(f"ids must be integers, got {user!r}; for other ids, list them with pp.Users(...)")


def outside(bad: list[Any], size: int) -> OutsideUniverse:
    """Name the first few ids that are outside ``0..size-1``."""
    return outside_of(bad, f"the universe 0..{size - 1}")


def outside_of(bad: list[Any], place: str) -> OutsideUniverse:
    """Name the first few ids that are outside a universe."""
    named = ", ".join(str(user) for user in bad[:3])
    more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
    users, verb = ("user", "is") if len(bad) == 1 else ("users", "are")
    return OutsideUniverse(f"{users} {named}{more} {verb} outside {place}; nothing was changed")
