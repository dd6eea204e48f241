"""Groups: a public attribute of the user, and one release with every group in it."""

from collections.abc import Callable
from math import hypot
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import panprivacy as pp
from exact_counts import counts_of
from panprivacy.estimates import ErrorModel
from panprivacy.testing import coins_of, gaussian_noise, refused, split_of
from sources import Always

NAMES = ["ada", "grace", "mary", "rosalind", "emmy"]
REGIONS = ["north", "south", "north", "south", "south"]


def counted(est: pp.Density) -> dict[Any, int]:
    """How many bits are 1 in each group, on coins that always come out 1 for who appears and 0 before."""
    return dict(zip(est.groups, counts_of(est), strict=True))


def zeros(universe: Any, **more: Any) -> pp.Density:
    coins = Always(False)
    est = pp.Density(universe, 2.0, coins=coins, **more)
    coins.outcome = True
    return est


# --- who is in which group ------------------------------------------------------------------------------------------


def test_each_listed_user_counts_in_its_own_group() -> None:
    est = zeros(pp.Users(NAMES, groups=REGIONS))
    est.update_many(["ada", "grace", "emmy"])

    assert counted(est) == {"north": 1, "south": 2}


@pytest.mark.parametrize("labels", [[7, 7, 7, 9, 9, 8], [7, 9, 8, 7, 9, 7]], ids=["together", "mixed"])
def test_each_numbered_user_counts_in_its_own_group(labels: list[int]) -> None:
    for user, label in enumerate(labels):
        est = zeros(6, groups=labels)
        est.update(user)
        assert counted(est) == {each: int(each == label) for each in est.groups}


def test_users_whose_groups_stand_together_take_bits_and_no_list() -> None:
    together, mixed = (pp.Density(6, 1.0, groups=list(labels)) for labels in ("aabbcc", "abcabc"))

    assert isinstance(mixed.universe, pp.Users)
    assert not isinstance(together.universe, pp.Users)


CONTAINERS: dict[str, Callable[[list[str]], Any]] = {
    "tuple": tuple,
    "NumPy": np.array,
    "objects": lambda labels: np.array(labels, dtype=object),
    "Polars": pl.Series,
    "categories of Polars": lambda labels: pl.Series(labels, dtype=pl.Categorical),
    "Arrow": pa.array,
    "dictionary": lambda labels: pa.array(labels).dictionary_encode(),
    "pandas": pd.Series,
    "categories of pandas": lambda labels: pd.Series(labels, dtype="category"),
    "iterator": iter,
}


@pytest.mark.parametrize("how", CONTAINERS)
def test_groups_come_in_any_container(how: str) -> None:
    given = pp.Users(NAMES, groups=CONTAINERS[how](REGIONS))

    assert given.fingerprint == pp.Users(NAMES, groups=REGIONS).fingerprint
    assert [given.index(name) for name in sorted(NAMES)] == [0, 2, 3, 1, 4]


def test_ids_of_any_type_have_groups() -> None:
    users = pp.Users([("a", 1), 5], groups=[1, 0])

    assert (users.index(5), users.index(("a", 1))) == (0, 1)


def test_a_list_in_another_order_is_the_same_universe_and_another_grouping_is_another() -> None:
    given = pp.Users(NAMES, groups=REGIONS)

    assert given.fingerprint == pp.Users(NAMES[::-1], groups=REGIONS[::-1]).fingerprint
    assert given.fingerprint != pp.Users(NAMES, groups=[*REGIONS[:-1], "north"]).fingerprint
    assert given.fingerprint != pp.Users(NAMES).fingerprint
    assert pp.Users([*NAMES, "ada"], groups=[*REGIONS, "north"]).fingerprint == given.fingerprint


