"""The parts of a state folder: one header, without bits, and shards of bits, without a ledger.

A shard of counters has a `BatchLog` of the batches that it has taken. `ShardedBits` is the table of the folder's
estimator: it loads a shard when it is needed, changes it, and puts it back.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from operator import index
from typing import Any, NamedTuple, NoReturn, Self, TypeAlias

import numpy as np

from panprivacy.errors import CorruptState, InvalidType, InvalidValue, PanPrivacyError
from panprivacy.folder.marks import AnyTable, BitsElsewhere, Marks, Touched, part_bounds
from panprivacy.folder.stores import Store, naming
from panprivacy.memory.scratch import Scratch
from panprivacy.privacy.budget import Split
from panprivacy.privacy.coins import Coins, system
from panprivacy.state import Snapshot
from panprivacy.state.disk import undisturbed
from panprivacy.table import Counters, Table

NAME = 16
"""Bytes of the name that all parts of one folder share, drawn when it is made."""

_HEADER = struct.Struct(f"<{NAME}sIB")  # name, shards, kind of the estimator
_SHARD = struct.Struct(f"<{NAME}sIIQ")  # name, number, redraws, bits

HEADER_KIND, SHARD_KIND = 8, 9
MOST_SHARDS = 65_536

Before: TypeAlias = set[int | None]
"""The last batch, None for none, of each shard that lacks a certain one: a single number, if no batch broke off."""
MOST_WRITERS = 32
_HIGHEST = 2**62
_ASIDE = 2**63  # is added to a number that a new shard has not taken, and takes if it is fed again
_FORGOTTEN = _HIGHEST  # stands where a number was, in every shard, before a writer is forgotten in the first of them
_ENTRY = struct.Struct("<16sQ")  # what a writer's name hashes to, and the number of its last batch, plus 1; 0 is free


class LateBatch(PanPrivacyError):
    """A batch comes after one of the same writer with a higher number; where that was found, nothing was changed."""


class BatchId(NamedTuple):
    """The identity of a batch: the name of its writer, and a number above all earlier numbers of the writer."""

    writer: str
    number: int

    @classmethod
    def of(cls, given: Any) -> "BatchId | None":
        """Read what a caller says of a batch: nothing, or a name and a number.

        A number alone would name a batch of every writer, and all but the first of them would be left out.
        """
        if given is None:
            return None
        writer, number = given if isinstance(given, tuple) and len(given) == 2 else (None, True)
        if not isinstance(writer, str) or isinstance(number, bool) or not hasattr(number, "__index__"):
            raise InvalidType(
                f"a batch is the name of its writer and a number, ('till 3', 17), got {given!r}", code="batch-name"
            )
        if not 0 <= index(number) < _HIGHEST:
            raise InvalidValue(
                f"the number of a batch is at least 0 and below 2**62, got {number}", code="batch-number"
            )
        return cls(writer, index(number))

    def __str__(self) -> str:
        return f"batch {self.number} of {self.writer}"


@dataclass(frozen=True)
class BatchLog:
    """Which batches a shard has taken: of every writer who numbers batches, the highest number.

    A redraw may be made twice, an increment may not. So a batch for counters has an identity, the name of its writer
    and a number that rises, and every shard notes it in the same write as the counters. A shard that has this number
    takes nothing, one that has a lower number takes the batch, and one that has a higher number refuses: whether it has
    this batch, too, or was never given it, cannot be known. Names and numbers are public: they say who feeds and how
    often, and nothing about the users in a batch. They take the same room in every shard.
    """

    numbers: dict[bytes, int] = field(default_factory=dict)
    """The number of each writer, by what its name hashes to."""

    SIZE = MOST_WRITERS * _ENTRY.size

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote."""
        return cls({writer: number - 1 for writer, number in _ENTRY.iter_unpack(data) if number})

    @classmethod
    def of_new(cls, logs: Iterable["BatchLog"]) -> "BatchLog":
        """The log of a new shard, in the place of a lost one, from the logs of the other shards.

        Whether the lost shard had the last batch that all others have is not known. The new one has none. So it takes
        that batch, if it is fed again, and the next one.
        """
        known = [log.numbers for log in logs]
        common = [writer for writer in known[0] if all(writer in each for each in known)] if known else []
        lowest = {writer: min(each[writer] % _ASIDE for each in known) for writer in common}
        return cls({writer: n if n == _FORGOTTEN else n + _ASIDE for writer, n in lowest.items()})

    def to_bytes(self) -> bytes:
        """All of it, in a length that is always the same."""
        entries = (_ENTRY.pack(writer, number + 1) for writer, number in self.numbers.items())
        return b"".join(entries).ljust(self.SIZE, b"\0")

    def number(self, writer: str) -> int | None:
        """The last batch of a writer; None if there was none."""
        noted = self.numbers.get(_hashed(writer))
        number = None if noted is None else noted % _ASIDE
        if number == _FORGOTTEN:
            raise PanPrivacyError(
                f"the writer {writer!r} was being forgotten, and that broke off: forget({writer!r}) once more, and "
                "then the name is free",
                code="writer-half-forgotten",
            )
        return number

    def has(self, batch: BatchId) -> bool:
        """Whether this batch was taken; `LateBatch` if a later one of the same writer was."""
        number = self.number(batch.writer)
        if number is not None and number > batch.number:
            raise LateBatch(
                f"{batch} comes too late: batch {number} of the same writer was fed before it, and numbers rise; "
                f"if {batch} was fed already, all is well, and if not, give it a number that is higher",
                code="late-batch",
            )
        return self.numbers.get(_hashed(batch.writer)) == batch.number

    def before(self, batch: BatchId) -> Before:
        """The last batch of this writer, None for none; empty if that is this batch, which then follows none.

        A new shard, in the place of a lost one, may take the last batch of the others once more.
        """
        number = self.number(batch.writer)
        return set() if self.has(batch) or number == batch.number else {number}

    def with_batch(self, batch: BatchId) -> "BatchLog":
        """The same, and this batch."""
        numbers = self.numbers | {_hashed(batch.writer): batch.number}
        if len(numbers) > MOST_WRITERS:
            raise PanPrivacyError(
                f"this folder knows {MOST_WRITERS} writers and has no room for another: let {batch} go on under the "
                "name of one who has ended, or forget(writer) one of them",
                code="too-many-writers",
            )
        return BatchLog(numbers)

    def leaving(self, writer: str) -> "BatchLog":
        """The same, and that a writer is about to be forgotten: until then nothing is taken under this name."""
        known = _hashed(writer)
        return BatchLog(self.numbers | {known: _FORGOTTEN}) if known in self.numbers else self

    def without(self, writer: str) -> "BatchLog":
        """The same, with room for another writer."""
        return BatchLog({known: number for known, number in self.numbers.items() if known != _hashed(writer)})


