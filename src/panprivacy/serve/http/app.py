"""The routes of the service, its metrics, and the files of its page.

The files, with Plotly's script, are in memory once and are sent in short pieces, so that slow readers cost little.
"""

import asyncio
import gzip
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import datetime
from functools import cache
from hashlib import sha256
from html import escape
from importlib.util import find_spec
from mimetypes import guess_type
from pathlib import Path
from threading import Lock
from typing import Any, cast

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from panprivacy import __version__
from panprivacy.ingest.batch import ProblemType, Refused
from panprivacy.serve.counter import Counter
from panprivacy.serve.http.bodies import receive_body
from panprivacy.serve.http.context import AppContext
from panprivacy.serve.http.guard import Guard, refused_by_router
from panprivacy.serve.http.openapi import Level, description
from panprivacy.serve.http.stream import EventStream, seen_by
from panprivacy.serve.memory import resident

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SHARES = (0.5, 0.99)
_MINUTE = 60.0
_MEMORY = 64 * 2**20  # bytes to which memory is rounded up: as many as a body has by default
_FILES = 64
_OF_COUNTER: dict[str, tuple[str, Callable[[dict[str, Any]], float | None]]] = {
    "epsilon": ("Promised epsilon.", lambda one: one["budget"]["epsilon"]),
    "epsilon_spent": ("Epsilon that is spent.", lambda one: one["budget"]["spent"]),
    "releases_left": ("Planned releases that are left.", lambda one: one["budget"]["releases_left"]),
    "releases": ("Releases that are published.", lambda one: one["last"]["id"] if one["last"] else 0),
}
_LAG = "Messages that wait at the broker of a counter, looked at once a minute: 0, or 1000, 10000 and so on."
_NEXT = "When the clock ends the open period."
_REFUSED = "Refusals of senders in the last full hour: 0, or 100, 1000 and so on."


def _family(
    name: str, meaning: str, rows: Iterable[tuple[Any, ...]], *labels: str, kind: type[Metric] = GaugeMetricFamily
) -> Metric:
    """A metric; rows are its values, each behind the values of its labels. None is left out."""
    family: Any = kind(f"panprivacy_{name}", meaning, labels=labels)  # type: ignore[call-arg]
    for *labelled, value in rows:
        if value is not None:
            family.add_metric([str(each) for each in labelled], value)
    return cast("Metric", family)


