"""The releases of a counter: one line of a file for each, which can be read again at no cost."""

import json
import os
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any

from panprivacy.display import finite
from panprivacy.errors import CorruptState
from panprivacy.estimates import AnyRelease
from panprivacy.state.disk import open_own, write_all

Record = dict[str, Any]
"""One release as it is published."""


class ReleaseLog:
    """All releases of one counter, in order, on disk before they are shown; the last one is in memory, too.

    A line that a crash has cut short is taken off when the file is opened. The state itself knows the release, so the
    counter publishes it again.
    """

    def __init__(self, path: Path, *, mend: bool = True) -> None:
        self._path = path
        self._ends: list[int] = []  # where each line ends
        self._listeners: list[Callable[[Record], None]] = []
        self.last: Record | None = None
        """The last release; None before the first."""
        if path.is_symlink() or path.exists():
            handle = open_own(path, os.O_RDWR if mend else os.O_RDONLY, beside=False)
            with os.fdopen(handle, "r+b" if mend else "rb") as file:
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    self._note(line, self._checked(line))
                if mend:
                    file.truncate(self._size)

    def _checked(self, line: bytes) -> Record:
        try:
            record = json.loads(line)
            if record["id"] == len(self) + 1 and {"at", "period", "release"} <= set(record):
                found: Record = record
                return found
        except (ValueError, RecursionError, TypeError, KeyError):
            pass
        raise CorruptState(f"{self._path}: line {len(self) + 1} is damaged; mend it", code="release-log-damaged")

    def _note(self, line: bytes, record: Record) -> None:
        self._ends.append(self._size + len(line))
        self.last = record

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def _size(self) -> int:
        return self._ends[-1] if self._ends else 0

    @property
    def records(self) -> list[Record]:
        """All releases."""
        return [json.loads(line) for line in self.lines(0, self._size)]

    def lines(self, since: int, most: int) -> list[bytes]:
        """Releases after the one with this id, as JSON: at least one if there is one, and at most this many bytes."""
        ends = self._ends
        start = ends[since - 1] if 0 < since <= len(ends) else 0
        last = max(bisect_right(ends, start + most), since + 1)
        if since >= len(ends):
            return []
        handle = open_own(self._path, os.O_RDONLY, beside=False)
        try:
            return os.pread(handle, ends[min(last, len(ends)) - 1] - start, start).splitlines()
        finally:
            os.close(handle)

    def listen(self, listener: Callable[[Record], None]) -> None:
        """Call a function with each release that is published from now on, in the thread that publishes it."""
        self._listeners.append(listener)

    def publish(self, record: Record) -> None:
        """Write a release to the file."""
        line = (json.dumps(record, separators=(",", ":")) + "\n").encode()
        handle = open_own(self._path, os.O_WRONLY | os.O_CREAT, beside=False)
        try:
            try:
                write_all(handle, memoryview(line), self._size)
                os.fsync(handle)
            except OSError:
                os.ftruncate(handle, self._size)
                raise
        finally:
            os.close(handle)
        self._note(line, record)

    def tell(self, record: Record) -> None:
        """Call the listeners."""
        for listener in self._listeners:
            listener(record)


def record_of(number: int, released: AnyRelease, at: str, period: dict[str, Any] | None) -> Record:
    """A release as it is published: its values in one shape whatever the estimator, and the fields of the library."""
    plain = released.to_dict()
    groups = [{"group": row.group, "values": row.values(), "mostly_noise": row.mostly_noise} for row in released.groups]
    record = {
        "id": number,
        "at": at,
        "period": period,
        "level": plain["level"],
        "values": released.values(),
        "groups": groups,
        "epsilon_spent": plain["epsilon_spent"],
        "delta_spent": plain["delta_spent"],
        "mostly_noise": released.mostly_noise,
        "release": plain,
    }
    found: Record = json.loads(json.dumps(finite(record)))  # as the file has it
    return found
