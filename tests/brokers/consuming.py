"""`panprivacy consume` as a process, and who it has counted."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from servers import until

import panprivacy as pp
from commands import start
from panprivacy.errors import PanPrivacyError
from panprivacy.testing import table_of

CERTAIN = 80
"""An epsilon with which a bit is what its user did, but for a probability of 2.4e-10, the least there is.

So the table is a list of who came, and a test that compares 4,000 users with it fails by chance once in a million runs.
"""


@contextmanager
def consuming(*arguments: str | int | Path, command: Sequence[str] = ()) -> Iterator[subprocess.Popen[bytes]]:
    """The command as a process, started in one of the ways of `commands`."""
    with start("consume", *arguments, command=command, stdin=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def counted(state: Path) -> list[int]:
    """The users whose bits are set, by a state that may be written just now."""
    try:
        est = pp.load(state) if state.exists() else None
    except PanPrivacyError:
        return []
    return [] if est is None else np.flatnonzero(table_of(est).bits(0, table_of(est).size)).tolist()


def wait_for(state: Path, users: int) -> None:
    """Wait until so many users are counted."""
    until(lambda: len(counted(state)) >= users, f"{users} users are counted")
