"""Groups of users that are ranges of positions: labels, and where each group begins and ends."""

import json
import struct
from collections.abc import Iterable, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.display import counted
from panprivacy.errors import InvalidType, InvalidValue
from panprivacy.universe.columns import is_arrow, is_polars, plain_column, refuse_floats

if TYPE_CHECKING:
    import polars as pl

Label: TypeAlias = str | int
"""What a group or a category is called."""

MOST_GROUPS = 100_000
"""Each group has a count of its own in a release, and noise of its own is drawn for it."""

_HEAD = struct.Struct("<IQ")  # groups, bytes of their labels


@dataclass(frozen=True, eq=False)
class Groups:
    """Users in a row, by group: users of group i stand at ``bounds[i] .. bounds[i+1]-1``. All of it is public."""

    labels: tuple[Label, ...]
    bounds: NDArray[np.int64]

    def __post_init__(self) -> None:
        if not 1 <= len(self.labels) <= MOST_GROUPS:
            raise InvalidValue(
                f"there can be 1 to {MOST_GROUPS:,} groups, got {len(self.labels):,}", code="groups-number"
            )
        if len(self.bounds) != len(self.labels) + 1 or len(set(self.labels)) != len(self.labels):
            raise ValueError("every group has one label and one range of users")
        if self.bounds[0] != 0 or not bool((self.sizes > 0).all()):
            raise ValueError("every group has at least one user")

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many users each group has."""
        return np.diff(self.bounds)

    @property
    def size(self) -> int:
        """How many users there are in all."""
        return int(self.bounds[-1])

    def to_bytes(self) -> bytes:
        """Write labels and bounds."""
        labels = labels_bytes(self.labels)
        return _HEAD.pack(len(self.labels), len(labels)) + self.bounds.astype("<i8").tobytes() + labels

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read `to_bytes`."""
        count, length = _HEAD.unpack_from(data)
        end = _HEAD.size + 8 * (count + 1)
        if len(data) != end + length:
            raise ValueError("the groups are cut short")
        bounds = np.frombuffer(data[_HEAD.size : end], dtype="<i8").astype(np.int64)
        return cls(labels_from(data[end:]), bounds)


def in_runs(labels: "pl.Series") -> Groups | None:
    """The groups of users in a row; None if the users of some group do not all stand together.

    >>> import polars as pl
    >>> in_runs(pl.Series(["north", "north", "south"])).bounds.tolist()
    [0, 2, 3]
    >>> in_runs(pl.Series([1, 2, 1])) is None
    True
    """
    runs = labels.rle().struct.unnest()
    if runs["value"].n_unique() < len(runs):
        return None
    return Groups(tuple(runs["value"].to_list()), np.append(0, np.cumsum(runs["len"].to_numpy().astype(np.int64))))


def label_column(given: Any, size: int) -> "pl.Series":
    """The group of each user, as one column of text or of integers."""
    import polars as pl

    if isinstance(given, str | bytes | Set) or not isinstance(given, Iterable):
        raise InvalidType(
            f"groups are one column: the label of each user, in their order, not a {type(given).__name__}",
            code="groups-type",
        )
    column = plain_column(given, "groups")
    plain = is_polars(column) or is_arrow(column) or (isinstance(column, np.ndarray) and column.dtype != object)
    labels = column if plain else list(column)
    if not plain:
        refuse_half_characters(labels, "group")
    try:
        series = pl.Series(labels)
    except TypeError:
        raise InvalidType(
            "groups are one column: the label of each user, all text or all integers", code="groups-type"
        ) from None
    refuse_floats(series, "groups")
    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    if len(series) != size:
        raise InvalidValue(
            f"there are {counted(size, 'user')} and {counted(len(series), 'label')} of their groups",
            code="groups-length",
        )
    if series.null_count():
        raise InvalidValue(
            f"the group of {counted(series.null_count(), 'user')} is missing (null)", code="missing-groups"
        )
    if not (series.dtype == pl.String or series.dtype.is_integer()):
        raise InvalidType(f"groups are text or integers, got {series.dtype}", code="groups-type")
    return series


def refuse_half_characters(labels: Iterable[Any], what: str) -> None:
    """Refuse text that no file can hold.

    >>> refuse_half_characters(["flu", chr(0xD83D)], "category")
    Traceback (most recent call last):
        ...
    panprivacy.errors.InvalidValue: category '\\ud83d' has half a character, a lone surrogate, which cannot be written
    """
    for label in labels:
        if isinstance(label, str) and any("\ud800" <= letter <= "\udfff" for letter in label):
            raise InvalidValue(
                f"{what} {label!r} has half a character, a lone surrogate, which cannot be written",
                code="half-character",
            )


OTHER = "other"
"""The label of everything that is not listed."""


def labels_bytes(labels: tuple[Label, ...]) -> bytes:
    """Write labels, in order."""
    return json.dumps(labels, ensure_ascii=False, separators=(",", ":")).encode()


def labels_from(data: bytes) -> tuple[Label, ...]:
    """Read labels: all of them text, or all integers, but for a last label that gathers the others."""
    labels = json.loads(data)
    if not isinstance(labels, list) or not labels:
        raise ValueError("these are no labels")
    listed = labels[:-1] if labels[-1] == OTHER and len(labels) > 1 else labels
    if any(type(one) is not type(next_) for one, next_ in pairwise(listed)) or type(listed[0]) not in (str, int):
        raise ValueError("labels are all text or all integers")
    return tuple(labels)
