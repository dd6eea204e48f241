"""Around every request: which sites may send it, how long it took, and problems instead of tracebacks."""

import asyncio
import time
from contextlib import suppress
from inspect import unwrap
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from panprivacy.ingest.batch import ProblemType, Refused, drop_frames
from panprivacy.serve.config import ServiceSettings
from panprivacy.serve.http.context import Answers, Durations
from panprivacy.serve.logs import cause_of, log

PROBLEM = "application/problem+json"
_SAFE = {
    # blob: is a picture that the page itself has drawn, on its way to a PNG
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "cache-control": "no-cache",  # so that a page never runs with scripts of an older version
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
_CUT_SHORT = (ProblemType.slow, ProblemType.too_large, ProblemType.busy)
_HEARING_OUT = 2.0  # seconds for a sender to read that the rest of its body is not wanted
_BY_STATUS = {404: ProblemType.not_found, 405: ProblemType.method}


_parse_url = unwrap(urlsplit)  # without its cache, which keeps the last addresses that it has parsed


class AllowedSites:
    """The names of the service, by which browsers may reach it, and the pages that may use it: its own.

    A browser says in Host which name it looked up, and in Origin whose page sends the request. A page of another site
    may have its own name lead to this machine (DNS rebinding): then both are the name of that site. An address in
    numbers cannot lead elsewhere, so all are allowed. (Starlette's TrustedHostMiddleware cuts an IPv6 address at its
    first colon, reads the first of two Host headers, cannot allow all addresses, and does not look at Origin.)
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self._named = {name.lower() for name in settings.hosts}
        self._known = {settings.host.lower(), "localhost", *self._named}

    def check(self, scope: Scope) -> None:
        """Refuse a request for another name, or from a page of another site."""
        headers = Headers(scope=scope)
        hosts, origin = headers.getlist("host"), headers.get("origin")
        if len(hosts) != 1 or not self._is_ours(_host_name(hosts[0])):
            raise Refused(ProblemType.host)
        if origin is not None and not self._is_from(origin, hosts[0], scope["scheme"]):
            raise Refused(ProblemType.cross_site)

    def _is_ours(self, name: str) -> bool:
        return name in self._known or _is_address(name)

    def _is_from(self, origin: str, host: str, scheme: str) -> bool:
        """Whether a page is from here; a proxy in front, known by `service.hosts`, may have encrypted it."""
        allowed = {scheme, "https"} if _host_name(host) in self._named else {scheme}
        return origin.lower() in {f"{each}://{host.lower()}" for each in allowed}


def _host_name(host: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return _parse_url(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


class Guard:
    """Wraps the routes."""

    def __init__(self, app: ASGIApp, durations: Durations, answers: Answers, sites: AllowedSites) -> None:
        self._app = app
        self._answers = answers
        self._sites = sites
        self._durations = durations

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, as ASGI has it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, started, more = time.perf_counter(), False, True

        async def heard() -> Message:
            nonlocal more
            message = await receive()
            more = message.get("more_body", False)
            return message

        async def noted(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                self._answers.note(message["status"])
                headers = MutableHeaders(raw=message["headers"])
                for name, value in _SAFE.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            self._sites.check(scope)
            await self._app(scope, heard, noted)
        except Refused as refused:
            drop_frames(refused)
            if more and not started and refused.type in _CUT_SHORT:
                await _refuse_and_hear_out(refused, scope, receive, noted)
            elif not started:
                await problem_of(refused)(scope, receive, noted)
        except ClientDisconnect as error:
            drop_frames(error)  # a sender that hangs up needs no answer
        except Exception as error:  # whose text may quote a request
            log("failed", level="error", route=_route(scope), **cause_of(error))
            drop_frames(error)
            if not started:
                await problem_of(Refused(ProblemType.broken))(scope, receive, noted)
        finally:
            self._durations.note(_route(scope), time.perf_counter() - began)


async def _refuse_and_hear_out(refused: Refused, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a sender that is still sending, and read on for a while before its connection is closed.

    Closed at once, with bytes on the way, the connection would break, and the sender might never read why.
    """

    async def unfinished(message: Message) -> None:
        await send({**message, "more_body": True} if message["type"] == "http.response.body" else message)

    await problem_of(refused)(scope, receive, unfinished)
    with suppress(TimeoutError):
        async with asyncio.timeout(_HEARING_OUT):
            while (await receive()).get("more_body"):
                pass
    await send({"type": "http.response.body", "body": b""})


def problem_of(refused: Refused) -> Response:
    """A refusal as RFC 9457 has it."""
    headers = {} if refused.retry is None else {"retry-after": str(max(round(refused.retry), 1))}
    if refused.type in _CUT_SHORT:
        headers["connection"] = "close"  # so that the rest of the body is not sent in vain
    if refused.type is ProblemType.no_token:
        headers["www-authenticate"] = "Bearer"
    fields = refused.to_dict()
    return JSONResponse(fields, fields["status"], headers, PROBLEM)


async def refused_by_router(_request: Request, error: Exception) -> Response:
    """A problem for what the router refuses: an unknown address or method."""
    assert isinstance(error, HTTPException)
    drop_frames(error)
    answer = problem_of(Refused(_BY_STATUS.get(error.status_code, ProblemType.bad_request)))
    answer.headers.update({name: value for name, value in (error.headers or {}).items() if name.lower() == "allow"})
    return answer


def _route(scope: Scope) -> str:
    """The route as it is written in the code, without what a request put in it."""
    route = scope.get("route")
    return getattr(route, "path", "none")
