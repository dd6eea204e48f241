"""No call leaves anything in the scratch that it used: not the flips, slots, hashes or places of anyone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import panprivacy as pp
from panprivacy.memory import scratch
from panprivacy.memory.scratch import Scratch
from panprivacy.memory.threads import CHUNK
from panprivacy.paper import FixedLevelPPDS
from panprivacy.universe.open import OpenUniverse

KEY = bytes(range(16))


class Kept:
    """References to every array that scratch handed out, by which to look at it afterwards."""

    def __init__(self) -> None:
        self.arrays: list[NDArray[Any]] = []

    @property
    def left(self) -> list[NDArray[Any]]:
        """Those that hold something, byte by byte: as numbers, minus zero would pass and not-a-number would warn."""
        return [array for array in self.arrays if any(array.tobytes())]


@contextmanager
def kept_scratch() -> Iterator[Kept]:
    """Keep a reference to every array that scratch hands out."""
    kept = Kept()
    with pytest.MonkeyPatch.context() as patch:
        empty, own = Scratch.empty, Scratch.own

        def noted_empty(scratch: Scratch, name: str, n: int, dtype: Any) -> Any:
            array = empty(scratch, name, n, dtype)
            kept.arrays.append(array)
            return array

        def noted_own(scratch: Scratch, array: Any) -> Any:
            kept.arrays.append(array)
            return own(scratch, array)

        patch.setattr(Scratch, "empty", noted_empty)
        patch.setattr(Scratch, "own", noted_own)
        yield kept


# --- what is called -------------------------------------------------------------------------------------------------


class Subject(NamedTuple):
    """An estimator, and some ids that it takes."""

    make: Callable[[], Any]
    ids: list[Any]
    strangers: list[Any] | None = None
    """The same with some that it refuses."""


class Sorted:
    """An estimator by category, all of whose events are in one or the other of two."""

    def __init__(self, est: Any) -> None:
        self._est = est

    def update_many(self, ids: Any) -> None:
        self._est.update_many(ids, (["a", "b"] * len(ids))[: len(ids)] if hasattr(ids, "__len__") else "a")

    def update(self, user: Any) -> None:
        self._est.update(user, "b")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._est, name)

    def remove_many(self, ids: Any) -> None:
        self._est.remove_many(ids, "a")

    def remove(self, user: Any) -> None:
        self._est.remove(user, "a")

    @classmethod
    def from_bytes(cls, blob: bytes) -> Any:
        return pp.load(blob)


NUMBERS = [5, 2, 9, 9, 998, 1023]
NAMES = ["ada", "grace", "mary", "mary"]
SUBJECTS = {
    "range": Subject(lambda: pp.Density(1024, 9.0, intrusions=1), NUMBERS, [5, 1024]),
    "sampled": Subject(lambda: pp.Density(1024, 9.0, sample=900, key=KEY, intrusions=1), NUMBERS, [5, 1024]),
    "shard": Subject(lambda: pp.Density(1024, 9.0, shard=(0, 2), intrusions=1), NUMBERS, [5, 1024]),
    "listed numbers": Subject(lambda: pp.Density(pp.Users(NUMBERS), 9.0, intrusions=1), NUMBERS, [5, 6]),
    "listed names": Subject(lambda: pp.Density(pp.Users(NAMES), 9.0, intrusions=1), NAMES, ["mary", "eve"]),
    "listed anything": Subject(lambda: pp.Density(pp.Users([5, "ada"]), 9.0, intrusions=1), [5, "ada"], [5, "eve"]),
    "edges": Subject(lambda: pp.Density(pp.Edges(40), 9.0, intrusions=1), [(1, 2), (30, 7)], [(1, 2), (3, 3)]),
    "edges of names": Subject(
        lambda: pp.Density(pp.Edges(NAMES), 9.0, intrusions=1), [("ada", "mary")], [("ada", "mary"), ("ada", "eve")]
    ),
    "distinct numbers": Subject(lambda: pp.DistinctCount(9.0, 64, intrusions=1), NUMBERS, [5, 2**64]),
    "distinct names": Subject(lambda: pp.DistinctCount(9.0, 64, intrusions=1), NAMES, ["ada", 1.5]),
    "distinct anything": Subject(lambda: pp.DistinctCount(9.0, 64, intrusions=1), [5, "ada"], [5, "ada", 1.5]),
    "fixed level": Subject(lambda: FixedLevelPPDS(1024, 9.0, 2000, intrusions=1), NUMBERS, [5, 1024]),
    "groups": Subject(
        lambda: pp.Density(1024, 9.0, groups=[i % 3 for i in range(1024)], intrusions=1), NUMBERS, [5, 1024]
    ),
    "categories": Subject(
        lambda: Sorted(pp.Density(1024, 9.0, categories=["a", "b"], key=KEY, intrusions=1)), NUMBERS, [5, 1024]
    ),
    "distinct by category": Subject(
        lambda: Sorted(pp.DistinctCount(9.0, 64, categories=["a", "b"], key=KEY, intrusions=1)), NAMES, ["ada", 1.5]
    ),
    "counts": Subject(lambda: pp.Counts(1024, 9.0), NUMBERS, [5, 1024]),
    "continual": Subject(lambda: pp.Continual(1024, 9.0, moves=3, step=0.5), NUMBERS, [5, 1024]),
}


def read_only(ids: list[Any]) -> NDArray[Any]:
    array = np.array(ids)
    array.flags.writeable = False
    return array


CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "generator": iter,
    "objects": lambda ids: np.fromiter(ids, dtype=object),
}
COLUMNS: dict[str, Callable[[list[Any]], Any]] = {
    "numpy": np.array,
    "read-only": read_only,
    "strided": lambda ids: np.repeat(ids, 2)[::2],
    "polars": pl.Series,
    "polars in chunks": lambda ids: pl.concat([pl.Series(ids[:1]), pl.Series(ids[1:])], rechunk=False),
    "arrow": pa.array,
    "dictionary": lambda ids: pa.array(ids).dictionary_encode(),
    "pandas": lambda ids: pd.Series(ids, index=range(7, 7 + len(ids))),
    "pandas categories": lambda ids: pd.Series(ids, dtype="category"),
    "index": pd.Index,
}
INTEGERS: dict[str, Callable[[list[int]], Any]] = {
    "16 bits": lambda ids: np.array(ids, dtype=np.int16),
    "other end first": lambda ids: np.array(ids, dtype=">i8"),
    "unsigned": lambda ids: np.array(ids, dtype=np.uint64),
    "128 bits": lambda ids: pl.Series(ids, dtype=pl.Int128),
    "nullable": lambda ids: pd.Series(ids, dtype="Int64"),
}
EDGES: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "generator": iter,
    "array": np.array,
    "16 bits": lambda ids: np.array(ids, dtype=np.int16),
    "two arrays": lambda ids: tuple(np.array(ids).T),
    "two columns": lambda ids: tuple(map(pl.Series, zip(*ids, strict=True))),
    "frame": lambda ids: pl.DataFrame(ids, schema=["from", "to"], orient="row"),
    "pandas frame": lambda ids: pd.DataFrame(ids, index=range(7, 7 + len(ids))),
}


def containers_for(ids: list[Any]) -> dict[str, Callable[[list[Any]], Any]]:
    """The containers that ids of this kind come in."""
    kinds = set(map(type, ids))
    if kinds == {tuple}:
        named = {how: make for how, make in EDGES.items() if how != "16 bits"}
        return named if isinstance(ids[0][0], str) else EDGES
    return CONTAINERS | (COLUMNS if len(kinds) == 1 else {}) | (INTEGERS if kinds == {int} else {})


BATCHES = [(name, how) for name, subject in SUBJECTS.items() for how in containers_for(subject.ids)]


def remove(est: Any, ids: list[Any]) -> None:
    with suppress(pp.PanPrivacyError):  # a DistinctCount removes nobody
        est.remove_many(ids)
    with suppress(pp.PanPrivacyError):
        est.remove(ids[0])


def look(est: Any) -> None:
    (est.observe if isinstance(est, pp.Continual) else est.release)()


VERBS: dict[str, Callable[[Any, list[Any]], object]] = {
    "update": lambda est, ids: [est.update(user) for user in ids],
    "remove": remove,
    "release": lambda est, _: look(est),
    "rerandomize": lambda est, _: isinstance(est, pp.Continual | pp.Counts) or est.rerandomize(),
    "save": lambda est, _: type(est).from_bytes(est.to_bytes()),
}


# --- nothing is left ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_new_estimator_leaves_nothing(name: str) -> None:
    with kept_scratch() as kept:
        SUBJECTS[name].make()
    assert kept.arrays
    assert not kept.left


@pytest.mark.parametrize(("name", "how"), BATCHES)
def test_a_batch_leaves_nothing(name: str, how: str) -> None:
    est, ids = SUBJECTS[name].make(), SUBJECTS[name].ids
    batch = containers_for(ids)[how](ids)
    with kept_scratch() as kept:
        est.update_many(batch)
    assert kept.arrays
    assert not kept.left


@pytest.mark.parametrize("chunks", [1, 3])
def test_no_chunk_of_hashes_that_polars_makes_is_left(chunks: int) -> None:
    """Polars hashes every chunk of a column into memory of its own, which scratch is handed as an array or not."""
    texts = pl.concat([pl.Series("ids", ["ada", "grace", "mary"])] * chunks, rechunk=False)
    made: list[pl.DataFrame] = []
    select = pl.DataFrame.select

    def noted_select(frame: pl.DataFrame, *what: Any) -> pl.DataFrame:
        made.append(select(frame, *what))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch, Scratch() as scratch:
        patch.setattr(pl.DataFrame, "select", noted_select)
        hashes = OpenUniverse(KEY).hash_texts(texts, scratch)
        assert hashes.tolist() == [OpenUniverse(KEY).index(text) for text in texts]
    (hashed,) = made
    assert hashed.to_series().n_chunks() == chunks
    assert hashed.to_series().to_list() == [0] * 3 * chunks


@pytest.mark.parametrize("how", CONTAINERS | COLUMNS | INTEGERS)
def test_the_callers_own_ids_stay_as_they_were(how: str) -> None:
    batch = (CONTAINERS | COLUMNS | INTEGERS)[how](NUMBERS)
    again = list(NUMBERS) if how == "generator" else batch
    pp.Density(1024, 1.0).update_many(batch)
    pp.DistinctCount(1.0, 64).update_many(again)
    assert [int(user) for user in again] == NUMBERS if how != "dictionary" else batch.to_pylist() == NUMBERS


def test_ids_behind_an_array_that_an_object_shows_stay_as_they_were() -> None:
    class Column(list[int]):
        """A list that NumPy reads as an array which somebody goes on using."""

        def __init__(self, ids: NDArray[np.int64]) -> None:
            super().__init__(ids.tolist())
            self.ids = ids

        def __getitem__(self, rows: Any) -> Any:
            return self

        def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[np.int64]:
            return self.ids

    ids = np.array(NUMBERS)
    pp.Density(1024, 1.0).update_many(Column(ids))
    assert ids.tolist() == NUMBERS


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", SUBJECTS)
def test_no_verb_leaves_anything(name: str, verb: str) -> None:
    est, ids = SUBJECTS[name].make(), SUBJECTS[name].ids
    est.update_many(ids)
    with kept_scratch() as kept:
        VERBS[verb](est, ids)
    assert not kept.left


@pytest.mark.slow
@pytest.mark.parametrize("long", [False, True], ids=["short", "long"])
@pytest.mark.parametrize("name", SUBJECTS)
def test_a_batch_that_is_refused_leaves_nothing(name: str, long: bool) -> None:
    est, (_, ids, strangers) = SUBJECTS[name].make(), SUBJECTS[name]
    assert strangers
    batch = [*(ids * (CHUNK // len(ids) + 1)), *strangers] if long else strangers
    with kept_scratch() as kept, pytest.raises((pp.OutsideUniverse, TypeError)):
        est.update_many(batch)
    assert kept.arrays
    assert not kept.left


def test_a_long_batch_that_is_looked_up_first_leaves_nothing() -> None:
    est = pp.Density(5_000_000, 1.0)
    with kept_scratch() as kept, pytest.raises(pp.OutsideUniverse):
        est.update_many(np.append(np.arange(1, CHUNK + 10), -1).astype(">i4"))
    assert kept.arrays
    assert not kept.left


def distinct_parts() -> list[pp.DistinctCount]:
    parts = [pp.DistinctCount(2.0, 64, key=KEY) for _ in range(3)]
    for part in parts:
        part.update_many(NUMBERS)
    return parts


def changed_windows() -> None:
    windows = pp.Windows(lambda: pp.Density(1024, 1.0), every="1d", start=0)
    windows.update_many(np.array(NUMBERS), time=10.0)
    windows.update_many(np.array(NUMBERS), time=86_400.0 * (np.arange(len(NUMBERS)) % 3))
    windows.advance(5 * 86_400)


def grown(universe: Any, more: Any) -> None:
    est = pp.Density(universe, 9.0)
    est.update_many(NUMBERS if isinstance(universe, int) else NAMES)
    est.grow(more)


OTHERS: dict[str, Callable[[], object]] = {
    "merged shards": lambda: pp.merge([pp.Density(1024, 1.0, shard=(i, 2)) for i in range(2)]),
    "merged counters": lambda: pp.merge([pp.Counts(1024, 1.0, shard=(i, 2)) for i in range(2)]),
    "side by side": lambda: pp.merge(distinct_parts()),
    "overlapping": lambda: pp.merge(distinct_parts(), overlapping=True),
    "windows": changed_windows,
    "grown range": lambda: grown(1024, 2000),
    "grown list": lambda: grown(pp.Users(NAMES), ["ida", "zoe"]),
    "taken over": lambda: pp.Continual(pp.Density(1024, 9.0, releases=10)).observe(),
}


@pytest.mark.parametrize("name", OTHERS)
def test_nothing_that_takes_over_leaves_anything(name: str) -> None:
    with kept_scratch() as kept:
        OTHERS[name]()
    assert kept.arrays
    assert not kept.left


# --- bugs that have to be found -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "how"), BATCHES)
def test_a_skipped_wipe_is_found(monkeypatch: pytest.MonkeyPatch, name: str, how: str) -> None:
    est, ids = SUBJECTS[name].make(), SUBJECTS[name].ids
    batch = containers_for(ids)[how](ids)
    monkeypatch.setattr(scratch, "wipe", lambda _: None)
    with kept_scratch() as kept:
        est.update_many(batch)
    assert kept.left


@pytest.mark.parametrize("name", OTHERS)
def test_a_skipped_wipe_of_what_takes_over_is_found(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(scratch, "wipe", lambda _: None)
    with kept_scratch() as kept:
        OTHERS[name]()
    assert kept.left


@pytest.mark.parametrize("name", SUBJECTS)
def test_scratch_that_is_wiped_only_if_nothing_goes_wrong_is_found(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    wiping = Scratch.__exit__

    def only_if_well(scratch: Scratch, kind: Any, error: Any, traceback: Any) -> None:
        if kind is None:
            wiping(scratch, kind, error, traceback)

    est, (_, ids, strangers) = SUBJECTS[name].make(), SUBJECTS[name]
    monkeypatch.setattr(Scratch, "__exit__", only_if_well)
    with kept_scratch() as kept, pytest.raises((pp.OutsideUniverse, TypeError)):
        est.update_many([*ids, *(strangers or [])])
    assert kept.left
