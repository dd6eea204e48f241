"""Events that are in a category: the user of each, and the category of each."""

from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from panprivacy.memory import Scratch
from panprivacy.universe.batches import Cut, Piece, check_many, is_arrow, pieces_of, plain_column
from panprivacy.universe.categories import Categories, Repeated, refuse_missing_categories
from panprivacy.universe.words import Words

_WHICH = "this estimator counts by category: say of each event in which it is, as in update(user, category)"
_LENGTHS = "each event has one user and one category, and there are more {} than {}"


class Visit(NamedTuple):
    """One user and one category, or many users and the category of each."""

    user: Any
    category: Any


class Located(NamedTuple):
    """Positions of users, and codes of the categories in which they appeared."""

    indices: Words
    codes: Words


class Visits:
    """What events of a universe are where each of them is in a category."""

    def __init__(self, users: Any, categories: Categories) -> None:
        self.users = users
        self.categories = categories

    def as_column(self, given: Any) -> Any:
        """Users and categories as one column of visits, or, if either is an iterator, as an iterator of visits."""
        if not isinstance(given, Visit):
            raise TypeError(_WHICH)
        users = self.users.as_column(given.user)
        ids = pieces_of(users)
        if isinstance(given.category, str | bytes) or not isinstance(given.category, Iterable):  # one for all
            if ids is not None:
                return Cut([Visited(piece, Repeated(_plain(given.category), len(piece))) for piece in ids])
            check_many(users)
            return (Visit(user, _plain(given.category)) for user in users)
        refuse_missing_categories(given.category)
        categories = pieces_of(given.category)
        if ids is not None and categories is not None:
            return Cut(_aligned(ids, categories))
        check_many(users)
        if isinstance(users, Set):
            raise TypeError("a set has no order that categories could follow: pass the users as a list")
        return _paired(users, given.category)

    def index(self, given: Any) -> tuple[int, int]:
        """The position of one user, and the code of one category."""
        if not isinstance(given, Visit):
            raise TypeError(_WHICH)
        return self.users.index(given.user), self.categories.code(given.category)

    def indices(self, chunk: Any, scratch: Scratch) -> Located:
        """The positions of a chunk of users, and the codes of their categories."""
        users, categories = _columns(chunk)
        return Located(self.users.indices(users, scratch), self.categories.codes(categories, scratch))

    def unchecked(self, chunk: Any, scratch: Scratch) -> Located:
        """`indices`, but a user outside the universe may have a position outside it, which the slots then refuse."""
        users, categories = _columns(chunk)
        return Located(self.users.unchecked(users, scratch), self.categories.codes(categories, scratch))


class Visited(Sequence[Any]):
    """Two columns of one length, users and categories, read as one column of visits without copying them."""

    def __init__(self, users: Piece, categories: Piece) -> None:
        self.columns = (users, categories)

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, rows: Any) -> Any:
        users, categories = (column[rows] for column in self.columns)
        return Visited(users, categories) if isinstance(rows, slice) else Visit(users, categories)


def _plain(category: Any) -> Any:
    return category.item() if isinstance(category, np.generic) else category


def _columns(chunk: Any) -> tuple[Any, Any]:
    if isinstance(chunk, Visited):
        return chunk.columns
    return [visit.user for visit in chunk], [visit.category for visit in chunk]


def _aligned(users: list[Piece], categories: list[Piece]) -> list[Piece]:
    """Two columns, each in pieces, as pieces of both: cut wherever either is."""
    one, other = (sum(map(len, pieces)) for pieces in (users, categories))
    if one != other:
        raise ValueError(f"each event has one user and one category: got {one:,} users and {other:,} categories")
    ends = sorted({0, *_ends(users), *_ends(categories)})
    return [Visited(_cut(users, start, end), _cut(categories, start, end)) for start, end in pairwise(ends)]


def _ends(pieces: list[Piece]) -> list[int]:
    ends, at = [], 0
    for piece in pieces:
        at += len(piece)
        ends.append(at)
    return ends


def _cut(pieces: list[Piece], start: int, end: int) -> Any:
    """The rows from `start` up to `end`, which lie within one piece."""
    at = 0
    for piece in pieces:
        if start < at + len(piece):
            return piece if (start, end) == (at, at + len(piece)) else piece[start - at : end - at]
        at += len(piece)
    raise AssertionError("pieces are cut at their ends")


def _paired(users: Any, categories: Any) -> Iterator[Visit]:
    """Visits one by one, until both columns end."""
    nothing = object()
    ids, rest = iter(_objects(users)), iter(_objects(categories))
    for user in ids:
        category = next(rest, nothing)
        if category is nothing:
            raise ValueError(_LENGTHS.format("users", "categories"))
        yield Visit(user, category)
    if next(rest, nothing) is not nothing:
        raise ValueError(_LENGTHS.format("categories", "users"))


def _objects(column: Any) -> Any:
    column = plain_column(column)
    return column.to_pylist() if is_arrow(column) else column