def test_groups_are_read_from_a_column_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "patients.csv"
    pl.DataFrame({"id": NAMES, "region": REGIONS}).write_csv(file)

    assert pp.Users(file, "id", groups="region").fingerprint == pp.Users(NAMES, groups=REGIONS).fingerprint


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: pp.Users(["a", "a"], groups=["x", "y"]), "user-in-two-groups"),
        (lambda: pp.Users([5, (5,), 5], groups=["x", "y", "y"]), "user-in-two-groups"),
        (lambda: pp.Users(["a"], groups=["x", "y"]), "groups-length"),
        (lambda: pp.Users(["a", "b"], groups=["x", None]), "missing-groups"),
        (lambda: pp.Users(["a"], groups=[1.5]), "float-ids"),
        (lambda: pp.Users(["a", "b"], groups=["x", 1]), "groups-type"),
        (lambda: pp.Density(pp.Users(["a"]), 1.0, groups=["x"]), "groups-of-listed-users"),
        (lambda: pp.Density(3, 1.0, groups=["a", "b"]), "groups-length"),
        (lambda: pp.Density(4, 1.0, groups=[0, 0, 1, 1], sample=2), "groups-and-sample"),
        (lambda: pp.Density(4, 1.0, groups=[0, 0, 1, 1], shard=(0, 2)), "shards-with-groups"),
        (lambda: pp.Density(4, 1.0, groups=[0, 0, 1, 1], categories=["x"]), "groups-and-categories"),
        (lambda: pp.Density(3, 1.0, groups="abc"), "groups-type"),
        (lambda: pp.Users([1, 2, 3], groups="abc"), "groups-type"),
        (lambda: pp.Counts(3, 1.0, groups=b"abc"), "groups-type"),
        (lambda: pp.Density(3, 1.0, groups={"a", "b", "c"}), "groups-type"),
        (lambda: pp.Density(2, 1.0, groups=["a", "\ud800"]), "half-character"),
        (lambda: pp.Density(200_002, 1.0, groups=np.arange(200_002) // 2), "groups-number"),
    ],
)
def test_what_groups_cannot_be_is_said(make: Callable[[], Any], code: str) -> None:
    with refused(code):
        make()


# --- what is released -----------------------------------------------------------------------------------------------


def released() -> pp.Release:
    est = zeros(1000, groups=["north"] * 600 + ["south"] * 390 + ["isle"] * 10)
    est.update_many(range(300))
    return est.release()


def test_a_release_has_a_row_for_each_group_and_the_total() -> None:
    r = released()

    assert [(row.group, row.universe, row.users) for row in r.groups] == [
        ("north", 600, 600),
        ("south", 390, 390),
        ("isle", 10, 10),
    ]
    assert sum(row.raw_count for row in r.groups) == pytest.approx(r.raw_count)
    assert r.universe == 1000
    for row in r.groups:
        low, high = row.count_interval
        assert 0 <= low <= row.count <= high <= row.universe
        assert row.count_stderr == pytest.approx(row.density_stderr * row.universe)


def test_a_total_errs_as_the_sum_of_its_groups_does() -> None:
    r = released()
    est = pp.Density(1000, 2.0, groups=["north"] * 600 + ["south"] * 400)
    errors = [est.density_stderr_at(0.3, group) * users for group, users in (("north", 600), ("south", 400))]

    assert est.density_stderr_at(0.3) * 1000 == pytest.approx(hypot(*errors))
    assert r.noise_stderr * 1000 == pytest.approx(
        float(np.sqrt(sum((row.noise_stderr * row.universe) ** 2 for row in r.groups)))
    )


