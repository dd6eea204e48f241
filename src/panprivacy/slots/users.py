r"""Slots: which bit of the table, if any, does a user own?

A user is first a position in the universe, 0..N-1 (see `universe`), and then a *slot*: the position itself where every
user has a bit, or the place that a keyed permutation gives the position where only a sample has. The users whose slot
is in ``first .. first+size-1`` own a bit of the table; other users leave no trace.

**One category per user.** An event is in a category, and a user may appear in all of them. A bit for each category
would multiply the loss by their number, and a limit on the categories of a user would need a record of them. So each
user is asked about one category, which the key chooses, and owns one bit. Events in other categories leave no trace.

The key permutes the users (see `UserSample`), and the places are cut into as many ranges as there are categories, of
equal sizes, give or take one. So the users who are asked about a category are a random sample of all users, drawn
without replacement, and their bits stand together.

**Hashed cells.** In an open universe a user is a 64-bit hash, which owns one bit of levels x buckets. The level is the
number of trailing zeros of the hash, so half of all users fall in level 0, a quarter in level 1 and so on; the bucket
comes from the high half of the hash, which the level never looks at.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import KEY_BYTES, shown
from panprivacy.errors import CannotMerge, InvalidValue, PanPrivacyError
from panprivacy.memory.scratch import Scratch
from panprivacy.privacy.coins import Coins
from panprivacy.slots import hashed_kernels, kernels
from panprivacy.universe.categories import Categories
from panprivacy.universe.groups import Groups, Label
from panprivacy.universe.integers import Lookup, Words

NO_SLOT = -1
"""Stands for the slot of a user who owns no bit."""


@dataclass(frozen=True, eq=False)
class Ranges:
    """Slots that are released range by range: one range for each group or category. All of it is public.

    Range i has the slots ``bounds[i] .. bounds[i+1]-1``.
    """

    labels: tuple[Label, ...]
    bounds: NDArray[np.int64]
    users: NDArray[np.int64]
    """How many users own a bit in each range."""
    population: NDArray[np.int64]
    """How many users the bits of each range stand for."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def bits(self) -> NDArray[np.int64]:
        """How many bits each range has."""
        return np.diff(self.bounds)

    def number(self, label: Label) -> int:
        """The number of the range with this label."""
        if label not in self.labels:
            raise InvalidValue(f"there is no group {shown(label)}", code="no-such-group")
        return self.labels.index(label)


@dataclass(frozen=True)
class AllUsers:
    """Every user of a universe, or of one block of it, has a bit, or a counter and a bit."""

    lookup = Lookup.DIRECT

    universe: int
    first: int
    size: int
    groups: Groups | None = None
    """Which slots belong to which group, where users have groups."""
    up_to: int = 1
    """How many places a counter has: how many appearances of a user it tells apart. 1 if there are no counters."""

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

    population = users
    """How many users the bits stand for."""

    def slot(self, index: int) -> int:
        place = index - self.first
        return place if 0 <= place < self.size else NO_SLOT

    def select(self, indices: Words, scratch: Scratch) -> Words:
        if self.size == self.universe:
            return indices  # the table finds those outside itself
        slots: Words = scratch.empty("slots", len(indices) + 1, np.uint64)
        return front(slots, kernels.select_block(indices, self.universe, self.first, self.size, slots))


