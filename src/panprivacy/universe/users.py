"""A universe that is a list: the enrolled patients, the customers, the fleet."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from panprivacy.checks import shown
from panprivacy.display import counted
from panprivacy.errors import InvalidType, InvalidValue, OutsideUniverse, PanPrivacyError
from panprivacy.memory.scratch import Scratch
from panprivacy.universe import lookup_kernels as kernels
from panprivacy.universe.columns import (
    chosen_columns,
    floats_refused,
    is_arrow,
    is_frame,
    is_polars,
    is_stream,
    is_wide,
    only_name,
    plain_column,
    refuse_floats,
    refuse_missing,
)
from panprivacy.universe.groups import Groups, in_runs, label_column
from panprivacy.universe.integers import NOT_THERE, HashIndex, Lookup, TooLarge, Words, as_words
from panprivacy.universe.open import OpenUniverse
from panprivacy.universe.range import Universe, first_of, integer, outside_of
from panprivacy.universe.spelling import (
    SPELLINGS,
    Lookalike,
    as_texts,
    difference,
    normalized,
    parse_normalize,
    refuse_merged,
    respelled,
)

if TYPE_CHECKING:
    import polars as pl

_PLACE = "the listed users"
# Two hashes of 64 bits stand for a text. A text that was made up to have both hashes of a listed user passes for that
# user; but a sender of it can send the listed id as well.
_HASH, _CHECK = OpenUniverse(b"where it stands"), OpenUniverse(b"that it is it")
_WIDTHS = 8  # lengths of ids with leading zeros that are tried
_NAMES = {"int": "integers of 64 bits", "str": "text", "bytes": "bytes", "any": "of several types"}
_TYPES = {"int": int, "str": str, "bytes": bytes}


class Users(Universe):
    """The users are these, and no others.

    `ids` is a list, a set, an array, a Polars or Arrow column, a `column` of a frame, of a DuckDB relation or of an
    Arrow reader, or the path or URL of a file: ``.txt`` with one id a line, or a `column` of any file that events may
    be in, read as commands read it (where a text file spells every id like an integer, they are integers; where one
    is ``007``, all are text). Duplicates count once, and the order does not matter: the same set of ids is
    the same universe. The list is needed to feed events; it is public knowledge by the design of density estimation,
    and it is never part of an estimator's bytes, which hold only its fingerprint. Ids other than integers, strings and
    bytes need a `repr` that spells out their value.

    `groups` gives each user one group, such as a region: a column as long as `ids`, of text or integers, or the name of
    a second column of the file or frame. The list is then in the order of groups, and a `Density` of it releases every
    group.

    `storage_options` are those of the file system behind a URL, as `StateFolder` takes them.

    `normalize` writes ids of the list and of events alike: ``"zeros"`` takes leading zeros and a trailing ``.0`` away,
    ``"case"`` upper case, ``"strip"`` surrounding space, ``"nfc"`` Unicode forms; ``"zeros,case"`` both, ``"all"`` all.
    Ids are then text, and integers are read as text. Two listed users who become one are refused.

    >>> import panprivacy as pp
    >>> clinic = pp.Density(universe=pp.Users(["ada", "grace", "mary", "rosalind"]), epsilon=2.0)
    >>> clinic.update("ada")
    >>> clinic.update("ida")
    Traceback (most recent call last):
        ...
    panprivacy.errors.OutsideUniverse: user 'ida' is outside the listed users; nothing was changed
    >>> pp.Users(["ada", "grace", "mary"], groups=["north", "south", "north"])
    <Users: 3 listed users in 2 groups>
    >>> members = pp.Users(["00001", "00002"], normalize="zeros")
    >>> len(members), "1" in members, 2 in members, list(members)
    (2, True, True, ['1', '2'])
    """

    lookup = Lookup.SEARCHED
    KERNELS = ("universe.lookup_kernels",)

    def __init__(
        self,
        ids: Any,
        column: str | None = None,
        *,
        groups: Any = None,
        normalize: Any = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        ids, groups = _read(ids, column, groups, storage_options)
        self.normalize: tuple[str, ...] | None = parse_normalize(normalize)
        """The differences of spelling that are ignored; None if that was not said, and none is ignored."""
        self.groups: Groups | None = None
        """The positions of each group, where users have one."""
        given = _column(ids)
        if self.normalize:
            texts = as_texts(given)
            if texts is None:
                raise InvalidType("normalize is for ids that are text or integers", code="normalize-type")
            given = refuse_merged(texts, self.normalize)
        if groups is not None:
            listed, self.groups = _by_group(given, groups)
        else:
            listed = sorted(set(given), key=_spelled) if isinstance(given, list) else given.unique().sort()
        self.size: int = len(listed)
        if not self.size:
            raise InvalidValue("the list of users is empty", code="no-users")
        # All that looking up needs is built now: built at the first event, its presence would tell of that event.
        self._kind = _kind(listed)
        self._listed: Any = listed.to_numpy() if self._kind == "int" and not isinstance(listed, list) else listed
        self._widths = _widths(listed) if self._kind == "str" and not isinstance(listed, list) else ()
        self._positions: dict[Any, int] = {}
        if isinstance(listed, list):
            self._positions = {user: i for i, user in enumerate(listed)}
        else:
            with Scratch() as scratch:
                if self._kind == "int":  # one hash tells all integers apart
                    self._index = HashIndex(_HASH.hash_words(as_words(self._listed, scratch)[0], scratch))
                else:
                    self._index = HashIndex(*_hashes_of(listed, scratch))

    def __repr__(self) -> str:
        return f"<Users: {self.describe()}>"

    def __len__(self) -> int:
        return self.size

    def __contains__(self, user: object) -> bool:
        return not isinstance(user, float | np.floating) and self._place(user) >= 0

    def __iter__(self) -> Iterator[Any]:
        """The ids in canonical order, as they are after `normalize`."""
        return iter(self._listed.tolist() if self._kind == "int" else self._listed)

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
        added = more if isinstance(more, Users) else Users(more, normalize=self.normalize)
        if (self.groups is None) != (added.groups is None):
            raise InvalidType(
                "each new user needs a group if the listed ones have one: grow(pp.Users(ids, groups=...))",
                code="groups-needed",
            )
        ids: Any = [*self._listed, *added._listed]
        if getattr(self._listed, "dtype", None) == getattr(added._listed, "dtype", None) and self._kind != "any":
            import polars as pl

            ids = pl.concat([pl.Series(self._listed), pl.Series(added._listed)])
        groups = None
        if self.groups is not None and added.groups is not None:
            labels = (*self.groups.labels, *added.groups.labels)
            sizes = (*self.groups.sizes.tolist(), *added.groups.sizes.tolist())
            groups = [label for label, size in zip(labels, sizes, strict=True) for _ in range(size)]
        users = Users(ids, groups=groups, normalize=self.normalize)
        if users._kind != self._kind:
            raise InvalidType(
                f"the listed users are {_NAMES[self._kind]}, and the new ones are not: is it leading zeros, or quotes? "
                "One list has one type of ids",
                code="ids-type",
            )
        return users

    def check_holds(self, smaller: "Users") -> None:
        """Refuse a smaller list of which users are missing in this one."""
        ids = smaller.listed(0, smaller.size)
        inside = self.inside(ids)
        lacking = int((~inside).sum())
        if lacking:
            named = repr(first_of(ids, ~inside)[0])
            more = f" and {lacking - 1:,} more" if lacking > 1 else ""
            raise PanPrivacyError(
                f"a list only grows: user {named}{more} of the old list {'are' if more else 'is'} missing",
                code="users-missing",
            )

    def index(self, user: Any) -> int:
        place = self._place(integer(user) if self._kind == "int" else user)
        if place < 0:
            raise self._outside([user], 1)
        return place

    def respelled(self, user: Any) -> Lookalike | None:
        """The listed user that a stranger equals but for leading zeros, case, space, Unicode form or a trailing .0."""
        if self._kind != "str" or self.normalize is not None:
            return None
        return respelled(user, self.__contains__, self._widths)

    def lookalike(self, strangers: Any) -> Lookalike | None:
        """The first of some strangers whom the list spells otherwise, and how; the whole list is compared.

        A universe with ``normalize=()`` (``"none"``) is compared exactly, and has no lookalikes.
        """
        texts = as_texts(strangers)
        if texts is None or self.spellings is None:
            return None
        with Scratch() as scratch:
            alike = normalized(texts, SPELLINGS)
            places = self.spellings.find(*_hashes_of(alike, scratch), scratch)[0]
            found = scratch.own(np.not_equal(places, NOT_THERE))
            found &= scratch.own(np.logical_not(scratch.own(self.inside(strangers))))  # of an edge, one end may be
            if not found.any():
                return None
            row = int(found.argmax())
        stranger, spelled = texts[row], alike[row]
        listed = self._listed.filter(normalized(self._listed, SPELLINGS) == spelled)[0]
        return Lookalike(stranger, listed, difference(stranger, listed))

    @cached_property
    def spellings(self) -> HashIndex | None:
        """The listed ids without all that `normalize` can take away; None if ids are compared exactly."""
        if self._kind != "str" or self.normalize is not None:
            return None
        with Scratch() as scratch:
            return HashIndex(*_hashes_of(normalized(self._listed, SPELLINGS).unique(), scratch))

    def _outside(self, named: list[Any], wrong: int) -> OutsideUniverse:
        return outside_of([shown(user) for user in named], wrong, self._told(named))

    def _told(self, strangers: list[Any]) -> str:
        """What strangers are outside of, and how the list spells one of them."""
        for user in strangers:
            if self._kind == "str" and type(user) is int and str(user) in self:
                return f"{_PLACE}, which are text: pass ids as text, such as '{user}'"
            found = self.respelled(user)
            if found is not None:
                return (
                    f"the listed users, where {shown(user)} is spelled {shown(found.listed)}; "
                    f"pp.Users(..., normalize={found.how!r}) reads both as one"
                )
        return _PLACE

    def _place(self, user: Any) -> int:
        """The position of one user, -1 for somebody who is not listed."""
        if isinstance(user, float | np.floating):
            raise floats_refused(type(user).__name__)
        if self.normalize:
            texts = as_texts([user])
            user = None if texts is None else normalized(texts, self.normalize)[0]
        try:
            if self._kind == "any":
                return self._positions.get(user, -1)
            if not isinstance(user, _TYPES[self._kind]):
                return -1
            if self._kind != "int":
                return self._index.find_one(_HASH.index(user), _CHECK.index(user))
            place = self._index.find_one(_HASH.index(user))
        except (TypeError, UnicodeEncodeError, OutsideUniverse):  # not hashable, half a character, beyond 64 bits
            return -1
        return place if self._listed[place] == user else -1

    def describe(self) -> str:
        return f"{self.size:,} listed users{in_groups(self.groups)}"

    def places(self, chunk: Any, scratch: Scratch) -> tuple[Words, int]:
        if self._kind == "int":
            try:
                ids, signed = as_words(chunk, scratch)
            except TooLarge:
                return self._places_one_by_one(chunk, scratch)
            places, missing = self._index.find(_HASH.hash_words(ids, scratch), None, scratch)
            if signed != (self._listed.dtype.kind == "i"):  # the same word is negative there, and a huge number here
                missing += int(kernels.miss_high(ids, places))
            return places, missing
        plain = chunk.tolist() if isinstance(chunk, np.ndarray) and not self.normalize else chunk
        texts = self._as_texts(plain)
        if texts is None:
            return self._places_one_by_one(plain, scratch)
        return self._index.find(*_hashes_of(texts, scratch), scratch)

    def _places_one_by_one(self, ids: Any, scratch: Scratch) -> tuple[Words, int]:
        places: Words = scratch.empty("found", len(ids), np.uint64)
        missing = 0
        for row, user in enumerate(ids):
            place = self._place(user)
            places[row] = NOT_THERE if place < 0 else place
            missing += place < 0
        return places, missing

    def _as_texts(self, chunk: Any) -> Any:
        """The chunk as a column of this universe's own kind, if that is what it is."""
        import polars as pl

        if self.normalize:
            texts = as_texts(chunk)
            return None if texts is None else normalized(texts, self.normalize)
        if not is_polars(chunk):
            try:
                return pl.Series(chunk) if set(map(type, chunk)) == {_TYPES.get(self._kind)} else None
            except UnicodeEncodeError:  # half a character: no column holds it
                return None
        own = {"str": ("String", "Categorical", "Enum"), "bytes": ("Binary",)}.get(self._kind, ())
        return chunk.cast(self._listed.dtype) if str(chunk.dtype.base_type()) in own else None


