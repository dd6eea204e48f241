"""Who comes, and in which batch: known to the auditor, and handed to the imaged process a batch at a time."""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.audit.imaging.containers import LETTERS, TEXTS
from panprivacy.audit.imaging.needles import Words
from panprivacy.audit.imaging.subjects import (
    bits_each,
    categories_of,
    category_of,
    nodes_for,
    parts_of,
    spacing,
    within,
)
from panprivacy.privacy.coins import CHUNK
from panprivacy.threads import NUMBERS

People = NDArray[np.int64]
"""Users by their number in the crowd."""

_ALPHABET = np.frombuffer(b"abcdefghijkmnpqrstuvwxyz23456789", dtype=np.uint8)
TINY = 100
"""Events of a batch whose arrays NumPy would keep when they are freed."""
SHORT = 1_000
"""Events of a short batch."""
LONG = CHUNK + 10_000
"""Events of a long one: more than the coins are drawn for at a time."""
HUGE = 2 * NUMBERS + 10_000
"""Events of one that two threads work on, whatever it is of."""
FEW = 1_000
"""Users who come one by one."""
_FIRST = {"tiny": TINY, "short": SHORT, "singly": FEW}  # batches of the first users of a group
_GROUPS = 8  # a batch is of an eighth of the users: ascending ids then have gaps that tell them from others


_WHOLE = {"shards": "density", "Counts, shards": "Counts"}
"""Of what the estimators of a kind are the parts."""


def letters(random: np.random.Generator, texts: int) -> NDArray[np.bytes_]:
    """Texts of random letters."""
    drawn = _ALPHABET[random.integers(0, 32, (texts, LETTERS))]
    return np.ascontiguousarray(drawn).view(f"S{LETTERS}").ravel()


@dataclass(frozen=True)
class Batch:
    """Events, by the number of their user; the last of them are of different users."""

    events: People
    different: int

    @property
    def last(self) -> People:
        """The last event of each user, in order: the one that says what its bit is."""
        return self.events[-self.different :]


class Crowd:
    """The users of a scenario, each with an id, a position in the universe, and a bit."""

    def __init__(self, kind: str, users: int, container: str, seed: int, *, piped: bool = False) -> None:
        self._random = np.random.default_rng(seed)
        self.kind = kind
        self.open = kind.startswith(("DistinctCount", "overlapping"))
        """Whether an id is one of 2**63, so that a single one is a find, or one of a list that anybody may know."""
        self.categories = categories_of(kind)
        """How many categories events can be in."""
        self.keyed = not ((self.open or self.categories) and piped)
        """Whether the key is known that gives users their bits; a command draws its own, and tells nobody."""
        self.container = container
        self.text = container in TEXTS
        self.ids = self._make_ids(users)
        self.users = len(self.ids)
        self._order = self._random.permutation(self.users)
        listed = self.listed
        self._est = within(parts_of(_WHOLE.get(kind, kind), users, listed)[0])

    def _make_ids(self, users: int) -> NDArray[Any]:
        if self.text:
            return letters(self._random, users)
        if self.open:
            return self._random.integers(2**60, 2**63, users)
        if self.kind == "Edges":
            index = np.arange(nodes_for(users) * (nodes_for(users) - 1) // 2)
            high = ((1 + np.sqrt(1 + 8 * index.astype(np.float64))) / 2).astype(np.int64)
            return np.stack([index - high * (high - 1) // 2, high], axis=1)
        if self.kind.startswith("Users"):
            return np.unique(self._random.integers(2**20, 2**40, users))
        return np.arange(users) * spacing(self.kind, users)

    @property
    def bits_each(self) -> int:
        """How many bits a slot has: one, or a counter beside it."""
        return bits_each(self._est)

    @property
    def slots_in_all(self) -> int:
        """How many bits there are."""
        return self._est._slots.size * self.bits_each

    @property
    def listed(self) -> Any:
        """What a universe that is a list is made of, sorted; None for others."""
        if not self.kind.startswith("Users"):
            return None
        return [text.decode() for text in np.sort(self.ids).tolist()] if self.text else self.ids

    def batch(self, group: int, size: str) -> Batch:
        """The batch of one group of users, none of whom is in another."""
        each = self.users // _GROUPS
        if self.container == "range":  # every third user of a part of the universe
            people = np.arange(group * each, (group + 1) * each, 3)
            people = people[: _FIRST.get(size)]
            return Batch(people, len(people))
        group_ = self._order[group * each : (group + 1) * each]
        if size in _FIRST:
            few = group_[: _FIRST[size]]
            return Batch(few, len(few))
        rounds = -(-{"long": LONG, "huge": HUGE}.get(size, each) // each)
        return Batch(np.concatenate([self._random.permutation(group_) for _ in range(rounds)]), each)

    def given(self, people: People) -> NDArray[Any]:
        """The ids of users."""
        return self.ids[people]

    def places(self, people: People) -> Words:
        """The positions of users in their universe: hashes where it is open, zeros if nobody can know them."""
        if not self.keyed:
            return np.zeros(len(people), dtype=np.uint64)
        if not self.kind.startswith(("Edges", "Users")) and not self.open:
            return self.ids[people].astype(np.uint64)
        index = self._est.universe.index
        ids = self.given(people)
        users = [text.decode() for text in ids.tolist()] if self.text else ids.tolist()
        return np.fromiter((index(user) for user in users), dtype=np.uint64, count=len(people))

    def hashes(self, people: People) -> list[Words]:
        """By what a list looks users up: numbers of 64 bits that stand in its directory anyway, in another order."""
        universe = self._est.universe
        module = sys.modules[type(universe).__module__]
        ids = self.given(people)
        users = [text.decode() for text in ids.tolist()] if self.text else ids.tolist()
        known = [getattr(module, name, None) for name in ("_HASH", "_CHECK")] if self.listed is not None else []
        return [
            np.fromiter((hash_.index(user) for user in users), dtype=np.uint64, count=len(people))
            for hash_ in known
            if hash_ is not None
        ]

    def codes(self, people: People) -> Words:
        """What stands for the categories of users' events; categories are numbers from 0 on, and so are their codes."""
        return np.asarray(category_of(self.given(people), self.categories), dtype=np.uint64)

    def slots(self, places: Words, people: People) -> People:
        """The bits of users, -1 for those who have none; of a counter the lowest, which every event changes."""
        slots: Any = self._est._slots
        if self.bits_each > 1:
            return places.astype(np.int64) * self.bits_each + 1
        if not self.keyed:
            return np.full(len(places), -1)
        if self.categories:
            visits = zip(places.tolist(), self.codes(people).tolist(), strict=True)
            return np.fromiter((slots.slot(visit) for visit in visits), dtype=np.int64, count=len(places))
        if type(slots).__name__ == "Every" and slots.size == self._est.universe.size:
            return places.astype(np.int64)
        return np.fromiter((slots.slot(place) for place in places.tolist()), dtype=np.int64, count=len(places))
