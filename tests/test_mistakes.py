"""Typical mistakes: each is refused in one line that says what to do, and nothing is changed or spent."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import panprivacy as pp
from panprivacy.ingest import BadInput, Columns, Kind, read
from panprivacy.ingest.feed import BatchFeeder

LABELS: Any = ["north"]
LISTED = ["00001", "00002", "ada", "Grace", "mary", "rosalind"]


class Mistake(NamedTuple):
    """What somebody does, and the answer: a code, and words that say what to do."""

    make: Callable[[], Any]
    does: Callable[[Any], Any]
    code: str
    advice: str


def numbers() -> pp.Density:
    return pp.Density(1000, 1.0)


def listed() -> pp.Density:
    return pp.Density(pp.Users(LISTED), 1.0)


def anybody() -> pp.DistinctCount:
    return pp.DistinctCount(1.0)


def clinics() -> pp.Density:
    return pp.Density(1000, 1.0, categories=["north", "south"])


def nothing() -> None:
    """What is wrong is an argument of a constructor."""


def many(ids: Any, *more: Any, **options: Any) -> Callable[[Any], None]:
    return lambda est: est.update_many(ids, *more, **options)


def one(user: Any, *more: Any) -> Callable[[Any], None]:
    return lambda est: est.update(user, *more)


FRAME = {"user": [1, 2], "clinic": ["north", "south"]}
MISTAKES: dict[str, Mistake] = {
    # ids that collapsed, or came as something else
    "a float": Mistake(numbers, one(7.0), "float-ids", "integers or text"),
    "a list of floats": Mistake(numbers, many([7.0, 8.0]), "float-ids", "integers or text"),
    "a float32 array": Mistake(numbers, many(np.array([7, 8], dtype=np.float32)), "float-ids", "integers or text"),
    "a pandas column with a missing id": Mistake(numbers, many(pd.Series([7, None])), "float-ids", "dtype='Int64'"),
    "a Polars column of floats": Mistake(numbers, many(pl.Series([7.0])), "float-ids", "integers or text"),
    "an Arrow column of floats": Mistake(anybody, many(pa.array([7.0])), "float-ids", "integers or text"),
    "floats among any ids": Mistake(anybody, many([7, 7.0]), "float-ids", "integers or text"),
    "a list of users that are floats": Mistake(
        nothing, lambda _: pp.Users(np.array([1.0])), "float-ids", "integers or text"
    ),
    "categories that are floats": Mistake(clinics, many([1], np.array([1.0])), "float-ids", "integers or text"),
    "groups that are floats": Mistake(
        nothing, lambda _: pp.Users(["a"], groups=[1.0]), "float-ids", "integers or text"
    ),
    "True for an id": Mistake(numbers, one(True), "ids-type", "list them with pp.Users"),
    "text where ids are numbers": Mistake(numbers, many(["7"]), "ids-type", "list them with pp.Users"),
    "dates for ids": Mistake(numbers, many(pd.to_datetime(["2026-01-05"])), "ids-type", "list them with pp.Users"),
    "a UUID where ids are numbers": Mistake(numbers, one(UUID(int=7)), "ids-type", "list them with pp.Users"),
    # lost spelling
    "7 for 00007": Mistake(listed, many(["1", "2"]), "outside-universe", "normalize='zeros'"),
    "numbers for padded text": Mistake(listed, many(np.array([1, 2])), "outside-universe", "normalize='zeros'"),
    "upper case": Mistake(listed, one("ADA"), "outside-universe", "normalize='case'"),
    "a space behind the id": Mistake(listed, one("ada "), "outside-universe", "normalize='strip'"),
    "two users who become one": Mistake(
        nothing, lambda _: pp.Users(["7", "007"], normalize="zeros"), "users-become-one", "leave one of them out"
    ),
    "an unknown way to normalize": Mistake(
        nothing, lambda _: pp.Users(["a"], normalize="lower"), "normalize-unknown", "strip, nfc, case, zeros"
    ),
    # one, many, and frames
    "many ids for one": Mistake(numbers, many(7), "one-id", "use update"),
    "the name of a file for ids": Mistake(anybody, many("visits.csv"), "one-id", "scan_csv"),
    "one release for a series": Mistake(
        nothing,
        lambda _: pp.monotone(numbers().release()),  # type: ignore[arg-type]
        "curve-release",
        "a list of releases",
    ),
    "a text for many ids": Mistake(numbers, many("12"), "one-id", "use update"),
    "a whole frame": Mistake(numbers, many(pl.DataFrame(FRAME)), "not-a-column", "frame.select('user')"),
    "a whole pandas frame": Mistake(numbers, many(pd.DataFrame(FRAME)), "not-a-column", "frame['user']"),
    "a dictionary of columns": Mistake(numbers, many({"user": [1]}), "not-a-column", "it['user']"),
    "a table of numbers": Mistake(numbers, many(np.zeros((2, 3), dtype=int)), "ids-shape", "one column"),
    "a column that a frame does not have": Mistake(
        nothing, lambda _: pp.Users(pl.DataFrame(FRAME), column="id"), "no-such-column", "there are 'user', 'clinic'"
    ),
    "groups as the second argument": Mistake(
        nothing, lambda _: pp.Users(["a"], LABELS), "column-of-a-file", "groups=labels"
    ),
    "missing ids": Mistake(numbers, many(pl.Series([1, None])), "missing-ids", "drop such rows first"),
    "an id outside the universe": Mistake(numbers, many([1, 1000]), "outside-universe", "the universe 0..999"),
    "a universe that is a list": Mistake(
        nothing,
        lambda _: pp.Density(LISTED, 1.0),  # type: ignore[arg-type]
        "universe-type",
        "pp.Users",
    ),
    "an empty list of users": Mistake(nothing, lambda _: pp.Users([]), "no-users", "empty"),
    # categories and groups
    "no category": Mistake(clinics, many([1]), "category-needed", "update(user, category)"),
    "a category that is not listed": Mistake(clinics, many([1], "west"), "outside-universe", "other=True"),
    "a category where there are none": Mistake(numbers, many([1], "north"), "no-categories", "categories=[...]"),
    "more users than categories": Mistake(clinics, many([1, 2], ["north"]), "categories-length", "one category"),
    # budgets and times
    "no privacy at all": Mistake(nothing, lambda _: pp.Density(1000, 0), "epsilon-range", "positive"),
    "a level in percent": Mistake(numbers, lambda est: est.release(95), "level-range", "between 0 and 1"),
    "a period in the wrong unit": Mistake(
        nothing, lambda _: pp.Windows(numbers, every="7D"), "period-unit", "lower case, 7d"
    ),
    "a larger sample than there are users": Mistake(
        nothing, lambda _: pp.Density(10, 1.0, sample=11), "sample-range", "between 1 and"
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_answered_in_one_line_and_changes_nothing(name: str) -> None:
    mistake = MISTAKES[name]
    est = mistake.make()
    before = est.to_bytes() if est is not None else b""
    with pytest.raises(pp.PanPrivacyError) as error:
        mistake.does(est)
    answer = str(error.value)
    assert (error.value.code, mistake.advice in answer, "\n" in answer) == (mistake.code, True, False), answer
    assert len(answer) < 300
    if est is not None:
        assert est.to_bytes() == before
        assert est.budget.releases_made == 0


FILES: dict[str, tuple[bytes, str, str, str]] = {
    "a column that is not there": (b"patient\n1\n", "f.csv", "no-column", "it has 'patient'"),
    "semicolons": (b"user;at\n1;2\n", "f.csv", "no-column", "user;at"),
    "a number for padded text": (b"user\n1\n", "f.csv", "outside-universe", "spelled '00001'"),
    "a number that a spreadsheet has shortened": (b"user\n1.23457E+11\n", "f.csv", "unreadable", "integers or text"),
    "a header in the middle": (b"user\nada\nuser\n", "f.csv", "outside-universe", "repeats the header"),
    "a missing id": (b"user,at\nada,1\n,2\n", "f.csv", "missing-value", "the id is missing"),
    "a float in a Parquet file": (b"", "f.parquet", "float-column", "integers or text"),
}


def fed(est: pp.Density, path: Path, columns: Columns) -> None:
    feed = BatchFeeder(est, columns)
    for batch in read([str(path)], columns):
        feed.take(batch)


@pytest.mark.parametrize("name", FILES)
def test_a_mistake_in_a_file_is_answered_in_one_line_and_changes_nothing(name: str, tmp_path: Path) -> None:
    data, file, code, advice = FILES[name]
    path = tmp_path / file
    if data:
        path.write_bytes(data)
    else:
        pl.DataFrame({"user": [1.0]}).write_parquet(path)
    est, columns = listed(), Columns(("user",), Kind.text)
    before = est.to_bytes()
    with pytest.raises(BadInput) as error:
        fed(est, path, columns)
    answer = str(error.value)
    assert (error.value.code, advice in answer, "\n" in answer) == (code, True, False), answer
    assert est.to_bytes() == before
