"""Every exported estimator, and how to build one: a new estimator gets its line here, and all checks with it."""

import atexit
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import panprivacy as pp
from panprivacy import paper
from panprivacy.paper.printed import Printed
from panprivacy.privacy.coins import Coins

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
    times: tuple[str, ...] = ()
    """What events need besides ids: a time, or a category."""
    removes: bool = True
    saves: bool = True
    ends: bool = True
    spends: bool = True
    """Whether asking uses up planned releases."""
    repeatable: bool = True
    """Whether a batch that is fed twice is as good as fed once."""
    parts: Callable[[], list[Any]] | None = None
    """What can be merged to one; None where nothing can."""
    elsewhere: bool = False
    """Whether the bits are not in this process, so that none can be taken from it."""

    def state(self, est: Any) -> bytes:
        """All that is kept of users."""
        saved: bytes = self.bits(est).to_bytes(insecure=True)
        return saved

    def feed(self, est: Any, ids: object) -> None:
        """Note that these users appeared."""
        est.update_many(ids, *self.times)


class InAFolder(Subject):
    """How to use a folder, whose bits are in files."""

    def state(self, est: Any) -> bytes:
        """All that is kept of users."""
        return bytes(est._bits.gathered().words.tobytes())


def _folder(coins: Coins | None) -> pp.StateFolder:
    place = Path(tempfile.mkdtemp(prefix="panprivacy-contract-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return pp.StateFolder.create(place / "folder", USERS, 2.0, shards=3, releases=2, coins=coins)


def _distinct(coins: Coins | None, **more: Any) -> pp.DistinctCount:
    return pp.DistinctCount(2.0, 256, releases=2, key=KEY, coins=coins, **more)


def _windows(coins: Coins | None) -> pp.Windows[pp.Release]:
    return pp.Windows(lambda: pp.Density(USERS, 2.0, releases=2, coins=coins), every="7d", start="2026-01-05")


SUBJECTS: dict[type, Subject] = {
    pp.Density: Subject(
        lambda coins: pp.Density(USERS, 2.0, releases=2, coins=coins),
        parts=lambda: [pp.Density(USERS, 2.0, shard=(i, 2)) for i in range(2)],
    ),
    pp.DistinctCount: Subject(
        _distinct,
        stranger=None,
        removes=False,
        parts=lambda: [_distinct(None) for _ in range(2)],
    ),
    pp.Counts: Subject(
        lambda coins: pp.Counts(USERS, 2.0, up_to=5, releases=2, coins=coins),
        repeatable=False,
        parts=lambda: [pp.Counts(USERS, 2.0, shard=(i, 2)) for i in range(2)],
    ),
    pp.Continual: Subject(
        lambda coins: pp.Continual(USERS, 9.0, moves=5, coins=coins),
        released=lambda est: est.observe(),
        ends=False,
        spends=False,
    ),
    pp.ActiveUsers: Subject(
        lambda coins: pp.ActiveUsers(USERS, 2.0, span="7d", start=DAY, key=KEY, coins=coins),
        spends=False,
    ),
    pp.Retention: Subject(
        lambda coins: pp.Retention(USERS, 2.0, key=KEY, coins=coins),
        released=lambda est: est.release() if est.closed else est.close(),
    ),
    pp.Windows: Subject(
        _windows,
        released=lambda est: est.open.release(),
        bits=lambda est: est.open,
        times=(DAY,),
        removes=False,
        saves=False,
        ends=False,
    ),
    pp.StateFolder: InAFolder(_folder, saves=False, ends=False, elsewhere=True),
    paper.FixedLevelPPDS: Subject(
        lambda coins: paper.FixedLevelPPDS(USERS, 2.0, 1000, releases=2, key=KEY, coins=coins),
    ),
}


CATEGORIES = ["a", "b", "c"]

VARIANTS: dict[str, Subject] = {
    "Density with groups": Subject(
        lambda coins: pp.Density(USERS, 2.0, releases=2, groups=[i // 1000 for i in range(USERS)], coins=coins),
    ),
    "Density with categories": Subject(
        lambda coins: pp.Density(USERS, 2.0, releases=2, categories=CATEGORIES, key=KEY, coins=coins),
        times=("a",),
    ),
    "Counts with groups": Subject(
        lambda coins: pp.Counts(USERS, 2.0, 5, releases=2, groups=[i // 1000 for i in range(USERS)], coins=coins),
        repeatable=False,
    ),
    "Counts with categories": Subject(
        lambda coins: pp.Counts(USERS, 2.0, 5, releases=2, categories=CATEGORIES, key=KEY, coins=coins),
        times=("a",),
        repeatable=False,
    ),
    "DistinctCount with categories": Subject(
        lambda coins: _distinct(coins, categories=CATEGORIES),
        stranger=None,
        times=("a",),
        removes=False,
        parts=lambda: [_distinct(None, categories=CATEGORIES) for _ in range(2)],
    ),
}
"""Exported estimators in other uses, which pass the same checks."""


def exported() -> set[type]:
    """Every exported class that is fed users and claims to be private."""
    named = [getattr(pp, name) for name in pp.__all__] + [getattr(paper, name) for name in paper.__all__]
    fed = {thing for thing in named if isinstance(thing, type) and hasattr(thing, "update_many")}
    return {kind for kind in fed if not issubclass(kind, Printed)}
