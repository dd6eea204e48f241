"""Spark: feed a state folder from a DataFrame or a stream, on as many machines as there are.

    from panprivacy import spark as pps

    folder = pp.StateFolder.create("/shared/flu", universe=10**9, epsilon=1.0, releases=52)
    pps.update(spark.read.parquet("/events"), "user", folder)
    pps.stream(spark.readStream.schema(schema).parquet("/events"), "user", folder, every="1 minute")
    pps.release(folder).density

The bits stay in the folder. Spark moves, for every partition of the events and every shard of the folder, the set of
slots that are touched; its state store, which keeps old versions, has no part in it. `docs/how-to/spark.md` says how to
set a cluster up, and what an intruder finds on which disk.

**Two stages, with a shuffle between them.** The first stage turns each partition of events into a set of slots for each
shard, and changes nothing. The second stage feeds the shards. If the first stage finds a bad id, it sends the error to
all tasks of the second, instead of the sets. A task of the second stage reads everything that was sent to it before it
changes its shards: so every task knows of every bad id before anything changes.

The shuffled sets say who is in a batch. So the session must encrypt them on disk, and delete them after the batch.
"""

import pickle
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from panprivacy.errors import InvalidType, InvalidValue, NotPrivate, PanPrivacyError
from panprivacy.folder import StateFolder
from panprivacy.folder.shards import LateBatch
from panprivacy.memory.scratch import Scratch
from panprivacy.universe.columns import chosen_rows
from panprivacy.universe.strangers import mask_inside

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["release", "stream", "update"]

SETS = "task int, slots binary, fault binary"
"""What the first stage makes: a set of slots for a shard, which a task feeds, or the error in the events."""

TAKEN = "shards int, fault binary"
"""What each task of the second makes: how many shards have taken the batch, or why none has."""


_OFFSETS = struct.Struct("=ii")  # where the one set of an Arrow column begins, and where it ends


class Fault(NamedTuple):
    """The error in the events, and where it was found: the first of two is the lesser."""

    partition: int
    chunk: int
    kind: type[Exception]
    said: str
    code: str | None = None

    @classmethod
    def packed(cls, error: Exception, partition: int, chunk: int) -> bytes:
        """An exception as the bytes of a fault."""
        return pickle.dumps(cls(partition, chunk, type(error), str(error), getattr(error, "code", None)))

    @classmethod
    def first(cls, packed: Iterable[bytes]) -> "Fault | None":
        """The first of some that were packed; None if there is none."""
        return min(map(pickle.loads, packed), key=lambda fault: fault[:2], default=None)

    def error(self) -> Exception:
        """It as an exception, for the driver to raise."""
        return self.kind(self.said) if self.code is None else self.kind(self.said, code=self.code)  # type: ignore[call-arg]


@dataclass(frozen=True)
class Columns:
    """Which columns of the events are what: first the ids, one or two, and then the category, if there is one."""

    ids: int
    categorised: bool
    skip_outside: bool

    def add(self, gathered: Any, batch: "pa.RecordBatch", universe: Any) -> None:
        """Gather the slots of a record batch; raise its error."""
        missing = sum(column.null_count for column in batch.columns)
        if missing:
            what = "id or category" if self.categorised else "id"
            raise InvalidValue(
                f"a row has no {what} (null); skip_missing=True leaves such rows out; nothing was changed",
                code="missing-value",
            )
        ids: Any = batch.column(0) if self.ids == 1 else tuple(batch.columns[: self.ids])
        categories = batch.column(self.ids) if self.categorised else None
        with Scratch() as scratch:
            if self.skip_outside:
                inside = mask_inside(universe, ids, scratch)
                ids = chosen_rows(ids, inside, scratch)
                categories = None if categories is None else chosen_rows(categories, inside, scratch)
            gathered.add(ids, categories)


def make_sets(
    folder: "StateFolder", columns: Columns, tasks: int, partition: int, batches: Iterator["pa.RecordBatch"]
) -> Iterator["pa.RecordBatch"]:
    """The sets of slots that one partition of the events touches, one for each shard.

    A task of the second stage feeds several shards, since a task costs more than the work that it has with one.
    """
    fault: bytes | None = None
    with folder.gather() as gathered:
        for chunk, batch in enumerate(batches):
            if fault is None:  # else all that is left is read, for the worker to be ready for another task
                try:
                    columns.add(gathered, batch, folder.universe)
                except (PanPrivacyError, ValueError, TypeError) as error:
                    fault = Fault.packed(error, partition, chunk)
        if fault is not None:
            yield from (_row(task, None, fault) for task in range(tasks))
        else:
            for shard in range(folder.shards):
                # Sent before the next is asked for, and wiped where the block ends.
                yield _row(shard % tasks, gathered.packed(shard), None)


