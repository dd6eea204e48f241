"""Public files beside the state of a counter: settings that cannot change, and the list of its releases."""

import hmac
import json
import os
import secrets
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from panprivacy.display import finite
from panprivacy.errors import CorruptState
from panprivacy.estimates import AnyRelease
from panprivacy.settings import InvalidSettings
from panprivacy.state.disk import open_own, replace_file, write_all

_MOST_REQUESTS = 64  # whose releases are found again by the keys of their senders
_OCTETS = 16  # of a key, and of a digest
_LATEST = 2**53  # microseconds: the year 2255
_LOST = (
    "counters.{name}: its state {state} is missing, and with it what it has spent; a new one would spend the budget "
    "again: put the file back, or give the counter another name. If the loss is known, --initialize starts it anew, "
    "once, and sets its list of releases aside"
)
_SHORTER = (
    "counters.{name}: its list of releases has {listed} of the {number} that were published: put the file back. If the "
    "loss is known, --initialize goes on once without them; what they have spent stays spent"
)


class ReleaseUnderWay(BaseModel):
    """A release that was begun: when, for which period, its number, and the hash of the request that asked for it."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    at: str
    period: dict[str, Any] | None
    number: int
    request: str | None


class PinnedSettings(BaseModel):
    """The settings of one counter that cannot change, when it was made, and which release is under way: all public.

    A release is noted here, without its value, before the state books it. So after a crash the time and the period are
    known of a release that the state has and that was never shown.
    """

    model_config = ConfigDict(strict=True, extra="allow")

    promise: dict[str, Any]
    begun: int = Field(ge=0, lt=_LATEST)
    """When the counter was made."""
    made: bool = False
    """Whether it has a state."""
    under_way: ReleaseUnderWay | None = None
    """The last release that was begun; None before the first."""
    requests: list[tuple[str, int]] = []
    """Hashes of requests, and the numbers of their releases."""
    secret: str = Field(default="", pattern="^([0-9a-f]{2})*$")
    _path: Path = PrivateAttr()

    @classmethod
    def of(cls, path: Path) -> Self:
        """What a file holds; nothing is promised without one."""
        found = cls(promise={}, begun=0)
        if path.exists():
            try:
                found = cls.model_validate_json(path.read_bytes())
            except ValidationError:
                raise CorruptState(
                    f"{path} is damaged, which holds the promises of the counter: put it back", code="promise-damaged"
                ) from None
        found._path = path
        return found

    def check(self, state: Path, asked: dict[str, Any], listed: int = 0) -> None:
        """Refuse settings that differ from the kept ones, and to go on without the state of a counter that has one.

        A new state would have the whole budget again. `listed` is how many releases are published. A crash may leave a
        promise without a state that was never made.
        """
        name, given = state.stem, self.promise or asked
        wrong = [
            f"counters.{name}.{key}: the running counter has {_said(given, key)}, and the file says {_said(asked, key)}"
            for key in sorted({*given, *asked})
            if given.get(key) != asked.get(key)
        ]
        if wrong:
            advice = "a promise cannot change: put it back, or give the counter another name"
            raise InvalidSettings([f"{each}; {advice}" for each in wrong])
        if not state.exists() and (listed or self.under_way or self.made):
            raise InvalidSettings([_LOST.format(name=name, state=state)])
        if state.exists() and not self.promise:
            missing = f"counters.{name}: {self._path} is missing, which says what {state} promised: put it back"
            raise InvalidSettings([missing])

    def check_list(self, name: str, listed: int, *, accept: bool = False) -> bool:
        """Refuse a list that lacks releases which were published; the last one may have been on its way.

        With `accept`, go on with it, and forget the requests for them. Returns whether it lacked any.
        """
        last = self.under_way
        if last is None or listed >= last.number - 1:
            return False
        if not accept:
            raise InvalidSettings([_SHORTER.format(name=name, listed=listed, number=last.number - 1)])
        under_way = last.model_copy(update={"number": listed + 1, "request": None})
        self.write(under_way=under_way, requests=[])
        return True

    def note_release(self, at: str, period: dict[str, Any] | None, number: int, request: str | None = None) -> None:
        """Note that the release of this number is under way, and for which request (`request_of`)."""
        last, requests = self.under_way, self.requests
        if last and last.request and last.number < number:
            requests = [*requests, (last.request, last.number)][-_MOST_REQUESTS:]
        under_way = ReleaseUnderWay(at=at, period=period, number=number, request=request)
        self.write(under_way=under_way, requests=requests)

    def request_of(self, key: str) -> str:
        """The hash of a request's key, under a secret of this counter; the key itself is not kept."""
        if not self.secret:
            self.write(secret=secrets.token_hex(_OCTETS))
        return hmac.digest(bytes.fromhex(self.secret), key.encode(), "sha256")[:_OCTETS].hex()

    def release_of(self, request: str) -> int | None:
        """The number of the release that a request has spent, or was about to; None if it is not known."""
        last = self.under_way
        if last and last.request == request:
            return last.number
        return dict(self.requests).get(request)

    def write(self, **changed: Any) -> None:
        """Write it with these changes, which are made if the disk takes them."""
        known = self.model_copy(update=changed).model_dump(exclude_unset=True)
        replace_file(self._path, json.dumps(known).encode())
        for key, value in changed.items():
            setattr(self, key, value)


def _said(promise: dict[str, Any], key: str) -> str:
    return repr(promise[key]) if key in promise else "nothing"


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
        self.listeners: list[Callable[[], object]] = []
        """Are called after each release, in the thread that publishes it."""
        self.last: Record | None = None
        """The last release; None before the first."""
        if path.is_symlink() or path.exists():
            handle = open_own(path, os.O_RDWR if mend else os.O_RDONLY, beside=False)
            with os.fdopen(handle, "r+b" if mend else "rb") as file:
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    try:
                        record = json.loads(line)
                        is_whole = record["id"] == len(self) + 1 and {"at", "period", "release"} <= set(record)
                    except (ValueError, RecursionError, TypeError, KeyError):
                        is_whole = False
                    if not is_whole:
                        told = f"{path}: line {len(self) + 1} is damaged; mend it"
                        raise CorruptState(told, code="release-log-damaged")
                    self._note(line, record)
                if mend:
                    file.truncate(self._size)

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

    def publish(self, record: Record) -> None:
        """Write a release to the file."""
        line = (json.dumps(record, separators=(",", ":")) + "\n").encode()
        handle = open_own(self._path, os.O_WRONLY | os.O_CREAT, beside=False)
        try:
            write_all(handle, memoryview(line), self._size)
            os.fsync(handle)
        except OSError:
            os.ftruncate(handle, self._size)
            raise
        finally:
            os.close(handle)
        self._note(line, record)


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
