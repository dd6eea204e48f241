"""Categories of events: which categories there are, and events that consist of a user and a category."""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import shown
from panprivacy.errors import InvalidType, InvalidValue, OutsideUniverse
from panprivacy.memory.scratch import Scratch
from panprivacy.universe.columns import (
    Chunk,
    Chunks,
    SideBySide,
    check_many,
    is_arrow,
    is_frame,
    is_pandas,
    is_polars,
    pieces_of,
    plain_column,
    refuse_floats,
    side_by_side,
)
from panprivacy.universe.groups import MOST_GROUPS, OTHER, Label, labels_bytes, labels_from, refuse_half_characters
from panprivacy.universe.integers import NOT_THERE, Lookup, Words
from panprivacy.universe.range import first_of
from panprivacy.universe.users import Users

_HEAD = struct.Struct("<?")
_NAMED = 8  # categories that an error names
GATHERED = "; other=True gathers such events"
"""What a refusal says to do."""

_WHICH = "this estimator counts by category: say of each event in which it is, as in update(user, category)"
_LENGTHS = "each event has one user and one category, and there are more {} than {}"


class Categories:
    """The categories that events can be in, in the order in which they were given; with `other`, one for the rest.

    >>> Categories(["flu", "cold"], other=True).labels
    ('flu', 'cold', 'other')
    """

    def __init__(self, labels: Iterable[Label], other: bool = False) -> None:
        one = isinstance(labels, str | bytes | Mapping) or not isinstance(labels, Iterable) or is_frame(labels)
        listed = tuple(_plain(label) for label in labels) if not one else ()
        kinds = set(map(type, listed))
        if kinds not in ({str}, {int}):
            raise InvalidType(
                f"categories are a list of texts or of integers, got {shown(labels)}", code="categories-type"
            )
        twice = next((label for label in listed if listed.count(label) > 1), None) if _doubled(listed) else None
        if twice is not None:
            raise InvalidValue(f"category {twice!r} is listed twice", code="category-twice")
        if other and OTHER in listed:
            raise InvalidValue(
                f"{OTHER!r} is what other=True calls the rest: list it, or ask for it, not both", code="category-other"
            )
        if len(listed) + other > MOST_GROUPS:
            raise InvalidValue(
                f"there can be 1 to {MOST_GROUPS:,} categories, got {len(listed) + other:,}", code="categories-number"
            )
        refuse_half_characters(listed, "category")
        self.labels: tuple[Any, ...] = (*listed, *([OTHER] if other else []))
        self.other = other
        self._kind = kinds.pop()
        self._known = Users(list(listed))
        found = {label: rank for rank, label in enumerate(listed)}
        ranks = [found[label] for label in self._known.listed(0, self._known.size)]
        self._codes = {label: code for code, label in enumerate(self._known.listed(0, self._known.size))}
        self.ranks: NDArray[np.uint64] = np.array([*ranks, *([len(listed)] if other else [])], dtype=np.uint64)
        """The number among `labels` of each code; codes beyond the last stand for the last."""

    def __len__(self) -> int:
        return len(self.labels)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Categories) and (self.labels, self.other) == (other.labels, other.other)

    def __hash__(self) -> int:
        return hash((self.labels, self.other))

    def rank(self, code: int) -> int:
        """The number among `labels` of a code."""
        return int(self.ranks[min(code, len(self.ranks) - 1)])

    def code(self, category: Any) -> int:
        """The code of one category; the same as `codes` for a column of one."""
        found = self._codes.get(category) if isinstance(category, str | int | np.integer) else None
        if found is not None and not isinstance(category, bool):
            return found
        with Scratch() as scratch:  # which raises the error, if there is one
            return int(self.codes([category], scratch)[0])

    def codes(self, chunk: Any, scratch: Scratch) -> Words:
        """The code of each category of a chunk; unlisted ones are refused, unless others are gathered."""
        codes: Words = scratch.empty("codes", len(chunk), np.uint64)
        if isinstance(chunk, Repeated):
            codes.fill(self.code(chunk.category))
            return codes
        self._check_kind(chunk)
        with Scratch() as own:  # ids are looked up in arrays of the same names
            try:
                places, missing = self._known.places(chunk, own)
            except TypeError:
                raise self._of_another_kind(chunk) from None
            codes[:] = places
            if missing and not self.other:
                raise self._refused(_different(chunk, (int(place) == NOT_THERE for place in places)))
        return codes

    def known(self, chunk: Any) -> NDArray[np.bool_]:
        """Whether each category of a chunk is one of these."""
        return np.ones(len(chunk), dtype=np.bool_) if self.other else self._known.inside(chunk)

    def _check_kind(self, chunk: Any) -> None:
        """Refuse text where categories are integers, integers where they are text, and missing ones."""
        if self._kind is int or not len(chunk):
            return  # `places` refuses everything but integers
        if is_polars(chunk):
            right = str(chunk.dtype.base_type()) in ("String", "Categorical", "Enum")
        elif isinstance(chunk, np.ndarray) and chunk.dtype != object:
            right = chunk.dtype.kind in "UT"
        else:
            right = all(map(_is_text, chunk))
        if not right:
            raise self._of_another_kind(chunk)

    def _of_another_kind(self, chunk: Any) -> InvalidType:
        named, fits = ("integers", _is_whole) if self._kind is int else ("text", _is_text)
        wrong = next((each for each in chunk if not fits(each)), None)
        return InvalidType(
            f"categories of this estimator are {named}, and {shown(wrong)} is not; nothing was changed",
            code="category-type",
        )

    def _refused(self, named: list[Any]) -> OutsideUniverse:
        """Name some categories that are not listed, but not their number of rows: no noise would protect that count."""
        listed = ", ".join(map(repr, self.labels[:_NAMED])) + (", ..." if len(self.labels) > _NAMED else "")
        are = f"category {named[0]!r} is" if len(named) == 1 else f"categories {', '.join(map(repr, named))} are"
        return OutsideUniverse(f"{are} none of {listed}{GATHERED}; nothing was changed")

    def to_bytes(self) -> bytes:
        """Write labels, and whether other categories are gathered."""
        return _HEAD.pack(self.other) + labels_bytes(self.labels)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read `to_bytes`."""
        (other,) = _HEAD.unpack_from(data)
        labels = labels_from(data[_HEAD.size :])
        return cls(labels[:-1] if other else labels, other)


class Repeated(Sequence[Any]):
    """One category for many events."""

    def __init__(self, category: Label, times: int) -> None:
        self.category = category
        self._times = times

    def __len__(self) -> int:
        return self._times

    def __getitem__(self, rows: Any) -> Any:
        return Repeated(self.category, len(range(self._times)[rows])) if isinstance(rows, slice) else self.category

    def chosen(self, wanted: NDArray[np.bool_], scratch: Scratch) -> "Repeated":  # noqa: ARG002 - as of other columns
        """It for some of the events."""
        return Repeated(self.category, int(np.count_nonzero(wanted)))


def refuse_missing_categories(column: Any) -> None:
    """Refuse a column with nulls: no category is known by one."""
    if hasattr(column, "columns") or hasattr(column, "column_names"):
        return  # a frame, which `pieces_of` refuses
    missing = column.isna().sum() if is_pandas(column) else getattr(column, "null_count", 0)
    missing = int(missing() if callable(missing) else missing)
    if missing:
        are = "category is" if missing == 1 else "categories are"
        raise InvalidValue(f"{missing:,} {are} missing (null); drop such rows first", code="missing-categories")


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _is_whole(category: Any) -> bool:
    """Whether this is an integer: 1.0 and True are none."""
    return isinstance(category, int | np.integer) and not isinstance(category, bool)


def _is_text(category: Any) -> bool:
    return isinstance(category, str)


def _doubled(labels: tuple[Label, ...]) -> bool:
    return len(set(labels)) < len(labels)


def by_categories(categories: Categories | None) -> str:
    """The number of categories, to be said after a number of users.

    >>> by_categories(None), by_categories(Categories(["flu", "cold"]))
    ('', ' by 2 categories')
    """
    return "" if categories is None else f" by {len(categories):,} categor{'y' if len(categories) == 1 else 'ies'}"


def _different(chunk: Any, wrong: Iterable[bool]) -> list[Any]:
    """The first few different categories of a chunk that are wrong, for an error to name."""
    seen: set[Any] = set()

    def is_new(category: Any) -> bool:
        before = len(seen)
        seen.add(category)
        return len(seen) > before

    return first_of(chunk, (bad and is_new(chunk[row]) for row, bad in enumerate(wrong)))


class CategorizedEvent(NamedTuple):
    """One user and one category, or many users and the category of each."""

    user: Any
    category: Any


class CategorizedEvents:
    """Events of a universe, each of which is in a category."""

    def __init__(self, users: Any, categories: Categories) -> None:
        self.users = users
        self.categories = categories

    @property
    def lookup(self) -> Lookup:
        """How long it takes to find a user and a category."""
        slower: Lookup = min(self.users.lookup, Lookup.HASHED)
        return slower

    def as_column(self, given: Any) -> Any:
        """Users and categories as one column of events, or, if either is an iterator, as an iterator of events."""
        if not isinstance(given, CategorizedEvent):
            raise InvalidType(_WHICH, code="category-needed")
        users = self.users.as_column(given.user)
        ids = pieces_of(users)
        if isinstance(given.category, str | bytes) or not isinstance(given.category, Iterable):  # one for all
            if ids is not None:
                return Chunks([SideBySide(piece, Repeated(_plain(given.category), len(piece))) for piece in ids])
            check_many(users)
            return (CategorizedEvent(user, _plain(given.category)) for user in users)
        refuse_floats(given.category, "categories")  # before missing values, of which pandas makes floats
        refuse_missing_categories(given.category)
        categories = pieces_of(given.category, "categories")
        if ids is not None and categories is not None:
            return Chunks(_aligned(ids, categories))
        check_many(users)
        if isinstance(users, Set):
            raise InvalidType(
                "a set has no order that categories could follow: pass the users as a list", code="no-order"
            )
        return _paired(users, given.category)

    def index(self, given: Any) -> tuple[int, int]:
        """The position of one user, and the code of one category."""
        if not isinstance(given, CategorizedEvent):
            raise InvalidType(_WHICH, code="category-needed")
        return self.users.index(given.user), self.categories.code(given.category)

    def indices(self, chunk: Any, scratch: Scratch) -> tuple[Words, Words]:
        """The positions of a chunk of users, and the codes of their categories."""
        users, categories = side_by_side(chunk)
        return self.users.indices(users, scratch), self.categories.codes(categories, scratch)

    def unchecked(self, chunk: Any, scratch: Scratch) -> tuple[Words, Words]:
        """`indices`, but a user outside the universe may have a position outside it, which the slots then refuse."""
        users, categories = side_by_side(chunk)
        return self.users.unchecked(users, scratch), self.categories.codes(categories, scratch)


def _aligned(users: list[Chunk], categories: list[Chunk]) -> list[Chunk]:
    """Two columns, each in pieces, cut into common pieces."""
    one, other = (sum(map(len, pieces)) for pieces in (users, categories))
    if one != other:
        raise InvalidValue(
            f"each event has one user and one category: got {one:,} users and {other:,} categories",
            code="categories-length",
        )
    ends = sorted({0, *_ends(users), *_ends(categories)})
    return [SideBySide(_cut(users, start, end), _cut(categories, start, end)) for start, end in pairwise(ends)]


def _ends(pieces: list[Chunk]) -> list[int]:
    ends, at = [], 0
    for piece in pieces:
        at += len(piece)
        ends.append(at)
    return ends


def _cut(pieces: list[Chunk], start: int, end: int) -> Any:
    """The rows from `start` up to `end`, which lie within one piece."""
    at = 0
    for piece in pieces:
        if start < at + len(piece):
            return piece if (start, end) == (at, at + len(piece)) else piece[start - at : end - at]
        at += len(piece)
    raise AssertionError("pieces are cut at their ends")


def _paired(users: Any, categories: Any) -> Iterator[CategorizedEvent]:
    """Events one by one, until both columns end."""
    nothing = object()
    ids, rest = iter(_objects(users)), iter(_objects(categories))
    for user in ids:
        category = next(rest, nothing)
        if category is nothing:
            raise InvalidValue(_LENGTHS.format("users", "categories"), code="categories-length")
        yield CategorizedEvent(user, category)
    if next(rest, nothing) is not nothing:
        raise InvalidValue(_LENGTHS.format("categories", "users"), code="categories-length")


def _objects(column: Any) -> Any:
    column = plain_column(column)
    return column.to_pylist() if is_arrow(column) else column
