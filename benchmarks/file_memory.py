"""How much memory `panprivacy density` takes for a large file of each format.

    python benchmarks/file_memory.py --gigabytes 10       # needs pip install '.[bench]' and as much disk

The peak is that of the whole process: Python, its libraries and mapped pages of the file included.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from rich.console import Console
from rich.table import Table

USERS = 10_000_000
ROWS = 1_000_000  # at a time


def rows(generator: np.random.Generator) -> pa.Table:
    """Some events: who, and something that does not compress."""
    return pa.table({"user": generator.integers(0, USERS, ROWS), "other": generator.integers(0, 2**62, ROWS)})


def write(path: Path, size: int) -> int:
    """Write a file of at least this many bytes; how many rows it has."""
    open_writer: dict[str, Callable[[pa.Schema], object]] = {
        ".parquet": lambda schema: pyarrow.parquet.ParquetWriter(path, schema, compression="zstd"),
        ".arrow": lambda schema: pa.ipc.new_file(path, schema),
        ".csv": lambda schema: pyarrow.csv.CSVWriter(path, schema),
    }
    generator, written = np.random.default_rng(1), 0
    table = rows(generator)
    writer: object = open_writer[path.suffix](table.schema)
    with writer:  # type: ignore[attr-defined]
        while not path.exists() or path.stat().st_size < size:
            writer.write_table(table)  # type: ignore[attr-defined]
            written += ROWS
            table = rows(generator)
    return written


def peak(path: Path) -> int:
    """The largest memory of the command, in bytes; a process of its own, so that no other is measured."""
    command = f"""
import resource, subprocess, sys
words = ["density", {str(path)!r}, "--column", "user", "--universe", "{USERS}", "--epsilon", "1", "--quiet"]
code = "from panprivacy.cli import app; app()"
subprocess.run([sys.executable, "-c", code, *words], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""
    return int(subprocess.run([sys.executable, "-c", command], check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Read the options and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=10.0)
    parser.add_argument("--folder", default=None, help="where the files go for the time being")
    options = parser.parse_args()
    table = Table("file", "bytes", "rows", "peak memory")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for suffix in (".parquet", ".arrow", ".csv"):
            path = Path(folder) / f"events{suffix}"
            count = write(path, int(options.gigabytes * 1e9))
            size, memory = path.stat().st_size, peak(path)
            path.unlink()
            table.add_row(path.name, f"{size / 1e9:.1f} GB", f"{count:,}", f"{memory / 1e6:.0f} MB")
    Console().print(table)


if __name__ == "__main__":
    main()
