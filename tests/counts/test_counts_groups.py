"""How often users appeared, by group and by category: who counts where, what is released, said and kept."""

from pathlib import Path
from typing import Any

import numpy as np
import planted_groups
import pytest

import panprivacy as pp
from exact_counts import counts_of
from panprivacy.testing import SeededCoins, refused
from sources import Always

REGIONS = np.repeat(["north", "south", "isle"], [600, 390, 10])
KEY = bytes(range(16))


def excesses(est: pp.Counts) -> dict[Any, list[int]]:
    """What each group is counted by, on coins that say nothing but who appeared."""
    numbers = np.array(counts_of(est)).reshape(len(est.groups), -1)
    return dict(zip(est.groups, numbers.tolist(), strict=True))


def zeros(**more: Any) -> pp.Counts:
    """Counters that stand at 0, with bits that are 0 until they are redrawn."""
    coins = Always(False)
    est = pp.Counts(6, 2.0, 2, key=KEY, coins=coins, **more)
    coins.outcome = True
    return est


# --- who counts where -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", ["aaabbc", "abacab"], ids=["together", "mixed"])
def test_each_user_counts_in_its_own_group(labels: str) -> None:
    for user, label in enumerate(labels):
        est = zeros(groups=list(labels))
        before = excesses(est)
        est.update(user)
        after = excesses(est)
        # The user has left place 0, where a zero is one less, for place 1.
        moved = {group: np.subtract(after[group], before[group]).tolist() for group in est.groups}
        assert moved == {group: [1, -1] if group == label else [0, 0] for group in est.groups}


def test_listed_users_bring_their_groups() -> None:
    est = pp.Counts(pp.Users(["ada", "grace", "mary"], groups=["north", "south", "north"]), 2.0)

    assert est.groups == ("north", "south")
    assert [(row.group, row.universe) for row in est.release().groups] == [("north", 2), ("south", 1)]


def test_each_user_counts_in_one_category_and_events_of_others_leave_no_trace() -> None:
    for user in range(6):
        moved = []
        for category in "ab":
            est = zeros(categories=["a", "b"])
            before = excesses(est)
            est.update(user, category)
            est.update_many([user], category)
            moved.append([group for group, found in excesses(est).items() if found != before[group]])
        assert sorted(map(len, moved)) == [0, 1]
        assert [*moved[0], *moved[1]] in (["a"], ["b"])


def test_what_is_taken_back_was_never_there() -> None:
    for more in ({"groups": list("aaabbc")}, {"categories": ["a", "b"]}):
        est = zeros(**more)
        before = est.to_bytes(insecure=True)
        category = ("a",) if "categories" in more else ()
        est.update_many(range(6), *category)
        assert est.to_bytes(insecure=True) != before
        est.remove_many(range(6), *category)
        assert est.to_bytes(insecure=True) == before


# --- what is released -----------------------------------------------------------------------------------------------


def released(kind: type[pp.Counts] = pp.Counts, **more: Any) -> pp.FrequencyRelease:
    est = kind(1000, 2.0, 3, groups=REGIONS, coins=SeededCoins(1), **more)
    est.update_many([*range(300), *range(300), *range(600, 990)])
    return est.release()


def weighted(r: pp.FrequencyRelease, field: str) -> Any:
    """The mean of a field of all groups, by their users."""
    return sum(row.universe * np.array(getattr(row, field)) for row in r.groups) / r.universe


def assert_adds_up(r: pp.FrequencyRelease) -> None:
    assert sum(row.universe for row in r.groups) == r.universe
    assert weighted(r, "raw_mean") == pytest.approx(r.raw_mean)
    for field in ("raw_at_least", "raw_exactly"):
        assert weighted(r, field) == pytest.approx(getattr(r, field))


def test_a_total_is_that_of_its_groups() -> None:
    r = released()

    assert [(row.group, row.universe, row.users) for row in r.groups] == [
        ("north", 600, 600),
        ("south", 390, 390),
        ("isle", 10, 10),
    ]
    assert_adds_up(r)
    alone = released(only="mean")
    assert weighted(alone, "raw_mean") == pytest.approx(alone.raw_mean)
    assert all(row.at_least == () for row in alone.groups)


def test_a_total_that_forgets_a_group_is_noticed() -> None:
    with pytest.raises(AssertionError):
        assert_adds_up(released(planted_groups.ForgetsAGroup))