def take_sets(
    folder: "StateFolder", batch: Any, tasks: int, task: int, batches: Iterator["pa.RecordBatch"]
) -> Iterator["pa.RecordBatch"]:
    """Let the shards of one task take their sets, or none of them if there is a fault anywhere."""
    import pyarrow as pa

    faults: list[bytes] = []
    shards = range(task, folder.shards, tasks)
    with folder.receive(shards, batch=batch) as received:
        for rows in batches:
            faults.extend(fault.as_py() for fault in rows.column(2) if fault.is_valid)
            for slots in rows.column(1):
                if slots.is_valid:
                    received.add(slots.as_buffer())
        if not faults:
            try:
                received.take()
            except LateBatch as error:  # the driver does not read the answer of an attempt that it gave up
                faults = [Fault.packed(error, task, 0)]
    first = None if not faults else pickle.dumps(Fault.first(faults))
    yield pa.record_batch([pa.array([len(shards)], pa.int32()), pa.array([first], pa.binary())], ["shards", "fault"])


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


NEEDED = {
    "spark.io.encryption.enabled": "shuffled and spilled data is encrypted on disk, under a key that no disk has",
    "spark.sql.classic.shuffleDependency.fileCleanup.enabled": "shuffle files are deleted when a batch is done",
}
"""The settings that have to be true, and what each of them does."""

_USUAL = {
    "spark.shuffle.manager": ("sort", "tungsten-sort", "org.apache.spark.shuffle.sort.SortShuffleManager"),
    "spark.shuffle.sort.io.plugin.class": ("org.apache.spark.shuffle.sort.io.LocalDiskShuffleDataIO",),
}
"""The writers of shuffle files that are known to encrypt; the first of each is the default."""


