"""A thousand writers: gatherers look ids up and send packed sets of slots, one process unites them and has the bits.

A gatherer needs the layout of an estimator, which is public, and no store. A combiner unites the sets that come before
its next write, and then redraws every slot once. A bit has the law of one coin, however many sets it is in.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import check_whole
from panprivacy.errors import CorruptState, InvalidValue
from panprivacy.folder.batches import SlotMarks
from panprivacy.folder.ledger import check_kind, kinds
from panprivacy.folder.marks import BitsElsewhere, Marks, cells_of, fingerprint, unpack_each
from panprivacy.memory.scratch import Scratch
from panprivacy.memory.stack import wipe_stack
from panprivacy.privacy.coins import system
from panprivacy.state import unseal

_AT_ONCE = 2**24  # slots that are redrawn at a time, from nine bytes each


class _Layout(NamedTuple):
    """An estimator without bits, and the table in their place."""

    estimator: Any
    bits: BitsElsewhere


def _read(layout: bytes, universe: Any) -> _Layout:
    parts = unseal(layout)
    if parts.kind not in kinds():
        raise CorruptState(f"no slots are gathered for an estimator of kind {parts.kind}", code="unknown-kind")
    made: list[BitsElsewhere] = []

    def bits(slots: Any, _split: Any) -> Any:
        made.append(BitsElsewhere(slots.size, cells_of(slots)))
        return made[0]

    return _Layout(kinds()[parts.kind].from_state_with_table(parts, universe, bits, system), made[0])


@contextmanager
def gather(layout: bytes, universe: Any = None, *, parts: int = 1) -> Iterator[SlotMarks]:
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
    read = _read(layout, universe)
    if not 1 <= check_whole(parts, "parts") <= read.bits.size:
        raise InvalidValue(f"parts must be between 1 and {read.bits.size:,}, got {parts}", code="shards-range")
    gathered = SlotMarks(fingerprint(layout), parts, read.bits, read.estimator, nullcontext())
    try:
        yield gathered
    finally:
        gathered.wipe()


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

        `CorruptState` if one of them is none of this estimator: then none of them is united.
        """
        if not est.TRAITS.in_folder:
            check_kind(type(est))  # which says why not
        layout = est.layout()
        if layout != self._layout:
            self.redraw(est)
            bits = _read(layout, est.universe).bits
            self._layout, self._size, self._marks = layout, bits.size, bits.cells.marks(bits.size)
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
