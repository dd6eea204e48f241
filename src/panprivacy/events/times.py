"""Times in a column of events: read, and named with the row where they are wrong."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from panprivacy.events.batch import REPEATS_HEADER, BadInput, Batch
from panprivacy.memory import Scratch
from panprivacy.periods import moments_in

WRITTEN = (
    "write it like 2026-01-31, 2026-01-31T12:00 or 2026-01-31 12:00:00+01:00, or as ten digits: seconds since 1970"
)
"""How times are written."""


def moments_of_rows(batch: Batch, column: str, scratch: Scratch, without: int | None = None) -> NDArray[np.int64]:
    """The times of a batch, or which row has none; `without` is the moment of such a row, if it is no error."""
    times = batch.rows[column]
    moments = moments_in(times)
    if moments.null_count() and without is not None:
        moments = moments.fill_null(without)
    if moments.null_count():
        row = int(moments.is_null().arg_max() or 0)
        found = times.to_physical()[row]
        raise bad_row(batch, row, REPEATS_HEADER if found == column else f"{column} {found!r} is not a time; {WRITTEN}")
    return scratch.own(moments.to_numpy().copy())  # what Polars has may be a page of the file itself


def some_rows(batch: Batch, start: int, end: int) -> Batch:
    """The rows of a batch from one up to another."""
    return replace(batch, rows=batch.rows[start:end], before=batch.before + start)


def bad_row(batch: Batch, row: int, cause: str) -> BadInput:
    """What to say of a row whose time is wrong."""
    return BadInput(batch.file, cause, batch.before + row + 1, sort="untimely")
