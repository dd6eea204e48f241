"""Public files beside the state of a counter: settings that cannot change, and the list of its releases."""

import hmac
import json
import os
import re
import secrets
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any

from panprivacy.display import finite
from panprivacy.errors import CorruptState, PanPrivacyError
from panprivacy.estimates import AnyRelease
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


class PinnedSettingsChanged(PanPrivacyError):
    """The file changes settings of a running counter that cannot change."""


class PinnedSettings:
    """The settings of one counter that cannot change, when it was made, and which release is under way: all public.

    A release is noted here, without its value, before the state books it. So after a crash the time and the period are
    known of a release that the state has and that was never shown.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, Any] = {}
        if path.exists():
            try:
                found = json.loads(path.read_bytes())
            except (ValueError, RecursionError):
                found = None
            if not _is_whole(found):
                raise CorruptState(
                    f"{path} is damaged, which holds the promises of the counter: put it back", code="promise-damaged"
                )
            self._known = found

    @property
    def begun(self) -> int:
        """When the counter was made."""
        return int(self._known["begun"])

    @property
    def under_way(self) -> dict[str, Any] | None:
        """The time and the period of the last release that was begun."""
        found: dict[str, Any] | None = self._known.get("under_way")
        return found

    def check(self, name: str, asked: dict[str, Any]) -> None:
        """Refuse settings that differ from the kept ones, by the names of their keys."""
        given = self._known.get("promise", asked)
        wrong = [
            f"counters.{name}.{key}: the running counter has {_said(given, key)}, and the file says {_said(asked, key)}"
            for key in sorted({*given, *asked})
            if given.get(key) != asked.get(key)
        ]
        if wrong:
            advice = "a promise cannot change: put it back, or give the counter another name"
            raise PinnedSettingsChanged("\n".join(f"{each}; {advice}" for each in wrong))

    def check_state(self, state: Path, listed: int) -> None:
        """Refuse to go on without the state of a counter that has one: a new state would have the whole budget again.

        `listed` is how many releases are published. A crash may leave a promise without a state that was never made.
        """
        if not state.exists() and (listed or self.under_way or "made" in self._known):
            raise PinnedSettingsChanged(_LOST.format(name=state.stem, state=state))
        if state.exists() and "promise" not in self._known:
            raise PinnedSettingsChanged(
                f"counters.{state.stem}: {self._path} is missing, which says what {state} promised: put it back"
            )

    def check_list(self, name: str, listed: int) -> None:
        """Refuse a list that lacks releases which were published; the last one may have been on its way."""
        if self._lacks(listed):
            raise PinnedSettingsChanged(_SHORTER.format(name=name, listed=listed, number=self._begun_releases - 1))

    def accept_list(self, listed: int) -> bool:
        """Go on with a list that lacks releases, and forget the requests for them; False if it lacks none."""
        if not self._lacks(listed):
            return False
        under_way = (self.under_way or {}) | {"number": listed + 1, "request": None}
        self._write(self._known | {"under_way": under_way, "requests": []})
        return True

    def _lacks(self, listed: int) -> bool:
        return listed < self._begun_releases - 1

    @property
    def _begun_releases(self) -> int:
        """How many releases were begun, by the file; older files do not say."""
        return int((self.under_way or {}).get("number", 0))

    def make(self, promise: dict[str, Any], moment: int) -> None:
        """Note the promise of a new counter."""
        self._write({"promise": promise, "begun": moment})

    def note_made(self) -> None:
        """Note that the counter has a state from now on."""
        if "made" not in self._known:
            self._write(self._known | {"made": True})

    def note_release(self, at: str, period: dict[str, Any] | None, number: int, request: str | None = None) -> None:
        """Note that the release of this number is under way, and for which request (`request_of`)."""
        last, requests = self.under_way or {}, self._known.get("requests", [])
        if last.get("request") and last["number"] < number:
            requests = [*requests, [last["request"], last["number"]]][-_MOST_REQUESTS:]
        under_way = {"at": at, "period": period, "number": number, "request": request}
        self._write(self._known | {"under_way": under_way, "requests": requests})

    def request_of(self, key: str) -> str:
        """The hash of a request's key, under a secret of this counter; the key itself is not kept."""
        if "secret" not in self._known:
            self._write(self._known | {"secret": secrets.token_hex(_OCTETS)})
        digest = hmac.digest(bytes.fromhex(self._known["secret"]), key.encode(), "sha256")
        return digest[:_OCTETS].hex()

    def release_of(self, request: str) -> int | None:
        """The number of the release that a request has spent, or was about to; None if it is not known."""
        last = self.under_way or {}
        known = [*self._known.get("requests", []), [last.get("request"), last.get("number")]]
        return next((number for each, number in reversed(known) if each == request), None)

    def write_again(self) -> None:
        """Write the same once more: a disk without room for it has none for a release."""
        self._write(self._known)

    def _write(self, known: dict[str, Any]) -> None:
        replace_file(self._path, json.dumps(known).encode())
        self._known = known


def _is_whole(found: Any) -> bool:
    """Whether a file has the keys that are read from it."""
    return (
        isinstance(found, dict)
        and isinstance(found.get("promise"), dict)
        and isinstance(found.get("begun"), int)
        and 0 <= found["begun"] < _LATEST
        and _is_release(found.get("under_way", {}))
        and isinstance(found.get("requests", []), list)
        and all(_is_request(each) for each in found.get("requests", []))
        and re.fullmatch("([0-9a-f]{2})*", str(found.get("secret", ""))) is not None
    )


def _is_release(found: Any) -> bool:
    """Whether a release that is under way has a time, a period and a number, as far as older files say them."""
    return (
        isinstance(found, dict)
        and isinstance(found.get("at", ""), str)
        and isinstance(found.get("period"), dict | None)
        and isinstance(found.get("number", 0), int)
        and isinstance(found.get("request"), str | None)
    )


def _is_request(found: Any) -> bool:
    return isinstance(found, list) and [type(each) for each in found] == [str, int]


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
