"""Users, and batches of their ids: known to the auditor, and handed to the imaged process one batch at a time.

A batch comes in each container that programs use, over memory that can be wiped where that is possible. The imaged
process reads the ids from a file straight into an array, so that it holds no copies of them but those that the
container itself makes.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.audit.memory.estimators import bits_each, categories_of, category_of, nodes_for, parts_of, spacing
from panprivacy.audit.memory.patterns import Words
from panprivacy.memory.threads import CHUNK
from panprivacy.table.batch import ROWS_PER_THREAD
from panprivacy.testing import estimator_of, slots_of
from panprivacy.universe.integers import Lookup

Ids: TypeAlias = NDArray[Any]

People = NDArray[np.int64]
"""Users by their number in the pool."""
LETTERS = 12  # letters of an id that is a text
COLUMN = "user"  # the column of ids in a frame
LONG = CHUNK + 10_000  # events of a long batch: coins are drawn for fewer at a time
_HUGE = 2 * ROWS_PER_THREAD[Lookup.DIRECT] + 10_000  # events that two threads share, whatever the container
# Batches of the first users of a group. The arrays of a tiny one NumPy would keep when they are freed.
_FIRST = {"tiny": 100, "short": 1_000, "singly": 1_000}
_GROUPS = 8  # a batch is of an eighth of the users: ascending ids then have gaps that tell them from others
_TYPES = {"NumPy int32": "<i4", "pandas categorical": "<i4", "NumPy big-endian": ">i8", "NumPy text": f"U{LETTERS}"}
_ALPHABET = np.frombuffer(b"abcdefghijkmnpqrstuvwxyz23456789", dtype=np.uint8)
_WHOLE = {"shards": "density", "Counts, shards": "Counts"}
"""The kind of estimator that the parts of a kind are merged into."""
_SEED = 20_260_101


def store(ids: Ids, container: str, path: Path, *, bare: bool = False) -> dict[str, Any]:
    """Write a batch for another process, one id after the other; returns the arguments of `opened`, or of `singly`.

    A pandas categorical, whose codes are the ids, has as many categories as a power of two above all of them.
    """
    if bare:  # without anything around them
        container = "bare text" if ids.dtype.kind == "S" else "NumPy pairs" if ids.ndim == 2 else "NumPy int64"
    stored = np.repeat(ids, 2) if container == "NumPy strided" else ids.astype(_TYPES.get(container, ids.dtype))
    path.write_bytes(stored.tobytes())
    above = 1 << int(ids.max()).bit_length() if container == "pandas categorical" else 0
    return {"path": str(path), "container": container, "above": above}


@contextmanager
def opened(path: str, container: str, above: int) -> Iterator[Any]:
    """A batch in its container; what can be wiped of it is wiped in the end."""
    octets = np.zeros(Path(path).stat().st_size, dtype=np.uint8)
    try:
        with Path(path).open("rb", buffering=0) as file:
            file.readinto(octets.data)
        yield _texts(octets, container) if container.endswith("text") else _contained(octets, container, above)
    finally:
        octets.fill(0)


def singly(path: str, container: str, above: int) -> Iterator[Any]:
    """The ids of a bare batch, one after the other, as Python has them."""
    with opened(path, container, above) as ids:
        for i in range(len(ids)):  # `ids[i]` would leave the id in NumPy's own cache of small arrays
            user = ids.item(i) if ids.ndim == 1 else (ids.item(i, 0), ids.item(i, 1))
            yield user.decode() if isinstance(user, bytes) else user


def _contained(octets: NDArray[np.uint8], container: str, above: int) -> Any:
    """Ids in their container, which shares the memory of the array if it can."""
    ids: Any = octets.view(_TYPES.get(container, "<i8"))
    if container == "NumPy strided":
        return ids[::2]
    if container == "NumPy pairs":
        return ids.reshape(-1, 2)
    if container == "range":
        return range(ids.item(0), ids.item(-1) + 1, ids.item(1) - ids.item(0))
    if container in ("list", "iterator"):
        ids = ids.tolist() if container == "list" else iter(ids.tolist())
    elif container in ("pandas", "pandas categorical"):
        import pandas as pd

        if container == "pandas categorical":  # its codes are the ids, and its categories are all numbers up to them
            ids = pd.Categorical.from_codes(ids, dtype=pd.CategoricalDtype(pd.RangeIndex(above)))
        ids = pd.Series(ids, copy=False)
    elif container in ("Arrow", "Polars", "Polars frame"):
        import pyarrow as pa

        ids = pa.Array.from_buffers(pa.int64(), len(ids), [None, pa.py_buffer(ids)])
        if container != "Arrow":
            import polars as pl

            ids = pl.from_arrow(ids)
            ids = pl.DataFrame({COLUMN: ids}) if container == "Polars frame" else ids
    return ids


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


def among_strangers(
    random: np.random.Generator, columns: dict[str, Ids], strangers: Sequence[Any]
) -> tuple[dict[str, Ids], NDArray[np.bool_]]:
    """Rows, each at random before or after the row of a stranger; and which of these rows are the users'."""
    first = random.integers(0, 2, len(next(iter(columns.values())))).astype(np.bool_)
    inside, mixed = np.stack([first, ~first], axis=1), {}
    for (name, column), other in zip(columns.items(), strangers, strict=True):
        mixed[name] = np.where(inside, column[:, None], np.array(other, ndmin=2).T.astype(column.dtype)).ravel()
    return mixed, inside.ravel()


