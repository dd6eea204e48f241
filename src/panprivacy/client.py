"""A counter of `panprivacy serve`, used by a program as if it were an estimator of its own."""

import io
import json
import secrets
import ssl
import threading
import time
from array import array
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from panprivacy.checks import check_level
from panprivacy.display import Tabular
from panprivacy.errors import BudgetExhausted, InvalidValue, OutsideUniverse, PanPrivacyError, ServiceUnavailable
from panprivacy.ingest.batch import ProblemType, Refused
from panprivacy.urls import is_loopback

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

    from panprivacy.estimates.release import AnyRelease

_ARROW = "application/vnd.apache.arrow.stream"
_LATER = (408, 429, 500, 503, 507)  # statuses of requests that were not served, and may be later
_LONGEST_PAUSE = 10.0  # seconds
_PROBLEMS = {each.slug: each for each in ProblemType}
_LOST = (
    "the connection broke, and this counter counts appearances: whether the body was counted is not known, and sending "
    "it again could count it twice"
)


class Client:
    """Feed a counter of a service, and read its releases, with the verbs of an estimator.

    ``est = pp.Client("https://counts.example.org/counters/flu", token)`` takes the place of
    ``est = pp.Density(...)``. `update` gathers users until there are `batch` of them; `update_many` sends them at once.
    Both return when the service has them on disk, so a program is no faster than the service. `flush` sends the rows
    gathered, as `release`, `close` and the end of a `with` block do.

    A request that the service cannot serve now is sent again, later each time or when the service asks for it, for
    `patience` seconds; then `ServiceUnavailable` is raised. Users that are counted twice count once. A counter of kind
    `counts` is different: if a connection breaks before the answer, its body is not sent again. A release is asked for
    with a key, so that it is spent once however often it is asked for.

    The token needs the role `feed` to feed, `read` for `last` and `budget`, `release` to release. Ids travel encrypted:
    an address that begins with ``http:`` must be of this machine. Gathered integers and bodies are overwritten when
    they are sent. What Python and Polars make of them on the way is freed: a process that was started hardened
    overwrites it.

    A batch is counted whole or not at all, if it fits into one body of the service: 64 MiB, unless its file says
    otherwise. Longer ones are cut.
    """

    def __init__(
        self,
        address: str,
        token: str | None = None,
        *,
        batch: int = 10_000,
        patience: float = 60.0,
        timeout: float = 60.0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname or "/counters/" not in parts.path:
            raise InvalidValue("an address is like https://HOST/counters/NAME", code="client-address")
        if parts.scheme == "http" and not is_loopback(parts.hostname):
            raise InvalidValue("ids would travel in the clear: use https", code="client-address")
        self._path = parts.path.rstrip("/")
        self._headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._batch, self._patience = batch, patience
        self._gathered: Any = []
        self._alike = (False, False)  # whether those gathered are integers, and whether they are removed
        self._status: dict[str, Any] | None = None
        self._lock = threading.RLock()
        self._connection: HTTPConnection
        if parts.scheme == "http":
            self._connection = HTTPConnection(parts.hostname, parts.port, timeout=timeout)
        else:
            trusted = context or ssl.create_default_context()
            self._connection = HTTPSConnection(parts.hostname, parts.port, timeout=timeout, context=trusted)

    # --- feeding ------------------------------------------------------------------------------------------------

    def update(self, user: Any, category: Any = None) -> None:
        """Note that a user appeared; sent with others."""
        self._gather(user, category, False)

    def remove(self, user: Any, category: Any = None) -> None:
        """Note that a user was deleted; sent with others."""
        self._gather(user, category, True)

    def update_many(self, ids: Any, categories: Any = None, *, times: Any = None) -> None:
        """Note that these users appeared; `times` are for a counter that has a column of times."""
        self._send_many(ids, categories, times, False)

    def remove_many(self, ids: Any, categories: Any = None, *, times: Any = None) -> None:
        """Note that these users were deleted."""
        self._send_many(ids, categories, times, True)

    def flush(self) -> None:
        """Send what `update` and `remove` have gathered."""
        with self._lock:
            users, self._gathered = self._gathered, []
            try:
                if users:
                    self._send(self._frame(users), self._alike[1])
            finally:
                if isinstance(users, array):
                    users[:] = array("q", bytes(8 * len(users)))
                else:
                    users.clear()

    def _gather(self, user: Any, category: Any, delete: bool) -> None:
        if category is not None:
            self._send_many([user], [category], None, delete)
            return
        with self._lock:
            alike = (isinstance(user, int), delete)
            if alike != self._alike:
                self.flush()  # the later of an insertion and a deletion stays the last
            if not self._gathered:
                self._gathered, self._alike = array("q") if alike[0] else [], alike
            self._gathered.append(user)
            if len(self._gathered) >= self._batch:
                self.flush()

    def _send_many(self, ids: Any, categories: Any, times: Any, delete: bool) -> None:
        with self._lock:
            self.flush()
            if isinstance(ids, Iterator):
                while part := list(islice(ids, self._batch)):
                    self._send(self._frame(part), delete)
            else:
                self._send(self._frame(ids, categories, times), delete)

    def _frame(self, ids: Any, categories: Any = None, times: Any = None) -> Any:
        """A frame with the columns that the counter reads."""
        import numpy as np
        import polars as pl

        names = self._about["columns"]
        columns = (
            dict(zip(names["ids"], ids if isinstance(ids, tuple) else np.asarray(ids).T, strict=True))
            if len(names["ids"]) == 2
            else {names["ids"][0]: np.frombuffer(ids, dtype=np.int64) if isinstance(ids, array) else ids}
        )
        for name, given in (("category", categories), ("time", times)):
            if given is not None and names[name] is None:
                raise InvalidValue(f"this counter has no column of a {name}", code="client-column")
            if given is not None:
                columns[names[name]] = given
        return pl.DataFrame({name: pl.Series(name, each) for name, each in columns.items()})

    def _send(self, frame: Any, delete: bool) -> None:
        """Send rows as one body, or in halves if that is too long."""
        import polars as pl

        if not len(frame):
            return
        out = io.BytesIO()
        frame.write_ipc_stream(out, compat_level=pl.CompatLevel.oldest())
        with out.getbuffer() as body:
            try:
                self._ask("POST", f"/events?action={'delete' if delete else 'insert'}", body, {"content-type": _ARROW})
            except Refused as refused:
                if refused.type is not ProblemType.too_large or len(frame) == 1:
                    raise
            else:
                return
            finally:
                body[:] = bytes(len(body))
        half = len(frame) // 2
        self._send(frame[:half], delete)
        self._send(frame[half:], delete)

    @property
    def _about(self) -> dict[str, Any]:
        """What does not change about the counter."""
        if self._status is None:
            self._status = self.status
        return self._status

    # --- releases -----------------------------------------------------------------------------------------------

    def release(self, level: float | None = None) -> "ServedRelease":
        """Send the gathered rows, and spend one planned release; the counter's own level, unless one is given."""
        body = b"" if level is None else json.dumps({"level": check_level(level)}).encode()
        with self._lock:
            self.flush()
            return ServedRelease(self._ask("POST", "/releases", body, {"idempotency-key": secrets.token_hex(16)}))

    @property
    def last(self) -> "ServedRelease | None":
        """The last release again, at no cost; None before the first."""
        found = self.status["last"]
        return None if found is None else ServedRelease(found)

    @property
    def budget(self) -> SimpleNamespace:
        """The budget as the service tells it: `epsilon`, `spent`, `releases_left` and more."""
        return SimpleNamespace(**self.status["budget"])

    @property
    def releases_left(self) -> int | None:
        """How many planned releases are left."""
        left: int | None = self.status["budget"]["releases_left"]
        return left

    @property
    def status(self) -> dict[str, Any]:
        """What the service tells of the counter, at no cost; less without the role `read`."""
        found: dict[str, Any] = self._ask("GET", "", b"", {})
        return found

    def close(self) -> None:
        """Send the gathered rows, and hang up."""
        with self._lock:
            try:
                self.flush()
            finally:
                self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- requests -----------------------------------------------------------------------------------------------

    def _ask(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Any:
        """Ask until the request is served, refused for good, or `patience` is at an end."""
        with self._lock:
            end, pause = time.monotonic() + self._patience, 0.1
            while True:
                status, said, wait = None, b"", 0.0  # if no answer comes
                try:
                    self._connection.request(method, self._path + path, body or None, self._headers | headers)
                    answer = self._connection.getresponse()
                    said, asked = answer.read(), answer.headers.get("retry-after", "")
                    status, wait = answer.status, float(asked) if asked.isdecimal() else 0.0
                except (OSError, HTTPException):
                    self._connection.close()
                if status is not None and status < 300:
                    return json.loads(said) if said else None
                if status is not None and status not in _LATER:
                    raise _error(status, said)
                if status is None and path.startswith("/events") and not self._about.get("repeatable", True):
                    raise ServiceUnavailable(_LOST, code="unacknowledged")
                pause = min(2 * pause, _LONGEST_PAUSE)
                wait = max(wait, pause / 2 + secrets.randbelow(1000) * pause / 2000)  # not all clients at once
                if time.monotonic() + wait > end:
                    raise ServiceUnavailable(f"the service did not serve this within {self._patience:g} s")
                time.sleep(wait)


class ServedRelease(SimpleNamespace, Tabular):
    """A release that a service has published: the fields of the estimator's release, such as `density`.

    Besides, `id` is its number in the list of the service, `at` its time, `period` its period, if it has one.
    """

    def __init__(self, record: dict[str, Any]) -> None:
        fields = {name: _plain(value) for name, value in record["release"].items()}
        super().__init__(**fields | {name: record[name] for name in ("id", "at", "period", "mostly_noise")})
        self._fields: dict[str, Any] = record["release"]

    def to_dict(self) -> dict[str, Any]:
        """All fields of the estimator's release."""
        return dict(self._fields)

    def to_polars(self) -> "pl.DataFrame":
        """The frame of the estimator's release."""
        return _released(self._fields).to_polars()

    def plot(self, path: str | Path | None = None, *, ax: "Axes | None" = None) -> "Axes":
        """Draw the release, and return Matplotlib's axes; with a path also into a file."""
        return _released(self._fields).plot(path, ax=ax)


def _released(found: dict[str, Any]) -> "AnyRelease":
    """The release of the library that has these fields; of a release by category, its categories have them."""
    from panprivacy.estimates import CountRelease, FrequencyRelease, Release
    from panprivacy.estimates.actives import ActivesRelease
    from panprivacy.estimates.retention import RetentionRelease
    from panprivacy.estimators.continual import Observation

    row = found if "groups" not in found or "universe" in found else found["groups"][0]
    kinds: dict[str, type[AnyRelease]] = {  # by a field that only they have
        "active": ActivesRelease,
        "cohort": RetentionRelease,
        "up_to": FrequencyRelease,
        "moves_left": Observation,
    }
    kind = next((kind for name, kind in kinds.items() if name in row), None)
    first = next(name for name in row if name != "group")
    return (kind or (Release if first == "density" else CountRelease)).from_dict(found)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return SimpleNamespace(**{name: _plain(each) for name, each in value.items()})
    return tuple(map(_plain, value)) if isinstance(value, list) else value


def _error(status: int, said: bytes) -> PanPrivacyError:
    """The error that problem details stand for."""
    try:
        problem: Any = json.loads(said)
        slug, row = problem["type"].partition("#")[2], problem.get("row")
        told = problem.get("detail") or problem["title"]
    except (ValueError, KeyError, TypeError, AttributeError):  # no problem details: a proxy has answered
        return PanPrivacyError(f"the service answered with status {status}", code="service-refused")
    known = {"outside-universe": OutsideUniverse, "budget-spent": BudgetExhausted}
    if slug in known:
        return known[slug](f"row {row}: {told}" if row else told)
    if slug in _PROBLEMS:
        return Refused(_PROBLEMS[slug], told, row=row)
    return PanPrivacyError(told, code=slug or "service-refused")
