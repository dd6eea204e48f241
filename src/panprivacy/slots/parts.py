"""Parts of a table that a keyed permutation assigns users to; phases are parts that are reset one day after another.

Each part is a range of slots, and a random sample of the users.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from panprivacy.checks import KEY_BYTES, check_key
from panprivacy.errors import InvalidValue
from panprivacy.memory.scratch import Scratch
from panprivacy.privacy.coins import Coins
from panprivacy.slots.users import UserSample, drawn_key, places_for
from panprivacy.units import counted
from panprivacy.universe.integers import Lookup, Words

_SAVED = struct.Struct(f"<QI{KEY_BYTES}s")  # size, parts, key
_TRIES = 1000  # keys that are drawn until every group has a user


@dataclass(frozen=True)
class PermutedParts:
    """Slots in parts of equal size, give or take one, which the permutation of `UserSample` fills.

    The part of a user depends on the key alone, so each part is a random sample of the universe and stands for all of
    it. The key is no secret. The permutation works on a range slightly larger than the universe, so a few slots have no
    owner; each part knows how many of its slots have one.

    >>> slots = PermutedParts(universe=1000, size=places_for(1000), parts=7, key=bytes(16))
    >>> slots.size, sum(slots.part(i).users for i in range(7)), slots.part(0, 7).users
    (1024, 1000, 1000)
    """

    lookup = Lookup.HASHED

    universe: int
    size: int
    parts: int
    key: bytes

    def __post_init__(self) -> None:
        _ = self._whole  # made now: made at the first event, its presence would tell of that event

    def part(self, first: int, stop: int | None = None) -> UserSample:
        """One part, or the parts from `first` up to `stop`, as a sample of the universe."""
        start, end = (i * self.size // self.parts for i in (first, first + 1 if stop is None else stop))
        return UserSample(self.universe, start, end - start, self.key)

    @property
    def users(self) -> int:
        """How many users own a bit."""
        return self._whole.users

    def slot(self, index: int) -> int:
        """The bit of one user; -1 if the user has none."""
        return self._whole.slot(index)

    def select(self, indices: Words, scratch: Scratch) -> Words:
        """The bits of those users that have one, in order; `IndexError` for an index outside the universe."""
        return self._whole.select(indices, scratch)

    @cached_property
    def _whole(self) -> UserSample:
        return UserSample(self.universe, 0, self.size, self.key)

    def to_bytes(self) -> bytes:
        """Write all but the universe."""
        return _SAVED.pack(self.size, self.parts, self.key)

    @classmethod
    def from_bytes(cls, data: bytes, universe: int) -> tuple[Self, bytes]:
        """Read what `to_bytes` wrote off the front of some bytes, and return what is left of them."""
        size, parts, key = _SAVED.unpack_from(data)
        if parts < 1 or not 1 <= size <= places_for(universe):
            raise ValueError(f"{size} slots in {parts} parts are not possible for {universe} users")
        return cls(universe, size, parts, key), data[_SAVED.size :]


def choose_parts(
    universe: int,
    size: int,
    parts: int,
    key: bytes | None,
    coins: Coins,
    *,
    groups: Sequence[tuple[int, int]],
    named: str = "groups",
) -> PermutedParts:
    """Assign the users of a universe, or a sample of this size, to parts, with users in each of these groups.

    A group is a run of parts: the first of them, and the first behind them. `named` says in errors what groups are.
    """
    slots = places_for(universe) if size == universe else size
    given = check_key(key)
    if size >= len(groups):
        for _ in range(1 if given else _TRIES):
            chosen = PermutedParts(universe, slots, parts, given or drawn_key(coins))
            if all(chosen.part(*group).users for group in groups):
                return chosen
    instead = "another key, or more users" if given else "more users"
    raise InvalidValue(
        f"{counted(size, 'user')} are too few for {len(groups)} {named}, with some in each; take {instead}",
        code="too-few-users",
    )


def phase_reset_on(day: int, phases: int) -> int:
    """The phase whose bits are drawn anew at the start of a day; days are counted from 0."""
    return day % phases


def phases_by_age(day: int, phases: int) -> list[list[int]]:
    """For k = 1, 2, ..., the phases that tell of the last k days: this one, and the k-1 before it.

    At first all bits are new. So on the first days several phases tell of all days so far.

    >>> [phases_by_age(day, 3) for day in range(4)]
    [[[0, 1, 2]], [[1], [0, 2]], [[2], [1], [0]], [[0], [2], [1]]]
    """
    return [phases_of_age(day, age, phases) for age in range(1, min(day + 1, phases) + 1)]


def phases_of_age(day: int, age: int, phases: int) -> list[int]:
    """The phases that tell of the last `age` days at the end of a day; `age` is at most the number of days so far."""
    reset = day - age + 1
    if reset > 0 or day >= phases - 1:
        return [reset % phases]
    return [0, *range(day + 1, phases)]  # the first day: the phases whose turn has not come were as new as phase 0