def _hashed(writer: str) -> bytes:
    return blake2b(writer.encode(), digest_size=16).digest()


@dataclass(frozen=True)
class FolderHeader:
    """What all shards have in common: which estimator it is, its public parameters, and its ledger."""

    name: bytes
    shards: int
    kind: int
    secure: bool
    parameters: bytes
    """The ledger and the parameters of the estimator, as in a state of its own."""

    @classmethod
    def of(cls, parts: Snapshot) -> Self:
        """Read a header."""
        if parts.kind != HEADER_KIND or len(parts.parameters) < _HEADER.size:
            raise CorruptState("this is not the ledger of a state folder", code="not-a-ledger")
        name, shards, kind = _HEADER.unpack_from(parts.parameters)
        if not 1 <= shards <= MOST_SHARDS:
            raise CorruptState(f"a folder of {shards} shards is impossible", code="state-contradictory")
        return cls(name, shards, kind, parts.secure, bytes(parts.parameters)[_HEADER.size :])

    def sealed(self) -> Snapshot:
        """The bytes of it."""
        head = _HEADER.pack(self.name, self.shards, self.kind)
        return Snapshot(HEADER_KIND, self.secure, head + self.parameters, np.zeros(0, dtype=np.uint64))


@dataclass(frozen=True)
class Shard:
    """The bits of some slots, how often they have been rerandomised, and which batches they have."""

    name: bytes
    number: int
    redraws: int
    secure: bool
    table: AnyTable
    noted: BatchLog = field(default_factory=BatchLog)

    @classmethod
    def of(cls, parts: Snapshot, kind: type[Table | Counters] = Table, up_to: int = 1) -> Self:
        """Read a shard; its words become its table."""
        shard, size = cls.start_of(parts)
        try:
            return replace(shard, table=kind.from_words(size, parts.words, up_to))
        except ValueError as error:
            raise CorruptState(f"the shard contradicts itself: {error}", code="state-contradictory") from None

    @classmethod
    def start_of(cls, parts: Snapshot) -> tuple[Self, int]:
        """A shard without its table, and how many slots that has."""
        if parts.kind != SHARD_KIND or len(parts.parameters) != _SHARD.size + BatchLog.SIZE:
            raise CorruptState("this is not a shard of a state folder", code="not-a-shard")
        name, number, redraws, size = _SHARD.unpack_from(parts.parameters)
        noted = BatchLog.of(bytes(parts.parameters)[_SHARD.size :])
        return cls(name, number, redraws, parts.secure, None, noted), size

    def sealed(self) -> Snapshot:
        """The bytes of it, its bits where they are."""
        head = _SHARD.pack(self.name, self.number, self.redraws, self.table.size)
        return Snapshot(SHARD_KIND, self.secure, head + self.noted.to_bytes(), self.table.words)


