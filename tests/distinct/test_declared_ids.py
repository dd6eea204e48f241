"""What ids are declared to be, they are for good: a second spelling cannot count everybody twice."""

import pickle
from collections.abc import Callable
from typing import Any
from uuid import UUID

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import panprivacy as pp
from panprivacy.testing import refused

KEY = bytes(range(16))
NUMBERS: list[Any] = [1, 2, 3]
CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "array": np.array,
    "objects": lambda ids: np.array(ids, dtype=object),
    "polars": pl.Series,
    "arrow": pa.array,
    "generator": iter,
}


def changed(est: pp.DistinctCount, feed: Callable[[], None]) -> bool:
    """Whether what is fed is taken; if it is refused, nothing may change."""
    before = est.to_bytes()
    try:
        feed()
    except TypeError as error:
        refusal = str(error)
    else:
        return True
    assert "declared to be" in refusal
    assert est.to_bytes() == before
    return False


@pytest.mark.parametrize("how", CONTAINERS)
def test_ids_of_the_other_kind_are_refused_whatever_holds_them(how: str) -> None:
    put = CONTAINERS[how]
    integers, text = (pp.DistinctCount(1.0, ids=ids) for ids in ("integers", "text"))
    assert changed(integers, lambda: integers.update_many(put(NUMBERS)))
    assert not changed(integers, lambda: integers.update_many(put(["a", "b"])))
    assert not changed(text, lambda: text.update_many(put(NUMBERS)))
    assert changed(text, lambda: text.update_many(put(["a", "b"])))


@pytest.mark.parametrize("user", ["5", b"5", UUID(int=5), np.str_("5")])
def test_one_user_of_the_other_kind_is_refused(user: Any) -> None:
    integers, text = (pp.DistinctCount(1.0, ids=ids) for ids in ("integers", "text"))
    assert not changed(integers, lambda: integers.update(user))
    assert not changed(integers, lambda: integers.update_many([5, user]))
    assert changed(text, lambda: text.update(user))
    for number in (5, np.int8(5)):
        assert changed(integers, lambda number=number: integers.update(number))  # type: ignore[misc]
        assert not changed(text, lambda number=number: text.update_many([user, number]))  # type: ignore[misc]


def test_where_nothing_is_declared_numbers_and_texts_are_different_users() -> None:
    est = pp.DistinctCount(60.0, key=KEY)  # next to no noise
    est.update_many([5, np.int8(5), "5", b"5"])
    assert (est.ids, round(est.release().count)) == (None, 2)


@pytest.mark.parametrize("ids", [None, "integers", "text"])
def test_a_state_remembers_what_was_declared(ids: str | None) -> None:
    est = pp.DistinctCount(1.0, 64, ids=ids)
    for again in (pp.load(est.to_bytes()), pickle.loads(pickle.dumps(est))):
        assert again.ids == ids
        assert again.to_bytes() == est.to_bytes()
    assert est.universe.describe() == f"any {ids or 'ids'}"


def test_the_state_has_the_same_length_whoever_came() -> None:
    est = pp.DistinctCount(1.0, 64, ids="text")
    before = len(est.to_bytes())
    est.update_many(["a", "b"])
    assert len(est.to_bytes()) == before


def test_what_ids_are_is_declared_once() -> None:
    est = pp.DistinctCount(1.0)
    with refused("ids-declared", "integers", "text", "'numbers'"):
        est.declare_ids("numbers")
    est.declare_ids("text")
    est.declare_ids("text")
    with refused("ids-declared", "text", "integers"):
        est.declare_ids("integers")
    with refused("ids-declared", "integers", "text"):
        pp.DistinctCount(1.0, ids="int")


@pytest.mark.parametrize("overlapping", [False, True])
def test_tables_are_merged_only_if_their_ids_are_alike(overlapping: bool) -> None:
    def part(ids: str | None) -> pp.DistinctCount:
        return pp.DistinctCount(1.0, 64, key=KEY, ids=ids)

    with refused("different-ids"):
        pp.merge([part("text"), part("integers")], overlapping=overlapping)
    assert pp.merge([part("text"), part("text")], overlapping=overlapping).ids == "text"
    assert pp.merge([part(None), part("text")], overlapping=overlapping).ids == "text"
    assert pp.merge([part(None), part(None)], overlapping=overlapping).ids is None
