"""What must not be in the last image: earlier bits, flips, marks, ids, times, texts and keys.

It is made from the bits at every checkpoint, from the users of each batch, and from the keys that the coins drew.
`Traces` turns them into patterns, and counts what was found.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from panprivacy.audit.memory import patterns
from panprivacy.audit.memory.batches import LETTERS, People, UserPool
from panprivacy.audit.memory.estimators import MANY, TableLocation
from panprivacy.audit.memory.images import Octets, peek
from panprivacy.audit.memory.patterns import ASCENDING, IN_ORDER, Run, Windows, Words
from panprivacy.periods import SECOND

_NOBODY = -1  # in the place of a user, where a slot is that of none who came
KEY_BYTES = 32
_BLOCK = 262_144  # flips that one key is used for


@dataclass
class TableVersion:
    """The bits of one table at one checkpoint."""

    location: TableLocation
    octets: Octets
    listed: Words | None
    """The slots whose bit is one, where a table keeps a list of them."""

    @classmethod
    def at(cls, location: TableLocation, process: int) -> "TableVersion":
        """Read the bits where they are: in the memory of a process, or in a file."""
        if location.file is None:
            raw = peek(process, location.address, location.octets)
        else:
            raw = Path(location.file).read_bytes()[location.address : location.address + location.octets]
        if not location.sparse:
            return cls(location, np.frombuffer(raw, dtype=np.uint8), None)
        listed = np.frombuffer(raw, dtype=np.uint64)
        listed = np.unique(listed[listed < location.size])
        bits = np.zeros(-(-location.size // 64) * 64, dtype=np.uint8)
        bits[listed] = 1
        return cls(location, np.packbits(bits, bitorder="little"), listed)

    @property
    def ones(self) -> Octets:
        """How many ones each word has."""
        return np.bitwise_count(self.octets.view(np.uint64))

    @property
    def counters(self) -> Octets:
        """The counters beside the bits, a byte each."""
        bits = np.unpackbits(self.octets, count=self.location.size, bitorder="little")
        each = bits.reshape(-1, self.location.each)
        return np.packbits(each[:, 1:], axis=1, bitorder="little")[:, 0]

    def bits(self, slots: People) -> NDArray[np.uint8]:
        """The bits of some slots."""
        return np.asarray(self.octets[slots >> 3] >> (slots & 7).astype(np.uint8) & 1, dtype=np.uint8)


@dataclass(frozen=True)
class Beside:
    """What came with the ids of one batch, row by row."""

    texts: NDArray[np.bytes_] | None = None
    """A column that is not counted."""
    times: NDArray[np.datetime64] | None = None
    numbers: Words | None = None
    """Numbers in the order of the batch, one or more for each user: offsets of times, ids with strangers in between."""
    mask: NDArray[np.bool_] | None = None
    """Which rows are of users, where others are of strangers."""


@dataclass
class FedBatch:
    """A batch that was fed, where its users' bits are, and what the batch has made of all bits."""

    people: People
    different: int
    """How many of the last events are of different users."""
    places: Words
    slots: People
    beside: Beside
    versions: list[TableVersion]

    @classmethod
    def of(cls, people: People, different: int, pool: UserPool, beside: Beside, versions: list[TableVersion]) -> Self:
        """Work out where the users of a batch belong, each once."""
        each, again = np.unique(people, return_inverse=True)
        places = pool.places(each)
        return cls(people, different, places[again], pool.slots(places, each)[again], beside, versions)

    @property
    def epoch(self) -> int:
        """The epoch of its tables."""
        return self.versions[0].location.epoch if self.versions else 0


