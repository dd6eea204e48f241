"""Whoever is in a group, or in many categories, loses what `Counts` claims; bugs that lose more are found."""

from collections.abc import Callable
from typing import Any

import planted_groups
import pytest

from panprivacy import Counts, audit
from panprivacy.audit.holders import TwoCategories
from panprivacy.privacy.coins import Coins

VERBS = ["update", "update_other"]
KEY = bytes([3] * 16)


def in_groups(kind: type[Counts] = Counts, **more: Any) -> Callable[[Coins], Counts]:
    return lambda coins: kind(2, 1.0, 2, groups=["a", "b"], coins=coins, **more)


def by_category(kind: type[Counts] = Counts) -> Callable[[Coins], TwoCategories]:
    return lambda coins: TwoCategories(kind(2, 1.0, 2, categories=["a", "b"], key=KEY, coins=coins), "a", "b")


@pytest.mark.slow
@pytest.mark.parametrize("only", [None, "mean"])
def test_a_user_of_a_group_loses_exactly_what_is_claimed(only: Any) -> None:
    found = audit.exact(in_groups(only=only), 2, 2)

    assert found.holds
    assert found.worst_loss == pytest.approx(found.claimed, abs=1e-14)


@pytest.mark.slow
def test_a_user_of_two_categories_loses_exactly_what_is_claimed() -> None:
    found = audit.exact(by_category(), 2, 3, verbs=VERBS)

    assert found.holds
    assert found.worst_loss == pytest.approx(found.claimed, abs=1e-14)


@pytest.mark.slow
def test_a_user_with_counters_in_two_categories_is_found() -> None:
    make = by_category(planted_groups.CounterInEveryCategory)
    found = audit.exact(make, 1, 2, verbs=VERBS)

    assert not found.holds
    assert found.worst_loss > 1.4
    # Asked about one category only, nothing would be amiss: the audit has to know that a user may be in both.
    assert audit.exact(make, 1, 2).holds


@pytest.mark.slow
def test_an_event_that_moves_two_groups_is_found() -> None:
    found = audit.exact(in_groups(planted_groups.MovesTheNextGroup), 2, 2)

    assert not found.holds
    assert found.worst_loss > 1.4