def encoded(form: str, columns: dict[str, Ids]) -> bytes:
    """Columns as a command or a service reads them; ``rows`` are CSV without a header."""
    import polars as pl

    texts = {name: column.astype(str) for name, column in columns.items() if column.dtype.kind == "S"}
    frame, out = pl.DataFrame(columns | texts), BytesIO()
    writers: dict[str, Callable[[BytesIO], Any]] = {
        "CSV": frame.write_csv,
        "rows": partial(frame.write_csv, include_header=False),
        "NDJSON": frame.write_ndjson,
        "Parquet": frame.write_parquet,
        "Arrow": frame.write_ipc_stream,
        "compressed Arrow": partial(frame.write_ipc_stream, compression="zstd"),
        "Arrow file": partial(frame.write_ipc, compression="zstd"),
    }
    writers[form](out)
    return out.getvalue()


class UserPool:
    """The users of a scenario, each with an id, a position in the universe, and a bit."""

    def __init__(self, kind: str, users: int, container: str, *, own_key: bool) -> None:
        self._random = np.random.default_rng(_SEED)
        self.kind = kind
        self.open = kind.startswith(("DistinctCount", "overlapping"))
        """Whether an id is one of 2**63, so that a single one is a find, or one of a list that anybody may know."""
        self.categories = categories_of(kind)
        """How many categories events can be in."""
        self.keyed = not ((self.open or self.categories) and own_key)
        """Whether the key is known that gives users their bits, and not the process's own."""
        self.container = container
        self.text = container.endswith("text")
        self.ids = self._make_ids(users)
        self.users = len(self.ids)
        self._order = self._random.permutation(self.users)
        listed = np.sort(self.ids) if kind.startswith("Users") else None
        self.listed: Any = self._as_python(listed) if self.text and listed is not None else listed
        """What a universe that is a list is made of, sorted; None for others."""
        self._est = estimator_of(parts_of(_WHOLE.get(kind, kind), users, self.listed)[0])
        self.bits_each = bits_each(self._est)
        """How many bits a slot has: one, or a counter beside it."""
        self.slots_in_all = int(slots_of(self._est).size) * self.bits_each
        """How many bits there are."""

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

    def batch(self, group: int, size: str, most: int | None) -> tuple[People, int]:
        """The events of one group of users, none of whom is in another, or of the first of them.

        The second number says how many of the last events are of different users.
        """
        each = self.users // _GROUPS
        people = self._order[group * each : (group + 1) * each]
        if self.container == "range":  # every third user of a part of the universe
            people = np.arange(group * each, (group + 1) * each, 3)
        people = people[: _FIRST.get(size, most)]
        if size in _FIRST or self.container == "range":
            return people, len(people)
        rounds = -(-{"long": LONG, "huge": _HUGE}.get(size, each) // each)
        return np.concatenate([self._random.permutation(people) for _ in range(rounds)]), len(people)

    def _as_python(self, ids: Ids) -> list[Any]:
        return [text.decode() for text in ids.tolist()] if self.text else ids.tolist()

    def places(self, people: People) -> Words:
        """The positions of users in their universe: hashes where it is open, zeros if they are not known."""
        if not self.keyed:
            return np.zeros(len(people), dtype=np.uint64)
        if not self.kind.startswith(("Edges", "Users")) and not self.open:
            return self.ids[people].astype(np.uint64)
        index = self._est.universe.index
        users = self._as_python(self.ids[people])
        return np.fromiter((index(user) for user in users), dtype=np.uint64, count=len(people))

    def hashes(self, people: People) -> list[Words]:
        """By what a list looks users up: numbers of 64 bits that stand in its directory anyway, in another order."""
        universe = self._est.universe
        module = sys.modules[type(universe).__module__]
        users = self._as_python(self.ids[people])
        known = [getattr(module, name, None) for name in ("_HASH", "_CHECK")] if self.listed is not None else []
        return [
            np.fromiter((hash_.index(user) for user in users), dtype=np.uint64, count=len(people))
            for hash_ in known
            if hash_ is not None
        ]

    def codes(self, people: People) -> Words:
        """What stands for the categories of users' events; categories are numbers from 0 on, and so are their codes."""
        return np.asarray(category_of(self.ids[people], self.categories), dtype=np.uint64)

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
