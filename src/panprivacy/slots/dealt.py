"""Users dealt to parts of a table by a keyed permutation: each part is a range of slots, and a sample of the users."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from panprivacy.checks import KEY_BYTES, check_key
from panprivacy.memory import Scratch
from panprivacy.privacy.coins import Coins
from panprivacy.sizes import counted
from panprivacy.slots.places import Sampled, network
from panprivacy.universe.words import Words

_SAVED = struct.Struct(f"<QI{KEY_BYTES}s")  # size, parts, key
_TRIES = 1000  # keys that are drawn until every group has a user


@dataclass(frozen=True)
class Dealt:
    """Slots in parts of one size, give or take one, which are filled by the permutation of `Sampled`.

    Who is in which part depends on the key alone, so a part is a random sample of the universe, and what it tells holds
    for everybody. The key protects nobody. The permutation works on a range slightly larger than the universe, so a few
    slots belong to nobody; each part knows how many of its slots do not.

    >>> dealt = Dealt(universe=1000, size=slots_of_all(1000), parts=7, key=bytes(16))
    >>> dealt.size, sum(dealt.part(i).users for i in range(7)), dealt.part(0, 7).users
    (1024, 1000, 1000)
    """

    universe: int
    size: int
    parts: int
    key: bytes

    def __post_init__(self) -> None:
        _ = self._whole  # made now: made at the first event, its presence would tell of that event

    def part(self, first: int, stop: int | None = None) -> Sampled:
        """One part, or those before `stop` that follow it as well, as a sample of the universe."""
        start, end = (i * self.size // self.parts for i in (first, first + 1 if stop is None else stop))
        return Sampled(self.universe, start, end - start, self.key)

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
    def _whole(self) -> Sampled:
        return Sampled(self.universe, 0, self.size, self.key)

    def to_bytes(self) -> bytes:
        """Write all but the universe."""
        return _SAVED.pack(self.size, self.parts, self.key)

    @classmethod
    def from_bytes(cls, data: bytes, universe: int) -> tuple[Self, bytes]:
        """Read what `to_bytes` wrote off the front of some bytes, and return what is left of them."""
        size, parts, key = _SAVED.unpack_from(data)
        if parts < 1 or not 1 <= size <= slots_of_all(universe):
            raise ValueError(f"{size} slots in {parts} parts are not possible for {universe} users")
        return cls(universe, size, parts, key), data[_SAVED.size :]


def slots_of_all(universe: int) -> int:
    """How many slots the permutation of a universe has, a few of them nobody's."""
    shift, blocks = network(universe, bytes(KEY_BYTES))[:2].tolist()
    return int(blocks << shift)


def deal(
    universe: int,
    size: int,
    parts: int,
    key: bytes | None,
    coins: Coins,
    *,
    groups: Sequence[tuple[int, int]],
    named: str = "groups",
) -> Dealt:
    """Deal a universe, or a sample of this size, to parts, under a key that leaves none of these groups without users.

    A group is some parts that follow one another: the first of them, and the first that is not one of them. `named` is
    what groups are called in front of somebody who has too few users for them.
    """
    slots = slots_of_all(universe) if size == universe else size
    given = check_key(key)
    if size >= len(groups):
        for _ in range(1 if given else _TRIES):
            chosen = given or coins.randbelow(2 ** (8 * KEY_BYTES)).to_bytes(KEY_BYTES, "little")
            dealt = Dealt(universe, slots, parts, chosen)
            if all(dealt.part(*group).users for group in groups):
                return dealt
    instead = "another key, or more users" if given else "more users"
    raise ValueError(
        f"{counted(size, 'user')} cannot be dealt to {len(groups)} {named}, with some in each; take {instead}"
    )
