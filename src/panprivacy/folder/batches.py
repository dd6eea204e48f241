"""Slots of a batch on their way to the bits: gathered where ids are, packed, united, and redrawn where the bits are.

With many writers, gatherers look ids up and send packed sets of slots, and one process unites them and has the bits. A
gatherer needs the layout of an estimator, which is public, and no store. A combiner unites the sets that come before
its next write, and then redraws every slot once. A bit has the law of one coin, however many sets it is in.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import check_whole
from panprivacy.errors import CorruptState, InvalidValue, PanPrivacyError
from panprivacy.folder.ledger import check_kind, kinds
from panprivacy.folder.marks import (
    BitsElsewhere,
    Marks,
    check_part,
    fingerprint,
    pack,
    part_bounds,
    unpack,
    unpack_each,
)
from panprivacy.folder.shards import BatchId, FolderHeader, ShardedBits
from panprivacy.memory.intrinsics import wipe_stack
from panprivacy.memory.scratch import Scratch
from panprivacy.privacy.coins import Coins, system
from panprivacy.state import unseal

H = TypeVar("H", "SlotMarks", "Received", "Pending")


@contextmanager
def wiped(held: H) -> Iterator[H]:
    """What tells who is in a batch, to be wiped where the `with` block ends."""
    try:
        yield held
    finally:
        held.wipe()
        wipe_stack()


class SlotMarks:
    """The slots that a batch touches, in a process that holds no bits: `pp.gather` and `StateFolder.gather` make one.

    It tells who is in the batch, and is wiped where the `with` block ends, with all that it has packed.
    """

    def __init__(self, layout: bytes, parts: int, est: Any, turn: AbstractContextManager[Any]) -> None:
        self._layout, self._est = layout, est
        self._bits: BitsElsewhere = est._table
        self.marks: Marks = self._bits.marks(self._bits.size)
        self.parts = parts
        """The number of parts that the slots are packed in."""
        self._turn = turn  # held while users are looked up
        self._scratch = Scratch()
        self._open = True

    def add(self, ids: Any, categories: Any = None, *, column: Any = None, skip_outside: bool = False) -> None:
        """Gather the slots of these users; takes what `StateFolder.update_many` takes, and names a wrong id.

        A refused batch leaves no mark; of an iterator, which is taken in chunks, the last chunk leaves none.
        """
        self._check_open()
        with self._turn, self._bits.fed_to(self.marks):
            self._est.update_many(ids, categories, column=column, skip_outside=skip_outside)

    def packed(self, number: int = 0) -> NDArray[np.uint8]:
        """A part of the slots, as bytes: for the shard of this number (`StateFolder.take`), or for a service.

        The length tells how many slots it has. It is wiped with the rest; copies of it, sent elsewhere, are the
        caller's to wipe.
        """
        self._check_open()
        bounds = part_bounds(check_part(number, self.parts), self.parts, self._bits.size)
        return pack(self.marks, self._layout, *bounds, self._scratch)

    def _check_open(self) -> None:
        if not self._open:
            raise PanPrivacyError(
                "the `with` block has ended, and what was gathered in it is wiped: gather once more", code="batch-over"
            )

    def wipe(self) -> None:
        """Forget everything, and take nothing more."""
        self._open = False
        with self._scratch:
            self.marks.wipe()


class Received:
    """What some shards have to take, as it comes in from processes that gathered: `StateFolder.receive` makes one.

    It tells who is in the batch, as far as these shards have them, and is wiped where the `with` block ends.
    """

    def __init__(
        self, header: FolderHeader, bits: ShardedBits, coins: Coins, shards: Iterable[int], batch: BatchId | None
    ) -> None:
        self._header, self._bits, self._coins, self._batch = header, bits, coins, batch
        numbers = [check_part(number, header.shards) for number in shards]
        self._marks = {number: bits.marks(bits.size_of(number)) for number in numbers}

    def add(self, packed: Any) -> None:
        """Add what `SlotMarks.packed` packed for one of these shards: an array, bytes or another buffer."""
        slots = unpack(np.frombuffer(packed, dtype=np.uint8))
        for number, marks in self._marks.items():
            if (slots.first, slots.end) == self._bits.bounds(number) and slots.layout == self._header.name:
                slots.add_to(marks, slots.first, slots.end)
                return
        listed = ", ".join(map(str, self._marks))
        raise CorruptState(f"these slots do not belong to shard {listed} of this folder", code="other-shard")

    def take(self, *, remove: bool = False) -> None:
        """Note it in each of these shards, one after the other."""
        for number, marks in self._marks.items():
            with Scratch() as scratch:
                touched = marks.between(0, self._bits.size_of(number), scratch)
                self._bits.redraw_in(number, touched, self._coins, batch=self._batch, remove=remove)

    def wipe(self) -> None:
        """Forget everything."""
        for marks in self._marks.values():
            marks.wipe()


class Pending:
    """Feeds a folder by way of an estimator: `StateFolder.pending` makes one.

    Events are marked in memory, in the clear, until `write`; so a process that lives long writes after every batch.
    Insertions and deletions are marked apart, and written together. So the number of writes, which the names of objects
    in a store tell, does not depend on whether a user was deleted. Of a bit, the last event counts. Of a counter, a
    deletion takes an insertion back that was not written yet; those that are left come before all insertions.
    """

    def __init__(self, est: Any, bits: ShardedBits, coins: Coins, prepare: Callable[[], None]) -> None:
        self.estimator = est
        """The estimator, to be fed and to be asked what it is; its bits are not here."""
        self._bits, self._coins = bits, coins
        self._prepare = prepare  # is called before anything is written: the ledger may say more by now
        self._marks, self._gone = bits.marks_of_both()
        self._any = False

    def add(self, slots: NDArray[np.unsignedinteger], *, remove: bool = False) -> None:
        """Mark slots."""
        (self._marks.delete if remove else self._marks.insert)(slots, self._gone)
        self._any = True

    def expect(self) -> None:
        """Let the next `write` write all shards, also without events, whose absence must not show."""
        self._any = True

    def restored_on_error(self) -> AbstractContextManager[object]:
        """Put the marks back as they were if anything goes wrong."""
        both = ExitStack()  # no generator, which would act when it is dropped half used
        for marks in (self._marks, self._gone):
            both.enter_context(marks.restored_on_error())
        return both

    def write(self, batch: BatchId | None = None) -> None:
        """Bring what was fed since the last time to the shards; when this returns, it is on disk."""
        if self._any or batch is not None:
            self._prepare()
            self._bits.redraw_marked(self._marks, self._gone, self._coins, batch=batch)
            self.wipe()
            self._any = False

    def wipe(self) -> None:
        """Forget what was not written."""
        self._marks.wipe()
        self._gone.wipe()


_AT_ONCE = 2**24  # slots that are redrawn at a time, from nine bytes each


def _read(layout: bytes, universe: Any) -> Any:
    """An estimator of this layout, with `BitsElsewhere` in the place of its bits."""
    parts = unseal(layout)
    if parts.kind not in kinds():
        raise CorruptState(f"no slots are gathered for an estimator of kind {parts.kind}", code="unknown-kind")
    return kinds()[parts.kind].from_state_with_table(parts, universe, lambda slots, _: BitsElsewhere(slots), system)


def gather(layout: bytes, universe: Any = None, *, parts: int = 1) -> AbstractContextManager[SlotMarks]:
    """Look up which slots users own, for a service that has the bits: nothing is kept where the `with` block ends.

    Parameters
    ----------
    layout
        What ``GET /counters/NAME/layout`` answers, or `Density.layout` and so on: public parameters, without bits.
    universe
        The list of users, if the counter has one: a layout holds no ids.
    parts
        Pack the slots in this many parts, each a body of its own. Send all, also the empty ones.

    Examples
    --------
    >>> import panprivacy as pp
    >>> with pp.gather(pp.Density(universe=1000, epsilon=1.0).layout()) as gathered:
    ...     gathered.add([3, 17, 900])
    ...     len(gathered.packed())
    76
    """
    est = _read(layout, universe)
    size = est._table.size
    if not 1 <= check_whole(parts, "parts") <= size:
        raise InvalidValue(f"parts must be between 1 and {size:,}, got {parts}", code="shards-range")
    return wiped(SlotMarks(fingerprint(layout), parts, est, nullcontext()))


class OtherLayout(CorruptState):
    """A packed set was gathered for another layout: gather it anew."""


class Combiner:
    """Unites packed sets for an estimator of this process, until `redraw` brings them to its bits.

    Until then the marks show who is in the sets. Insertions and deletions are not united: a user who was
    inserted and then deleted is to be gone.
    """

    def __init__(self) -> None:
        self._marks: Marks | None = None  # as large as the table, whatever comes
        self._size = 0
        self._layout = b""
        self._remove = False
        self.waits: bool = False
        """Whether there are sets that were not redrawn."""

    def take(self, octets: NDArray[np.uint8], est: Any, *, remove: bool = False) -> None:
        """Unite packed sets, one behind the other, with those before.

        If one of them belongs to another estimator, `CorruptState`, and none of them is united.
        """
        if not est.TRAITS.in_folder:
            check_kind(type(est))  # which says why not
        layout = est.layout()
        if layout != self._layout:
            self.redraw(est)
            bits: BitsElsewhere = _read(layout, est.universe)._table
            self._layout, self._size, self._marks = layout, bits.size, bits.marks(bits.size)
        assert self._marks is not None
        sets, known = unpack_each(octets), fingerprint(layout)
        if any(each.layout != known for each in sets):
            raise OtherLayout("these slots were gathered for another layout", code="other-layout")
        if self.waits and remove != self._remove:
            self.redraw(est)
        with nullcontext() if len(sets) == 1 else self._marks.restored_on_error():
            for each in sets:
                each.add_to(self._marks, 0, self._size)
        self.waits, self._remove = True, remove

    def redraw(self, est: Any) -> None:
        """Redraw every slot that is in a set, once, and forget the sets."""
        if not self.waits or self._marks is None:
            return
        try:
            for first in range(0, self._size, _AT_ONCE):
                with Scratch() as scratch:
                    slots, times = self._marks.between(first, min(first + _AT_ONCE, self._size), scratch)
                    np.add(slots, np.uint64(first), out=slots)
                    est.redraw_slots(slots, times, remove=self._remove)
        finally:
            self.wipe()

    def wipe(self) -> None:
        """Forget the sets that were not redrawn."""
        if self.waits and self._marks is not None:
            self._marks.wipe()
            self.waits = False
        wipe_stack()