class Metrics(Collector):
    """Metrics for Prometheus: versions, budgets, releases, readers, what is ready, and how large the process is.

    No body changes them. Memory and open files are looked at once a minute, and rounded up to as much as a body may
    have; refusals of senders in the last hour, and messages that wait at a broker, are told in powers of ten.

    Differential privacy does not hide how many events come, and when. But where one person's day is one event, a graph
    of them is a diary, and durations and queues tell of single bodies, too. `count_events = true` adds all of these;
    without it, none of them is even measured.
    """

    def __init__(self, context: AppContext) -> None:
        self._context = context
        self._looked_at: float | None = None
        self._size: list[Metric] = []

    def collect(self) -> Iterator[Metric]:
        """All metrics, as Prometheus asks a collector."""
        context, service = self._context, self._context.service
        statuses = {name: counter.status for name, counter in service.counters.items()}
        yield InfoMetricFamily("panprivacy_build", "Version of the service.", value={"version": __version__})
        yield _family("start_time_seconds", "When the service was started.", [(context.started,)])
        yield _family("stream_readers", "Readers of event streams.", [(context.notifier.readers,)])
        for name, (meaning, value) in _OF_COUNTER.items():
            yield _family(name, meaning, [(each, value(status)) for each, status in statuses.items()], "counter")
        for kind, states in service.states.items():
            one = kind.removesuffix("s")
            meaning = f"Whether the {one} does what it should; /ready says why not."
            yield _family(
                f"{one}_ready", meaning, [(name, state.is_ready) for name, state in states.items()], "counter"
            )
        yield _family(
            "source_lag_messages", _LAG, [(name, one.lag) for name, one in service.sources.items()], "counter"
        )
        due = [
            (name, datetime.fromisoformat(status["next"]).timestamp())
            for name, status in statuses.items()
            if status["next"] is not None and status["schedule"]["by"] == "clock"
        ]
        yield _family("next_release_time_seconds", _NEXT, due, "counter")
        yield _family("refused_last_hour", _REFUSED, context.answers.last_hour().items(), "status")
        yield from self._process()
        if context.settings.count_events:
            yield from self._events()

    def _process(self) -> Iterator[Metric]:
        """The size of the process, looked at once a minute."""
        import resource

        now = time.monotonic()
        if self._looked_at is None or now - self._looked_at > _MINUTE:
            self._looked_at, files = now, Path("/proc/self/fd")
            opened = sum(1 for _ in files.iterdir()) if files.is_dir() else 0
            allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            memory, files_ = -(-resident() // _MEMORY) * _MEMORY, -(-opened // _FILES) * _FILES
            told = f"Memory of the process, rounded up to {_MEMORY >> 20} MiB."
            self._size = [
                _family("memory_bytes", told, [(memory,)]),
                _family("open_files", f"Open files and connections, rounded up to {_FILES}.", [(files_,)]),
                _family("open_files_limit", "How many files may be open.", [(allowed,)]),
            ]
        yield from self._size
        if self._context.memory.most is not None:
            yield _family("memory_limit_bytes", "limits.memory.", [(self._context.memory.most,)])

    def _events(self) -> Iterator[Metric]:
        """What tells of single bodies."""
        context, counters = self._context, self._context.service.counters.values()
        yield _family("waiting_bytes", "Bytes of bodies that are not counted yet.", [(context.quota.taken,)])
        waiting = [(each.name, each.worker.queue) for each in counters]
        yield _family("queue", "Requests that wait to be counted.", waiting, "counter")
        lately = context.answers.quantiles(*_SHARES)
        yield _family("duration_seconds", "Quantiles of the last requests of a route.", lately, "route", "quantile")
        totals = sorted(context.answers.totals.items())
        yield _family("responses", "Answers by status.", totals, "status", kind=CounterMetricFamily)
        for name in ("rows", "batches"):
            counted = [(each.name, each.events[name]) for each in counters if each.events]
            meaning = f"Number of {name} that were counted."
            yield _family(name, meaning, counted, "counter", kind=CounterMetricFamily)


STATIC = Path(__file__).parent.parent / "static"
"""What the page is made of."""
_PIECE = 2**15  # bytes that are handed to a connection at a time
_PLOTLY = "plotly.min.js"
_reading = Lock()


class SharedResponse(Response):
    """An answer whose bytes many connections share. A piece is sent when the reader has taken the one before.

    Other connections get their turn in between, also if the system takes many pieces at once.
    """

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answer, as ASGI has it."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        body = memoryview(self.body)
        for at in range(0, 0 if scope["method"] == "HEAD" else len(body), _PIECE):
            await send({"type": "http.response.body", "body": bytes(body[at : at + _PIECE]), "more_body": True})
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class Asset:
    """A file as it is sent: plain, or packed, or not at all to a browser that has it."""

    def __init__(self, plain: bytes, media_type: str) -> None:
        self._plain, self._packed, self._media_type = plain, gzip.compress(plain), media_type
        self._tag = f'"{sha256(plain).hexdigest()[:32]}"'

    def answer(self, request: Request) -> Response:
        """Answer a request for it."""
        headers = {"etag": self._tag, "vary": "accept-encoding"}
        if request.headers.get("if-none-match") == self._tag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["content-encoding"] = "gzip"
            return SharedResponse(self._packed, headers=headers, media_type=self._media_type)
        return SharedResponse(self._plain, headers=headers, media_type=self._media_type)


@cache
def _read(path: Path) -> Asset:
    return Asset(path.read_bytes(), guess_type(path.name)[0] or "application/octet-stream")


def _read_once(path: Path) -> Asset:
    """Read and pack a file in the thread that asks first, while the others wait: it takes long."""
    with _reading:
        return _read(path)


@cache
def static_files() -> dict[str, Asset]:
    """All files of the page, by name."""
    return {path.name: _read(path) for path in STATIC.iterdir() if path.is_file()}


@cache
def _openapi() -> Asset:
    return Asset(json.dumps(description()).encode(), "application/json")


@cache
def script_path() -> Path | None:
    """Where Plotly's script is; None if Plotly is not installed. The package itself is not loaded."""
    found = find_spec("plotly")
    if found is None or not found.submodule_search_locations:
        return None
    path = Path(found.submodule_search_locations[0], "package_data", _PLOTLY)
    return path if path.is_file() else None


# --- routes -----------------------------------------------------------------------------------------------------------


_LONGEST_KEY = 255
_FOR_FEEDERS = ("name", "title", "kind", "columns", "repeatable", "retired")
_PAGE = 2**20  # bytes of releases in one answer
_PROBLEM_ROWS = "".join(
    f'<tr id="{each.slug}"><td><code>{each.slug}</code><td>{each.status}<td>{escape(each.title)}'
    for each in ProblemType
)
_PROBLEMS_PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Problems</title>'
    f"<h1>What this service refuses</h1><table><tr><th>type<th>status<th>meaning{_PROBLEM_ROWS}</table>"
)


