"""From a DataFrame to a state folder: two stages, and a shuffle of sets between them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from panprivacy.errors import PanPrivacyError
from panprivacy.folder import StateFolder
from panprivacy.spark.session import check_session
from panprivacy.spark.sets import SETS, TAKEN, Columns, Fault, Tasks, make_sets, take_sets

if TYPE_CHECKING:
    import pyarrow as pa


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

    Every id is looked up before the first shard is changed. If one is none, the error names the first of them, in the
    order of Spark's partitions, and the folder is as it was.

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
        Leave out rows without an id, or whose user is not in the universe; nobody is told how many they were.
    unlisted
        What becomes of rows in no listed category: ``"refuse"`` refuses the batch, ``"skip"`` leaves them out.
    allow_plain_shuffle
        Take a session that leaves on the disks of the executors, in plain files, who was in a batch.
    """
    if frame.isStreaming:
        raise TypeError("this DataFrame is a stream: feed it with stream(frame, column, folder)")
    opened = folder if isinstance(folder, StateFolder) else StateFolder(folder)
    with Feeding(
        frame.sparkSession,
        opened,
        column,
        category,
        skip_missing=skip_missing,
        skip_outside=skip_outside,
        unlisted=unlisted,
        allow_plain_shuffle=allow_plain_shuffle,
    ) as feeding:
        feeding.take(frame, batch)


def release(folder: StateFolder | str | Path, level: float = 0.95, **options: Any) -> Any:
    """Spend one planned release on an estimate from all shards, as `StateFolder.release` does: it takes no Spark."""
    return (folder if isinstance(folder, StateFolder) else StateFolder(folder)).release(level, **options)


class Feeding:
    """Feeds DataFrames of the same columns to one folder, which the executors open where they are."""

    def __init__(
        self,
        session: Any,
        folder: StateFolder,
        column: Any,
        category: Any,
        *,
        skip_missing: bool,
        skip_outside: bool,
        unlisted: str,
        allow_plain_shuffle: bool,
    ) -> None:
        check_session(session, allow_plain_shuffle=allow_plain_shuffle)
        if unlisted not in ("skip", "refuse"):
            raise ValueError(f"unlisted is 'skip' or 'refuse', got {unlisted!r}")
        ids = list(column) if isinstance(column, Sequence) and not isinstance(column, str) else [column]
        self._names = ids if category is None else [*ids, category]
        self._columns = Columns(len(ids), category is not None, skip_outside)
        self._skip_missing = skip_missing
        categories: Any = None if category is None or unlisted == "refuse" else folder.categories
        self._listed = None if categories is None or categories.other else list(categories.labels)
        self._folder = folder
        self._tasks = Tasks(min(folder.shards, session.sparkContext.defaultParallelism), folder.shards)
        self._shared = session.sparkContext.broadcast(folder)  # a list of users is sent once, not with every task

    def __enter__(self) -> "Feeding":
        return self

    def __exit__(self, *_: object) -> None:
        self._shared.destroy()

    def take(self, frame: Any, batch: tuple[str, int] | None) -> None:
        """Feed one batch; raise what is wrong with its first bad id, if there is one."""
        if batch is None and not self._folder.repeatable:
            raise PanPrivacyError(
                "Spark may run a task twice, and counters would move twice: say which batch it is, as in "
                "update(frame, column, folder, batch=('writer', 1))"
            )
        self._folder.check_batch(batch)
        columns, shared, tasks = self._columns, self._shared, self._tasks

        def sets(batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
            from pyspark import TaskContext

            return make_sets(shared.value, columns, tasks, TaskContext.get().partitionId(), batches)

        def taken(batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
            from pyspark import TaskContext

            return take_sets(shared.value, batch, tasks, TaskContext.get().partitionId(), batches)

        events = frame.select(*self._names)
        if self._listed is not None:
            events = events.filter(events[len(self._names) - 1].isin(self._listed))
        if self._skip_missing:
            events = events.dropna()
        moved = events.mapInArrow(sets, SETS).repartitionById(tasks.number, "task")
        rows = moved.mapInArrow(taken, TAKEN).collect()
        fault = Fault.first(row.fault for row in rows if row.fault is not None)
        if fault is not None:
            raise fault.error()
        assert sum(row.shards for row in rows) == tasks.shards, "Spark has run every task of the second stage"
