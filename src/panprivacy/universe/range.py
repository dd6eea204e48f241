"""What a universe is, and the simplest one, 0..N-1."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import shown
from panprivacy.errors import InvalidType, InvalidValue, OutsideUniverse
from panprivacy.memory.scratch import Scratch, mask
from panprivacy.universe import kernels
from panprivacy.universe.columns import floats_refused
from panprivacy.universe.integers import NOT_THERE, Lookup, TooLarge, Words, as_words

_HALF = 2**31  # read as unsigned, a negative number of 32 bits is not below this

_NAMED = 3  # ids that an error names


class Universe(ABC):
    """The users there could be, each with a position below `size`."""

    size: int
    """How many users there could be."""
    lookup: Lookup
    """How long it takes to find the position of a user."""

    def as_column(self, ids: Any) -> Any:
        """Bring ids as they were given into one column, in a form that `batches` can cut by rows."""
        return ids

    @abstractmethod
    def index(self, user: Any) -> int:
        """The position of one user, or `OutsideUniverse`."""

    @abstractmethod
    def places(self, chunk: Any, scratch: Scratch) -> tuple[Words, int]:
        """The position of each of a chunk of users, beyond the last for one who is outside, and how many are."""

    def _outside(self, named: list[Any], wrong: int) -> OutsideUniverse:
        """The error that names some of the ids outside."""
        return outside_of(named, wrong, self.describe())

    @abstractmethod
    def describe(self) -> str:
        """What the universe is, in a few words."""

    def indices(self, chunk: Any, scratch: Scratch) -> Words:
        """The positions of a chunk of users, or `OutsideUniverse`."""
        places, wrong = self.places(chunk, scratch)
        if wrong:
            raise self._outside(first_of(chunk, (int(place) >= self.size for place in places)), wrong)
        return places

    def unchecked(self, chunk: Any, scratch: Scratch) -> Words:
        """`indices`, but a user outside the universe may have a position outside it, which the slots then refuse."""
        return self.indices(chunk, scratch)

    def inside(self, chunk: Any) -> NDArray[np.bool_]:
        """Whether each user of a chunk is in the universe."""
        with Scratch() as scratch:
            places = self.places(chunk, scratch)[0]
            return np.less(places, np.uint64(self.size), out=mask(len(places)))


@dataclass(frozen=True)
class Range(Universe):
    """The users 0..size-1, each known by its number."""

    size: int
    lookup = Lookup.DIRECT

    def index(self, user: Any) -> int:
        number = user if type(user) is int else integer(user)
        if 0 <= number < self.size:
            return number
        raise self._outside([number], 1)

    def places(self, chunk: Any, scratch: Scratch) -> tuple[Words, int]:
        words = self.unchecked(chunk, scratch)
        return words, kernels.count_outside(words, self.size)

    def unchecked(self, chunk: Any, scratch: Scratch) -> Words:
        try:
            return as_words(chunk, scratch, narrow=self.size <= _HALF)[0]
        except TooLarge:
            words: Words = scratch.empty("words", len(chunk), np.uint64)
            for row, user in enumerate(chunk):
                words[row] = user if 0 <= user < self.size else NOT_THERE
            return words

    def _outside(self, named: list[Any], wrong: int) -> OutsideUniverse:
        return outside_of(named, wrong, f"the universe 0..{self.size - 1}")

    def grown(self, more: Any) -> "Range":
        """The range with this many users."""
        if not hasattr(more, "__index__"):
            raise InvalidType(
                f"the users are 0..{self.size - 1}: say how many there are to be, as in grow(2000)", code="grow-type"
            )
        if more.__index__() < self.size:
            raise InvalidValue(
                f"a universe only grows: it has {self.size:,} users, and {more} were asked for", code="cannot-shrink"
            )
        return Range(more.__index__())

    def describe(self) -> str:
        return f"{self.size:,} users"


def integer(user: Any) -> int:
    """The number that an id is; True is refused, though Python would let it pass for 1."""
    try:
        if not isinstance(user, bool):
            return index(user)
    except TypeError:
        pass
    if isinstance(user, float | np.floating):
        raise floats_refused(type(user).__name__)
    raise InvalidType(
        f"ids must be integers, got {shown(user)}; for other ids, list them with pp.Users(...)", code="ids-type"
    )


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
    """An error that names the first few ids outside a universe, and how many there are."""
    listed = ", ".join(str(user) for user in named)
    more = f" and {wrong - len(named)} more" if wrong > len(named) else ""
    users, verb = ("user", "is") if wrong == 1 else ("users", "are")
    return OutsideUniverse(f"{users} {listed}{more} {verb} outside {place}; nothing was changed")
