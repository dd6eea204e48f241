"""Categories: an attribute of the event, of which each user is asked about one."""

from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats

import panprivacy as pp
from checks import ALARM
from panprivacy.memory.scratch import Scratch
from panprivacy.memory.threads import CHUNK
from panprivacy.slots.users import places_for
from panprivacy.testing import coins_of, refused, slots_of
from panprivacy.universe.categories import CategorizedEvent
from sources import Always

KEY = bytes(range(16))
LABELS = ["flu", "cold", "cut"]
USERS = 300

Make = Callable[..., Any]


def density(**more: Any) -> pp.Density:
    return pp.Density(USERS, 2.0, categories=more.pop("categories", LABELS), key=KEY, **more)


def distinct(**more: Any) -> pp.DistinctCount:
    return pp.DistinctCount(2.0, 64, categories=more.pop("categories", LABELS), key=KEY, **more)


BOTH = pytest.mark.parametrize("make", [density, distinct])


def zeros(make: Make, **more: Any) -> Any:
    coins = Always(False)
    est = make(coins=coins, **more)
    coins.outcome = True
    return est


def state(est: Any) -> bytes:
    saved: bytes = est.to_bytes(insecure=True)
    return saved


# --- one category a user --------------------------------------------------------------------------------------------


@BOTH
def test_a_user_owns_a_bit_in_one_category_only(make: Make) -> None:
    est = zeros(make)
    for user in range(USERS):
        slots = [slots_of(est).slot(est._events.index(CategorizedEvent(user, label))) for label in LABELS]
        assert sum(slot >= 0 for slot in slots) == 1


@pytest.mark.slow
@BOTH
def test_events_in_other_categories_leave_no_trace(make: Make) -> None:
    changed = Counter[int]()
    for user, label in product(range(60), LABELS):
        est = zeros(make)
        before = state(est)
        est.update(user, label)
        changed[user] += state(est) != before
    assert set(changed.values()) == {1}


def test_the_categories_are_asked_about_by_as_many_users_give_or_take_the_places_of_nobody() -> None:
    for universe, kinds in ((1000, 3), (12_345, 10), (100_000, 7)):
        est = pp.Density(universe, 1.0, categories=range(kinds))
        asked = slots_of(est).ranges
        assert asked is not None
        assert asked.users.sum() == universe
        assert asked.users.max() - asked.users.min() <= places_for(universe) - universe + 1


def test_the_category_of_a_hash_goes_with_every_level_and_bucket_alike() -> None:
    # Chi-square over categories, levels and buckets at once; false alarms at 1e-6.
    est = pp.DistinctCount(1.0, 8, levels=3, categories=range(5), key=KEY)
    with Scratch() as scratch:
        hashes = est.universe.indices(np.arange(400_000), scratch)
        cells = [
            slots_of(est).select((hashes, np.full(len(hashes), rank, dtype=np.uint64)), Scratch()) for rank in range(5)
        ]
    found = np.bincount(np.concatenate(cells).astype(np.int64), minlength=5 * 3 * 8).reshape(5, 3, 8)
    assert found.sum() == 400_000
    expected = np.ones((5, 3, 8)) * 400_000 / 40 * np.array([1 / 2, 1 / 4, 1 / 4])[None, :, None]
    assert stats.chisquare(found.ravel(), expected.ravel()).pvalue > ALARM


@BOTH
def test_one_by_one_is_many_at_once(make: Make) -> None:
    users, labels = list(range(200)), [LABELS[i % 3] for i in range(200)]
    single, many = zeros(make), zeros(make)
    for user, label in zip(users, labels, strict=True):
        single.update(user, label)
    many.update_many(users, labels)

    assert state(single) == state(many)


def test_who_is_removed_from_the_category_that_is_asked_about_was_never_there() -> None:
    est = zeros(density)
    before = state(est)
    est.update_many(range(USERS), "flu")
    after = state(est)
    coins_of(est).outcome = False
    est.remove_many(range(USERS), "cold")
    assert state(est) == after != before
    est.remove_many(range(1, USERS), "flu")
    est.remove(0, "flu")
    assert state(est) == before


def test_listed_users_and_edges_have_categories_too() -> None:
    users = pp.Users(["ada", "grace", "mary"])
    for universe, user in ((users, "ada"), (pp.Edges(10), (3, 7))):
        coins = Always(False)
        est = pp.Density(universe, 2.0, categories=["a", "b"], key=KEY, coins=coins)
        before, coins.outcome = state(est), True
        est.update_many([user] * 2, ["a", "b"])
        assert state(est) != before