@dataclass
class Traces:
    """All that a scenario must not have left, and whom each trace of it names."""

    pool: UserPool
    _bits: list[tuple[Windows | Run, TableVersion, TableVersion | None]] = field(default_factory=list)
    _flips: list[tuple[Windows, People, int]] = field(default_factory=list)
    _ids: list[tuple[Windows | Run, People]] = field(default_factory=list)
    _keys: list[Windows] = field(default_factory=list)
    _counts: list[Windows] = field(default_factory=list)
    released: bytes = b""
    """The counts of all releases, where the process tells them: see `search.find_counts`."""

    def add_batch(self, fed: FedBatch, present: list[TableVersion]) -> None:
        """Look for all of a batch before the last."""
        self._add_ids(fed)
        self._add_beside(fed.beside, fed.people)
        if any(version.location.file for version in fed.versions):
            self._add_marks(fed)
        for version in fed.versions:
            self._add_flips(fed, version)
            self._add_gathered(fed, version, present)

    # --- tables -------------------------------------------------------------------------------------------------

    def add_version(self, version: TableVersion, present: list[TableVersion]) -> None:
        """Look for a version of a table beside the present one."""
        now = _counterpart(version, present)
        for windows in patterns.of_bits(version.octets, version.location.size, now.octets if now else None):
            self._bits.append((windows, version, now))
        self._counts.append(patterns.of_counts(version.ones, now.ones if now else None))
        if version.location.each > 1:
            self._counts.append(patterns.of_counts(version.counters, now.counters if now else None))
        if version.listed is not None:
            skip = now.listed if now is not None and now.listed is not None else np.empty(0, dtype=np.uint64)
            self._bits.append((Run(version.listed, ASCENDING, new=False, skip=skip), version, now))

    def _add_flips(self, fed: FedBatch, after: TableVersion) -> None:
        """Look for the flips of a batch in the order of its events."""
        slots = fed.slots[-fed.different :]
        there = slots >= after.location.offset
        there &= slots < after.location.offset + after.location.size
        bits = after.bits(slots[there] - after.location.offset)
        people = fed.people[-fed.different :][there]
        self._flips += [(windows, people, 64) for windows in _windows_of(bits)]

    def _add_marks(self, fed: FedBatch) -> None:
        """Look for what a folder is fed by: for every slot, whether a batch touches it, or how often."""
        slots, each = fed.slots[fed.slots >= 0] // self.pool.bits_each, self.pool.bits_each
        size = -(-self.pool.slots_in_all // each // 64) * 64
        owners = np.full(size, _NOBODY, dtype=np.int64)
        owners[slots] = fed.people[fed.slots >= 0]
        if each > 1:
            times = np.bincount(slots, minlength=size).clip(max=255).astype(np.uint8)
            self._flips.append((patterns.of_times(times), owners, 8))
        else:
            octets = np.packbits(owners != _NOBODY, bitorder="little")
            found = patterns.of_bits(octets, size, need=2, per_bit=False)
            self._flips += [(windows, owners, 64) for windows in found]

    def _add_gathered(self, fed: FedBatch, after: TableVersion, present: list[TableVersion]) -> None:
        """Look for a table of marks that says who came in a batch, and for a table with their flips only.

        Where all slots of a window came and none has since, their flips are the bits that are there at present.
        """
        now = _counterpart(after, present)
        first, size = after.location.offset, after.location.size
        slots = fed.slots - first
        there = (slots >= 0) & (slots < size)
        if after.location.each > 1 or not there.any():
            return
        marks, people = np.zeros(-(-size // 64) * 64, dtype=np.uint8), np.full(size, _NOBODY)
        marks[slots[there]], people[slots[there]] = 1, fed.people[there]
        octets = np.packbits(marks, bitorder="little")
        for sought in (octets, octets & after.octets):
            found = patterns.of_marks(sought, size, now.octets if now else None)
            self._flips += [(windows, people, 64) for windows in found]

    # --- ids ----------------------------------------------------------------------------------------------------

    def _add_ids(self, fed: FedBatch) -> None:
        """Look for the ids of a batch, their hashes, places and bits, in the order of the batch and sorted."""
        pool, people = self.pool, fed.people
        last, first = np.unique(people, return_index=True)
        if pool.text:
            self.add_texts(pool.ids[last], last)
        elif pool.open:
            self._ids += [(windows, last) for windows in patterns.of_numbers(pool.ids[last].astype(np.uint64))]
        else:
            for column in np.atleast_2d(pool.ids[people].T):
                self._add_runs(column.astype(np.uint64), people)
        if pool.open and pool.keyed:
            self._ids += [(windows, last) for windows in patterns.of_numbers(fed.places[first])]
        elif pool.keyed:
            self._add_runs(fed.places, people)
        for hashes in pool.hashes(last):
            in_order = hashes[np.searchsorted(last, people)]
            self._ids.append((patterns.in_a_row(in_order, need=1, new=True), people))
        if pool.categories == MANY:
            self._ids.append((Run(pool.codes(people), IN_ORDER), people))
        there = fed.slots >= 0
        self._add_runs(fed.slots[there].astype(np.uint64), people[there])

    def _add_runs(self, values: Words, people: People) -> None:
        swapped = self.pool.container == "NumPy big-endian"
        self._ids.append((Run(values, IN_ORDER, swapped=swapped), people))
        ascending, first = np.unique(values, return_index=True)
        if len(ascending) * 4 <= ascending.max(initial=0):
            self._ids.append((Run(ascending, ASCENDING), people[first]))

    def _add_beside(self, beside: Beside, people: People) -> None:
        """Look for what came with the ids of these users."""
        if beside.texts is not None:
            self.add_texts(beside.texts, people)
        if beside.times is not None:  # as numbers of microseconds, and as texts from the minute on
            moments = beside.times.astype(np.uint64)
            floats = moments.astype(np.float64)
            found = [patterns.in_a_row(each.view(np.uint64), need=0, new=True) for each in (floats, floats / SECOND)]
            self._ids += [(windows, people) for windows in (*found, *patterns.of_numbers(moments))]
            texts = [text[-LETTERS:] for text in np.datetime_as_string(beside.times)]
            self.add_texts(np.array(texts, dtype=np.bytes_), people)
        if beside.numbers is not None:
            owners = np.repeat(people, len(beside.numbers) // len(people))
            self._ids.append((Run(beside.numbers, IN_ORDER), owners))
        if beside.mask is not None:  # which tells the rows of these users from rows of strangers
            owners = np.full(len(beside.mask), _NOBODY, dtype=np.int64)
            owners[beside.mask] = people
            self._flips += [(windows, owners, 64) for windows in _windows_of(beside.mask)]

    def add_texts(self, texts: NDArray[np.bytes_], people: People) -> None:
        """Look for texts that came with these users, row by row: a column that is not counted."""
        self._ids.append((patterns.of_texts(texts), people))

    def add_strangers(self, texts: Sequence[NDArray[np.bytes_]]) -> None:
        """Look for texts of senders who are not in the pool: they get numbers above its users'."""
        everything = np.concatenate(texts)
        if len(everything):
            self.add_texts(everything, self.pool.users + np.arange(len(everything)))

    def add_keys(self, secrets: list[bytes]) -> None:
        """Look for keys and keystreams."""
        self._keys += [patterns.of_octets(secret) for secret in secrets]

    # --- what was found -----------------------------------------------------------------------------------------

    @property
    def patterns(self) -> list[Windows | Run]:
        """Everything that is looked for."""
        return [*self._words, *self._counts, *self._keys, *(pattern for pattern, _ in self._ids)]

    @property
    def _words(self) -> list[Windows | Run]:
        """Earlier tables and lists, flips and marks."""
        return [pattern for kept in (self._bits, self._flips) for pattern, *_ in kept]

    def findings(self, came: list[FedBatch]) -> dict[str, int]:
        """How much was found, by the fields of `Imaged`."""
        ids = [people[pattern.found] for pattern, people in self._ids]
        return {
            "users_named": self._users_named(came),
            "words_found": sum(int(pattern.found.sum()) for pattern in self._words),
            "counts_found": 8 * sum(int(windows.found.sum()) for windows in self._counts),
            "keys_found": sum(bool(windows.found.any()) for windows in self._keys),
            "ids_found": len(np.unique(np.concatenate(ids))) if ids else 0,
        }

    def _users_named(self, came: list[FedBatch]) -> int:
        """How many users came and have a bit that is known to have changed, or to have been drawn or marked in a batch.

        Where owners of bits are not known, bits are counted.
        """
        named = [people[_covered(windows, len(people), span)] for windows, people, span in self._flips]
        changed: dict[int, list[People]] = {}
        for pattern, version, now in self._bits:
            changed.setdefault(version.location.epoch, []).append(_changed(pattern, version, now))
        if not self.pool.keyed:
            return sum(len(np.unique(np.concatenate(slots))) for slots in changed.values())
        for fed in came:
            slots = np.concatenate(changed.get(fed.epoch, [np.empty(0, dtype=np.int64)]))
            named.append(fed.people[np.isin(fed.slots, slots)])
        everybody = np.unique(np.concatenate(named)) if named else np.empty(0, dtype=np.int64)
        return int((everybody != _NOBODY).sum())

    def where(self) -> tuple[str, ...]:
        """The mappings and files in which something was found."""
        return tuple(sorted(set().union(*(pattern.where for pattern in self.patterns))))


def _windows_of(bits: NDArray[Any]) -> list[Windows]:
    """Windows of a bit for each row of a batch."""
    octets = np.packbits(bits, bitorder="little")
    return patterns.of_bits(np.concatenate([octets, np.zeros(-len(octets) % 8, dtype=np.uint8)]), len(bits))


def _counterpart(version: TableVersion, present: list[TableVersion]) -> TableVersion | None:
    """The present version of the same bits, cut to them; None if they are no more."""
    for now in present:
        first = version.location.offset - now.location.offset
        inside = first >= 0 and first + version.location.size <= now.location.size
        if now.location.epoch == version.location.epoch and inside:
            bits = np.zeros(len(version.octets) * 8, dtype=np.uint8)
            whole = np.unpackbits(now.octets, bitorder="little")
            bits[: version.location.size] = whole[first : first + version.location.size]
            return TableVersion(version.location, np.packbits(bits, bitorder="little"), now.listed)
    return None


def _changed(pattern: Windows | Run, version: TableVersion, now: TableVersion | None) -> People:
    """The slots whose bits are known to have changed; all that were found where there are no present ones."""
    if isinstance(pattern, Run):
        return pattern.values[pattern.found].astype(np.int64)
    slots = (pattern.positions[pattern.found][:, None] + np.arange(64)).ravel()
    if now is not None:
        slots = slots[version.bits(slots) != now.bits(slots)]
    return np.unique(slots) + version.location.offset


def _covered(windows: Windows, size: int, span: int) -> NDArray[np.bool_]:
    """Which bits, or numbers, are in a window that was found."""
    covered = np.zeros(size, dtype=np.bool_)
    for position in windows.positions[windows.found]:
        covered[position : position + span] = True
    return covered


def secrets_of(keys: bytes, first: int, others: int) -> list[bytes]:
    """The keys that the system gave one after the other, their keystreams, and the keys and keystreams they lead to.

    `first` and `others` say for how many flips a key is used at most. AES is computed apart from the coins;
    a key schedule begins with the key.
    """
    found = []
    for number, start in enumerate(range(0, len(keys), KEY_BYTES)):
        key = keys[start : start + KEY_BYTES]
        for _ in range(0, first if number == 0 else others, _BLOCK):
            size = KEY_BYTES + min(_BLOCK, first if number == 0 else others)
            stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor().update(bytes(size))
            found += [key, stream]
            key = stream[:KEY_BYTES]
    return found
