"""Categories of events: which there are, and which of them each event is in."""

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from panprivacy.errors import OutsideUniverse
from panprivacy.memory import Scratch
from panprivacy.universe.batches import is_pandas, is_polars
from panprivacy.universe.directory import NOT_THERE
from panprivacy.universe.groups import MOST_GROUPS, OTHER, Label, labels_bytes, labels_from, refuse_half_characters
from panprivacy.universe.range import first_of
from panprivacy.universe.users import Users
from panprivacy.universe.words import Words

_HEAD = struct.Struct("<?")
_NAMED = 8  # categories that an error names
GATHERED = "; other=True gathers such events"
"""What a refusal says to do."""


class Categories:
    """The categories that events can be in, in the order in which they were given; with `other`, one for the rest.

    >>> Categories(["flu", "cold"], other=True).labels
    ('flu', 'cold', 'other')
    """

    def __init__(self, labels: Iterable[Label], other: bool = False) -> None:
        listed = tuple(_plain(label) for label in labels) if not isinstance(labels, str | bytes) else ()
        kinds = set(map(type, listed))
        if kinds not in ({str}, {int}):
            raise TypeError(f"categories are a list of texts or of integers, got {labels!r:.60}")
        twice = next((label for label in listed if listed.count(label) > 1), None) if _doubled(listed) else None
        if twice is not None:
            raise ValueError(f"category {twice!r} is listed twice")
        if other and OTHER in listed:
            raise ValueError(f"{OTHER!r} is what other=True calls the rest: list it, or ask for it, not both")
        if len(listed) + other > MOST_GROUPS:
            raise ValueError(f"there can be 1 to {MOST_GROUPS:,} categories, got {len(listed) + other:,}")
        refuse_half_characters(listed, "category")
        self.labels = (*listed, *([OTHER] if other else []))
        self.other = other
        self._kind = kinds.pop()
        self._known = Users(list(listed))
        found = {label: rank for rank, label in enumerate(listed)}
        ranks = [found[label] for label in self._known.listed(0, self._known.size)]
        self._codes = {label: code for code, label in enumerate(self._known.listed(0, self._known.size))}
        self.ranks: NDArray[np.uint64] = np.array([*ranks, *([len(listed)] if other else [])], dtype=np.uint64)
        """The number among `labels` of what a code stands for; codes beyond the last stand for the last."""

    def __len__(self) -> int:
        return len(self.labels)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Categories) and (self.labels, self.other) == (other.labels, other.other)

    def __hash__(self) -> int:
        return hash((self.labels, self.other))

    def rank(self, code: int) -> int:
        """The number among `labels` of what a code stands for."""
        return int(self.ranks[min(code, len(self.ranks) - 1)])

    def code(self, category: Any) -> int:
        """The code of one category; the same as `codes` for a column of one."""
        found = self._codes.get(category) if isinstance(category, str | int | np.integer) else None
        if found is not None and not isinstance(category, bool):
            return found
        with Scratch() as scratch:  # which says what is wrong, if anything is
            return int(self.codes([category], scratch)[0])

    def codes(self, chunk: Any, scratch: Scratch) -> Words:
        """The code of each category of a chunk; one that is not listed is refused, unless others are gathered."""
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
        """Refuse text where categories are integers, integers where they are text, and what is missing."""
        if self._kind is int or not len(chunk):
            return  # whoever reads integers refuses all else
        if is_polars(chunk):
            right = str(chunk.dtype.base_type()) in ("String", "Categorical", "Enum")
        elif isinstance(chunk, np.ndarray) and chunk.dtype != object:
            right = chunk.dtype.kind in "UT"
        else:
            right = all(map(_is_text, chunk))
        if not right:
            raise self._of_another_kind(chunk)

    def _of_another_kind(self, chunk: Any) -> TypeError:
        named, fits = ("integers", _is_whole) if self._kind is int else ("text", _is_text)
        wrong = next((each for each in chunk if not fits(each)), None)
        return TypeError(f"categories of this estimator are {named}, and {_plain(wrong)!r} is not; nothing was changed")

    def _refused(self, named: list[Any]) -> OutsideUniverse:
        """Name some categories that are not listed; how many rows have them would be a count that nothing protects."""
        listed = ", ".join(map(repr, self.labels[:_NAMED])) + (", ..." if len(self.labels) > _NAMED else "")
        are = f"category {named[0]!r} is" if len(named) == 1 else f"categories {', '.join(map(repr, named))} are"
        return OutsideUniverse(f"{are} none of {listed}{GATHERED}; nothing was changed")

    def to_bytes(self) -> bytes:
        """Write them."""
        return _HEAD.pack(self.other) + labels_bytes(self.labels)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read `to_bytes`."""
        (other,) = _HEAD.unpack_from(data)
        labels = labels_from(data[_HEAD.size :])
        return cls(labels[:-1] if other else labels, other)


class Repeated(Sequence[Any]):
    """One category for so many events."""

    def __init__(self, category: Label, times: int) -> None:
        self.category = category
        self._times = times

    def __len__(self) -> int:
        return self._times

    def __getitem__(self, rows: Any) -> Any:
        return Repeated(self.category, len(range(self._times)[rows])) if isinstance(rows, slice) else self.category


def refuse_missing_categories(column: Any) -> None:
    """Refuse a column with nulls: which category that is, nobody knows."""
    if hasattr(column, "columns") or hasattr(column, "column_names"):
        return  # a frame, which is refused by whoever cuts columns
    missing = column.isna().sum() if is_pandas(column) else getattr(column, "null_count", 0)
    missing = int(missing() if callable(missing) else missing)
    if missing:
        are = "category is" if missing == 1 else "categories are"
        raise ValueError(f"{missing:,} {are} missing (null); drop such rows first")


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _is_whole(category: Any) -> bool:
    """Whether this is an integer, however it is kept: 1.0 is one, and True is none."""
    if isinstance(category, float | np.floating):
        return bool(category.is_integer())
    return isinstance(category, int | np.integer) and not isinstance(category, bool)


def _is_text(category: Any) -> bool:
    return isinstance(category, str)


def _doubled(labels: tuple[Label, ...]) -> bool:
    return len(set(labels)) < len(labels)


def by_categories(categories: Categories | None) -> str:
    """What is said of categories after a number of users.

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