def make_app(context: AppContext) -> Starlette:
    """The application of a service."""
    routes = _Routes(context)
    return Starlette(
        routes=[
            Route("/", routes.public(static_files()["index.html"].answer)),
            Route("/counters", routes.counters),
            Route("/counters/{name}", routes.counter),
            Route("/counters/{name}/events", routes.events, methods=["POST"]),
            Route("/counters/{name}/layout", routes.layout),
            Route("/counters/{name}/releases", routes.releases, methods=["GET", "POST"]),
            Route("/counters/{name}/stream", routes.stream),
            Route("/stream", routes.stream),
            Route("/live", routes.public(lambda _: JSONResponse({"status": "live"}))),
            Route("/ready", routes.ready),
            Route("/health", routes.public(routes.health)),
            Route("/metrics", routes.metrics),
            Route("/openapi.json", routes.public(lambda request: _openapi().answer(request))),
            Route("/problems", routes.public(lambda _: Response(_PROBLEMS_PAGE, media_type="text/html"))),
            Route("/static/{file}", routes.static),
        ],
        middleware=[Middleware(Guard, context=context)],
        exception_handlers={HTTPException: routes.unknown},
    )


class _Routes:
    def __init__(self, context: AppContext) -> None:
        self._context = context
        self._metrics = Metrics(context)

    # --- counters -----------------------------------------------------------------------------------------------

    def _counter(self, request: Request, role: str, *known: str) -> Counter:
        """The counter that a request is about, if its sender has this role, and its parameters are known ones."""
        name = str(request.path_params["name"])
        self._context.access(request).require(role, name)
        _refuse_unknown(request, *known)
        return self._context.service.counter(name)

    async def counters(self, request: Request) -> Response:
        access, service = self._context.access(request), self._context.service
        names = access.readable(service.counters)
        _refuse_unknown(request)
        counters = [service.counter(name).status for name in names]
        return JSONResponse({"counters": counters, "damaged": access.readable(service.damaged), "may": access.roles})

    async def counter(self, request: Request) -> Response:
        access, name = self._context.access(request), str(request.path_params["name"])
        if not access.may("feed", name):
            access.require("read", name)
        _refuse_unknown(request)
        status = self._context.service.counter(name).status
        if not access.may("read", name):  # a feeder is told what to send, and nothing of releases
            status = {key: status[key] for key in _FOR_FEEDERS}
        return JSONResponse(status)

    async def events(self, request: Request) -> Response:
        """Count a body: answered when it is on disk."""
        counter = self._counter(request, "feed", "action")
        action = request.query_params.get("action", "insert")
        if action not in ("insert", "delete"):
            raise Refused(ProblemType.bad_request, "action is insert or delete")
        sender = self._context.sender(request)
        with self._context.quota.reserve(sender) as grow:
            body = await receive_body(request, self._context.limits, grow, delete=action == "delete")
            try:
                counted = counter.take(body, sender)
            except BaseException:
                body.wipe()
                raise
            await asyncio.shield(asyncio.wrap_future(counted))
        return Response(status_code=204)

    async def layout(self, request: Request) -> Response:
        """Tell a feeder which slot each user owns, so that it can send packed sets of slots."""
        layout = self._counter(request, "feed").layout()
        content = await asyncio.shield(asyncio.wrap_future(layout))
        return Response(content, media_type="application/octet-stream")

    async def releases(self, request: Request) -> Response:
        if request.method == "POST":
            return await self._release(request)
        log = self._counter(request, "read", "since").release_log
        since = request.query_params.get("since", "0")
        if not since.isdecimal() or len(since) > 9:
            raise Refused(ProblemType.bad_request, "since is the id of a release")
        lines = await run_in_threadpool(log.lines, int(since), _PAGE)
        more = b"true" if int(since) + len(lines) < len(log) else b"false"
        body = b'{"releases":[' + b",".join(lines) + b'],"more":' + more + b"}"
        return SharedResponse(body, media_type="application/json")

    async def _release(self, request: Request) -> Response:
        counter = self._counter(request, "release")
        try:
            async with asyncio.timeout(self._context.limits.seconds):
                level = await _level(request)
        except TimeoutError:
            raise Refused(ProblemType.slow) from None
        key = request.headers.get("idempotency-key")
        if key is not None and not 0 < len(key) <= _LONGEST_KEY:
            raise Refused(ProblemType.bad_request, f"Idempotency-Key has 1 to {_LONGEST_KEY} characters")
        return JSONResponse(await asyncio.shield(asyncio.wrap_future(counter.release(level, key))), 201)

    async def stream(self, request: Request) -> Any:
        if "name" in request.path_params:
            counters = [self._counter(request, "read")]
        else:
            names = self._context.access(request).readable(self._context.service.counters)
            counters = [self._context.service.counter(each) for each in names]
            _refuse_unknown(request)
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        return EventStream(self._context.notifier, counters, seen_by(request))

    # --- the service --------------------------------------------------------------------------------------------

    def public(self, answer: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
        """A route for everybody who does not ask too often."""

        async def route(request: Request) -> Response:
            self._context.limit(request)
            return answer(request)

        return route

    async def static(self, request: Request) -> Response:
        self._context.limit(request)
        name = str(request.path_params["file"])
        if name == _PLOTLY:
            path = script_path()
            if path is None:
                raise Refused(ProblemType.not_found, "charts need Plotly: pip install plotly")
            return (await run_in_threadpool(_read_once, path)).answer(request)
        if name not in static_files():
            raise Refused(ProblemType.not_found)
        return static_files()[name].answer(request)

    async def ready(self, request: Request) -> Response:
        """Tell anybody whether all is ready, and readers of metrics which parts are not."""
        access = self._context.access(request)
        states = self._context.service.states
        is_ready = all(one.is_ready for kind in states.values() for one in kind.values())
        told: dict[str, Any] = {"status": "ready" if is_ready else "not ready"}
        if access.may("metrics"):
            told |= {kind: {name: one.model_dump() for name, one in found.items()} for kind, found in states.items()}
        return JSONResponse(told, 200 if is_ready else 503)

    def health(self, _request: Request) -> Response:
        hardening = [
            {"measure": each.name, "in_force": each.in_force, "note": each.note}
            for each in self._context.hardening or ()
        ]
        states = self._context.service.states
        failing = [name for name, one in states["counters"].items() if not one.is_ready]
        failing += [name for name, one in states["sources"].items() if one.state == "stopped"]
        status = {"status": "failing" if failing else "ok", "failing": failing, "version": __version__}
        return JSONResponse(status | {"hardening": hardening}, 503 if failing else 200)

    async def metrics(self, request: Request) -> Response:
        self._context.access(request).require("metrics")
        return Response(generate_latest(self._metrics), media_type=METRICS_TYPE)

    async def unknown(self, request: Request, error: Exception) -> Response:
        self._context.limit(request)
        return await refused_by_router(request, error)


def _refuse_unknown(request: Request, *known: str) -> None:
    """Refuse parameters that are not known, or come twice: `?acton=delete` would insert."""
    names = [name for name, _ in request.query_params.multi_items()]
    if len(set(names)) < len(names) or not set(names) <= set(known):
        takes = f"only {' and '.join(known)}, once" if known else "none"
        raise Refused(ProblemType.bad_request, f"parameters that this address takes: {takes}")


async def _level(request: Request) -> float | None:
    """The level that the body of a request asks for; None if it asks for none."""
    given = b""
    async for chunk in request.stream():
        given += chunk
        if len(given) > 1000:
            raise Refused(ProblemType.too_large)
    if not given:
        return None
    try:
        asked = Level.model_validate_json(given, strict=True)
    except ValidationError:
        said = 'the body is nothing, or an object such as {"level": 0.95}, whose level is between 0 and 1'
        raise Refused(ProblemType.bad_request, said) from None
    return asked.level if "level" in asked.model_fields_set else None