def test_a_sample_asks_some_of_the_users() -> None:
    est = pp.Density(100_000, 1.0, sample=9_000, categories=LABELS)

    assert est.users <= 9_000
    assert est.memory == 9_000 // 64 * 8 + 8
    assert [row.universe for row in est.release().groups] == [100_000] * 3


# --- containers -----------------------------------------------------------------------------------------------------

PEOPLE = list(range(0, USERS, 2))
KINDS = [LABELS[i * i % 3] for i in range(len(PEOPLE))]

IDS: dict[str, Callable[[], Any]] = {
    "list": lambda: PEOPLE,
    "range": lambda: range(0, USERS, 2),
    "array": lambda: np.array(PEOPLE),
    "narrow": lambda: np.array(PEOPLE, dtype=np.uint16),
    "strided": lambda: np.repeat(PEOPLE, 2)[::2],
    "Polars": lambda: pl.Series(PEOPLE),
    "chunks": lambda: pa.chunked_array([PEOPLE[:50], PEOPLE[50:]]),
    "pandas": lambda: pd.Series(PEOPLE, index=reversed(range(len(PEOPLE)))),
    "iterator": lambda: iter(PEOPLE),
}
CATEGORIES: dict[str, Callable[[], Any]] = {
    "list": lambda: KINDS,
    "tuple": lambda: tuple(KINDS),
    "array": lambda: np.array(KINDS),
    "objects": lambda: np.array(KINDS, dtype=object),
    "Polars": lambda: pl.Series(KINDS),
    "Polars categories": lambda: pl.Series(KINDS, dtype=pl.Categorical),
    "Enum": lambda: pl.Series(KINDS, dtype=pl.Enum(["cut", *LABELS[:2]])),
    "Polars chunks": lambda: pl.concat([pl.Series(KINDS[:7]), pl.Series(KINDS[7:])], rechunk=False),
    "Arrow": lambda: pa.array(KINDS),
    "chunks": lambda: pa.chunked_array([KINDS[:30], KINDS[30:]]),
    "dictionary": lambda: pa.array(KINDS).dictionary_encode(),
    "pandas": lambda: pd.Series(KINDS),
    "pandas categories": lambda: pd.Series(KINDS, dtype="category"),
    "iterator": lambda: iter(KINDS),
}


@BOTH
@pytest.mark.parametrize("kinds", CATEGORIES)
def test_every_container_of_ids_goes_with_every_container_of_categories(make: Make, kinds: str) -> None:
    expected = zeros(make)
    expected.update_many(PEOPLE, KINDS)
    for name, ids in IDS.items():
        est = zeros(make)
        est.update_many(ids(), CATEGORIES[kinds]())
        assert state(est) == state(expected), f"{name} with {kinds}"


def test_integers_are_categories_as_well() -> None:
    expected = None
    for container in (list, np.array, pl.Series, pa.array, pd.Series):
        est = zeros(density, categories=[30, 10, 20])
        est.update_many(PEOPLE, container([10 * (i % 3 + 1) for i in range(len(PEOPLE))]))
        assert state(est) == (expected or state(est))
        expected = state(est)


def test_one_category_may_be_that_of_the_whole_batch() -> None:
    one, many = zeros(density), zeros(density)
    one.update_many(iter(PEOPLE), "cold")
    many.update_many(PEOPLE, ["cold"] * len(PEOPLE))

    assert state(one) == state(many)


def test_a_batch_of_several_chunks_is_counted_as_several_batches() -> None:
    ids, kinds = np.arange(CHUNK + 500) % USERS, np.arange(CHUNK + 500) % 3
    long, short = (zeros(density, categories=[0, 1, 2]) for _ in range(2))
    long.update_many(ids, kinds)
    for start in range(0, len(ids), 1000):
        short.update_many(ids[start : start + 1000], kinds[start : start + 1000])

    assert state(long) == state(short)


# --- what is refused ------------------------------------------------------------------------------------------------

MANY = CHUNK + 10


