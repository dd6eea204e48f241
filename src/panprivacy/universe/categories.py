"""Categories of events: which categories there are, and events that consist of a user and a category."""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import accumulate, pairwise, zip_longest
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
    is_polars,
    pieces_of,
    plain_column,
    side_by_side,
)
from panprivacy.universe.groups import MOST_GROUPS, OTHER, Label, labels_bytes, labels_from, refuse_half_characters
from panprivacy.universe.integers import NOT_THERE, Lookup, Words
from panprivacy.universe.users import Users

_HEAD = struct.Struct("<?")
_NAMED = 8  # categories that an error names
GATHERED = "; other=True gathers such events"
"""What a refusal says to do."""

_WHICH = "this estimator counts by category: say of each event in which it is, as in update(user, category)"


class Categories:
    """The categories that events can be in, in the order in which they were given; with `other`, one for the rest.

    >>> Categories(["flu", "cold"], other=True).labels
    ('flu', 'cold', 'other')
    """

    def __init__(self, labels: Iterable[Label], other: bool = False) -> None:
        one = isinstance(labels, str | bytes | Mapping) or not isinstance(labels, Iterable) or is_frame(labels)
        listed = () if one else tuple(_plain(label) for label in labels)
        kinds = set(map(type, listed))
        if kinds not in ({str}, {int}):
            raise InvalidType(
                f"categories are a list of texts or of integers, got {shown(labels)}", code="categories-type"
            )
        if len(set(listed)) < len(listed):
            twice = next(label for label in listed if listed.count(label) > 1)
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
                unlisted: dict[Any, None] = {}
                for row, place in enumerate(places):
                    if int(place) == NOT_THERE and len(unlisted) < 3:
                        unlisted[_plain(chunk[row])] = None
                raise self._refused([*unlisted])
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
            right = all(isinstance(each, str) for each in chunk)
        if not right:
            raise self._of_another_kind(chunk)

    def _of_another_kind(self, chunk: Any) -> InvalidType:
        named, kinds = ("integers", (int, np.integer)) if self._kind is int else ("text", (str,))
        wrong = next((each for each in chunk if isinstance(each, bool) or not isinstance(each, kinds)), None)
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


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def by_categories(categories: Categories | None) -> str:
    """The number of categories, to be said after a number of users.

    >>> by_categories(None), by_categories(Categories(["flu", "cold"]))
    ('', ' by 2 categories')
    """
    return "" if categories is None else f" by {len(categories):,} categor{'y' if len(categories) == 1 else 'ies'}"


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
    ends = sorted({0, *accumulate(map(len, users)), *accumulate(map(len, categories))})
    return [SideBySide(_cut(users, start, end), _cut(categories, start, end)) for start, end in pairwise(ends)]


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
    nothing, plain = object(), map(plain_column, (users, categories))
    for event in zip_longest(*(each.to_pylist() if is_arrow(each) else each for each in plain), fillvalue=nothing):
        if event[0] is nothing or event[1] is nothing:
            more, fewer = ("users", "categories") if event[1] is nothing else ("categories", "users")
            raise InvalidValue(
                f"each event has one user and one category, and there are more {more} than {fewer}",
                code="categories-length",
            )
        yield CategorizedEvent(*event)
