"""Files of events in every format, and estimators that show exactly who is in them."""

import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import panprivacy as pp
from panprivacy.estimators.base import Estimator
from panprivacy.ingest import Columns, Kind, read
from panprivacy.ingest.feed import BatchFeeder
from panprivacy.ingest.files import zstd_module
from panprivacy.privacy.coins import ONE
from panprivacy.testing import table_of
from sources import Scripted

SUFFIXES = [
    ".csv",
    ".tsv",
    ".ndjson",
    ".jsonl",
    ".csv.gz",
    ".csv.zst",
    ".ndjson.gz",
    ".ndjson.zst",
    ".parquet",
    ".arrow",
    ".feather",
]


def write(frame: pl.DataFrame, path: Path) -> Path:
    """Write a frame in the format that the name tells."""
    name = path.name
    if name.endswith(".parquet"):
        frame.write_parquet(path)
    elif name.endswith((".arrow", ".feather")):
        frame.write_ipc(path, compression="zstd" if name.endswith(".feather") else "uncompressed")
    else:
        tabs = "\t" if ".tsv" in name else ","
        text = frame.write_csv(separator=tabs) if ".csv" in name or ".tsv" in name else frame.write_ndjson()
        path.write_bytes(_packed(text.encode(), path.suffix))
    return path


def _packed(data: bytes, suffix: str) -> bytes:
    if suffix == ".gz":
        return gzip.compress(data)
    return zstd_module().compress(data) if suffix == ".zst" else data


def arrow_stream(*frames: pl.DataFrame) -> bytes:
    """An Arrow stream with a record batch for each frame."""
    streams = []
    for frame in frames:
        frame.write_ipc_stream(stream := io.BytesIO())
        streams.append(stream.getvalue()[:-8])  # without the mark of the end
    schema = arrow_schema(frames[0])
    return schema + b"".join(stream[len(schema) :] for stream in streams) + b"\xff\xff\xff\xff\0\0\0\0"


def arrow_schema(frame: pl.DataFrame) -> bytes:
    """The message that an Arrow stream of such frames begins with."""
    frame.clear().write_ipc_stream(stream := io.BytesIO())
    data = stream.getvalue()
    return data[: 8 + int.from_bytes(data[4:8], "little")]


def revealing(universe: Any) -> pp.Density:
    """A Density without privacy: its bit is 1 if and only if its user appeared and was not deleted since."""
    return pp.Density(universe, epsilon=1.0, coins=Scripted(lambda threshold, n: np.full(n, threshold > ONE // 2)))


def seen(est: pp.Density) -> set[int]:
    """Who is in a revealing estimator."""
    return set(np.flatnonzero(table_of(est).bits(0, table_of(est).size)).tolist())


def fed(est: Estimator[Any], files: list[Path] | Path, columns: Columns | None = None, **options: Any) -> None:
    """Feed whole files to an estimator."""
    columns = columns or Columns(("user",), Kind.integers)
    skip = options.pop("skip_missing", False)
    feed = BatchFeeder(est, columns, skip_missing=skip)
    for batch in read([str(file) for file in (files if isinstance(files, list) else [files])], columns, **options):
        feed.take(batch)
