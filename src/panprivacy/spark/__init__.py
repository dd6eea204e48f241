"""Spark: feed a state folder from a DataFrame or a stream, on as many machines as there are.

    from panprivacy import spark as pps

    folder = pp.StateFolder.create("/shared/flu", universe=10**9, epsilon=1.0, releases=52)
    pps.update(spark.read.parquet("/events"), "user", folder)
    pps.stream(spark.readStream.schema(schema).parquet("/events"), "user", folder, every="1 minute")
    pps.release(folder).density

The bits stay in the folder. Spark moves, for every partition of the events and every shard of the folder, the set of
slots that are touched; its state store, which keeps old versions, has no part in it. `docs/how-to/spark.md` says how to
set a cluster up, and what an intruder finds on which disk.
"""

from panprivacy.spark.feeding import release, stream, update

__all__ = ["release", "stream", "update"]
