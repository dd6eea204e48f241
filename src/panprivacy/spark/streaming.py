"""From a stream of Structured Streaming to a state folder, one micro-batch after the other."""

from pathlib import Path
from typing import Any

from panprivacy.errors import PanPrivacyError
from panprivacy.folder import StateFolder
from panprivacy.spark.updating import Feeding


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
        raise TypeError("this DataFrame is no stream: feed it with update(frame, column, folder)")
    session, opened = frame.sparkSession, folder if isinstance(folder, StateFolder) else StateFolder(folder)
    if not (opened.repeatable or checkpoint or session.conf.get("spark.sql.streaming.checkpointLocation", None)):
        raise PanPrivacyError(
            "a stream of counters that is started again must know what it has read: say checkpoint='/some/folder'"
        )
    feeding = Feeding(
        session,
        opened,
        column,
        category,
        skip_missing=skip_missing,
        skip_outside=skip_outside,
        unlisted=unlisted,
        allow_plain_shuffle=allow_plain_shuffle,
    )

    def take(events: Any, number: int) -> None:
        # The id of a query is in its checkpoint. One that starts without has another, and numbers batches from 0.
        query = events.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        feeding.take(events, None if opened.repeatable else (f"spark {query}", number))

    writing = frame.writeStream.foreachBatch(take)
    writing = writing.trigger(availableNow=True) if every is None else writing.trigger(processingTime=every)
    if checkpoint is not None:
        writing = writing.option("checkpointLocation", str(checkpoint))
    return writing.start()
