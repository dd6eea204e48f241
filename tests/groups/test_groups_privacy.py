"""Whoever is in a group, or in many categories, loses what is claimed, and a user with two categories is found."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import panprivacy as pp
from panprivacy import audit
from panprivacy.audit.holders import TwoCategories
from panprivacy.memory.scratch import Scratch
from panprivacy.privacy.coins import Coins

pytestmark = pytest.mark.slow

VERBS = ["update", "update_other"]
KEY = bytes([3] * 16)


class BitInEveryCategory(pp.Density):
    """Gives a user a bit in each category: who appears in both is seen twice."""

    def _redraw_one(self, user: Any, remove: bool) -> None:
        user, category = user
        pair = self._ledger.pair
        slot = 2 * self.groups.index(category) + user
        self._table.redraw_one(slot, self._coins.flip(pair.absent if remove else pair.present))


class SmallerNoise(pp.Density):
    """Takes one noise for all groups, as if a user changed none of them fully."""

    def _counts(self, scratch: Scratch) -> NDArray[np.int64]:
        counts = super()._counts(scratch)
        counts *= 2
        return counts


def by_category(kind: type[pp.Density], coins: Coins, users: int = 4) -> TwoCategories:
    return TwoCategories(kind(users, 1.0, categories=["flu", "cold"], key=KEY, coins=coins), "flu", "cold")


def test_a_user_of_two_categories_loses_exactly_what_is_claimed() -> None:
    found = audit.exact(lambda coins: by_category(pp.Density, coins, 2), users=2, length=2, verbs=VERBS)

    assert found.holds
    assert found.worst_loss == pytest.approx(1.0, abs=1e-6)


def test_a_user_with_two_categories_is_found() -> None:
    make = lambda coins: by_category(BitInEveryCategory, coins)  # noqa: E731
    found = audit.exact(make, users=1, length=2, verbs=VERBS)

    assert not found.holds
    assert found.worst_loss > 1.4
    assert "in the other category" in str(found.witness)
    # Asked about one category only, nothing would be amiss: the audit has to know that a user may be in both.
    assert audit.exact(make, users=1, length=2).holds


def test_groups_that_are_released_with_too_little_noise_are_found() -> None:
    def make(kind: type[pp.Density], coins: Coins) -> pp.Density:
        return kind(2, 1.0, groups=["a", "b"], coins=coins)

    assert audit.exact(lambda coins: make(pp.Density, coins), users=2, length=2).holds
    assert not audit.exact(lambda coins: make(SmallerNoise, coins), users=2, length=2).holds
