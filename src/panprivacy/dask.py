"""Dask: feed a state folder from a DataFrame, partition by partition, on as many machines as there are.

    from panprivacy.dask import update

    folder = pp.StateFolder.create("/shared/flu", universe=10**9, epsilon=1.0, releases=52)
    update(dask.dataframe.read_parquet("/events"), "user", folder)
    folder.release().density

A first task for each partition looks ids up, and makes a packed set of slots for each shard. A second task for each
shard takes the sets of all partitions: so every id is looked up before a shard is changed.
"""

from typing import Any

from panprivacy.errors import NotPrivate, PanPrivacyError
from panprivacy.folder import StateFolder


def update(
    frame: Any,
    column: str | tuple[str, str],
    folder: StateFolder,
    *,
    category: str | None = None,
    batch: tuple[str, int] | None = None,
    skip_outside: bool = False,
    allow_plain_spill: bool = False,
) -> None:
    """Note in a state folder that the users of a Dask DataFrame appeared; when this returns, that is on disk.

    `column` names the ids, two of them where users are edges, and `category` the categories. A `Counts` needs `batch`,
    the name of a writer and a number that rises, since Dask may run a task twice. A cluster whose workers spill to disk
    is refused, unless ``allow_plain_spill=True`` says that readers of those disks may know who is in a batch.
    """
    import dask

    if batch is None and not folder.repeatable:
        raise PanPrivacyError(
            "Dask may run a task twice, and counters would move twice: say which batch it is, as in batch=('tills', 1)",
            code="batch-needed",
        )
    if not allow_plain_spill:
        _check_spilling()
    folder.check_batch(batch)

    def sets_of(part: Any) -> list[bytes]:
        with folder.gather() as gathered:
            gathered.add(part, category, column=column, skip_outside=skip_outside)
            return [gathered.packed(number).tobytes() for number in range(folder.shards)]

    sets = [dask.delayed(sets_of, pure=False, nout=folder.shards)(part) for part in frame.to_delayed()]
    take = dask.delayed(folder.take, pure=False)
    dask.compute([take(number, [each[number] for each in sets], batch=batch) for number in range(folder.shards)])


def _check_spilling() -> None:
    """Refuse workers that would write sets of slots to plain files."""
    import dask

    try:
        from distributed import get_client

        # Either one makes a worker write to disk, at that share of its memory.
        keys = [f"distributed.worker.memory.{each}" for each in ("target", "spill")]
        settings = get_client().run(lambda: any(dask.config.get(key, False) for key in keys)).values()
    except (ImportError, ValueError):  # no cluster: threads or processes of this machine, which spill nothing
        return
    if any(settings):
        raise NotPrivate(
            "workers of this cluster spill to disk, which would leave there who is in a batch. Start them with "
            "DASK_DISTRIBUTED__WORKER__MEMORY__TARGET=False and DASK_DISTRIBUTED__WORKER__MEMORY__SPILL=False, or say "
            "allow_plain_spill=True, if readers may know",
            code="plain-spill",
        )
