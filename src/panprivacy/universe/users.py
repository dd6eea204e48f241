"""A universe that is a list: the enrolled patients, the customers, the fleet."""

from collections.abc import Hashable, Iterable
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.errors import OutsideUniverse
from panprivacy.lazily import loaded
from panprivacy.memory import Scratch, mask
from panprivacy.sizes import counted
from panprivacy.universe.anyone import Anyone
from panprivacy.universe.batches import is_arrow, is_polars, is_wide, plain_column, refuse_missing
from panprivacy.universe.directory import NOT_THERE, Directory
from panprivacy.universe.groups import Groups, in_runs, label_column
from panprivacy.universe.range import first_of, integer, outside_of
from panprivacy.universe.words import TooLarge, Words, as_words

if TYPE_CHECKING:
    import polars as pl

_PLACE = "the listed users"
# Two hashes of 64 bits stand for a text. A text that was made up to have both hashes of a listed user passes for that
# user; but whoever can send it can send the listed id as well.
_HASH, _CHECK = Anyone(b"where it stands"), Anyone(b"that it is it")
_NAMES = {"int": "integers of 64 bits", "str": "text", "bytes": "bytes", "any": "of several types"}
_TYPES = {"int": int, "str": str, "bytes": bytes}


class Users:
    """The users are these, and no others.

    `ids` is a list, a set, an array, a Polars or Arrow column, or the path of a file: ``.txt`` with one id a line, or
    a `column` of any file that events may be in, read as ``--universe-file`` reads it (where a text file spells every
    id like an integer, they are integers; where one is ``007``, all are text). Duplicates count once, and the order
    does not matter: the same set of ids is the same universe. The list is needed to feed events; it is public
    knowledge by the design of density estimation, and it is never part of an estimator's bytes, which hold only its
    fingerprint. Ids other than integers, strings and bytes need a `repr` that spells out their value.

    `groups` gives each user one group, such as a region: a column as long as `ids`, of text or integers, or the name of
    a second column of the file. The list is then in the order of groups, and a `Density` of it releases every group.

    >>> import panprivacy as pp
    >>> clinic = pp.Density(universe=pp.Users(["ada", "grace", "mary", "rosalind"]), epsilon=2.0)
    >>> clinic.update("ada")
    >>> clinic.update("ida")
    Traceback (most recent call last):
        ...
    panprivacy.errors.OutsideUniverse: user 'ida' is outside the listed users; nothing was changed
    >>> pp.Users(["ada", "grace", "mary"], groups=["north", "south", "north"])
    <Users: 3 listed users in 2 groups>
    """

    def __init__(self, ids: Any, column: str | None = None, *, groups: Any = None) -> None:
        if isinstance(ids, str | Path):
            from panprivacy.events.listed import read_ids

            file = str(ids)
            ids, groups = read_ids(file, column), None if groups is None else read_ids(file, groups, "group")
        elif isinstance(column, str):
            raise TypeError(f"column={column!r} is of a file, and no file was given; pass one column, not a frame")
        elif column is not None:
            raise TypeError("the second argument names a column of a file; for groups say pp.Users(ids, groups=labels)")
        self.groups: Groups | None = None
        """Which positions are those of which group, where users have one."""
        if groups is None:
            listed = _in_order(_column(ids))
        else:
            listed, self.groups = _by_group(_column(ids), groups)
        self.size = len(listed)
        if not self.size:
            raise ValueError("the list of users is empty")
        # All that looking up needs is built now: built at the first event, its presence would tell of that event.
        self._kind = _kind(listed)
        self._listed: Any = listed.to_numpy() if self._kind == "int" and not isinstance(listed, list) else listed
        self._positions: dict[Any, int] = {}
        if isinstance(listed, list):
            self._positions = {user: i for i, user in enumerate(listed)}
        else:
            with Scratch() as scratch:
                self._directory = Directory(*self._hashes(self._listed, scratch))

    def __repr__(self) -> str:
        return f"<Users: {self.describe()}>"

    @cached_property
    def fingerprint(self) -> bytes:
        """SHA-256 of the ids in their canonical order, and of their groups."""
        digest = sha256(f"{self._kind}:{self.size}:".encode())
        if self.groups is not None:
            digest.update(self.groups.to_bytes())
        if self._kind == "int":
            digest.update(self._listed.astype("<i8" if self._listed.dtype.kind == "i" else "<u8").tobytes())
            return digest.digest()
        for user in self._listed:
            text = user.encode() if self._kind == "str" else user if self._kind == "bytes" else _spelled(user)
            digest.update(len(text).to_bytes(8, "little") + text)
        return digest.digest()

    def listed(self, start: int, stop: int) -> Any:
        """The ids from one position up to another, in canonical order."""
        return self._listed[start:stop]

    def grown(self, more: Any) -> "Users":
        """These users and more users, given as `Users` takes them; their ids must be of the same type."""
        added = as_users(more)
        if (self.groups is None) != (added.groups is None):
            raise TypeError("each new user needs a group if the listed ones have one: grow(pp.Users(ids, groups=...))")
        ids: Any = [*self._listed, *added._listed]
        if getattr(self._listed, "dtype", None) == getattr(added._listed, "dtype", None) and self._kind != "any":
            import polars as pl

            ids = pl.concat([pl.Series(self._listed), pl.Series(added._listed)])
        users = Users(ids, groups=None if self.groups is None else [*self._labels(), *added._labels()])
        if users._kind != self._kind:
            raise TypeError(
                f"the listed users are {_NAMES[self._kind]}, and the new ones are not: is it leading zeros, or quotes? "
                "One list has one type of ids"
            )
        return users

    def _labels(self) -> list[Any]:
        """The group of each user, in canonical order."""
        if self.groups is None:
            return []
        sizes = self.groups.sizes.tolist()
        return [label for label, size in zip(self.groups.labels, sizes, strict=True) for _ in range(size)]

    def as_column(self, ids: Any) -> Any:
        """Listed ids are one column already."""
        return ids

    def index(self, user: Any) -> int:
        """The position of one user."""
        place = self._place(integer(user) if self._kind == "int" else user)
        if place < 0:
            raise outside_of([repr(user)], 1, _PLACE)
        return place

    def _place(self, user: Any) -> int:
        """The position of one user, -1 for somebody who is not listed."""
        try:
            if self._kind == "any":
                return self._positions.get(user, -1)
            if not isinstance(user, _TYPES[self._kind]):
                return -1
            if self._kind != "int":
                return self._directory.find_one(_HASH.index(user), _CHECK.index(user))
            place = self._directory.find_one(_HASH.index(user))
        except (TypeError, UnicodeEncodeError, OutsideUniverse):  # not hashable, half a character, beyond 64 bits
            return -1
        return place if self._listed[place] == user else -1

    def describe(self) -> str:
        """What the universe is, in a few words."""
        return f"{self.size:,} listed users{in_groups(self.groups)}"

    def indices(self, chunk: Any, scratch: Scratch) -> Words:
        """The positions of a chunk of users."""
        places, missing = self.places(chunk, scratch)
        if missing:
            strangers = first_of(chunk, (int(place) == NOT_THERE for place in places))
            raise outside_of([repr(user) for user in strangers], missing, _PLACE)
        return places

    unchecked = indices  # looking a user up is the check

    def inside(self, chunk: Any) -> NDArray[np.bool_]:
        """Whether each user of a chunk is in the universe."""
        with Scratch() as scratch:
            places = self.places(chunk, scratch)[0]
            return np.not_equal(places, NOT_THERE, out=mask(len(places)))

    def places(self, chunk: Any, scratch: Scratch) -> tuple[Words, int]:
        """The position of each of a chunk of users, `NOT_THERE` for one who is not listed, and how many are not."""
        if self._kind == "int":
            try:
                return self._places_of_integers(*as_words(chunk, scratch), scratch)
            except TooLarge:
                return self._places_one_by_one(chunk, scratch)
        plain = chunk.tolist() if isinstance(chunk, np.ndarray) else chunk
        texts = self._as_texts(plain)
        if texts is None:
            return self._places_one_by_one(plain, scratch)
        return self._directory.find(*self._hashes(texts, scratch), scratch)

    def _places_of_integers(self, ids: Words, signed: bool, scratch: Scratch) -> tuple[Words, int]:
        places, missing = self._directory.find(_HASH.hash_words(ids, scratch), None, scratch)
        if signed != (self._listed.dtype.kind == "i"):  # the same word is a negative number there, and a huge one here
            missing += int(loaded("panprivacy.universe.kernels").miss_high(ids, places))
        return places, missing

    def _places_one_by_one(self, ids: Any, scratch: Scratch) -> tuple[Words, int]:
        places: Words = scratch.empty("found", len(ids), np.uint64)
        missing = 0
        for row, user in enumerate(ids):
            place = self._place(user)
            places[row] = NOT_THERE if place < 0 else place
            missing += place < 0
        return places, missing

    def _hashes(self, ids: Any, scratch: Scratch) -> tuple[Words, Words | None]:
        """What the directory knows ids by: texts by two hashes, integers by one, which tells all of them apart."""
        if self._kind == "int":
            return _HASH.hash_words(as_words(ids, scratch)[0], scratch), None
        return _HASH.hash_texts(ids, scratch), _CHECK.hash_texts(ids, scratch)

    def _as_texts(self, chunk: Any) -> Any:
        """The chunk as a column of this universe's own kind, if that is what it is."""
        import polars as pl

        if not is_polars(chunk):
            try:
                return pl.Series(chunk) if set(map(type, chunk)) == {_TYPES.get(self._kind)} else None
            except UnicodeEncodeError:  # half a character: no column holds it
                return None
        own = {"str": ("String", "Categorical", "Enum"), "bytes": ("Binary",)}.get(self._kind, ())
        return chunk.cast(self._listed.dtype) if str(chunk.dtype.base_type()) in own else None


