"""Apache Beam: feed a state folder from a bounded collection of ids, on any runner.

    from panprivacy.beam import update

    folder = pp.StateFolder.create("/shared/flu", universe=10**9, epsilon=1.0, releases=52)
    with beam.Pipeline() as pipeline:
        rows = pipeline | beam.io.ReadFromParquet("/events", columns=["user"])
        update(rows | beam.Map(lambda row: row["user"]), folder)
    folder.release().density

Ids become packed sets of slots, one for each shard. Sets are grouped by shard, and each shard takes its own. A runner
keeps what it groups, in memory or on disk: take one whose disks may know who is in a batch, or are encrypted.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from panprivacy.errors import PanPrivacyError
from panprivacy.folder import StateFolder

_FEWEST, _MOST = 1_000, 100_000  # ids that are looked up at a time


def update(ids: Any, folder: StateFolder, *, batch: tuple[str, int] | None = None, skip_outside: bool = False) -> Any:
    """Note in a state folder that the users of a collection appeared: when the pipeline ends, that is on disk.

    The collection is bounded. An id outside the universe fails the pipeline before a shard is changed, where the runner
    makes all sets before it groups them. A `Counts` needs `batch`, the name of a writer and a number that rises, since
    a runner may do its work twice. Returned are the numbers of the shards that have taken the batch.
    """
    import apache_beam as beam

    if batch is None and not folder.repeatable:
        raise PanPrivacyError(
            "Beam may do work twice, and counters would move twice: say which batch it is, as in batch=('tills', 1)",
            code="batch-needed",
        )
    folder.check_batch(batch)

    def sets_of(some: list[Any]) -> Iterator[tuple[int, bytes]]:
        with folder.gather() as gathered:
            gathered.add(some, skip_outside=skip_outside)
            for number in range(folder.shards):  # also if it is empty: every shard has to take the batch
                yield number, gathered.packed(number).tobytes()

    def take(shard: tuple[int, Iterable[bytes]]) -> int:
        folder.take(shard[0], shard[1], batch=batch)
        return shard[0]

    batches = ids | "some ids" >> beam.BatchElements(min_batch_size=_FEWEST, max_batch_size=_MOST)
    return batches | "sets" >> beam.FlatMap(sets_of) | "by shard" >> beam.GroupByKey() | "take" >> beam.Map(take)
