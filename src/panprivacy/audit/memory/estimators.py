"""The estimators that are imaged, by the names of their kinds, and where the bits of each are.

The imaged process and the auditor build the same estimators, under the same key, so that the auditor knows which bit
each user owns.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from panprivacy import registry
from panprivacy.folder.shards import shard_name
from panprivacy.periods import DAY
from panprivacy.registry import example
from panprivacy.testing import table_of

pp: Any = import_module("panprivacy")  # as a program sees it: this layer may not import higher ones

KEY = bytes(range(1, 17))
EPSILON = 1.0
DELTA = 1e-9
RELEASES = 8
BUCKETS = 4096


IN_FOLDER, TAKEN, COMBINED = "folder, ", "taken, ", "combined, "
SHARDS = 3

STRANGERS = ", strangers"  # suffix of kinds whose batches have rows of users outside the universe, which are left out
TIMES = ", times"  # suffix of kinds whose events have times
START = 20_458 * DAY  # when the first day starts: on 5 January 2026
_SPREAD = 2_654_435_761  # prime, and large: neighbouring ids come at times that are far apart
LARGE = ", large"  # suffix of kinds whose counts are large enough to be told from other numbers in memory
SMALL_EPSILON = 1e-3  # of which noise is large, too
_LARGE, _GROUPS = 2**22, 50

FEW, MANY = 3, 1000
"""Categories: few, so that bits change often; and many, so that a row of them is as telling as a row of ids."""
_UNUSED = 100  # of many categories the first have no users: small numbers stand everywhere


def categories_of(kind: str) -> int:
    """How many categories the estimators of a kind have; none, if events are in none."""
    return MANY if kind == "many categories" else FEW if kind.endswith("categories") else 0


def category_of(ids: Any, categories: int, into: Any = None) -> Any:
    """The category of the event of an id, or of each of an array of ids, written to another."""
    first = _UNUSED if categories == MANY else 0
    if into is None:
        return first + ids % (categories - first)
    np.copyto(into, ids)  # a remainder that also casts would leave the ids in a buffer of NumPy's
    into %= categories - first
    into += first
    return into


def times_of(ids: Any, day: int, into: Any) -> Any:
    """A moment of a day for each id, in microseconds, all of them different and none of them midnight, in an array."""
    np.copyto(into, ids)  # a sum that also casts would leave the ids in a buffer of NumPy's
    into += 1
    into *= _SPREAD
    into %= DAY
    into += START + day * DAY
    return into


@dataclass(frozen=True)
class TableLocation:
    """Where the bits of one table are in an image."""

    address: int
    octets: int
    size: int
    sparse: bool
    epoch: int
    """Tables of different epochs have nothing to do with each other: two windows, or a union and its parts."""
    offset: int
    """Where these bits begin in the whole table."""
    each: int = 1
    """How many of the bits are one slot's: one, or a counter beside it."""
    file: str | None = None
    """The file they are in, where they are not in memory; the address is then counted from its beginning."""


