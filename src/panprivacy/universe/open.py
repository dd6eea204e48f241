"""The open universe: any id at all, known by its 64-bit hash under a key.

Two ids are the same user if they are the same number, or the same text or bytes: 5 is one user whatever integer type
holds it, "5" is another, b"5" is the same as "5", and a `UUID` is the same as its canonical text. A negative integer is
read as two's complement: -1 and 2**64 - 1 are one user.

Integers go through a keyed mixer, texts and bytes through XXH3 seeded from the key. Neither is cryptographic: who
knows the key may craft ids that share a bit. The estimate would suffer, privacy would not: it rests on the coins alone.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any
from uuid import UUID

import numpy as np
import xxhash
from numpy.typing import NDArray

from panprivacy.checks import shown
from panprivacy.errors import InvalidType, InvalidValue, OutsideUniverse
from panprivacy.memory.scratch import Scratch
from panprivacy.universe import lookup_kernels as kernels
from panprivacy.universe.columns import floats_refused, is_arrow, is_polars, refuse_floats
from panprivacy.universe.integers import Lookup, TooLarge, Words, as_words
from panprivacy.universe.range import Universe

_WORD = 2**64
_MASK = _WORD - 1
_TEXT = ("String", "Binary", "Categorical", "Enum")  # what Polars calls the columns that hold texts and bytes


INTEGERS, TEXT = "integers", "text"
"""What ids may be declared to be."""


@dataclass(frozen=True)
class OpenUniverse(Universe):
    """Every integer of 64 bits, every text, bytes and `UUID` is a user; its position is its hash under a key.

    Where `ids` declares that ids are integers, or that they are text (as bytes and UUIDs are), others are refused.
    """

    size = _WORD
    lookup = Lookup.HASHED
    KERNELS = ("universe.lookup_kernels",)

    key: bytes = field(repr=False)
    ids: str | None = None
    _keys: tuple[int, int, int] = field(init=False, repr=False, compare=False)
    _mixers: tuple[np.uint64, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.ids not in (None, INTEGERS, TEXT):
            raise InvalidValue(f"ids are {INTEGERS} or {TEXT}, got {shown(self.ids)}", code="ids-declared")
        digest = blake2b(self.key, digest_size=24, person=b"panprivacy ids").digest()
        keys = tuple(int.from_bytes(digest[i : i + 8], "little") for i in (0, 8, 16))
        object.__setattr__(self, "_keys", keys)
        object.__setattr__(self, "_mixers", tuple(map(np.uint64, keys[:2])))

    def as_column(self, ids: Any) -> Any:
        """Arrow's UUIDs are 16 bytes each: read them as what they stand for. All else is one column already."""
        return ids.to_pylist() if is_arrow(ids) and str(ids.type) == "extension<arrow.uuid>" else ids

    def index(self, user: Any) -> int:
        """The hash of one user."""
        if isinstance(user, int | np.integer) and not isinstance(user, bool):
            self._check_declared(INTEGERS, [user])
            number = int(user)
            if not -(_WORD // 2) <= number < _WORD:
                raise OutsideUniverse(f"user {number} does not fit 64 bits; pass it as text; nothing was changed")
            return self._mix(number & _MASK)  # a negative number in two's complement
        if isinstance(user, float | np.floating):
            raise floats_refused(type(user).__name__)
        if isinstance(user, UUID):
            user = str(user)
        if isinstance(user, str):
            user = user.encode()  # not str(user), which of an `Enum` of texts is its name
        if isinstance(user, bytes):
            self._check_declared(TEXT, [user])
            return xxhash.xxh3_64_intdigest(user, self._keys[2])
        raise _no_id(type(user).__name__)

    def places(self, chunk: Any, scratch: Scratch) -> tuple[Words, int]:
        """The hashes of a chunk of users; an id that is none is refused."""
        return self.indices(chunk, scratch), 0

    def indices(self, chunk: Any, scratch: Scratch) -> Words:
        """The hashes of a chunk of users."""
        if isinstance(chunk, np.ndarray):
            if chunk.ndim != 1:
                raise InvalidType(f"ids must be one column, got an array of shape {chunk.shape}", code="ids-shape")
            refuse_floats(chunk)
            if chunk.dtype.kind in "iu":
                self._check_declared(INTEGERS, chunk)
                return self.hash_words(as_words(chunk, scratch)[0], scratch)
            if chunk.dtype.kind not in "OUST":
                raise _no_id(str(chunk.dtype))
            return self._hash_listed(chunk.tolist(), scratch)
        if is_polars(chunk):
            type_ = str(chunk.dtype.base_type())
            if type_ in _TEXT:
                self._check_declared(TEXT, chunk)
                return self.hash_texts(chunk, scratch)
            if type_ != "Object":
                raise _no_id(f"a column of {chunk.dtype}")
        return self._hash_listed(chunk, scratch)

    def inside(self, chunk: Any) -> NDArray[np.bool_]:
        return np.ones(len(chunk), dtype=np.bool_)

    def describe(self) -> str:
        return f"any {self.ids or 'ids'}"

    def _hash_listed(self, ids: Sequence[Any], scratch: Scratch) -> Words:
        import polars as pl

        types = set(map(type, ids))
        if types <= {int}:
            self._check_declared(INTEGERS, ids)
            with suppress(TooLarge):  # which `index` names
                return self.hash_words(as_words(ids, scratch)[0], scratch)
        if types in ({str}, {bytes}):
            self._check_declared(TEXT, ids)
            return self.hash_texts(pl.Series(ids), scratch)
        hashes: Words = scratch.empty("hashes", len(ids), np.uint64)
        for row, user in enumerate(ids):
            hashes[row] = self.index(user)
        return hashes

    def _check_declared(self, kind: str, ids: Any) -> None:
        """Refuse ids of one kind if they are declared to be of the other."""
        if self.ids not in (None, kind) and len(ids):
            raise InvalidType(
                f"ids of this estimator are declared to be {self.ids}, and {shown(ids[0])} is not; nothing was changed",
                code="ids-type",
            )

    def hash_words(self, ids: Words, scratch: Scratch) -> Words:
        """The hashes of integer ids."""
        hashes: Words = scratch.empty("hashes", len(ids), np.uint64)
        first, second = self._mixers
        kernels.hash_ids(ids, first, second, hashes)
        return hashes

    def hash_texts(self, texts: Any, scratch: Scratch) -> Words:
        """The hashes of a Polars column of texts or bytes; Polars makes the arrays, and they are wiped like scratch."""
        import polars as pl
        import polars_hash

        column = texts if texts.dtype == pl.Binary else texts.cast(pl.String)
        hashed = polars_hash.col("ids").nchash.xxh3_64(seed=self._keys[2])
        # Each chunk by itself: of several, `to_numpy` would make a copy, and leave the others to be freed as they are.
        chunks = column.to_frame("ids").select(hashed).to_series().get_chunks()
        parts: list[Words] = [scratch.own(chunk.to_numpy()) for chunk in chunks]
        return parts[0] if len(parts) == 1 else scratch.own(np.concatenate(parts))

    def _mix(self, word: int) -> int:
        """`kernels.hash_ids` for one id."""
        h = word ^ self._keys[0]
        h = (h ^ h >> 33) * 0x3C79AC492BA7B653 & _MASK
        h = (h ^ h >> 27 ^ self._keys[1]) * 0x1C69B3F74AC4AE35 & _MASK
        return h ^ h >> 33


def _no_id(what: str) -> InvalidType:
    return InvalidType(f"ids are integers, strings, bytes or UUIDs, got {what}", code="ids-type")