def test_groups_cost_no_epsilon() -> None:
    alone, grouped = pp.Density(1000, 1.0), pp.Density(1000, 1.0, groups=[i // 100 for i in range(1000)])

    assert alone.budget.total <= grouped.budget.total + 1e-9
    assert grouped.release().epsilon_spent <= 1.0


def test_a_frame_has_every_group_and_json_has_rows() -> None:
    r = released()
    frame = r.to_polars()

    assert frame["group"].to_list() == ["north", "south", "isle", None]
    assert frame["density"].to_list() == [*(row.density for row in r.groups), r.density]
    assert frame["users"].sum() == 2 * r.universe
    assert r.to_pandas().columns.to_list() == frame.columns
    assert {"density", "density_stderr", "density_low", "density_high", "count", "mostly_noise"} <= set(frame.columns)
    assert r.to_dict()["groups"][2]["group"] == "isle"
    assert "groups" not in pp.Density(10, 1.0).release().to_dict()
    alone = pp.Density(10, 1.0).release()
    assert alone.to_polars()["density"].to_list() == [alone.density]


def test_printing_a_release_shows_its_first_groups_as_that_of_categories_does() -> None:
    r = released()
    for row in r.groups:
        assert f"{row.group} {row.main.short}" in str(r)
    assert "\n" not in str(r)


def test_errors_that_are_equal_are_said_once() -> None:
    est = pp.Density(1000, 2.0, groups=["north"] * 500 + ["south"] * 500)
    (error,) = {row.main.error for row in est.release().groups}
    assert f"groups 2, standard error {error} each" in str(est.last)


def test_small_groups_say_that_they_are_noise_before_and_after_a_release() -> None:
    r = released()
    est = pp.Density(1000, 2.0, groups=["north"] * 990 + ["isle"] * 10)

    assert [row.mostly_noise for row in r.groups] == [row.density_stderr > 12**-0.5 for row in r.groups]
    assert r.groups[2].mostly_noise
    assert "mostly noise" in str(r.groups[2])
    assert "1 of them mostly noise" in str(r)
    assert "mostly noise" in r._repr_html_()
    assert "isle ± " in est._repr_html_()
    assert "(10 users)" in est._repr_html_()


def test_labels_cannot_break_out_of_a_notebook() -> None:
    r = pp.Density(2, 1.0, groups=["<script>", "b"]).release()

    assert "<script>" not in r._repr_html_()


def test_of_many_groups_some_are_shown_and_all_are_there() -> None:
    r = pp.Density(1000, 1.0, groups=[i // 10 for i in range(1000)]).release()

    assert "and 80 more" in r.card().text
    assert len(r.to_polars()) == len(r.groups) + 1 == 101


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("delta", [None, 1e-9])
@gaussian_noise()
def test_intervals_of_many_groups_are_those_of_each(level: float, delta: float | None) -> None:
    split = split_of(pp.Density(500, 1.0, delta=delta))
    sizes = np.array([3, 40, 500, 5000])
    many = ErrorModel(split.pair, sizes, sizes, 10 * sizes, split.noise)
    for estimate in (-3.0, -0.01, 0.0, 0.2, 0.5, 0.999, 1.0, 1.4):
        lows, highs = many.interval(np.full(4, estimate), level)
        errors = many.stderr(0.25)
        for i, size in enumerate(sizes.tolist()):
            one = ErrorModel(split.pair, size, size, 10 * size, split.noise)
            assert (lows[i], highs[i]) == pytest.approx(one.interval(estimate, level), abs=1e-11)
            assert errors[i] == pytest.approx(one.stderr(0.25))


@pytest.mark.parametrize("groups", [1, 24, 25])
def test_few_groups_are_estimated_like_many(groups: int) -> None:
    split = split_of(pp.Density(500, 1.0))
    sizes = np.arange(100, 100 + groups)
    found = ErrorModel(split.pair, sizes, sizes, 10 * sizes, split.noise).estimates(sizes // 2 + 9, 0.95)
    for size, estimate in zip(sizes.tolist(), found, strict=True):
        one = ErrorModel(split.pair, size, size, 10 * size, split.noise).estimate(size // 2 + 9, 0.95)
        assert estimate.interval == pytest.approx(one.interval, abs=1e-11)
        assert estimate[:2] == pytest.approx(one[:2], abs=1e-12)


# --- states ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("universe", [6, pp.Users(list("uvwxyz"), groups=list("aabbab"))], ids=["range", "list"])
def test_a_state_brings_its_groups_back(universe: Any) -> None:
    est = pp.Density(universe, 1.0, releases=2, groups=list("aabbbb") if universe == 6 else None)
    r = est.release()
    back = pp.load(est.to_bytes())

    assert back.last == r
    assert back.groups == ("a", "b")
    assert [row.group for row in back.release().groups] == ["a", "b"]


def test_a_list_with_other_groups_is_refused_at_loading() -> None:
    users = pp.Users(NAMES, groups=REGIONS)
    blob = pp.Density(users, 1.0).to_bytes()

    pp.load(blob, universe=pp.Users(NAMES, groups=REGIONS)).update("ada")
    for other in (pp.Users(NAMES), pp.Users(NAMES, groups=REGIONS[::-1])):
        with pytest.raises(pp.OtherUniverse):
            pp.load(blob, universe=other)


def test_bits_move_with_their_users_when_a_list_with_groups_grows() -> None:
    est = zeros(pp.Users(NAMES, groups=REGIONS))
    est.update_many(["ada", "emmy"])
    coins_of(est).outcome = False
    est.grow(pp.Users(["ida", "zoe"], groups=["north", "east"]))

    assert counted(est) == {"east": 0, "north": 1, "south": 1}
    coins_of(est).outcome = True
    est.update("zoe")
    assert counted(est) == {"east": 1, "north": 1, "south": 1}


def test_newcomers_without_a_group_are_refused() -> None:
    est = zeros(pp.Users(NAMES, groups=REGIONS))
    before = est.to_bytes(insecure=True)
    with refused("groups-needed"):
        est.grow(["ida"])
    with refused("cannot-grow"):
        pp.Density(4, 1.0, groups=list("aabb")).grow(8)
    assert est.to_bytes(insecure=True) == before


def test_what_watches_one_density_takes_over_none_with_groups() -> None:
    for est in (pp.Density(1000, 9.0, groups=[0] * 500 + [1] * 500), pp.Density(1000, 9.0, categories=["a", "b"])):
        with refused("continual-of-groups"):
            pp.Continual(est)
        assert est.emptied is None


def test_windows_release_groups() -> None:
    windows = pp.Windows(lambda: pp.Density(4, 1.0, groups=list("aabb")), every="1d", start="2026-01-05")
    windows.update_many([1, 2], time="2026-01-05")
    (window,) = windows.advance("2026-01-06")

    assert [row.group for row in window.release.groups] == ["a", "b"]
