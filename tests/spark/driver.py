"""A driver of its own, which feeds a stream of files to a folder and ends: ``python driver.py PLACE``."""

import sys
from pathlib import Path
from typing import Any

from sparks import built

import panprivacy as pp
from panprivacy import spark as pps
from panprivacy.testing import CertainCoins


def read_stream(session: Any, place: Path) -> Any:
    """Feed the files in `events`, one a batch, to the folder `folder`, and note that in `checkpoint`."""
    files = session.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).parquet(str(place / "events"))
    folder = pp.StateFolder(place / "folder", coins=CertainCoins())
    return pps.stream(files, "id", folder, every=None, checkpoint=place / "checkpoint")


if __name__ == "__main__":
    where = Path(sys.argv[1])
    read_stream(built("local[2]", where / "local"), where).awaitTermination()