def spacing(kind: str, users: int) -> int:
    """The distance from one id to the next; ids in between never come."""
    return -(-_LARGE // users) if kind.endswith(LARGE) else 1


def parts_of(kind: str, users: int, listed: Any) -> list[Any]:
    """The estimators of a kind; several where they are to be merged. A prefix says where the estimator is kept."""
    kind = kind.removeprefix(IN_FOLDER).removeprefix(TAKEN).removeprefix(COMBINED)
    large = kind.endswith(LARGE)
    size, epsilon, buckets = users, EPSILON, BUCKETS
    if large:  # counts, and the noise on them, are numbers of five digits and more
        size, epsilon, buckets = users * spacing(kind, users), SMALL_EPSILON, _LARGE // 64
    plan: dict[str, Any] = {"epsilon": epsilon, "releases": RELEASES}
    distinct: dict[str, Any] = {**plan, "buckets": buckets, "key": KEY}
    makers: dict[str, Callable[[], Any]] = {
        "delta": lambda: pp.Density(size, **plan, delta=DELTA, intrusions=int(not large)),
        "categories": lambda: pp.Density(users, **plan, categories=range(FEW), key=KEY),
        "many categories": lambda: pp.Density(users, **plan, categories=range(MANY), key=KEY),
        "sampled": lambda: pp.Density(users, **plan, sample=users // 2, key=KEY),
        "shard": lambda: pp.Density(users, **plan, shard=(0, 2)),
        "shards": lambda: [pp.Density(users, **plan, shard=(i, 2)) for i in range(2)],
        "Counts": lambda: pp.Counts(size, EPSILON, releases=RELEASES),  # ones less zeros: far from 0 at any epsilon
        "Counts, groups": lambda: pp.Counts(users, **plan, groups=[i // (users // 5) for i in range(users)]),
        "Counts, categories": lambda: pp.Counts(users, **plan, categories=range(FEW), key=KEY),
        "Counts, shards": lambda: [pp.Counts(users, **plan, shard=(i, 2)) for i in range(2)],
        "DistinctCount": lambda: pp.DistinctCount(**distinct),
        "DistinctCount, delta": lambda: pp.DistinctCount(**distinct, delta=DELTA),
        "DistinctCount, categories": lambda: pp.DistinctCount(**distinct, categories=range(FEW)),
        "overlapping": lambda: [pp.DistinctCount(**distinct) for _ in range(2)],
        "Continual": lambda: pp.Continual(size, epsilon, step=0.1, **({"moves": RELEASES} if large else {})),
        "Windows": lambda: pp.Windows(lambda: pp.Density(size, **plan), every="1d", start="2026-01-05"),
        "ActiveUsers": lambda: pp.ActiveUsers(size, epsilon, span="3d", start=0, key=KEY),
        "ActiveUsers, times": lambda: pp.ActiveUsers(size, epsilon, span="3d", start="2026-01-05", key=KEY),
        "Retention": lambda: pp.Retention(size, **plan, key=KEY),
        "FixedLevelPPDS": lambda: pp.paper.FixedLevelPPDS(users, **plan, sample=users // 2, key=KEY),
        "Density, large": lambda: pp.Density(size, **plan, groups=_uneven_groups(size)),
        "Edges": lambda: pp.Density(pp.Edges(nodes_for(users)), **plan, intrusions=1),
        "Users, groups": lambda: pp.Density(
            pp.Users(listed, groups=[i % 5 for i in range(len(listed))]), **plan, intrusions=1
        ),
    }
    if make := makers.get(kind) or makers.get(kind.rpartition(", ")[0]):
        made = make()
        return made if isinstance(made, list) else [made]
    for described in registry.estimators():
        if described.__name__ == kind and described is not pp.Density:
            return [example(described, users, EPSILON, releases=RELEASES, key=KEY)]
    return [pp.Density(pp.Users(listed) if kind.startswith("Users") else users, **plan, intrusions=1)]


def _uneven_groups(users: int) -> Any:
    """The groups of users, of different sizes, and so of different counts."""
    weights = np.arange(_GROUPS) + _GROUPS
    sizes = users * weights // weights.sum()
    sizes[-1] += users - sizes.sum()
    return np.repeat(np.arange(_GROUPS), sizes)


def nodes_for(users: int) -> int:
    """How many nodes a graph has whose possible edges are about as many as the users."""
    return int((2 * users) ** 0.5) + 1


def bits_each(est: Any) -> int:
    """How many bits of the table a slot has: one, or a counter beside it."""
    return getattr(table_of(est), "width", 1)


def shards_of(folder: Any) -> Iterator[TableLocation]:
    """Where the bits of a state folder are: in one file for each shard, before the checksum that ends it."""
    for number in range(folder.shards):
        first, table = folder.empty_shard(number)
        file, each = Path(folder.url).absolute() / f"{shard_name(number)}.pp", getattr(table, "width", 1)
        address = file.stat().st_size - sha256().digest_size - table.words.nbytes
        slots = (table.size * each, False, 0, first * each, each)
        yield TableLocation(address, table.words.nbytes, *slots, file=str(file))
