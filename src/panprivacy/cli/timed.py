"""Times in the columns of files and pipes: read, and named with the row where they are wrong."""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from panprivacy.events import BadInput, Batch
from panprivacy.memory import Scratch
from panprivacy.periods import moments_in

_WRITTEN = (
    "write it like 2026-01-31, 2026-01-31T12:00 or 2026-01-31 12:00:00+01:00, or as ten digits: seconds since 1970"
)

T = TypeVar("T")


class Whole(Protocol):
    """Makes a call, and makes it once more if Ctrl-C breaks it off where that only ends the input."""

    def __call__(self, call: Callable[[], T]) -> T: ...


def once(call: Callable[[], T]) -> T:
    """Make a call that Ctrl-C may break off, as it does where files are read."""
    return call()


def moments_of_rows(batch: Batch, column: str, scratch: Scratch) -> NDArray[np.int64]:
    """The times of a batch, or which row has none."""
    times = batch.rows[column]
    moments = moments_in(times)
    if moments.null_count():
        row = int(moments.is_null().arg_max() or 0)
        raise bad_row(batch, row, f"{column} {times.to_physical()[row]!r} is not a time; {_WRITTEN}")
    return scratch.own(moments.to_numpy().copy())  # what Polars has may be a page of the file itself


def parsed_moment(option: str, text: str) -> int:
    """The moment that an option names."""
    import polars as pl

    moment: int | None = moments_in(pl.Series([text]))[0]
    if moment is None:
        raise ValueError(f"{option}: {text!r} is not a time; {_WRITTEN}")
    return moment


def some_rows(batch: Batch, start: int, end: int) -> Batch:
    """The rows of a batch from one up to another."""
    return replace(batch, rows=batch.rows[start:end], before=batch.before + start)


def bad_row(batch: Batch, row: int, cause: str) -> BadInput:
    """What to say of a row that cannot be counted."""
    return BadInput(batch.file, cause, batch.before + row + 1)
