"""Times that commands read: in columns of files and pipes, and in options."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from panprivacy.events.times import WRITTEN, bad_row, moments_of_rows, some_rows
from panprivacy.periods import moments_in

__all__ = ["Whole", "bad_row", "moments_of_rows", "once", "parsed_moment", "some_rows"]

T = TypeVar("T")


class Whole(Protocol):
    """Makes a call, and makes it once more if Ctrl-C breaks it off where that only ends the input."""

    def __call__(self, call: Callable[[], T]) -> T: ...


def once(call: Callable[[], T]) -> T:
    """Make a call that Ctrl-C may break off, as it does where files are read."""
    return call()


def parsed_moment(option: str, text: str) -> int:
    """The moment that an option names."""
    import polars as pl

    moment: int | None = moments_in(pl.Series([text]))[0]
    if moment is None:
        raise ValueError(f"{option}: {text!r} is not a time; {WRITTEN}")
    return moment
