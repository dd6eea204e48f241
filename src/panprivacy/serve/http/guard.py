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
from panprivacy.serve.http.context import AppContext
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


class Guard:
    """Wraps the routes: checks which site sends a request, notes how long it took, and has problems for tracebacks.

    A browser says in Host which name it looked up, and in Origin whose page sends the request. A page of another site
    may have its own name lead to this machine (DNS rebinding): then both are the name of that site. An address in
    numbers cannot lead elsewhere, so all are allowed. (Starlette's TrustedHostMiddleware cuts an IPv6 address at its
    first colon, reads the first of two Host headers, cannot allow all addresses, and does not look at Origin.)
    """

    def __init__(self, app: ASGIApp, context: AppContext) -> None:
        self._app = app
        self._answers = context.answers
        self._named = {name.lower() for name in context.settings.hosts}
        self._known = {context.settings.host.lower(), "localhost", *self._named}

    def _check_site(self, scope: Scope) -> None:
        """Refuse a request for another name, or from a page of another site."""
        headers = Headers(scope=scope)
        hosts, origin = headers.getlist("host"), headers.get("origin")
        name = _host_name(hosts[0]) if len(hosts) == 1 else None
        if name is None or not (name in self._known or _is_address(name)):
            raise Refused(ProblemType.host)
        # A proxy in front, known by `service.hosts`, may have encrypted the page.
        allowed = {scope["scheme"], "https"} if name in self._named else {scope["scheme"]}
        if origin is not None and origin.lower() not in {f"{each}://{hosts[0].lower()}" for each in allowed}:
            raise Refused(ProblemType.cross_site)

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
            self._check_site(scope)
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
            self._answers.note_duration(_route(scope), time.perf_counter() - began)


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
    return getattr(scope.get("route"), "path", "none")
