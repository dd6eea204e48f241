"""The rows of the table of crossings: every estimator of the package, built as small as it can be.

A row is made of facts: which options the constructor takes, and which verbs the class has. So an estimator gets its row
by being registered. Its `TRAITS` say which options make it small.
"""

import tempfile
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from panprivacy import registry
from panprivacy.audit.holders import InFolder, InWindows, Maker
from panprivacy.checks import LargeDelta
from panprivacy.errors import PanPrivacyError
from panprivacy.estimators.continual import Continual
from panprivacy.estimators.density import Density
from panprivacy.estimators.traits import options_of
from panprivacy.estimators.windows import Windows
from panprivacy.folder import StateFolder
from panprivacy.paper import FixedLevelPPDS
from panprivacy.privacy.coins import Coins
from panprivacy.testing import SeededCoins, gaussian_noise

KEY = bytes([2] * 16)  # of those that deal 2 users to 2 phases and 3 to 3: it decides who owns which bit
KINDS = ("flu", "cold")

CONTAINERS: tuple[type, ...] = (Windows, StateFolder)
"""What holds an estimator and has no bits of its own: each is crossed while it holds a `Density`."""

_MOST_USERS = 4


@dataclass(frozen=True)
class Row:
    """One exported estimator, and the facts about it that decide how it is crossed."""

    kind: Any

    @property
    def name(self) -> str:
        return str(self.kind.__name__)

    @property
    def container(self) -> bool:
        """Whether it holds another estimator."""
        return self.kind in CONTAINERS

    @property
    def held(self) -> Any:
        """The class whose constructor takes the options."""
        return Density if self.container else self.kind

    @property
    def options(self) -> frozenset[str]:
        """What the constructor takes."""
        return options_of(self.held)

    @property
    def removes(self) -> bool:
        """Whether a user can be removed again by the same verb at all times."""
        return _accepts_removal(self)

    @property
    def cycles(self) -> bool:
        """Whether one object goes through several cycles of a user, and states what they lose."""
        return not self.container and hasattr(self.kind, "loss")

    @property
    def users(self) -> int:
        """The fewest users with whom it can be built."""
        return self.users_for()

    def users_for(self, **options: Any) -> int:
        """The fewest users with whom it can be built with these options."""
        return _fewest_users(self, tuple(options.items()))

    def releases_of(self, planned: int) -> int:
        """How many releases it makes in all: with two periods, the release of the first period is one more."""
        return planned + hasattr(self.kind, "close")

    def build(self, coins: Coins, **options: Any) -> Any:
        """The estimator itself, or the estimator in a container. With a delta, its noise is Gaussian."""
        given = options.pop("universe", None)
        universe = {"universe": given or self.users} if "universe" in self.options else {}
        key = {"key": KEY} if "key" in self.options else {}
        with warnings.catch_warnings(), gaussian_noise():
            warnings.simplefilter("ignore", LargeDelta)
            return self.held(**universe, **{"epsilon": 1.0, **key, **self.held.TRAITS.small, **options}, coins=coins)

    def itself(self) -> Any:
        """The estimator or the container itself, to see what else takes it."""
        if self.kind is Windows:
            return Windows(Maker(self.build, SeededCoins(0)), every=1, start=0)
        if self.kind is StateFolder:
            with tempfile.TemporaryDirectory() as place:
                return StateFolder.holding(self.build(SeededCoins(0)), Path(place) / "folder", shards=1)
        return self.build(SeededCoins(0))

    def wrap(self, coins: Coins, **options: Any) -> Any:
        """A container with its estimator, as a holder."""
        if self.kind is Windows:
            return InWindows(Maker(self.build, coins, **options))
        return InFolder(self.build(coins, **options), coins)


@cache
def _fewest_users(row: Row, options: tuple[tuple[str, Any], ...]) -> int:
    if "universe" not in row.options:
        return 2  # of everybody: two may share a bit
    for users in range(1, _MOST_USERS):
        try:
            row.build(SeededCoins(0), universe=users, **dict(options))
        except ValueError:
            continue
        return users
    return _MOST_USERS


@cache
def _accepts_removal(row: Row) -> bool:
    if row.kind in (Windows, Continual) or not hasattr(row.kind, "remove") or hasattr(row.kind, "close"):
        return False
    try:
        row.build(SeededCoins(0)).remove(0)
    except (TypeError, ValueError, PanPrivacyError):
        return False
    return True


def rows() -> list[Row]:
    """One row for each estimator of the package, and containers last."""
    kinds = [kind for kind in registry.estimators() if not issubclass(kind, FixedLevelPPDS)]
    return sorted(map(Row, (*kinds, *CONTAINERS)), key=lambda row: (row.container, row.name))
