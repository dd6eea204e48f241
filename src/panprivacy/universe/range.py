"""The universe 0..N-1."""

from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.errors import OutsideUniverse
from panprivacy.lazily import loaded
from panprivacy.memory import Scratch, mask
from panprivacy.universe.words import TooLarge, Words, as_words

_HALF = 2**31  # read as unsigned, a negative number of 32 bits is not below this

_NAMED = 3
"""How many ids an error names."""


@dataclass(frozen=True)
class Range:
    """The users 0..size-1, each known by its number."""

    size: int

    def as_column(self, ids: Any) -> Any:
        """Numbers are one column already."""
        return ids

    def index(self, user: Any) -> int:
        """The position of one user."""
        number = user if type(user) is int else integer(user)
        if 0 <= number < self.size:
            return number
        raise self._outside([number], 1)

    def indices(self, chunk: Any, scratch: Scratch) -> Words:
        """The positions of a chunk of users: their numbers."""
        words = self.unchecked(chunk, scratch)
        wrong = loaded("panprivacy.universe.kernels").count_outside(words, self.size)
        if wrong:
            raise self._outside(first_of(chunk, (int(word) >= self.size for word in words)), wrong)
        return words

    def unchecked(self, chunk: Any, scratch: Scratch) -> Words:
        """The positions of a chunk of users; numbers outside the universe stay as they are, for slots to refuse."""
        try:
            return as_words(chunk, scratch, narrow=self.size <= _HALF)[0]
        except TooLarge as error:
            raise self._outside([chunk[error.row]], 1) from None

    def inside(self, chunk: Any) -> NDArray[np.bool_]:
        """Whether each user of a chunk is in the universe."""
        with Scratch() as scratch:
            try:
                words = as_words(chunk, scratch)[0]
                return np.less(words, np.uint64(self.size), out=mask(len(words)))
            except TooLarge:
                found = mask(len(chunk))
                found[:] = [0 <= int(user) < self.size for user in chunk]
                return found

    def _outside(self, named: list[Any], wrong: int) -> OutsideUniverse:
        return outside_of(named, wrong, f"the universe 0..{self.size - 1}")

    def describe(self) -> str:
        """What the universe is, in a few words."""
        return f"{self.size:,} users"


def integer(user: Any) -> int:
    """The number that an id is; True is refused, though Python would let it pass for 1."""
    try:
        if isinstance(user, float | np.floating) and float(user).is_integer():
            return int(user)
        if not isinstance(user, bool):
            return index(user)
    except TypeError:
        pass
    raise TypeError(f"ids must be integers, got {user!r}; for other ids, list them with pp.Users(...)")


def first_of(chunk: Any, wrong: Any) -> list[Any]:
    """The first few ids of a chunk that are wrong, for an error to name."""
    named: list[Any] = []
    for row, bad in enumerate(wrong):
        if bad:
            user = chunk[row]
            named.append(user.item() if isinstance(user, np.generic) else user)
            if len(named) == _NAMED:
                break
    return named


def outside_of(named: list[Any], wrong: int, place: str) -> OutsideUniverse:
    """Name the first few of so many ids that are outside a universe."""
    listed = ", ".join(str(user) for user in named)
    more = f" and {wrong - len(named)} more" if wrong > len(named) else ""
    users, verb = ("user", "is") if wrong == 1 else ("users", "are")
    return OutsideUniverse(f"{users} {listed}{more} {verb} outside {place}; nothing was changed")
