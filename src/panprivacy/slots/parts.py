"""Parts of a table that a keyed permutation assigns users to; phases are parts that are reset one day after another.

Each part is a range of slots, and a random sample of the users.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import KEY_BYTES, check_key, shown
from panprivacy.display import counted
from panprivacy.errors import InvalidValue
from panprivacy.memory.scratch import Scratch
from panprivacy.memory.threads import CHUNK
from panprivacy.privacy.coins import Coins
from panprivacy.slots.users import UserSample, drawn_key, places_for
from panprivacy.table import Table
from panprivacy.universe.groups import Groups, Label
from panprivacy.universe.integers import Words

_SAVED = struct.Struct(f"<QI{KEY_BYTES}s")  # size, parts, key
_TRIES = 1000  # keys that are drawn until every run has a user


class PartOfGroup(NamedTuple):
    """The users of a group who are in some parts: a random sample of the group."""

    size: int
    """How many bits they have: one each."""
    users: int
    universe: int
    """How many users the group has."""


@dataclass(frozen=True)
class PermutedParts(UserSample):
    """A sample in parts of equal size, give or take one, which the permutation fills.

    The part of a user depends on the key alone, so each part is a random sample of the universe and stands for all of
    it. The key is no secret. The permutation works on a range slightly larger than the universe, so a few slots have no
    owner; each part knows how many of its slots have one.

    >>> slots = PermutedParts(universe=1000, first=0, size=places_for(1000), key=bytes(16), parts=7)
    >>> slots.size, sum(slots.part(i).users for i in range(7)), slots.part(0, 7).users
    (1024, 1000, 1000)
    """

    parts: int = field(kw_only=True)
    groups: Groups | None = field(default=None, kw_only=True)
    """The groups of the users, whose positions are in order of groups; their bits are not."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._sizes  # made now: made at the first event, its presence would tell of that event

    def part(self, first: int, stop: int | None = None) -> UserSample:
        """One part, or the parts from `first` up to `stop`, as a sample of the universe."""
        start, end = (i * self.size // self.parts for i in (first, first + 1 if stop is None else stop))
        return UserSample(self.universe, start, end - start, self.key)

    def part_of(self, group: int | None, first: int, stop: int | None = None) -> PartOfGroup:
        """The users of one group, or of all groups, in one part, or in the parts from `first` up to `stop`."""
        assert self.groups is not None
        rows = slice(None) if group is None else group
        users = int(self._sizes[rows, first : first + 1 if stop is None else stop].sum())
        return PartOfGroup(users, users, int(self.groups.sizes[rows].sum()))

    def group_number(self, label: Label) -> int:
        """The number of the group with this label."""
        if self.groups is None or label not in self.groups.labels:
            raise InvalidValue(f"there is no group {shown(label)}", code="no-such-group")
        return self.groups.labels.index(label)

    def count_groups(self, table: Table, counts: NDArray[np.int64]) -> None:
        """Write how many bits are 1 of each group in each part; the caller wipes the counts."""
        counts.fill(0)
        with Scratch() as scratch:
            for group, slots in self._slots_by_group(scratch):
                table.count_in_parts(slots, counts[group])

    def _slots_by_group(self, scratch: Scratch) -> Iterator[tuple[int, Words]]:
        """The bits of the users of each group, some at a time. All of it is public."""
        assert self.groups is not None
        for group, (first, end) in enumerate(pairwise(self.groups.bounds.tolist())):
            for start in range(first, end, CHUNK):
                yield group, self.select(np.arange(start, min(start + CHUNK, end), dtype=np.uint64), scratch)

    @cached_property
    def _sizes(self) -> NDArray[np.int64]:
        """How many users each group has in each part; nothing without groups."""
        sizes = np.zeros((len(self.groups.labels) if self.groups else 0, self.parts), dtype=np.int64)
        with Scratch() as scratch:
            for group, slots in self._slots_by_group(scratch) if self.groups else ():
                part = ((slots.astype(np.int64) + 1) * self.parts - 1) // self.size
                sizes[group] += np.bincount(part, minlength=self.parts)
        return sizes

    def to_bytes(self) -> bytes:
        """Write all but the universe and the groups."""
        return _SAVED.pack(self.size, self.parts, self.key)

    @classmethod
    def from_bytes(cls, data: bytes, universe: int) -> tuple[Self, bytes]:
        """Read what `to_bytes` wrote off the front of some bytes, and return the rest of them."""
        size, parts, key = _SAVED.unpack_from(data)
        if parts < 1 or not 1 <= size <= places_for(universe):
            raise ValueError(f"{size} slots in {parts} parts are not possible for {universe} users")
        return cls(universe, 0, size, key, parts=parts), data[_SAVED.size :]


def choose_parts(
    universe: int,
    size: int,
    parts: int,
    key: bytes | None,
    coins: Coins,
    *,
    runs: Sequence[tuple[int, int]],
    named: str = "runs",
    groups: Groups | None = None,
) -> PermutedParts:
    """Assign the users of a universe, or a sample of this size, to parts, with users in each of these runs of parts.

    A run is the first of its parts, and the first behind them. `named` says in errors what runs are.
    """
    slots = places_for(universe) if size == universe else size
    given = check_key(key)
    if size >= len(runs):
        for _ in range(1 if given else _TRIES):
            chosen = PermutedParts(universe, 0, slots, given or drawn_key(coins), parts=parts)
            if all(chosen.part(*run).users for run in runs):
                return chosen if groups is None else replace(chosen, groups=groups)
    instead = "another key, or more users" if given else "more users"
    raise InvalidValue(
        f"{counted(size, 'user')} are too few for {len(runs)} {named}, with some in each; take {instead}",
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
