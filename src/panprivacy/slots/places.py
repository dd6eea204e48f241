"""Which bit of the table, if any, does a user own?

A user is first an index of the universe, 0..N-1 (see `universe`), and then a *slot*: the index itself when every
user has a bit, or the place that a keyed permutation gives the index when only a sample has. The users whose slot
is in ``first .. first+size-1`` own a bit of the table; nobody else leaves any trace.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.errors import CannotMerge
from panprivacy.lazily import loaded
from panprivacy.memory import Scratch
from panprivacy.slots.ranges import Ranges
from panprivacy.universe.groups import Groups
from panprivacy.universe.words import Words

_NOWHERE = -1


@dataclass(frozen=True)
class Every:
    """Every user of a universe, or of one block of it, has a bit."""

    universe: int
    first: int
    size: int
    groups: Groups | None = None
    """Which of the bits are those of which group, where users have one."""

    @property
    def ranges(self) -> Ranges | None:
        """The groups, each with its bits; None where there are none."""
        if self.groups is None:
            return None
        sizes = self.groups.sizes
        return Ranges(self.groups.labels, self.groups.bounds, sizes, sizes)

    @property
    def users(self) -> int:
        """How many users own a bit."""
        return self.size

    @property
    def population(self) -> int:
        """How many users the bits speak for."""
        return self.size

    def slot(self, index: int) -> int:
        """The bit of one user; -1 if the user has none."""
        place = index - self.first
        return place if 0 <= place < self.size else _NOWHERE

    def select(self, indices: Words, scratch: Scratch) -> Words:
        """The bits of those users that have one, in order; `IndexError` for an index outside the universe.

        With a bit for everyone, the table finds those itself.
        """
        if self.size == self.universe:
            return indices
        select_block = loaded("panprivacy.slots.kernels").select_block
        slots: Words = scratch.empty("slots", len(indices) + 1, np.uint64)
        return front(slots, select_block(indices, self.universe, self.first, self.size, slots))


@dataclass(frozen=True)
class Sampled:
    """A random sample of the universe has bits: the users whom a keyed permutation sends below `size`.

    No id is stored, only the key. The permutation works on a range that is slightly larger than the universe
    (under 0.1 % from a million users on), so a few slots belong to nobody; `users` counts those that do not.
    The key decides who is sampled and protects nobody: whoever knows it learns no more than who was sampled.
    """

    universe: int
    first: int
    size: int
    key: bytes
    rounds: int = 0
    """Rounds of the permutation; 0 stands for as many as the universe takes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounds", self.rounds or rounds_for(self.universe))
        _ = self.users, self.network  # found now: found at the first event, their presence would tell of that event

    @property
    def population(self) -> int:
        """How many users the bits speak for."""
        return self.universe

    @property
    def ranges(self) -> None:
        """A sample has no groups: its bits are in the order that the key gives them."""

    @cached_property
    def users(self) -> int:
        """How many users own a bit."""
        return self.size - sum(len(slots) for slots in self.nobodies())

    def nobodies(self) -> Iterator[Words]:
        """The slots that belong to nobody, some at a time."""
        end, step = places_for(self.universe), 2**20
        with Scratch() as scratch:
            for at in range(self.universe, end, step):
                behind = np.arange(at, min(at + step, end), dtype=np.uint64)
                yield self._locate(behind, end, scratch)

    def slot(self, index: int) -> int:
        """The bit of one user; -1 if the user has none."""
        place: int = loaded("panprivacy.slots.kernels").permute_one(index, self.network) - self.first
        return place if 0 <= place < self.size else _NOWHERE

    def select(self, indices: Words, scratch: Scratch) -> Words:
        """The bits of those users that have one, in order; `IndexError` for an index outside the universe."""
        return self._locate(indices, self.universe, scratch)

    def _locate(self, indices: Words, end: int, scratch: Scratch) -> Words:
        kernels = loaded("panprivacy.slots.kernels")
        slots: Words = scratch.empty("slots", len(indices) + 1, np.uint64)
        window = scratch.empty("window", 3 * kernels.WINDOW, np.uint32)
        return front(slots, kernels.locate(indices, self.network, end, self.first, self.size, slots, window))

    @cached_property
    def network(self) -> NDArray[np.uint32]:
        """Shift, blocks and keys of the rounds, as the kernels take them."""
        return network(self.universe, self.key, self.rounds)


Slots: TypeAlias = Every | Sampled


def joined(parts: Sequence[Slots]) -> Slots:
    """The slots of several tables whose slots follow one another, as those of one table."""
    for before, part in pairwise(parts):
        if (type(before), getattr(before, "key", None)) != (type(part), getattr(part, "key", None)):
            what = "keys" if type(before) is type(part) else "samples"
            raise CannotMerge(f"the parts have different {what}")
        end = before.first + before.size
        if end != part.first:
            what = "overlap" if end > part.first else "leave a gap between them"
            raise CannotMerge(f"the parts {what}: one ends at slot {end}, the next starts at {part.first}")
    return replace(parts[0], size=sum(part.size for part in parts))


def front(slots: Words, found: int) -> Words:
    """The slots that a kernel found; it says -1 for an index outside the universe."""
    if found < 0:
        raise IndexError("an index is outside the universe")
    return slots[:found]


ROUNDS, MORE_ROUNDS = 6, 12
"""Four rounds leave the number of sampled users in a block of ids up to 29 % too variable; six do not, but for small
universes, where it takes twelve."""

_SMALL = 4096  # users below which six rounds leave more than 1 % too much variance


def rounds_for(universe: int) -> int:
    """How many rounds it takes to permute a universe well."""
    return MORE_ROUNDS if universe < _SMALL else ROUNDS


def _shape(universe: int) -> tuple[int, int]:
    """The shift and the number of blocks of the smallest permutation that covers a universe."""
    bits = (universe - 1).bit_length()
    shift = max(bits // 2, bits - 16, 1)
    return shift, -(-universe >> shift)


def places_for(universe: int) -> int:
    """How many places the permutation of a universe has: as many as there are users, and a few more."""
    shift, blocks = _shape(universe)
    return blocks << shift


def network(universe: int, key: bytes, rounds: int | None = None) -> NDArray[np.uint32]:
    """Choose the smallest permutation that covers a universe: its shift, its blocks, and the keys of its rounds.

    It permutes ``0 .. blocks * 2**shift - 1`` (see `kernels.locate`). An index is ``(left, right)`` with left below
    `blocks`, at most 2**16, and right below ``2**shift``: about half the bits each, so that little is wasted and both
    halves mix.
    """
    shift, blocks = _shape(universe)
    size = 8 * ROUNDS  # bytes that one hash of the key gives
    salts = [bytes([i]) for i in range((rounds or rounds_for(universe)) // ROUNDS)]
    digest = b"".join(blake2b(key, digest_size=size, person=b"panprivacy slots", salt=salt).digest() for salt in salts)
    return np.concatenate([[shift, blocks], np.frombuffer(digest, dtype="<u4")]).astype(np.uint32)
