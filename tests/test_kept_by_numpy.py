"""Small arrays of which NumPy would keep the memory as it is: masks, times and values of pandas columns."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from panprivacy import periods
from panprivacy.memory.scratch import Scratch, moved
from panprivacy.testing import refused
from panprivacy.universe import Edges, Users, universe_of
from panprivacy.universe.columns import chosen_rows, plain_column

IDS = [7, 5, 900, 5]


@pytest.mark.parametrize(
    ("universe", "ids", "inside"),
    [
        (universe_of(100), np.array(IDS), [True, True, False, True]),
        (universe_of(100), [7, 2**70], [True, False]),
        (Users([5, 7]), np.array(IDS), [True, True, False, True]),
        (Edges(10), np.array([[1, 2], [3, 99]]), [True, False]),
    ],
    ids=["range", "large numbers", "list", "edges"],
)
def test_masks_of_strangers_are_in_pages_of_their_own(universe: Any, ids: Any, inside: list[bool]) -> None:
    mask = universe.inside(universe.as_column(ids)[:])
    assert mask.tolist() == inside
    assert not mask.flags.owndata


@pytest.mark.parametrize("dtype", ["category", "Int64", pd.ArrowDtype(pa.int64())], ids=str)
def test_values_that_pandas_makes_for_us_are_in_pages_of_their_own(dtype: Any) -> None:
    values = plain_column(pd.Series(IDS, dtype=dtype))
    assert values.tolist() == IDS
    assert not values.flags.owndata


def test_a_column_that_is_an_array_is_that_array() -> None:
    column = pd.Series(IDS)
    assert np.shares_memory(plain_column(column), column.to_numpy())


@pytest.mark.parametrize("dtype", ["category", "string"])
def test_texts_of_pandas_are_a_list(dtype: str) -> None:
    assert plain_column(pd.Series(["b", "a", "b"], dtype=dtype)) == ["b", "a", "b"]


def test_what_is_moved_is_wiped_where_it_was() -> None:
    made = np.array([3.5, 7.5])
    assert moved(made).tolist() == [3.5, 7.5]
    assert not made.any()


class Noted(Scratch):
    """Scratch whose arrays can be looked at later."""

    seen: list[Any]

    def empty(self, *given: Any) -> Any:
        self.seen.append(super().empty(*given))
        return self.seen[-1]

    def own(self, array: Any) -> Any:
        self.seen.append(array)
        return super().own(array)


@pytest.mark.parametrize(
    ("times", "least"),
    [
        (np.array([1.5, 2e9]), 3),
        (np.array([1, 2], dtype=np.int32), 3),
        ([0.5, 2], 4),
        (np.array(["2026-01-05T12:30"], dtype="datetime64[m]"), 1),
        ([datetime(2026, 1, 5, tzinfo=UTC)], 1),
    ],
    ids=["floats", "integers", "list", "dates", "objects"],
)
def test_times_leave_no_array_but_the_moments(times: Any, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Noted, "seen", [], raising=False)
    monkeypatch.setattr(periods, "Scratch", Noted)
    moments = periods.moments_of(times)
    assert moments.all()
    assert len(Noted.seen) >= least
    assert not any(array.view(np.uint8).any() for array in Noted.seen)


def test_a_time_that_is_refused_leaves_no_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Noted, "seen", [], raising=False)
    monkeypatch.setattr(periods, "Scratch", Noted)
    with refused("time-missing"):
        periods.moments_of(np.array(["2026-01-05", "NaT"], dtype="datetime64[s]"))
    assert not any(array.view(np.uint8).any() for array in Noted.seen)


def test_rows_of_arrow_are_chosen_by_bits_that_are_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Noted, "seen", [], raising=False)
    with Noted() as scratch:
        chosen = chosen_rows(pa.array(IDS), np.array([True, False, True, True]), scratch)
    assert chosen.to_pylist() == [7, 900, 5]
    assert Noted.seen
    assert not any(array.any() for array in Noted.seen)