@BOTH
@pytest.mark.parametrize(
    ("ids", "categories", "named"),
    [
        ([1, 2], ["flu", "gout"], ("outside-universe", "'gout'")),
        (
            range(9),
            ["flu", "gout", "gout", "mumps"] + ["gout"] * 5,
            ("outside-universe", "'gout'", "'mumps'"),
        ),
        ([1] * MANY, ["flu"] * (MANY - 1) + ["gout"], ("outside-universe", "'gout'")),
        (lambda: iter([1, 2]), lambda: iter(["flu", "gout"]), ("outside-universe", "'gout'")),
        ([1, 2], "gout", ("outside-universe", "'gout'")),
        ([1, 2], ["flu"], ("categories-length", "2 users", "1 categories")),
        ([1], ["flu", "flu"], ("categories-length", "1 users", "2 categories")),
        (lambda: iter([1, 2]), ["flu"], ("categories-length",)),
        ([1], lambda: iter(["flu", "flu"]), ("categories-length",)),
        ([1, 2], ["flu", None], ("category-type", "None")),
        ([1, 2], pl.Series(["flu", None]), ("missing-categories", "1 category")),
        ([1, 2], pa.array(["flu", None]), ("missing-categories", "1 category")),
        ([1, 2], pd.Series(["flu", None]), ("missing-categories", "1 category")),
        ([1, 2], [1, 2], ("category-type", "1 is")),
        ([1, 2], np.array([1, 2]), ("category-type", "1 is")),
        ([1, 2], 1.5, ("category-type", "1.5")),
        ([1, 2], b"flu", ("category-type", "b'flu'")),
        ([1, 2], "\ud800", ("outside-universe", "ud800")),
        ([1, 2], ["flu", "\ud800"], ("outside-universe", "ud800")),
        ({1, 2}, ["flu", "flu"], ("no-order",)),
        ([1, 2], None, ("category-needed",)),
        (5, "flu", ("one-id",)),
        (pl.DataFrame({"user": [1], "other": [2]}), ["flu"], ("not-a-column",)),
        ([1], pl.DataFrame({"clinic": ["flu"], "other": [2]}), ("not-a-column",)),
    ],
)
def test_a_batch_that_is_refused_changes_nothing(make: Make, ids: Any, categories: Any, named: tuple[str, ...]) -> None:
    est = zeros(make)
    before = state(est)
    batch, kinds = (given() if callable(given) else given for given in (ids, categories))
    with refused(*named):
        est.update_many(batch, kinds)
    assert state(est) == before


@pytest.mark.parametrize(("make", "code"), [(density, "missing-ids"), (distinct, "ids-type")])
def test_a_batch_with_a_missing_id_changes_nothing(make: Make, code: str) -> None:
    est = zeros(make)
    before = state(est)
    with refused(code):
        est.update_many([1, None], ["flu", "flu"])
    assert state(est) == before


def test_one_event_is_refused_as_a_batch_is() -> None:
    est = zeros(density)
    for arguments, code in (
        ((1,), "category-needed"),
        ((1, "gout"), "outside-universe"),
        ((1, 5), "category-type"),
        ((USERS, "flu"), "outside-universe"),
        ((-1, "flu"), "outside-universe"),
    ):
        with refused(code):
            est.update(*arguments)
    with refused("no-categories"):
        pp.Density(5, 1.0).update(1, "flu")
    with refused("no-categories"):
        pp.DistinctCount(1.0).update_many([1], ["flu"])


@BOTH
def test_what_is_no_integer_is_no_category_where_categories_are_integers(make: Make) -> None:
    est = zeros(make, categories=[1, 2, 3])
    before = state(est)
    for wrong in (2.0, 1.5, [1, 1.0], True, ["flu", "flu"]):
        with refused("category-type"):
            est.update_many([7, 8], wrong)
    assert state(est) == before


def test_a_user_outside_is_refused_whatever_the_category() -> None:
    for label in LABELS:
        with refused("outside-universe", "300"):
            density().update_many(np.append(np.zeros(MANY, dtype=np.int64), USERS), label)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"categories": []}, "categories-type"),
        ({"categories": "flu"}, "categories-type"),
        ({"categories": ["a", 1]}, "categories-type"),
        ({"categories": [1.5]}, "categories-type"),
        ({"categories": ["a", "b", "a"]}, "category-twice"),
        ({"categories": ["a", "\ud800"]}, "half-character"),
        ({"categories": ["a", "other"], "other": True}, "category-other"),
        ({"categories": None, "other": True}, "other-without-categories"),
    ],
)
@BOTH
def test_what_categories_cannot_be_is_said(make: Make, given: dict[str, Any], code: str) -> None:
    with refused(code):
        make(**given)


def test_too_many_categories_for_the_users_are_refused() -> None:
    with refused("too-many-categories", "3"):
        pp.Density(3, 1.0, categories=range(20))


