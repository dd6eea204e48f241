"""A process that saves, loads and serialises a state, version after version, and then holds still to be searched.

Run as ``python saving.py FOLDER WAY PLANT``; every version is left in FOLDER as a file of its own, for the searcher.
"""

import os
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np

import panprivacy as pp
from panprivacy.state import StateFile, journal

USERS, VERSIONS = 400_000, 4


def main(folder: Path, way: str, plant: str) -> None:
    """Go through the versions, and wait."""
    copies: list[object] = []
    if plant == "kept":  # a copy of what is written, which is not used again by chance before we look
        write_all = journal.write_all  # type: ignore[attr-defined]

        def copied(handle: int, buffer: memoryview, at: int) -> None:
            copies.append(bytes(buffer))
            write_all(handle, buffer, at)

        journal.write_all = copied  # type: ignore[attr-defined]
    est, everyone, path = pp.Density(USERS, epsilon=1.0), np.arange(USERS), folder / "flu.pp"
    with ExitStack() as held:
        kept = held.enter_context(StateFile(path).locked()) if way == "kept" else None
        for number in range(VERSIONS):
            est.update_many(everyone)
            est.save(kept or path)
            if kept is None:
                est = pp.load(path)
            _copy(path, folder / f"version{number}")
        est.update_many(everyone)  # one more, which is nowhere but in memory
        print("ready", flush=True)
        sys.stdin.read()


def _copy(path: Path, to: Path) -> None:
    """By the kernel: nothing of it comes through this process."""
    source, target = os.open(path, os.O_RDONLY), os.open(to, os.O_WRONLY | os.O_CREAT)
    os.copy_file_range(source, target, os.fstat(source).st_size)
    os.close(source)
    os.close(target)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