def _hashes_of(texts: "pl.Series", scratch: Scratch) -> tuple[Words, Words]:
    """The two hashes that stand for each text."""
    return _HASH.hash_texts(texts, scratch), _CHECK.hash_texts(texts, scratch)


def in_groups(groups: Groups | None) -> str:
    """The text about groups after a number of users."""
    return "" if groups is None else f" in {counted(len(groups.labels), 'group')}"


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
        raise InvalidValue(
            f"user {user!r} is in two groups, {one!r} and {other!r}; a user has one", code="user-in-two-groups"
        )
    return listed, in_runs(labels) if len(labels) else None


def _read(ids: Any, column: Any, groups: Any, options: Mapping[str, Any] | None) -> tuple[Any, Any]:
    """The ids, and the group of each if users have one: columns of a file or a frame, or as they were given."""
    if isinstance(ids, str | Path):
        from panprivacy.ingest.reading import read_ids

        labels = None if groups is None else read_ids(str(ids), groups, "group", options)
        return read_ids(str(ids), column, storage_options=options), labels
    if isinstance(column, str) and (is_frame(ids) or is_stream(ids)):
        if not isinstance(groups, str):
            return chosen_columns(ids, column)[0], groups
        ids, groups = chosen_columns(ids, column, groups)
    elif column is not None:
        raise InvalidType(
            f"column={shown(column)} is of a file or a frame, and neither was given; for groups say "
            "pp.Users(ids, groups=labels)",
            code="column-of-a-file",
        )
    return ids, groups