def test_a_total_has_the_noise_of_all_groups() -> None:
    r = released()
    assert r.noise_stderr * 1000 == pytest.approx(
        sum((row.noise_stderr * row.universe) ** 2 for row in r.groups) ** 0.5
    )
    shares = np.array([[stderr * row.universe for stderr in row.at_least_stderr] for row in r.groups])
    assert np.sqrt(np.square(shares).sum(axis=0)) / 1000 == pytest.approx(r.at_least_stderr)
    wrong = released(planted_groups.OneNoiseForTheTotal)
    assert wrong.noise_stderr < r.noise_stderr / 1.7


def test_groups_cost_no_epsilon() -> None:
    assert pp.Counts(1000, 1.0, groups=REGIONS).budget.total <= 1.0
    assert pp.Counts(1000, 1.0, groups=REGIONS).release().epsilon_spent <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("only", [None, "mean"])
def test_estimates_are_within_their_intervals_and_ranges(only: Any) -> None:
    for seed in range(20):
        r = pp.Counts(40, 0.5, 6, only=only, groups=[i // 8 for i in range(40)], coins=SeededCoins(seed)).release()
        for row in (r, *r.groups):
            for values, intervals in ((row.at_least, row.at_least_interval), (row.exactly, row.exactly_interval)):
                for value, (low, high) in zip(values, intervals, strict=True):
                    assert 0 <= low <= value <= high <= 1
                    assert low < high
            assert 0 <= row.mean_interval[0] <= row.mean <= row.mean_interval[1] <= 6


def test_a_frame_has_every_group_and_json_has_rows() -> None:
    r = released()
    frame = r.to_polars()

    assert frame["group"].to_list() == ["north", "south", "isle", None]
    assert frame["at_least_3_high"].to_list() == [row.at_least_interval[2][1] for row in (*r.groups, r)]
    assert frame["exactly_0_stderr"].to_list() == [row.exactly_stderr[0] for row in (*r.groups, r)]
    assert frame["mean"].to_list() == [*(row["mean"] for row in r.to_dict()["groups"]), r.mean]
    assert frame["exactly_3"].to_list() == frame["at_least_3"].to_list()
    assert [name for name in frame.columns if "4" in name and "exactly" in name] == []
    assert "groups" not in pp.Counts(10, 1.0).release().to_dict()
    assert len(pp.Counts(10, 1.0).release().to_polars()) == 1
    assert released(only="mean").to_polars().columns[:4] == ["group", "mean", "mean_stderr", "mean_low"]


def test_small_groups_say_that_they_are_noise() -> None:
    r = released()

    assert [row.mostly_noise for row in r.groups] == [False, False, True]
    assert "mostly noise" in str(r.groups[2])
    assert "1 of them mostly noise" in str(r)
    assert "isle" in r._repr_html_()
    assert "isle ± " in pp.Counts(1000, 2.0, groups=REGIONS).card().text


def test_a_release_by_category_has_no_total() -> None:
    r = pp.Counts(1000, 1.0, categories=["a", "b"]).release()

    assert [row.group for row in r.groups] == ["a", "b"]
    for name in ("mean", "at_least", "exactly_interval"):
        with refused("no-estimate", name):
            getattr(r, name)


@pytest.mark.slow
def test_groups_are_drawn(tmp_path: Path) -> None:
    released().plot(tmp_path / "groups.png")
    assert (tmp_path / "groups.png").read_bytes().startswith(b"\x89PNG")


# --- what is refused, and what is kept ------------------------------------------------------------------------------


@pytest.mark.parametrize("only", [None, "mean"])
@pytest.mark.parametrize("more", [{"groups": list("aabbab")}, {"categories": ["a", "b"], "other": True}])
def test_a_state_brings_its_groups_back(more: dict[str, Any], only: Any) -> None:
    est = pp.Counts(6, 2.0, 3, releases=2, only=only, **more)
    r = est.release()
    back = pp.load(est.to_bytes(), est.universe)

    assert back.last == r
    assert (back.groups, back.categories, repr(back)) == (est.groups, est.categories, repr(est))
    assert back.to_bytes() == est.to_bytes()


def test_what_does_not_go_together_is_said() -> None:
    for more, code in (
        ({"groups": list("ab"), "categories": ["a"]}, "groups-and-categories"),
        ({"groups": list("ab"), "shard": (0, 2)}, "shards-with-groups"),
        ({"categories": ["a"], "shard": (0, 2)}, "shards-with-groups"),
        ({"categories": range(9)}, "too-many-categories"),
        ({"other": True}, "other-without-categories"),
    ):
        with refused(code):
            pp.Counts(2, 1.0, **more)
    with refused("merge-with-groups"):
        pp.merge([pp.Counts(2, 1.0, groups=list("ab")) for _ in range(2)])
    with refused("no-categories"):
        pp.Counts(2, 1.0, groups=list("ab")).update(1, "a")