class NotLoadable:
    """Stands for a part of a folder where states are loaded: a part alone cannot be loaded."""

    @staticmethod
    def from_sealed(parts: Snapshot, universe: Any = None) -> NoReturn:  # noqa: ARG004
        """Refuse."""
        raise PanPrivacyError(
            "this is a part of a state folder: name the folder, as in panprivacy show DIR/, or open it, "
            "pp.StateFolder(url)",
            code="part-of-folder",
        )


class ShardedBits(BitsElsewhere):
    """A table whose words are in a store.

    A batch first marks the slots that it touches, and then each shard is loaded, changed there, and put back. Shards of
    which nothing is touched are put back too: which of them are new must not tell who came. What breaks off in between
    may be done again: redrawing a bit a second time changes nothing of its law, and a counter is kept from moving twice
    by the identity of the batch, which its shard notes.
    """

    def __init__(self, store: Store, header: FolderHeader, slots: Any, split: Split) -> None:
        super().__init__(slots)
        self.redraws = 0
        """How often every shard has to be rerandomised by now, as the ledger says."""
        self._store, self._header, self._split = store, header, split
        self._numbers = range(header.shards)

    # --- events -------------------------------------------------------------------------------------------------

    def redraw_marked(self, marks: Marks | None, gone: Marks | None, coins: Coins, *, batch: BatchId | None) -> None:
        """Redraw marked slots, in one shard after the other; `gone` are slots whose users were deleted before.

        A batch with a name is refused before the first shard is written if some of them lack the batch before. So all
        shards are read first: whole, if the store can edit them together, or else their logs only, and then each again.
        """
        together = batch is not None and self.nbytes <= self._store.TOGETHER
        before: Before | None = None
        if batch is not None:
            before = set() if together else self.check_whole(batch)

        def redrawn(shard: Shard) -> Shard | None:
            with Scratch() as scratch, Scratch() as more:  # scratch has one array of a name
                bounds = self.bounds(shard.number)
                deleted = None if gone is None else gone.between(*bounds, scratch)
                touched = None if marks is None else marks.between(*bounds, more)
                return self._redrawn(shard, deleted, touched, coins, batch=batch, before=before)

        if batch is None and not self.repeatable:
            self._redraw_once(redrawn)
        else:
            self._change(self._numbers, redrawn, together=together)

    def _redraw_once(self, edit: Callable[[Shard], Shard | None]) -> None:
        """Change all shards by a batch without a name, which must not be fed again if some of them have it."""
        self._starts(self._numbers)  # finds out before the first is changed if one is missing or corrupt
        number = 0
        with undisturbed():
            try:
                for number in self._numbers:
                    self._change([number], edit)
            except Exception as error:
                if not number:
                    raise
                raise PanPrivacyError(
                    f"{error}; the first {number} of {self._header.shards} shards have counted this batch, and the "
                    "others have not: fed again, it counts twice in those; a batch with a name, batch=('till 3', 17), "
                    "is fed again safely",
                    code="half-counted",
                ) from error

    def redraw_in(
        self, number: int, touched: Touched, coins: Coins, *, batch: BatchId | None = None, remove: bool = False
    ) -> None:
        """Redraw some slots of one shard, counted from the shard's first, unless it has the batch already."""
        deleted, inserted = (touched, None) if remove else (None, touched)
        self._change([number], lambda shard: self._redrawn(shard, deleted, inserted, coins, batch=batch))

    def _redrawn(
        self,
        shard: Shard,
        deleted: Touched | None,
        touched: Touched | None,
        coins: Coins,
        *,
        batch: BatchId | None,
        before: Before | None = None,
    ) -> Shard | None:
        """A shard after a batch; None if it has the batch already.

        `deleted` are slots whose users were deleted in the same batch, before the others were touched. `before` has the
        last batches of the shards that lack this one. If they differ, this batch is refused: an earlier one broke off,
        or is being fed at the same time.
        """
        changed = shard
        if batch is not None:
            if shard.noted.has(batch):
                return None
            if before is not None:
                before |= shard.noted.before(batch)
                _check_same(before, batch)
            changed = replace(shard, noted=shard.noted.with_batch(batch))  # which may refuse
        changed = self._caught_up(changed, self.redraws, coins)
        pair = self._split.pair_after(changed.redraws)
        for some, threshold in ((deleted, pair.absent), (touched, pair.present)):
            if some is not None:
                with Scratch() as scratch:
                    shard.table.redraw_often(*some, threshold, coins, scratch, back=some is deleted)
        return changed

    def check_whole(self, batch: BatchId) -> Before:
        """The last batch of the shards that lack this one; refuse this one if they differ in that."""
        before = set[int | None]().union(*(shard.noted.before(batch) for shard in self._starts(self._numbers)))
        _check_same(before, batch)
        return before

    def last_batches(self, writer: str) -> list[int | None]:
        """The last batch of a writer that each shard has."""
        return [shard.noted.number(writer) for shard in self._starts(self._numbers)]

    def forget(self, writer: str) -> None:
        """Make room for another writer in every shard.

        All of them first note that the writer is leaving: a name that some shards have forgotten and others have not
        would lose batches of the next writer who takes it.
        """
        self._change(self._numbers, lambda shard: replace(shard, noted=shard.noted.leaving(writer)))
        self._change(self._numbers, lambda shard: replace(shard, noted=shard.noted.without(writer)))

    # --- what leaves --------------------------------------------------------------------------------------------

    def gathered(self, redraws: int = 0, coins: Coins = system) -> AnyTable:
        """A copy of all bits in one table, rerandomised `redraws` times; the caller wipes it.

        Every shard is read once. A shard that a crash left behind is brought up to date and read again.
        """
        whole = self.empty(self.size)
        try:
            behind = self._put_all(whole, self._numbers, redraws)
            self._change(behind, lambda shard: self._caught_up(shard, redraws, coins))
            self._put_all(whole, behind, redraws)
        except BaseException:
            whole.wipe()
            raise
        return whole

    def _put_all(self, whole: AnyTable, numbers: Iterable[int], redraws: int) -> list[int]:
        """Copy shards into one table; return the shards that were rerandomised fewer than `redraws` times."""
        behind = []
        for number, (_, parts) in zip(numbers, self._store.read_each(map(shard_name, numbers)), strict=True):
            shard = self._shard(parts, number)
            try:
                whole.put(shard.table, self.bounds(number)[0])
            finally:
                shard.table.wipe()
            behind += [number] if shard.redraws < redraws else []
        return behind

    def catch_up(self, redraws: int, coins: Coins) -> None:
        """Rerandomise each shard until it was `redraws` times: all of them, or those that a crash left behind."""
        self._change(self.behind(redraws), lambda shard: self._caught_up(shard, redraws, coins))

    def _caught_up(self, shard: Shard, redraws: int, coins: Coins) -> Shard:
        for _ in range(shard.redraws, redraws):
            shard.table.flip_each(self._split.flip, coins)
            shard = replace(shard, redraws=shard.redraws + 1)
        return shard

    def behind(self, redraws: int) -> list[int]:
        """The shards that were rerandomised fewer than `redraws` times: a crash left them behind."""
        return [number for number, shard in enumerate(self._starts(self._numbers)) if shard.redraws < redraws]

    def replace(self, number: int, coins: Coins) -> None:
        """Replace a lost or corrupt shard by a new one; `PanPrivacyError` if it is whole."""
        name = shard_name(number)
        drawn = (self.size_of(number), self._split.pair_after(self.redraws), coins)
        table: AnyTable = Table.drawn(*drawn) if self.up_to == 1 else Counters.drawn(*drawn, self.up_to)
        secure = self._header.secure and coins.secure
        shard = Shard(self._header.name, number, self.redraws, secure, table, BatchLog.of_new(self._other_logs(number)))
        try:
            if not self._store.replace(name, lambda parts: self._shard(parts, number), shard.sealed()):
                raise PanPrivacyError(f"{self._store.where(name)}: this shard is whole, and stays", code="shard-whole")
        finally:
            table.wipe()

    def _other_logs(self, number: int) -> Iterator[BatchLog]:
        """Which batches the other shards have; of those that are lost, too, nothing is known."""
        for other in self._numbers:
            if other != number:
                with suppress(FileNotFoundError, CorruptState):
                    yield self._starts([other])[0].noted

    # --- shards -------------------------------------------------------------------------------------------------

    def bounds(self, number: int) -> tuple[int, int]:
        """Which of the slots a shard has: from the first up to the second."""
        return part_bounds(number, self._header.shards, self.size)

    def size_of(self, number: int) -> int:
        """How many slots a shard has."""
        first, end = self.bounds(number)
        return end - first

    def _change(self, numbers: Iterable[int], edit: Callable[[Shard], Shard | None], *, together: bool = False) -> None:
        by_name = {shard_name(number): number for number in numbers}

        def change(name: str, parts: Snapshot) -> Snapshot | None:
            made = edit(self._shard(parts, by_name[name]))
            return None if made is None else made.sealed()

        if by_name:
            self._store.change(by_name, change, together=together)

    def _starts(self, numbers: Iterable[int]) -> list[Shard]:
        """Shards without their bits."""
        numbers = list(numbers)
        found = []
        for number, (name, parts) in zip(numbers, self._store.read_starts(map(shard_name, numbers)), strict=True):
            with naming(name, self._store.where(name)):
                found.append(self._checked(*Shard.start_of(parts), number))
        return found

    def _shard(self, parts: Snapshot, number: int) -> Shard:
        """Read a shard; refuse what is not the shard of this number."""
        with naming(name := shard_name(number), self._store.where(name)):
            shard = Shard.of(parts, self.kind, self.up_to)
            return self._checked(shard, shard.table.size, number)

    def _checked(self, shard: Shard, size: int, number: int) -> Shard:
        """A shard, if it is the one of this number in this folder."""
        if (shard.name, shard.number, size) != (self._header.name, number, self.size_of(number)):
            raise CorruptState(f"this is not shard {number} of this folder", code="other-shard")
        return shard


def _check_same(before: Before, batch: BatchId) -> None:
    """Refuse a batch if shards differ in the one that came before it."""
    if len(before) > 1:
        last = BatchId(batch.writer, max(number for number in before if number is not None))
        raise PanPrivacyError(
            f"{last} broke off, or is not done yet, and some shards do not have it: feed it again, and then {batch}; "
            "if it is lost, go on under another writer's name",
            code="batch-broken-off",
        )


def shard_name(number: int) -> str:
    """What the part is called that holds a shard."""
    return f"shard-{number:05d}"