def check_session(session: Any, *, allow_plain_shuffle: bool) -> None:
    """Refuse a session that would leave the slots of a batch in plain files, and say which settings to add."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise PanPrivacyError(
            "a Spark Connect session does not say how its server keeps shuffle files: run this where the driver runs",
            code="spark-connect",
        )
    if allow_plain_shuffle:
        return
    lacking = [name for name in NEEDED if session.conf.get(name, "false").lower() != "true"]
    if lacking:
        settings = "".join(f'\n    .config("{name}", "true")  # {NEEDED[name]}' for name in lacking)
        raise NotPrivate(
            f"this session would leave on disk who is in a batch. Build it with{settings}\n"
            "or say allow_plain_shuffle=True, if readers of these disks may know",
            code="plain-shuffle",
        )
    for name, known in _USUAL.items():
        other = session.conf.get(name, known[0])
        if other not in known:
            raise NotPrivate(
                f"{name} is {other}, which may write without encryption: use the default, or say "
                "allow_plain_shuffle=True if it encrypts, or if readers of its files may know who is in a batch",
                code="plain-shuffle",
            )


def update(
    frame: Any,
    column: Any,
    folder: StateFolder | str | Path,
    *,
    category: Any = None,
    batch: tuple[str, int] | None = None,
    skip_missing: bool = False,
    skip_outside: bool = False,
    unlisted: str = "refuse",
    allow_plain_shuffle: bool = False,
) -> None:
    """Note in a state folder that the users of a DataFrame appeared; when this returns, that is on disk.

    Every id is looked up before the first shard is changed. If an id is not in the universe, the error names the first
    such id, in the order of Spark's partitions, and the folder is as it was.

    Parameters
    ----------
    frame
        A batch DataFrame. It is read once.
    column
        The name of its column of ids, or that column; two of them, in a list, where users are edges.
    folder
        The state folder of a `Density`, a `DistinctCount` or a `Counts`, or its URL. Every executor has to reach it.
    category
        The column of categories, where events are in categories.
    batch
        Which batch it is: the name of a writer and a number that rises. A `Counts` needs it, since Spark runs tasks
        more than once; so do you, if you feed the batch again after the driver has died.
    skip_missing, skip_outside
        Leave out rows without an id, or whose user is not in the universe. Their number is not told.
    unlisted
        What becomes of rows in no listed category: ``"refuse"`` refuses the batch, ``"skip"`` leaves them out.
    allow_plain_shuffle
        Take a session that leaves on the disks of the executors, in plain files, who was in a batch.
    """
    if frame.isStreaming:
        raise InvalidType("this DataFrame is a stream: feed it with stream(frame, column, folder)", code="spark-stream")
    session, opened = frame.sparkSession, _opened(folder)
    check_session(session, allow_plain_shuffle=allow_plain_shuffle)
    feeding = Feeding(session, opened, column, category, unlisted=unlisted, nulls=skip_missing, outside=skip_outside)
    with feeding:
        feeding.take(frame, batch)


def release(folder: StateFolder | str | Path, level: float = 0.95, **options: Any) -> Any:
    """Spend one planned release on an estimate from all shards, as `StateFolder.release` does: it takes no Spark."""
    return _opened(folder).release(level, **options)


def _opened(folder: StateFolder | str | Path) -> StateFolder:
    return folder if isinstance(folder, StateFolder) else StateFolder(folder)


class _AsBytes:
    """A folder that is pickled into plain bytes, and is the folder itself where it is unpickled.

    With encryption switched on, PySpark cannot send the buffers into which NumPy pickles the arrays of a long list.
    """

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (pickle.dumps(self._folder),)


class Feeding:
    """Feeds DataFrames of the same columns to one folder, which the executors open where they are."""

    def __init__(
        self, spark: Any, folder: StateFolder, column: Any, category: Any, *, unlisted: str, nulls: bool, outside: bool
    ) -> None:
        """Rows with nulls, or of users outside the universe, are left out if `nulls` or `outside` says so."""
        if unlisted not in ("skip", "refuse"):
            raise InvalidValue(f"unlisted is 'skip' or 'refuse', got {unlisted!r}", code="unlisted")
        ids = list(column) if isinstance(column, Sequence) and not isinstance(column, str) else [column]
        self._names = ids if category is None else [*ids, category]
        self._columns = Columns(len(ids), category is not None, outside)
        self._skip_missing = nulls
        categories: Any = None if category is None or unlisted == "refuse" else folder.categories
        self._listed = None if categories is None or categories.other else list(categories.labels)
        self._folder = folder
        self._tasks = min(folder.shards, spark.sparkContext.defaultParallelism)
        self._shared = spark.sparkContext.broadcast(_AsBytes(folder))  # once, and not with every task

    def __enter__(self) -> "Feeding":
        return self

    def __exit__(self, *_: object) -> None:
        self._shared.destroy()

    def take(self, frame: Any, batch: tuple[str, int] | None) -> None:
        """Feed one batch; raise the error of its first bad id, if there is one."""
        if batch is None and not self._folder.repeatable:
            raise PanPrivacyError(
                "Spark may run a task twice, and counters would move twice: say which batch it is, as in "
                "update(frame, column, folder, batch=('writer', 1))",
                code="batch-needed",
            )
        self._folder.check_batch(batch)
        columns, shared, tasks = self._columns, self._shared, self._tasks

        def partition() -> int:
            from pyspark import TaskContext

            number: int = TaskContext.get().partitionId()
            return number

        def sets(batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
            return make_sets(shared.value, columns, tasks, partition(), batches)

        def taken(batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
            return take_sets(shared.value, batch, tasks, partition(), batches)

        events = frame.select(*self._names)
        if self._listed is not None:
            events = events.filter(events[len(self._names) - 1].isin(self._listed))
        if self._skip_missing:
            events = events.dropna()
        moved = events.mapInArrow(sets, SETS).repartitionById(tasks, "task")
        rows = moved.mapInArrow(taken, TAKEN).collect()
        fault = Fault.first(row.fault for row in rows if row.fault is not None)
        if fault is not None:
            raise fault.error()
        assert sum(row.shards for row in rows) == self._folder.shards, "Spark has run every task of the second stage"


def stream(
    frame: Any,
    column: Any,
    folder: StateFolder | str | Path,
    every: str | None = "1 minute",
    *,
    category: Any = None,
    checkpoint: str | Path | None = None,
    skip_missing: bool = False,
    skip_outside: bool = False,
    unlisted: str = "skip",
    allow_plain_shuffle: bool = False,
) -> Any:
    """Keep noting in a state folder which users of a streaming DataFrame appear, and return Spark's `StreamingQuery`.

    A query that is started again with its checkpoint goes on where the last one ended, however that ended: a batch
    that broke off is fed again, which does a `Density` or a `DistinctCount` no harm, and shards of a `Counts` that have
    it leave it. A bad id ends the query, with the folder as it was before that batch: see `update`. A row in no listed
    category is left out, unless ``unlisted="refuse"`` says that it ends the query.

    Parameters
    ----------
    every
        How often what has come is fed: each time costs one write of every shard. None feeds all that is there, and
        ends the query.
    checkpoint
        Where Spark notes what it has read: offsets and names of files, and no ids. Without one a query that is started
        again reads everything again, so a `Counts` needs one.
    """
    if not frame.isStreaming:
        cause = "this DataFrame is no stream: feed it with update(frame, column, folder)"
        raise InvalidType(cause, code="spark-no-stream")
    session, opened = frame.sparkSession, _opened(folder)
    if not (opened.repeatable or checkpoint or session.conf.get("spark.sql.streaming.checkpointLocation", None)):
        raise PanPrivacyError(
            "a stream of counters that is started again must know what it has read: say checkpoint='/some/folder'",
            code="checkpoint-needed",
        )
    check_session(session, allow_plain_shuffle=allow_plain_shuffle)
    feeding = Feeding(session, opened, column, category, unlisted=unlisted, nulls=skip_missing, outside=skip_outside)

    def take(events: Any, number: int) -> None:
        # The id of a query is in its checkpoint. One that starts without has another, and numbers batches from 0.
        query = events.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        feeding.take(events, None if opened.repeatable else (f"spark {query}", number))

    writing = frame.writeStream.foreachBatch(take)
    writing = writing.trigger(availableNow=True) if every is None else writing.trigger(processingTime=every)
    if checkpoint is not None:
        writing = writing.option("checkpointLocation", str(checkpoint))
    return writing.start()