@dataclass(frozen=True)
class UserSample:
    """A random sample of the universe has bits: the users whom a keyed permutation sends below `size`.

    No id is stored, only the key. The permutation works on a range that is slightly larger than the universe (by less
    than 0.1 % from a million users on), so a few slots have no owner; `users` counts the slots that have one. The key
    decides who is sampled. It is no secret: it tells who was sampled, and nothing else.
    """

    lookup = Lookup.HASHED

    universe: int
    first: int
    size: int
    key: bytes
    rounds: int = 0
    """Rounds of the permutation; 0 for as many as the universe needs."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounds", self.rounds or rounds_for(self.universe))
        _ = self.users, self.network  # found now: found at the first event, their presence would tell of that event

    @property
    def population(self) -> int:
        """How many users the bits stand for."""
        return self.universe

    @property
    def ranges(self) -> None:
        """A sample has no groups: its bits are in the order that the key gives them."""

    @cached_property
    def users(self) -> int:
        """How many users own a bit."""
        return self.size - sum(len(slots) for slots in self.unowned())

    def unowned(self) -> Iterator[Words]:
        """The slots that have no owner, some at a time."""
        end, step = places_for(self.universe), 2**20
        with Scratch() as scratch:
            for at in range(self.universe, end, step):
                behind = np.arange(at, min(at + step, end), dtype=np.uint64)
                yield self._locate(behind, end, scratch)

    def slot(self, index: int) -> int:
        place: int = kernels.permute_one(index, self.network) - self.first
        return place if 0 <= place < self.size else NO_SLOT

    def select(self, indices: Words, scratch: Scratch) -> Words:
        return self._locate(indices, self.universe, scratch)

    def _locate(self, indices: Words, end: int, scratch: Scratch) -> Words:
        slots: Words = scratch.empty("slots", len(indices) + 1, np.uint64)
        window = scratch.empty("window", 3 * kernels.WINDOW, np.uint32)
        return front(slots, kernels.locate(indices, self.network, end, self.first, self.size, slots, window))

    @cached_property
    def network(self) -> NDArray[np.uint32]:
        """Shift, blocks and keys of the rounds, as the kernels take them."""
        return network(self.universe, self.key, self.rounds)


Slots: TypeAlias = AllUsers | UserSample


def joined(parts: Sequence[Slots]) -> Slots:
    """The slots of several tables that follow one another, as the slots of one table."""
    for before, part in pairwise(parts):
        if (type(before), getattr(before, "key", None)) != (type(part), getattr(part, "key", None)):
            what = "keys" if type(before) is type(part) else "samples"
            raise CannotMerge(f"the parts have different {what}", code="different-plans")
        end = before.first + before.size
        if end != part.first:
            what = "overlap" if end > part.first else "leave a gap between them"
            raise CannotMerge(
                f"the parts {what}: one ends at slot {end}, the next starts at {part.first}", code="shards-apart"
            )
    return replace(parts[0], size=sum(part.size for part in parts))


def front(slots: Words, found: int) -> Words:
    """The slots that a kernel found; it says -1 for an index outside the universe."""
    if found < 0:
        raise IndexError("an index is outside the universe")
    return slots[:found]


ROUNDS, MORE_ROUNDS = 6, 12
"""Four rounds leave the number of sampled users in a block of ids up to 29 % too variable. Six do not, except in small
universes, which need twelve."""

_SMALL = 4096  # users below which six rounds leave more than 1 % too much variance


def rounds_for(universe: int) -> int:
    """How many rounds permute a universe well."""
    return MORE_ROUNDS if universe < _SMALL else ROUNDS


def _shape(universe: int) -> tuple[int, int]:
    """The shift and the number of blocks of the smallest permutation that covers a universe."""
    bits = (universe - 1).bit_length()
    shift = max(bits // 2, bits - 16, 1)
    return shift, -(-universe >> shift)


def places_for(universe: int) -> int:
    """How many places the permutation of a universe has: a few more than users."""
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


def drawn_key(coins: Coins) -> bytes:
    """A new key from the coins."""
    return coins.randbelow(2 ** (8 * KEY_BYTES)).to_bytes(KEY_BYTES, "little")


@dataclass(frozen=True)
class OneCategoryPerUser:
    """Every user who has a place is asked about one category, and owns one bit, or a counter and a bit."""

    lookup = Lookup.HASHED
    KERNELS = ("slots.hashed_kernels", "universe.lookup_kernels")  # categories are looked up

    places: UserSample
    categories: Categories
    up_to: int = 1
    """How many places a counter has; 1 if there are no counters."""
    ranges: Ranges = field(init=False, repr=False, compare=False)
    """The categories, each with the bits of the users who are asked about it."""
    first: int = field(init=False, default=0, repr=False, compare=False)
    size: int = field(init=False, repr=False, compare=False)
    """How many bits there are."""
    users: int = field(init=False, repr=False, compare=False)
    """How many users own a bit."""
    population: int = field(init=False, repr=False, compare=False)
    """How many users the bits stand for."""
    _bounds: NDArray[np.uint64] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        bounds = self.places.size * np.arange(len(self.categories) + 1) // len(self.categories)
        unowned = np.zeros(len(self.categories), dtype=np.int64)
        for slots in self.places.unowned():
            unowned += np.histogram(slots.astype(np.int64), bounds)[0]
        population = np.full(len(self.categories), self.places.universe)
        users = np.diff(bounds) - unowned
        ranges = Ranges(self.categories.labels, bounds, users, population)
        sizes = {"size": self.places.size, "users": self.places.users, "population": self.places.universe}
        for name, value in (sizes | {"ranges": ranges, "_bounds": bounds.astype(np.uint64)}).items():
            object.__setattr__(self, name, value)

    def slot(self, index: Any) -> int:
        """The bit of one user and category; -1 if the user is not asked about it."""
        user, code = index
        place, rank = self.places.slot(user), self.categories.rank(code)
        return place if self.ranges.bounds[rank] <= place < self.ranges.bounds[rank + 1] else NO_SLOT

    def select(self, indices: Any, scratch: Scratch) -> Words:
        """The bits of the events that have one, in order; `IndexError` for a user outside the universe."""
        users, codes = indices
        slots: Words = scratch.empty("slots", len(users) + 1, np.uint64)
        window = scratch.empty("window", 3 * kernels.WINDOW, np.uint32)
        located = (self.places.network, self.places.universe, self._bounds, self.categories.ranks)
        return front(slots, hashed_kernels.locate_in_category(users, codes, *located, slots, window))


CountedSlots: TypeAlias = AllUsers | OneCategoryPerUser
"""Slots that may have a counter each."""


def with_counters(slots: Slots | OneCategoryPerUser, up_to: int) -> CountedSlots:
    """These slots, with a counter for each."""
    if isinstance(slots, UserSample):
        raise InvalidValue("a sample of the users has no counters", code="sample-and-counters")
    return replace(slots, up_to=up_to)


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
