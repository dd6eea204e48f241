"""Every estimator, and how to use one: a registered estimator gets its entry, and all checks, from its `TRAITS`."""

import atexit
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import panprivacy as pp
from panprivacy import paper, registry
from panprivacy.paper.printed import Printed
from panprivacy.privacy.coins import Coins
from panprivacy.registry import example, options_of
from panprivacy.testing import folder_table

KEY = bytes(range(16))
USERS = 3000
DAY = "2026-01-06"


@dataclass(frozen=True)
class Subject:
    """How to build and to use an estimator of the users 0..USERS-1, with two planned releases where it plans them."""

    make: Callable[[Coins | None], Any]
    stranger: object = USERS
    """An id that is refused."""
    released: Callable[[Any], Any] = lambda est: est.release()
    """Ask it for what it tells."""
    bits: Callable[[Any], Any] = lambda est: est
    """What holds the bits."""
    category: tuple[str, ...] = ()
    """The category of all events, where they need one."""
    time: dict[str, str] = field(default_factory=dict)
    """The time of all events, where they need one."""
    removes: bool = True
    saves: bool = True
    ends: bool = True
    spends: bool = True
    """Whether asking uses up planned releases."""
    repeatable: bool = True
    """Whether a batch that is fed twice is as good as fed once."""
    parts: Callable[[], list[Any]] | None = None
    """What can be merged to one; None where nothing can."""
    listing: Callable[[Any, Coins | None], Any] | None = None
    """Build it for listed users; None where any id is a user."""
    elsewhere: bool = False
    """Whether the bits are not in this process, so that none can be taken from it."""

    def state(self, est: Any) -> bytes:
        """All that is kept of users."""
        saved: bytes = self.bits(est).to_bytes(insecure=True)
        return saved

    def feed_columns(self, est: Any, frame: object) -> None:
        """The same with a frame that names its columns."""
        named = {"categories": "kind"} if self.category else {}
        est.update_many(frame, column="user", **named, **({"time": "at"} if self.time else {}))

    def feed(self, est: Any, ids: object, **options: Any) -> None:
        """Note that these users appeared."""
        est.update_many(ids, *self.category, **self.time, **options)


class InAFolder(Subject):
    """How to use a folder, whose bits are in files."""

    def state(self, est: Any) -> bytes:
        """All that is kept of users."""
        return bytes(folder_table(est).words.tobytes())


def _folder(coins: Coins | None, universe: Any = USERS) -> pp.StateFolder:
    place = Path(tempfile.mkdtemp(prefix="panprivacy-contract-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return pp.StateFolder.create(place / "folder", universe, 2.0, shards=3, releases=2, coins=coins)


def _distinct(coins: Coins | None, **more: Any) -> pp.DistinctCount:
    return pp.DistinctCount(2.0, 256, releases=2, key=KEY, coins=coins, **more)


def _windows(coins: Coins | None, universe: Any = USERS) -> pp.Windows[pp.Release]:
    return pp.Windows(lambda: pp.Density(universe, 2.0, releases=2, coins=coins), every="7d", start="2026-01-05")


def described(kind: Any) -> Subject:
    """How to use an estimator, from what its class says about itself."""
    taken = options_of(kind)
    epsilon = 9.0 if kind.TRAITS.unit == "moves" else 2.0  # a bar within the universe needs more

    planned = 1 if hasattr(kind, "close") else 2  # of two periods, the cohort has one more

    def make(coins: Coins | None, universe: Any = USERS, **more: Any) -> Any:
        return example(kind, universe, epsilon, releases=planned, key=KEY, coins=coins, **more)

    return Subject(
        make,
        stranger=USERS if "universe" in taken else None,
        released=lambda est: est.next_release(),
        removes=kind.TRAITS.removes,
        ends=hasattr(kind, "end"),
        spends="releases" in taken,
        repeatable=kind.REPEATABLE,
        listing=(lambda users, coins: make(coins, users)) if "universe" in taken else None,
        parts=(lambda: [make(None, shard=(i, 2)) for i in range(2)]) if "shard" in taken else None,
    )


SUBJECTS: dict[type, Subject] = {kind: described(kind) for kind in registry.estimators()} | {
    pp.Windows: Subject(
        _windows,
        released=lambda est: est.open.release(),
        bits=lambda est: est.open,
        time={"time": DAY},
        listing=lambda users, coins: _windows(coins, users),
        removes=False,
        saves=False,
        ends=False,
    ),
    pp.StateFolder: InAFolder(
        _folder, saves=False, ends=False, elsewhere=True, listing=lambda users, coins: _folder(coins, users)
    ),
}
SUBJECTS[pp.DistinctCount] = replace(SUBJECTS[pp.DistinctCount], parts=lambda: [_distinct(None) for _ in range(2)])


CATEGORIES = ["a", "b", "c"]

VARIANTS: dict[str, Subject] = {
    "Density with groups": Subject(
        lambda coins: pp.Density(USERS, 2.0, releases=2, groups=[i // 1000 for i in range(USERS)], coins=coins),
    ),
    "Density with categories": Subject(
        lambda coins: pp.Density(USERS, 2.0, releases=2, categories=CATEGORIES, key=KEY, coins=coins),
        category=("a",),
        listing=lambda users, coins: pp.Density(users, 2.0, categories=CATEGORIES, key=KEY, coins=coins),
    ),
    "Counts with groups": Subject(
        lambda coins: pp.Counts(USERS, 2.0, 5, releases=2, groups=[i // 1000 for i in range(USERS)], coins=coins),
        repeatable=False,
    ),
    "Counts with categories": Subject(
        lambda coins: pp.Counts(USERS, 2.0, 5, releases=2, categories=CATEGORIES, key=KEY, coins=coins),
        category=("a",),
        repeatable=False,
    ),
    "DistinctCount with categories": Subject(
        lambda coins: _distinct(coins, categories=CATEGORIES),
        stranger=None,
        category=("a",),
        removes=False,
        parts=lambda: [_distinct(None, categories=CATEGORIES) for _ in range(2)],
    ),
}
"""Exported estimators in other uses, which pass the same checks."""


def exported() -> set[type]:
    """Every exported class that is fed users and claims to be private; a client holds no state, its service does."""
    named = [getattr(pp, name) for name in pp.__all__] + [getattr(paper, name) for name in paper.__all__]
    fed = {thing for thing in named if isinstance(thing, type) and hasattr(thing, "update_many")}
    return {kind for kind in fed if not issubclass(kind, Printed | pp.Client)}
