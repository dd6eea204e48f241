"""Memories are walked whole, compared by content, and copied without a shared part."""

from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from functools import partial
from threading import Lock, RLock
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

from panprivacy import Density, Users
from panprivacy.audit.enumeration.machine import clone, freeze, tombstones
from panprivacy.audit.enumeration.outcomes import EveryOutcome
from panprivacy.testing import SeededCoins


class Named(NamedTuple):
    values: list[int]


class Slotted:
    __slots__ = ("inside", "unset")

    def __init__(self, inside: object) -> None:
        self.inside = inside


@dataclass(frozen=True)
class Frozen:
    words: Any = field(default_factory=lambda: np.zeros(2, dtype=np.uint64))


class Viewing:
    """An array, a view of its middle, and a raw view of it."""

    def __init__(self) -> None:
        self.words = np.arange(4, dtype=np.uint64)
        self.middle = self.words[1:3]
        self.cells = self.words.data
        self.method = self.words.sum
        self.lock = Lock()
        self.own = self.hello
        self.itself = self

    def hello(self) -> str:
        return "hello"


THINGS = [
    None,
    True,
    1,
    1.5,
    2 + 3j,
    "text",
    b"bytes",
    bytearray(b"raw"),
    [1, [2, 3]],
    (1, (2, 3)),
    {"a": [1]},
    {1, 2},
    frozenset({3}),
    deque([1, 2]),
    Counter("abc"),
    OrderedDict(a=1),
    defaultdict(list, a=[1]),
    Named([1]),
    Slotted([1]),
    Frozen(),
    np.arange(3),
    np.array([{"a": 1}, None], dtype=object),
    np.float32(1.5),
    RLock(),
    Viewing(),
    partial(int, base=2),
    iter([7, 8, 9]),
    np.random.default_rng(5),
    pl.Series([1, 2]),
    Users(["ada", "grace"]),
    range(3),
    len,
    np,
    Density,
]


@pytest.mark.parametrize("thing", THINGS, ids=lambda thing: type(thing).__name__)
def test_a_copy_is_the_same_memory(thing: object) -> None:
    assert freeze(clone(thing)) == freeze(thing)
    assert hash(freeze(thing)) == hash(freeze(clone(thing)))


def test_different_memories_are_told_apart() -> None:
    assert len({freeze(thing) for thing in THINGS}) == len(THINGS)
    assert len({freeze(one) for one in (1, True, 1.0, np.int64(1))}) == 4


@pytest.mark.parametrize(
    ("thing", "change"),
    [
        ([[1]], lambda thing: thing[0].append(2)),
        ({"a": [1]}, lambda thing: thing["a"].append(2)),
        (Named([1]), lambda thing: thing.values.append(2)),
        (Slotted([1]), lambda thing: thing.inside.append(2)),
        (Frozen(), lambda thing: thing.words.fill(1)),
        (np.arange(3), lambda thing: thing.fill(0)),
        (bytearray(b"raw"), lambda thing: thing.clear()),
        ({1, 2}, lambda thing: thing.add(3)),
        (np.random.default_rng(5), lambda thing: thing.random()),
        (iter([7, 8, 9]), next),
        (SeededCoins(1), lambda thing: thing.below(2**31, 8)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_change_of_the_copy_shows_and_leaves_the_original_be(thing: object, change: Any) -> None:
    before, copied = freeze(thing), clone(thing)
    change(copied)

    assert freeze(copied) != before
    assert freeze(thing) == before


def test_parts_that_share_memory_still_do_in_the_copy() -> None:
    copied = clone(Viewing())
    copied.words[1] = 99

    assert copied.middle[0] == 99
    assert copied.cells[1] == 99
    assert copied.method() == copied.words.sum()
    assert copied.itself is copied
    assert copied.own.__self__ is copied
    assert not copied.lock.locked()


def test_the_coins_of_the_auditor_are_shared_and_not_part_of_the_memory() -> None:
    coins = EveryOutcome()
    holder = Slotted(coins)
    before = freeze(holder)
    list(coins.outcomes(lambda: coins.randbelow(3)))

    assert freeze(holder) == before
    assert clone(holder).inside is coins


def test_the_order_of_a_dict_is_part_of_the_memory() -> None:
    assert freeze({1: 1, 2: 2}) != freeze({2: 2, 1: 1})


def test_a_removal_from_a_set_is_part_of_the_memory() -> None:
    never, removed = {1, 2}, {1, 2, 3}
    removed.discard(3)

    assert never == removed
    assert (tombstones(never), tombstones(removed)) == (0, 1)
    assert freeze(never) != freeze(removed)


def test_a_closure_is_refused() -> None:
    hidden = [0]

    with pytest.raises(TypeError, match="closure"):
        freeze(Slotted(lambda: hidden))
    with pytest.raises(TypeError, match="closure"):
        clone(Slotted(lambda: hidden))


def test_an_estimator_is_copied_whole_although_it_refuses_to_be_pickled() -> None:
    est = Density(100, 1.0, coins=SeededCoins(3))
    copied = clone(est)
    before = freeze(est)

    assert freeze(copied) == before
    for user in range(100):
        copied.update(user)
    assert freeze(est) == before
