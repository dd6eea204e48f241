"""Actives and retention by group."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import panprivacy as pp
from panprivacy.slots.parts import PermutedParts
from panprivacy.testing import SeededCoins

N = 15_000
TRUTH = {"north": 0.1, "south": 0.4, "west": 0.8}
LABELS = list(TRUTH)
NOT_BY_CHANCE = 5.5
"""Standard errors: with a few numbers, a false alarm comes less often than once in a million."""


@cache
def came() -> Any:
    """The users who come: of each group the share that is its truth; groups are mixed."""
    ids = np.arange(N)
    return ids[(ids // 3) % 10 < np.array([10 * TRUTH[LABELS[i % 3]] for i in ids])]


@cache
def actives() -> Any:
    """An estimator that was fed for ten days of a cycle of seven, and its last release."""
    users = pp.ActiveUsers(
        N, 6.0, span="7d", start="2026-01-05", groups=[LABELS[i % 3] for i in range(N)], coins=SeededCoins(1)
    )
    for _ in range(10):
        users.update_many(came())
        users.release()
    return users


@cache
def retention() -> Any:
    """An estimator of users who all came, of whom each group's share came back."""
    est = pp.Retention(N, 4.0, releases=2, groups=[LABELS[i % 3] for i in range(N)], coins=SeededCoins(1))
    est.update_many(np.arange(N))
    est.close()
    est.update_many(came())
    est.release()
    est.release()
    return est


def worst(made: Callable[[], Any], name: str) -> float:
    """By how many standard errors a group is off at most."""
    rows = made().last.groups
    found = [(getattr(row, name), getattr(row, f"{name}_stderr"), TRUTH[row.group]) for row in rows]
    numbers = [
        (one, error, truth)
        for value, stderr, truth in found
        for one, error in zip(np.atleast_1d(value), np.atleast_1d(stderr), strict=True)
    ]
    return max(float(abs(value - truth) / error) for value, error, truth in numbers)


@pytest.mark.parametrize(("made", "name"), [(actives, "active"), (retention, "returned"), (retention, "curve")])
def test_every_group_has_its_share_within_its_error(made: Callable[[], Any], name: str) -> None:
    assert worst(made, name) < NOT_BY_CHANCE


@pytest.mark.parametrize(("made", "name"), [(actives, "active"), (retention, "returned")])
def test_a_bit_that_is_counted_in_another_group_is_noticed(
    made: Callable[[], Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = PermutedParts.count_groups

    def rotated(self: PermutedParts, table: Any, counts: Any) -> None:
        whole(self, table, counts)
        counts[:] = np.roll(counts, 1, axis=0)

    monkeypatch.setattr(PermutedParts, "count_groups", rotated)
    assert worst(made.__wrapped__, name) > NOT_BY_CHANCE  # type: ignore[attr-defined]


@pytest.mark.parametrize(("made", "name"), [(actives, "active"), (retention, "curve")])
def test_groups_add_up_to_all_users(made: Callable[[], Any], name: str) -> None:
    last = made().last
    total = np.array(getattr(last, f"raw_{name}"))
    assert len(last.groups) == 3
    # Each group has a third of the users; in a phase a few more or fewer, by which its bits weigh more or less.
    assert np.abs(np.mean([getattr(row, f"raw_{name}") for row in last.groups], axis=0) - total).max() < 0.03


def test_a_frame_has_rows_for_each_group_and_for_all_users() -> None:
    users, back = actives(), retention()
    frame = users.last.to_polars()
    assert frame["group"].unique(maintain_order=True).to_list() == ["north", "south", "west", None]
    assert len(users.to_polars()) == sum(4 * min(day, 7) for day in range(1, 11))
    assert back.last.to_polars()["group"].to_list() == [g for g in (*LABELS, None) for _ in range(2)]
    assert [row["group"] for row in back.last.to_dict()["groups"]] == LABELS
    smooth = users.smoothed().releases[-1]
    assert [len(row.smoothed) for row in smooth.groups] == [7, 7, 7]


@pytest.mark.parametrize("made", [actives, retention])
def test_a_saved_state_carries_its_groups(made: Callable[[], Any]) -> None:
    est = made()
    again = pp.load(est.to_bytes(insecure=True))
    assert (again.groups, again.last) == (("north", "south", "west"), est.last)


def test_a_group_of_a_few_users_says_nothing_and_spoils_nothing() -> None:
    groups = ["few"] * 2 + ["many"] * 9998
    users = pp.ActiveUsers(10_000, 4.0, span="7d", start="2026-01-05", groups=groups)
    for _ in range(7):
        users.release()
    back = pp.Retention(10_000, 4.0, groups=groups)
    assert back.close().groups[1].density < 0.2
    few, many = users.last.groups  # type: ignore[union-attr]
    assert np.isnan(few.active).sum() >= 5
    assert few.to_dict()["active"].count(None) >= 5
    assert np.isfinite(many.active).all()
    few, many = back.release().groups
    assert np.isnan(few.returned)
    assert "not enough data" in str(few)
    assert np.isfinite(many.returned)


def test_a_group_errs_as_it_says_beforehand() -> None:
    users = actives()
    assert users.stderr_at(0.4, group="south") == pytest.approx(users.last.groups[1].active_stderr[0], rel=0.1)
    assert users.stderr_at(0.4) < users.stderr_at(0.4, group="south")
    assert retention().stderr_at(0.4, group="south") > retention().stderr_at(0.4)
    with pytest.raises(pp.errors.InvalidValue) as refused:
        users.stderr_at(0.4, group="east")
    assert refused.value.code == "no-such-group"
