"""How a batch of events changes a table: users are looked up, and the bits of their slots redrawn.

A batch with an id outside the universe changes nothing. Which way it goes depends on its length, and on what the
universe, the slots and the table say of themselves:

- A short batch is looked up before the first bit is drawn.
- A long batch for several threads, of events that may be repeated, is marked first (`BatchMarks`).
- Slots that are costly to find are kept until the whole batch is looked up (`PartitionedSlots`).
- A batch that is too long to be kept is looked up twice; where that is more work than a copy of the table, the bits
  are put back if something goes wrong.

No two threads change one word: each has marks of its own, or a stretch of the table. So the law of the bits does not
depend on the number of threads.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain, count, islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.errors import PanPrivacyError
from panprivacy.memory.scratch import Scratch
from panprivacy.memory.threads import CHUNK, check_threads, each
from panprivacy.privacy.coins import Coins
from panprivacy.slots import SlotMap
from panprivacy.table import kernels
from panprivacy.universe.columns import Chunk, chunks, pieces_of
from panprivacy.universe.integers import Lookup, Words
from panprivacy.universe.strangers import StrangerFilter

Slots = NDArray[np.unsignedinteger]

ROWS_PER_THREAD = {Lookup.SEARCHED: 2**15, Lookup.HASHED: 2**18, Lookup.DIRECT: 2**20}
"""Rows of a thread that take much longer than starting it."""

LARGE_TABLE = 2**23
"""Bytes of a table whose words are so far away that fetching one takes longer than to sort slots by stretches."""

_KEPT_CHUNKS = 16  # chunks whose slots are kept at a time
_FAR = 2**22  # bytes of marks most of which are in no cache that is near
_MOST_OF_A_STRETCH = 2**32  # slots: within a stretch they are kept in 32 bits
_CHANGED = "the ids changed while they were read, so that part of the batch may be taken: feed it again, unchanged"


def look_up(events: Any, ids: Any, strangers: StrangerFilter | None) -> None:
    """Look every id of a column up, which refuses those that are outside the universe; an iterator is left alone."""
    pieces = pieces_of(events.as_column(ids))
    if pieces is not None:
        with Scratch() as scratch:
            known = pieces if strangers is None else strangers.chosen(events, pieces, scratch)
            each(chunks(known), events.indices, 1)


@dataclass(slots=True)
class BatchUpdate:
    """What a batch needs on its way to the table; the caller holds the estimator's lock."""

    events: Any
    """Finds the position of each user, or of each user with a category."""
    slots: SlotMap
    table: Any
    coins: Coins
    threshold: int
    """The coin that an event redraws a bit with."""
    back: bool
    """Whether events are taken back, which counters have to know."""
    threads: int | None

    def take(self, pieces: list[Chunk]) -> None:
        """Redraw the bit of every event."""
        rows = sum(map(len, pieces))
        if not rows:
            return
        size, threads = self._cut(rows)
        if threads == 1 and len(pieces) == 1 and rows <= CHUNK:
            with Scratch() as scratch:  # all users are looked up before the first bit is drawn
                try:
                    indices = self.events.indices(pieces[0][:rows], scratch)
                    self._redraw(self.slots.select(indices, scratch), scratch)
                except IndexError as error:
                    raise PanPrivacyError(_CHANGED, code="ids-changed") from error
            return
        parts = chunks(pieces, size)
        if threads > 1 and self._marks_first(rows):
            with Scratch() as scratch:  # the slots of the whole batch are marked, and each is redrawn once
                batch = BatchMarks(self.table.size, scratch)
                each(parts, partial(self._hand_on, into=batch.add), threads)
                self.table.replace_marked(*batch.drawn(self.threshold, self.coins, threads))
        elif self._keeps_slots(pieces, size, threads):
            with nullcontext() if self.table.repeatable else self.table.restored_on_error():
                self._keep_and_redraw(parts, threads, self._redrawing_threads(rows, threads))
        else:
            with self._whole_or_not_at_all(pieces, threads):
                if threads > 1:
                    self._keep_and_redraw(parts, threads, self._redrawing_threads(rows, threads))
                else:
                    each(parts, partial(self._hand_on, into=self._redraw), 1)

    # --- which way ----------------------------------------------------------------------------------------------

    @property
    def _lookup(self) -> Lookup:
        """The slower one of two steps: to find a user's position, and its slot."""
        slower: Lookup = min(self.events.lookup, self.slots.lookup)
        return slower

    def _cut(self, rows: int) -> tuple[int, int]:
        """The rows of a chunk and the number of threads; a batch is cut into as many chunks as threads, or more."""
        lookup = self._lookup
        enough = rows // ROWS_PER_THREAD[lookup]
        if enough < 2 or not self.table.threaded or not self.coins.secure:  # seeded coins are drawn in one order
            return CHUNK, 1
        if lookup is Lookup.DIRECT and not (self._marks_first(rows) or self.table.words.nbytes >= LARGE_TABLE):
            return CHUNK, 1  # to sort slots by stretches would take as long as to redraw them
        threads = min(check_threads(self.threads), enough)
        return (CHUNK if threads == 1 else min(CHUNK, -(-rows // threads))), threads

    def _marks_first(self, rows: int) -> bool:
        """Whether all slots are marked before a bit is drawn: a coin for each bit is then no more than two per row."""
        return bool(self.table.repeatable and self.table.threaded and 2 * rows >= self.table.size)

    def _keeps_slots(self, pieces: list[Chunk], size: int, threads: int) -> bool:
        """Whether slots are few enough to be kept until the batch is looked up, and worth it."""
        few = sum(-(-len(piece) // size) for piece in pieces) <= _KEPT_CHUNKS
        return few and self.table.threaded and (threads > 1 or self._lookup is Lookup.SEARCHED)

    def _redrawing_threads(self, rows: int, threads: int) -> int:
        """How many threads redraw slots that were kept: several if the table is large.

        Slots that were searched are kept in any case, so to sort them by stretches costs little and pays for a long
        batch.
        """
        long = self._lookup is Lookup.SEARCHED and rows >= ROWS_PER_THREAD[Lookup.DIRECT]
        return threads if long or self.table.words.nbytes >= LARGE_TABLE else 1

    def _whole_or_not_at_all(self, pieces: list[Chunk], threads: int) -> AbstractContextManager[None]:
        """Look every id up before the first bit is drawn; or copy the table, if it is smaller than the batch.

        An event that must not be repeated always takes the copy: then an interrupt changes nothing either.
        """
        if not self.table.repeatable or self.table.words.nbytes <= sum(map(len, pieces)):
            restored: AbstractContextManager[None] = self.table.restored_on_error()
            return restored
        each(chunks(pieces), self.events.indices, threads)
        return nullcontext()

    # --- chunks -------------------------------------------------------------------------------------------------

    def _hand_on(self, chunk: Any, scratch: Scratch, into: Callable[[Any, Scratch], None]) -> None:
        """Hand the slots of some users on, and name an id outside the universe if there is one."""
        try:
            into(self.slots.select(self.events.unchecked(chunk, scratch), scratch), scratch)
        except IndexError as error:
            self.events.indices(chunk, scratch)  # names it
            raise PanPrivacyError(_CHANGED, code="ids-changed") from error

    def _redraw(self, slots: Any, scratch: Scratch) -> None:
        self.table.redraw(slots, self.threshold, self.coins, scratch, back=self.back)

    def _keep_and_redraw(self, parts: Iterator[Any], threads: int, redrawing: int) -> None:
        """Redraw some chunks at a time: all users of these are looked up before the first bit is drawn.

        Where several threads redraw, each has a stretch of the table.
        """
        with Scratch() as scratch:
            kept = PartitionedSlots(self.table.size, redrawing, scratch)

            def redraw(first: int, stop: int, slots: Any, scratch: Scratch) -> None:
                stretch = self.table.stretch(first, stop)
                stretch.redraw(slots, self.threshold, self.coins, scratch, back=self.back)

            for chunk in parts:
                some = chain([chunk], islice(parts, _KEPT_CHUNKS - 1))
                each(some, partial(self._hand_on, into=kept.add), threads)
                kept.count_each(redraw, redrawing)


class BatchMarks:
    """The slots of a batch, marked by several threads, and then a coin for each of them.

    The order of the events of a batch, and how often a user is in it, do not matter: a bit has the law of one coin,
    drawn at the last of them. So each thread marks the slots that it meets in marks of its own, and each slot that is
    marked gets one coin. The table is changed in one go at the end: if anything is wrong with the batch, nothing has
    happened yet. Everything lies in the scratch of the caller, who wipes it.
    """

    def __init__(self, size: int, scratch: Scratch) -> None:
        self._size, self._scratch = size, scratch
        self._free: list[Words] = []  # marks that no thread is writing to at present

    def add(self, slots: Slots, scratch: Scratch) -> None:  # noqa: ARG002 - as `PartitionedSlots.add`
        """Mark these slots; `IndexError` if one is outside the table."""
        try:
            marks = self._free.pop()
        except IndexError:
            marks = self._scratch.own(np.zeros(-(-self._size // 64), dtype=np.uint64))
        touch = kernels.touch if marks.nbytes < _FAR else kernels.touch_far
        inside = touch(marks, np.uint64(self._size), slots)
        self._free.append(marks)
        if not inside:
            raise IndexError(f"a slot is outside this table of {self._size}")

    def drawn(self, threshold: int, coins: Coins, threads: int) -> tuple[Words, Words]:
        """The marks of all threads together, and a coin for every slot that is marked, 0 for the others."""
        if not self._free:
            self.add(np.empty(0, dtype=np.uint64), self._scratch)
        marks, *others = self._free
        flips: Words = self._scratch.empty("flips of all", len(marks), np.uint64)

        def draw(start: int, scratch: Scratch) -> None:
            n = min(CHUNK, self._size - start)
            part = slice(start // 64, -(-(start + n) // 64))
            for other in others:
                np.bitwise_or(marks[part], other[part], out=marks[part])
            octets: Any = scratch.empty("flips", -(-n // 64) * 64, np.uint8)
            octets[n:] = 0
            coins.draw(threshold, octets[:n])
            packed = scratch.own(np.packbits(octets, bitorder="little")).view("<u8")
            np.bitwise_and(packed, marks[part], out=flips[part])

        starts = range(0, self._size, CHUNK)
        each(iter(starts), draw, min(threads, len(starts)))
        return marks, flips


class PartitionedSlots:
    """The slots of some chunks, sorted by stretches of a table; each slot is counted from the first of its stretch.

    There are as many stretches as threads, rounded up to a power of two. A stretch begins with a word, however many
    bits a slot has. Everything lies in the scratch of the caller, who wipes it.
    """

    def __init__(self, size: int, threads: int, scratch: Scratch) -> None:
        self._halvings = max((threads - 1).bit_length(), (size // _MOST_OF_A_STRETCH).bit_length())
        self._step = -(-size // (64 << self._halvings)) * 64
        self._size, self._scratch = size, scratch
        self._kept: list[list[Slots]] = []
        self._numbers: Iterator[int] = count()

    @property
    def stretches(self) -> list[tuple[int, int]]:
        """The first slot of each stretch, and the first that is none of it."""
        bounds = (min(i * self._step, self._size) for i in range((1 << self._halvings) + 1))
        return [stretch for stretch in pairwise(bounds) if stretch[0] < stretch[1]]

    def add(self, slots: Slots, scratch: Scratch) -> None:
        """Sort these slots; `IndexError` if one is outside the table.

        With one stretch, the table finds that out when it is redrawn.
        """
        dtype = np.uint32 if self._halvings else np.uint64
        kept = self._scratch.empty(f"slots {next(self._numbers)}", len(slots), dtype)
        parts, limit = [slots], self._size
        if not self._halvings:
            np.copyto(kept, slots)
            parts = [kept]
        for level in reversed(range(self._halvings)):
            halves = kept if level == 0 else scratch.empty(f"halves {level}", len(slots), np.uint32)
            middle, finer, start = self._step << level, list[Slots](), 0
            for part in parts:
                into = halves[start : start + len(part)]
                low = kernels.halve(part, limit, middle, into)
                if low < 0:
                    raise IndexError(f"a slot is outside this table of {self._size}")
                finer += [into[:low], into[low:]]
                start += len(part)
            parts, limit = finer, middle
        self._kept.append(parts)

    def count_each(self, work: Callable[[int, int, Slots, Scratch], Any], threads: int) -> None:
        """Do some work on the slots of every stretch, and forget them."""

        def all_of(stretch: tuple[int, tuple[int, int]], scratch: Scratch) -> None:
            number, (first, stop) = stretch
            for parts in self._kept:
                work(first, stop, parts[number], scratch)

        each(iter(enumerate(self.stretches)), all_of, threads)
        self._kept.clear()
        self._numbers = count()
