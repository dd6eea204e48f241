"""What Python workers do: some make of a partition of events a set of slots for each shard, others feed the shards.

The first stage looks every id up and changes nothing. What it finds wrong it sends to all tasks of the second, in the
place of the sets. The second stage begins when the first is done, and a task of it changes its shards when it has read
all that was sent to it: so every task knows of every bad id before it would change anything.
"""

import pickle
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from panprivacy.errors import InvalidValue, PanPrivacyError
from panprivacy.folder.batch_log import LateBatch
from panprivacy.memory.scratch import Scratch
from panprivacy.universe.columns import chosen_rows
from panprivacy.universe.strangers import mask_inside

if TYPE_CHECKING:
    import pyarrow as pa

    from panprivacy.folder import StateFolder

SETS = "task int, slots binary, fault binary"
"""What the first stage makes: a set of slots for a shard, which a task feeds, or what is wrong with the events."""

TAKEN = "shards int, fault binary"
"""What each task of the second makes: how many shards have taken the batch, or why none has."""


_OFFSETS = struct.Struct("=ii")  # where the one set of an Arrow column begins, and where it ends


class Fault(NamedTuple):
    """What is wrong with the events, and where it was found: the first of two is the lesser."""

    partition: int
    chunk: int
    kind: type[Exception]
    said: str
    code: str | None = None

    @classmethod
    def first(cls, packed: Iterable[bytes]) -> "Fault | None":
        """The first of some that were packed; None if there is none."""
        return min(map(pickle.loads, packed), key=lambda fault: fault[:2], default=None)

    def packed(self) -> bytes:
        """It as bytes."""
        return pickle.dumps(self)

    def error(self) -> Exception:
        """It as an exception, for the driver to raise."""
        return self.kind(self.said) if self.code is None else self.kind(self.said, code=self.code)  # type: ignore[call-arg]

    @classmethod
    def of(cls, error: Exception, partition: int, chunk: int) -> "Fault":
        """An exception as a fault."""
        return cls(partition, chunk, type(error), str(error), getattr(error, "code", None))


@dataclass(frozen=True)
class Columns:
    """Which columns of the events are what: first the ids, one or two, and then the category, if there is one."""

    ids: int
    categorised: bool
    skip_outside: bool

    def add(self, gathered: Any, batch: "pa.RecordBatch", universe: Any) -> None:
        """Gather the slots of a record batch; raise what is wrong with it."""
        missing = sum(column.null_count for column in batch.columns)
        if missing:
            what = "id or category" if self.categorised else "id"
            raise InvalidValue(
                f"a row has no {what} (null); skip_missing=True leaves such rows out; nothing was changed",
                code="missing-value",
            )
        ids: Any = batch.column(0) if self.ids == 1 else tuple(batch.columns[: self.ids])
        categories = batch.column(self.ids) if self.categorised else None
        if self.skip_outside:
            with Scratch() as scratch:
                gathered.add(*self._inside(ids, categories, universe, scratch))
        else:
            gathered.add(ids, categories)

    def _inside(self, ids: Any, categories: Any, universe: Any, scratch: Scratch) -> tuple[Any, Any]:
        """The rows whose user is in the universe."""
        wanted = mask_inside(universe, ids, scratch)
        chosen = None if categories is None else chosen_rows(categories, wanted, scratch)
        return chosen_rows(ids, wanted, scratch), chosen


@dataclass(frozen=True)
class Tasks:
    """Which task of the second stage feeds which shards: a task costs more than the work that it has with one shard."""

    number: int
    shards: int

    def of(self, shard: int) -> int:
        """The task that feeds a shard."""
        return shard % self.number

    def shards_of(self, task: int) -> range:
        """The shards that a task feeds."""
        return range(task, self.shards, self.number)


def make_sets(
    folder: "StateFolder", columns: Columns, tasks: Tasks, partition: int, batches: Iterator["pa.RecordBatch"]
) -> Iterator["pa.RecordBatch"]:
    """The sets of slots that one partition of the events touches, one for each shard."""
    fault: Fault | None = None
    with folder.gather() as gathered:
        for chunk, batch in enumerate(batches):
            if fault is None:  # else all that is left is read, for the worker to be ready for another task
                try:
                    columns.add(gathered, batch, folder.universe)
                except (PanPrivacyError, ValueError, TypeError) as error:
                    fault = Fault.of(error, partition, chunk)
        if fault is not None:
            yield from (_row(task, None, fault.packed()) for task in range(tasks.number))
        else:
            for shard in range(tasks.shards):
                # Sent before the next is asked for, and wiped where the block ends.
                yield _row(tasks.of(shard), gathered.packed(shard), None)


def take_sets(
    folder: "StateFolder", batch: Any, tasks: Tasks, task: int, batches: Iterator["pa.RecordBatch"]
) -> Iterator["pa.RecordBatch"]:
    """Let the shards of one task take their sets, or none of them if there is a fault anywhere."""
    import pyarrow as pa

    faults: list[bytes] = []
    shards = tasks.shards_of(task)
    with folder.receive(shards, batch=batch) as received:
        for rows in batches:
            faults.extend(fault.as_py() for fault in rows.column(2) if fault.is_valid)
            for slots in rows.column(1):
                if slots.is_valid:
                    received.add(slots.as_buffer())
        first = Fault.first(faults)
        if first is None:
            try:
                received.take()
            except LateBatch as error:  # the driver does not read the answer of an attempt that it gave up
                first = Fault.of(error, task, 0)
    yield pa.record_batch(
        [pa.array([len(shards)], pa.int32()), pa.array([first and first.packed()], pa.binary())], ["shards", "fault"]
    )


def _row(task: int, slots: Any, fault: bytes | None) -> "pa.RecordBatch":
    """A row of `SETS`, its slots where they are."""
    import pyarrow as pa

    held = pa.array([None], pa.binary())
    if slots is not None:
        ends = pa.py_buffer(_OFFSETS.pack(0, len(slots)))
        held = pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(slots)])
    return pa.record_batch(
        [pa.array([task], pa.int32()), held, pa.array([fault], pa.binary())], ["task", "slots", "fault"]
    )
