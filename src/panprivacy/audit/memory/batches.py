"""Users, and batches of their ids: known to the auditor, and handed to the imaged process one batch at a time.

A batch comes in each container that programs use, over memory that can be wiped where that is possible. The imaged
process reads the ids from a file straight into an array, so that it holds no copies of them but those that the
container itself makes.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.audit.memory.estimators import (
    bits_each,
    categories_of,
    category_of,
    nodes_for,
    parts_of,
    spacing,
)
from panprivacy.audit.memory.patterns import Words
from panprivacy.memory.threads import CHUNK
from panprivacy.table.batch import ROWS_PER_THREAD
from panprivacy.testing import estimator_of, slots_of
from panprivacy.universe.integers import Lookup

Ids: TypeAlias = NDArray[Any]

TEXTS = ("list of text", "NumPy text", "Polars text", "Arrow text", "iterator of text")
_TYPES = {"NumPy int32": "<i4", "NumPy big-endian": ">i8", "pandas categorical": "<i4"}
LETTERS = 12
"""Letters of an id that is a text."""
COLUMN = "user"
"""The column of ids in a frame."""

People = NDArray[np.int64]
"""Users by their number in the pool."""

_ALPHABET = np.frombuffer(b"abcdefghijkmnpqrstuvwxyz23456789", dtype=np.uint8)
TINY = 100
"""Events of a batch whose arrays NumPy would keep when they are freed."""
SHORT = 1_000
"""Events of a short batch."""
LONG = CHUNK + 10_000
"""Events of a long batch: coins are drawn for fewer at a time."""
HUGE = 2 * ROWS_PER_THREAD[Lookup.DIRECT] + 10_000
"""Events of a batch that two threads share, whatever the container."""
FEW = 1_000
"""Users who come one by one."""
_FIRST = {"tiny": TINY, "short": SHORT, "singly": FEW}  # batches of the first users of a group
_GROUPS = 8  # a batch is of an eighth of the users: ascending ids then have gaps that tell them from others
_WHOLE = {"shards": "density", "Counts, shards": "Counts"}
"""The kind of estimator that the parts of a kind are merged into."""


@dataclass(frozen=True)
class StoredBatch:
    """A batch in a file: ids one after the other, as the container wants them."""

    path: str
    container: str
    rows: int
    above: int
    """The number of categories of a pandas categorical, whose codes are the ids: a power of two above all of them."""


def store(ids: Ids, container: str, path: Path) -> StoredBatch:
    """Write a batch for another process."""
    layouts: dict[str, Any] = {
        "NumPy int32": lambda: ids.astype("<i4"),
        "pandas categorical": lambda: ids.astype("<i4"),
        "NumPy big-endian": lambda: ids.astype(">i8"),
        "NumPy strided": lambda: np.repeat(ids, 2),
        "NumPy text": lambda: ids.astype(f"U{LETTERS}"),
        "Arrow text": lambda: ids,
    }
    path.write_bytes(layouts.get(container, lambda: ids)().tobytes())
    above = 1 << int(ids.max()).bit_length() if container == "pandas categorical" else 0
    return StoredBatch(str(path), container, len(ids), above)


@contextmanager
def opened(batch: StoredBatch) -> Iterator[Any]:
    """A batch in its container; what can be wiped of it is wiped in the end."""
    octets = np.zeros(Path(batch.path).stat().st_size, dtype=np.uint8)
    try:
        with Path(batch.path).open("rb", buffering=0) as file:
            file.readinto(octets.data)
        yield _contained(octets, batch)
    finally:
        octets.fill(0)


def singly(batch: StoredBatch) -> Iterator[Any]:
    """The ids of a batch, one after the other, as Python has them."""
    with opened(batch) as ids:
        for i in range(batch.rows):  # `ids[i]` would leave the id in NumPy's own cache of small arrays
            user = ids.item(i) if ids.ndim == 1 else (ids.item(i, 0), ids.item(i, 1))
            yield user.decode() if isinstance(user, bytes) else user


def bare(container: str) -> str:
    """The container without anything around it, from which ids are taken one by one."""
    return "bare text" if container in TEXTS else "NumPy pairs" if container == "NumPy pairs" else "NumPy int64"


def _contained(octets: NDArray[np.uint8], batch: StoredBatch) -> Any:
    container = batch.container
    if container in ("bare text", *TEXTS):
        return _texts(octets, container)
    ids = octets.view(_TYPES.get(container, "<i8"))
    if container in ("Arrow", "Polars", "Polars frame", "pandas", "pandas categorical"):
        return _column(ids, container, batch.above)
    if container in ("list", "iterator", "range"):
        return _objects(ids, container)
    if container == "NumPy pairs":
        return ids.reshape(batch.rows, 2)
    return ids[::2] if container == "NumPy strided" else ids


def _objects(ids: Ids, container: str) -> Any:
    if container == "range":
        first, second, last = ids.item(0), ids.item(1), ids.item(-1)
        return range(first, last + 1, second - first)
    return iter(ids.tolist()) if container == "iterator" else ids.tolist()


def _column(ids: Ids, container: str, above: int) -> Any:
    """A column that shares the memory of the array."""
    if container == "pandas":
        import pandas as pd

        return pd.Series(ids, copy=False)
    if container == "pandas categorical":  # its codes are the ids, and its categories are all numbers up to them
        import pandas as pd

        everybody = pd.CategoricalDtype(pd.RangeIndex(above))
        return pd.Series(pd.Categorical.from_codes(ids, dtype=everybody), copy=False)
    import pyarrow as pa

    column = pa.Array.from_buffers(pa.int64(), len(ids), [None, pa.py_buffer(ids)])
    if container == "Arrow":
        return column
    import polars as pl

    series = pl.from_arrow(column)
    return pl.DataFrame({COLUMN: series}) if container == "Polars frame" else series


def _texts(octets: NDArray[np.uint8], container: str) -> Any:
    if container == "NumPy text":
        return octets.view(f"U{LETTERS}")
    bare = octets.view(f"S{LETTERS}")
    if container == "bare text":
        return bare
    if container == "Arrow text":
        import pyarrow as pa

        starts = np.arange(0, len(octets) + 1, LETTERS, dtype=np.int32)
        return pa.Array.from_buffers(pa.string(), len(bare), [None, pa.py_buffer(starts), pa.py_buffer(octets)])
    listed = [text.decode() for text in bare.tolist()]
    if container == "Polars text":
        import polars as pl

        return pl.Series(listed)
    return iter(listed) if container == "iterator of text" else listed


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
        """The last event of each user, in order: it decides the bit."""
        return self.events[-self.different :]

    def up_to(self, users: int | None) -> "Batch":
        """One event of each of the first users, if there are to be so few."""
        return self if users is None else Batch(self.last[:users], min(self.different, users))


class UserPool:
    """The users of a scenario, each with an id, a position in the universe, and a bit."""

    def __init__(self, kind: str, users: int, container: str, seed: int, *, own_key: bool = False) -> None:
        self._random = np.random.default_rng(seed)
        self.kind = kind
        self.open = kind.startswith(("DistinctCount", "overlapping"))
        """Whether an id is one of 2**63, so that a single one is a find, or one of a list that anybody may know."""
        self.categories = categories_of(kind)
        """How many categories events can be in."""
        self.keyed = not ((self.open or self.categories) and own_key)
        """Whether the key is known that gives users their bits, and not the process's own."""
        self.container = container
        self.text = container in TEXTS
        self.ids = self._make_ids(users)
        self.users = len(self.ids)
        self._order = self._random.permutation(self.users)
        listed = self.listed
        self._est = estimator_of(parts_of(_WHOLE.get(kind, kind), users, listed)[0])

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
        return int(slots_of(self._est).size) * self.bits_each

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

    def among_strangers(self, ids: NDArray[Any], number: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Ids, each at random before or after one outside the universe; and which of these rows are the users'."""
        random = np.random.default_rng(number)
        strangers = letters(random, len(ids)) if self.text else random.integers(2**41, 2**42, len(ids))
        first = random.integers(0, 2, len(ids)).astype(np.bool_)
        inside = np.stack([first, ~first], axis=1)
        return np.where(inside, ids[:, None], strangers[:, None]).ravel(), inside.ravel()

    def places(self, people: People) -> Words:
        """The positions of users in their universe: hashes where it is open, zeros if they are not known."""
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
        slots: Any = slots_of(self._est)
        if self.bits_each > 1:
            return places.astype(np.int64) * self.bits_each + 1
        if not self.keyed:
            return np.full(len(places), -1)
        if self.categories:
            visits = zip(places.tolist(), self.codes(people).tolist(), strict=True)
            return np.fromiter((slots.slot(visit) for visit in visits), dtype=np.int64, count=len(places))
        if type(slots).__name__ == "AllUsers" and slots.size == self._est.universe.size:
            return places.astype(np.int64)
        return np.fromiter((slots.slot(place) for place in places.tolist()), dtype=np.int64, count=len(places))
