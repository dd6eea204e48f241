"""The routes."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from panprivacy import __version__
from panprivacy.serve.http.charts import plotly_script
from panprivacy.serve.http.desk import Desk
from panprivacy.serve.http.guard import Guard, refused_by_router
from panprivacy.serve.http.metrics import TYPE, Metrics
from panprivacy.serve.http.openapi import description
from panprivacy.serve.http.problems import PAGE_OF_PROBLEMS
from panprivacy.serve.http.reception import form_of, length_of, received
from panprivacy.serve.http.sites import Sites
from panprivacy.serve.http.stream import EventStream, seen_by
from panprivacy.serve.refusals import Refused, Why

_USUAL = 0.95

STATIC = Path(__file__).parent.parent / "static"
"""What the page is made of."""
_FILES = frozenset(str(path.relative_to(STATIC)) for path in STATIC.rglob("*") if path.is_file())


def make_app(desk: Desk) -> Starlette:
    """The application of a service."""
    routes = _Routes(desk)
    return Starlette(
        routes=[
            Route("/", routes.page, methods=["GET"]),
            Route("/counters", routes.counters, methods=["GET"]),
            Route("/counters/{name}", routes.counter, methods=["GET"]),
            Route("/counters/{name}/events", routes.events, methods=["POST"]),
            Route("/counters/{name}/releases", routes.releases, methods=["GET", "POST"]),
            Route("/counters/{name}/stream", routes.stream, methods=["GET"]),
            Route("/stream", routes.stream, methods=["GET"]),
            Route("/health", routes.health, methods=["GET"]),
            Route("/metrics", routes.metrics, methods=["GET"]),
            Route("/openapi.json", routes.openapi, methods=["GET"]),
            Route("/problems", routes.problems, methods=["GET"]),
            Route("/static/plotly.min.js", plotly_script, methods=["GET"]),
            Mount("/static", _Static(directory=STATIC), name="static"),
        ],
        middleware=[Middleware(Guard, durations=desk.durations, sites=Sites(desk.settings))],
        exception_handlers={HTTPException: refused_by_router},
        lifespan=routes.lifespan,
    )


class _Static(StaticFiles):
    """The files of the page. A name that is none of them is not looked up: the thread that does would keep it."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        if path not in _FILES:
            raise HTTPException(404)
        return await super().get_response(path, scope)


class _Routes:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._metrics = Metrics(desk)

    @asynccontextmanager
    async def lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        self._desk.board.open()
        yield

    # --- counters -----------------------------------------------------------------------------------------------

    async def counters(self, request: Request) -> Response:
        named = self._desk.visible(request)
        _refuse_unknown(request)
        may = self._desk.may(request)
        return JSONResponse({"counters": [self._desk.service.counter(name).standing for name in named], "may": may})

    async def counter(self, request: Request) -> Response:
        self._desk.allow(request, "read", _name(request))
        _refuse_unknown(request)
        return JSONResponse(self._desk.service.counter(_name(request)).standing)

    async def events(self, request: Request) -> Response:
        """Count a body: answered when it is on disk."""
        name, limits = _name(request), self._desk.settings.limits
        self._desk.allow(request, "feed", name)
        _refuse_unknown(request, "action")
        counter, form, length = self._desk.service.counter(name), form_of(request), length_of(request, limits)
        action = request.query_params.get("action", "insert")
        if action not in ("insert", "delete"):
            raise Refused(Why.bad_request, "action is insert or delete")
        with self._desk.room.for_body() as place:
            body = await received(request, form, length, limits, place, delete=action == "delete")
            try:
                counted = counter.take(body)
            except BaseException:
                body.wipe()
                raise
            await asyncio.shield(asyncio.wrap_future(counted))
        return Response(status_code=204)

    async def releases(self, request: Request) -> Response:
        return await (self._release(request) if request.method == "POST" else self._released(request))

    async def _released(self, request: Request) -> Response:
        self._desk.allow(request, "read", _name(request))
        _refuse_unknown(request, "since")
        records = self._desk.service.counter(_name(request)).bulletin.records
        since = request.query_params.get("since", "0")
        if not since.isdecimal() or len(since) > 9:
            raise Refused(Why.bad_request, "since is the id of a release")
        return JSONResponse({"releases": records[int(since) :]})

    async def _release(self, request: Request) -> Response:
        self._desk.allow(request, "release", _name(request))
        _refuse_unknown(request)
        counter = self._desk.service.counter(_name(request))
        try:
            async with asyncio.timeout(self._desk.settings.limits.seconds):
                level = await _level(request)
        except TimeoutError:
            raise Refused(Why.slow) from None
        return JSONResponse(await asyncio.shield(asyncio.wrap_future(counter.release(level))), 201)

    async def stream(self, request: Request) -> Any:
        name = request.path_params.get("name")
        if name is not None:
            self._desk.allow(request, "read", name)
        named = [name] if name is not None else self._desk.visible(request)
        counters = [self._desk.service.counter(each) for each in named]
        _refuse_unknown(request)
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        return EventStream(self._desk.board, counters, seen_by(request))

    # --- the service --------------------------------------------------------------------------------------------

    async def page(self, _request: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def health(self, _request: Request) -> Response:
        hardening = [
            {"measure": each.name, "in_force": each.in_force, "note": each.note} for each in self._desk.hardening or ()
        ]
        failing = [name for name, counter in self._desk.service.counters.items() if counter.failing]
        failing += [name for name, source in self._desk.service.sources.items() if source.stopped is not None]
        status = {"status": "failing" if failing else "ok", "failing": failing, "version": __version__}
        return JSONResponse(status | {"hardening": hardening}, 503 if failing else 200)

    async def metrics(self, request: Request) -> Response:
        self._desk.allow(request, "admin")
        return Response(self._metrics.text(), media_type=TYPE)

    async def openapi(self, _request: Request) -> Response:
        return JSONResponse(description())

    async def problems(self, _request: Request) -> Response:
        return Response(PAGE_OF_PROBLEMS, media_type="text/html")


def _name(request: Request) -> str:
    return str(request.path_params["name"])


def _refuse_unknown(request: Request, *known: str) -> None:
    """Refuse parameters that are not known, or come twice: `?acton=delete` would insert."""
    names = [name for name, _ in request.query_params.multi_items()]
    if len(set(names)) < len(names) or not set(names) <= set(known):
        takes = f"only {' and '.join(known)}, once" if known else "none"
        raise Refused(Why.bad_request, f"parameters that this address takes: {takes}")


async def _level(request: Request) -> float | None:
    """The level that the body of a request asks for; None if it asks for none."""
    given = b""
    async for chunk in request.stream():
        given += chunk
        if len(given) > 1000:
            raise Refused(Why.too_large)
    if not given:
        return None
    try:
        found = json.loads(given)
    except (ValueError, RecursionError):
        raise Refused(Why.bad_request, "the body is not JSON") from None
    if not isinstance(found, dict) or set(found) - {"level"}:
        raise Refused(Why.bad_request, 'the body is nothing, or an object such as {"level": 0.95}')
    level = found.get("level", _USUAL)
    if not (isinstance(level, float) and 0 < level < 1):
        raise Refused(Why.bad_request, "level is between 0 and 1")
    return None if "level" not in found else level