def as_users(given: Any) -> Users:
    """A list of users as it is, or made of what was given."""
    return given if isinstance(given, Users) else Users(given)


def in_groups(groups: Groups | None) -> str:
    """What is said of groups after a number of users."""
    return "" if groups is None else f" in {counted(len(groups.labels), 'group')}"


def _in_order(ids: "pl.Series | list[Hashable]") -> "pl.Series | list[Hashable]":
    """The ids in canonical order, each once."""
    return sorted(set(ids), key=_spelled) if isinstance(ids, list) else ids.unique().sort()


def _by_group(ids: "pl.Series | list[Hashable]", groups: Any) -> "tuple[pl.Series | list[Hashable], Groups | None]":
    """The ids in order of their groups, and in canonical order within each; a user has one group."""
    import polars as pl

    labels = label_column(groups, len(ids))
    listed: pl.Series | list[Hashable]
    if isinstance(ids, list):
        rows = sorted(set(zip(ids, labels.to_list(), strict=True)), key=lambda row: (row[1], _spelled(row[0])))
        listed, labels = [user for user, _ in rows], pl.Series([label for _, label in rows])
        twice = len(set(listed)) < len(listed)
    else:
        frame = pl.DataFrame({"user": ids, "group": labels}).unique().sort("group", "user")
        listed, labels = frame["user"], frame["group"]
        twice = listed.n_unique() < len(listed)
    if twice:
        seen: dict[Any, Any] = {}
        user, one, other = next(
            (user, seen[user], label)
            for user, label in zip(listed, labels, strict=True)
            if seen.setdefault(user, label) != label
        )
        raise ValueError(f"user {user!r} is in two groups, {one!r} and {other!r}; a user has one")
    return listed, in_runs(labels) if len(labels) else None