def _column(ids: Any) -> "pl.Series | list[Hashable]":
    """The ids in one type: a column of integers, text or bytes, or a list of anything else."""
    import polars as pl

    if is_stream(ids):
        (ids,) = chosen_columns(ids, only_name(ids))
    ids = plain_column(ids)
    refuse_floats(ids)
    if is_polars(ids) or is_arrow(ids) or (isinstance(ids, np.ndarray) and ids.dtype != object):
        series = pl.Series(ids)
    elif isinstance(ids, Iterable):
        listed = [user.item() if isinstance(user, np.generic) else user for user in ids]
        kinds = {type(user) for user in listed}
        for kind in kinds:
            if issubclass(kind, float | np.floating):
                raise floats_refused(kind.__name__)
        if NoneType in kinds:
            refuse_missing(listed.count(None))
        for kind in kinds:
            if kind in (bool, complex) or not issubclass(kind, Hashable):
                raise InvalidType(
                    f"ids are integers, text, bytes or other values that can be compared, got a {kind.__name__}",
                    code="ids-type",
                )
        if not kinds or not (kinds <= {str} or kinds <= {bytes} or (kinds <= {int} and _fit_a_word(listed))):
            return listed
        series = pl.Series(listed)
    else:
        raise InvalidType(f"pp.Users takes a list, a column or a file, got {type(ids).__name__}", code="users-type")
    refuse_floats(series)  # an Arrow dictionary may hold some
    refuse_missing(series.null_count())
    if not (series.dtype.is_integer() or series.dtype in (pl.String, pl.Binary)) or is_wide(series):
        return _column(list(series))
    return series


def _widths(texts: "pl.Series") -> tuple[int, ...]:
    """The lengths of the ids that have leading zeros."""
    padded = texts.filter(texts.str.starts_with("0"))
    return tuple(padded.filter(padded.str.contains("^0[0-9]+$")).str.len_bytes().unique().sort().to_list()[:_WIDTHS])


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