@BOTH
def test_what_is_not_listed_is_gathered_if_asked(make: Make) -> None:
    est, expected = zeros(make, other=True), zeros(make, other=True)
    est.update_many(PEOPLE, ["gout", "flu", "mumps"] * 50)
    expected.update_many(PEOPLE, ["other", "flu", "other"] * 50)

    assert state(est) == state(expected) != state(zeros(make, other=True))
    assert est.groups == (*LABELS, "other")
    with refused("category-type", "None"):
        est.update_many([1, 2], ["gout", None])
    with refused("category-type", "5"):
        est.update(1, 5)


# --- what is released -----------------------------------------------------------------------------------------------


@BOTH
def test_a_release_has_every_category_in_the_order_given_and_no_total(make: Make) -> None:
    r = make().release()

    assert [row.group for row in r.groups] == LABELS
    assert r.to_polars()["group"].to_list() == [row["group"] for row in r.to_dict()["groups"]] == LABELS
    for name in ("density", "count", "density_interval", "count_stderr"):
        with refused("no-estimate", name):
            getattr(r, name)
    with pytest.raises(AttributeError):
        _ = r.nothing


@pytest.mark.slow
@BOTH
def test_a_state_brings_its_categories_back(make: Make) -> None:
    est = make(releases=2, other=True)
    est.update_many(PEOPLE, "cold")
    r = est.release()
    back = pp.load(est.to_bytes())

    assert back.last == r
    assert (back.categories, repr(back), back.to_bytes()) == (est.categories, repr(est), est.to_bytes())
    back.update(1, "flu")
    with pytest.raises(pp.BudgetExhausted):
        [back.release() for _ in range(2)]


def test_a_count_by_category_knows_what_ids_are_after_loading() -> None:
    for kind in (None, "integers", "text"):
        est = pp.DistinctCount(1.0, 64, categories=["a"], ids=kind)
        assert pp.load(est.to_bytes()).ids == kind


def test_tables_by_category_merge_if_their_categories_are_the_same() -> None:
    parts = [distinct(releases=2) for _ in range(2)]
    for part, start in zip(parts, (0, 5000), strict=True):
        part.update_many(np.arange(start, start + 5000), "flu")
    sure = 1 - 1e-9  # an interval that misses the truth less than once in a million runs
    for row, truth in zip(pp.merge(parts).release(level=sure).groups, (10_000, 0, 0), strict=True):
        assert row.count_interval[0] <= truth <= row.count_interval[1]
    united = pp.merge([distinct() for _ in range(2)], overlapping=True)
    united.update(1, "cut")
    with refused("different-plans", "categories"):
        pp.merge([distinct(), distinct(categories=LABELS[::-1])])


def test_a_density_by_category_has_no_shards_and_does_not_grow() -> None:
    with refused("shards-with-groups"):
        pp.Density(10, 1.0, categories=["a"], shard=(0, 2))
    with refused("merge-with-groups"):
        pp.merge([density(), density()])
    with refused("cannot-grow", "with categories"):
        density().grow(400)


def test_told_the_universe_counts_are_brought_into_it() -> None:
    est = distinct()
    est.update_many(np.arange(50_000), "flu")
    r = est.release(universe=10_000)

    assert all(row.count <= 10_000 for row in r.groups)
    assert r.groups[0].density == 1.0


@pytest.mark.slow
def test_windows_count_by_category_and_ask_for_it() -> None:
    users = 30_000
    windows = pp.Windows(lambda: pp.Density(users, 20.0, categories=["flu", "cold"]), every="1d", start="2026-01-05")
    with refused("category-needed"):
        windows.update_many([1], time="2026-01-05")
    ids = np.arange(users)
    of, days = np.where(ids < users // 5, "flu", "cold"), np.where(ids % 2, "2026-01-05", "2026-01-06")
    windows.update_many(ids, of, time=days)
    windows.update(3, "cold", time="2026-01-06")
    windows.advance("2026-01-07")
    for window in windows.closed:
        assert {row.group: round(row.density, 1) for row in window.release.groups} == {"flu": 0.1, "cold": 0.4}


@pytest.mark.parametrize(
    "make", [lambda **rest: pp.Density(1000, 2.0, **rest), lambda **rest: pp.DistinctCount(2.0, **rest)]
)
def test_numbers_and_the_others_are_saved_loaded_and_framed(make: Callable[..., Any]) -> None:
    est = make(categories=[1, 2], other=True)
    est.update(3, 1)
    again = pp.load(est.to_bytes())
    assert again.categories == est.categories
    assert again.release().to_polars()["group"].to_list() == ["1", "2", "other"]