def _column(ids: Any) -> "pl.Series | list[Hashable]":
    """The ids in one type: a column of integers, text or bytes, or a list of anything else."""
    import polars as pl

    ids = plain_column(ids)
    if is_polars(ids) or is_arrow(ids) or (isinstance(ids, np.ndarray) and ids.dtype != object):
        series = pl.Series(ids)
    elif isinstance(ids, Iterable):
        listed = [user.item() if isinstance(user, np.generic) else user for user in ids]
        kinds = {type(user) for user in listed}
        if NoneType in kinds:
            refuse_missing(listed.count(None))
        if not kinds or not (kinds <= {str} or kinds <= {bytes} or (kinds <= {int} and _fit_a_word(listed))):
            return listed
        series = pl.Series(listed)
    else:
        raise TypeError(f"pp.Users takes a list, a column or a file, got {type(ids).__name__}")
    refuse_missing(series.null_count())
    if not (series.dtype.is_integer() or series.dtype in (pl.String, pl.Binary)) or is_wide(series):
        return _column(list(series))
    return series


def _spelled(user: Hashable) -> bytes:
    return f"{type(user).__name__}:{user!r}".encode()


def _fit_a_word(numbers: list[int]) -> bool:
    """Whether one 64-bit type holds them all."""
    low, high = min(numbers, default=0), max(numbers, default=0)
    return high < 2**63 if -(2**63) <= low < 0 else low >= 0 and high < 2**64


def _kind(ids: "pl.Series | list[Hashable]") -> str:
    if isinstance(ids, list):
        return "any"
    return "int" if ids.dtype.is_integer() else {"String": "str"}.get(str(ids.dtype), "bytes")
