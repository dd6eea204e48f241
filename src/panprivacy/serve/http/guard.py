"""Around every request: how long it took, whether another site's page sent it, and problems instead of tracebacks."""

import asyncio
import time
from contextlib import suppress

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from panprivacy.serve.http.durations import Durations
from panprivacy.serve.http.sites import Sites
from panprivacy.serve.logs import log
from panprivacy.serve.refusals import Refused, Why, without_frames

PROBLEM = "application/problem+json"
_SAFE = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "cache-control": "no-cache",  # so that a page never runs with scripts of an older version
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
_CUT_SHORT = (Why.slow, Why.too_large, Why.busy)
_HEARING_OUT = 2.0  # seconds for a sender to read that the rest of its body is not wanted
_BY_STATUS = {404: Why.not_found, 405: Why.method}


class Guard:
    """Wraps the routes."""

    def __init__(self, app: ASGIApp, durations: Durations, sites: Sites) -> None:
        self._app = app
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
                headers = MutableHeaders(raw=message["headers"])
                for name, value in _SAFE.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            self._sites.check(scope)
            await self._app(scope, heard, noted)
        except Refused as refused:
            without_frames(refused)
            if more and not started and refused.why in _CUT_SHORT:
                await _refuse_and_hear_out(refused, scope, receive, noted)
            elif not started:
                await problem_of(refused)(scope, receive, noted)
        except ClientDisconnect as error:
            without_frames(error)  # a sender that hangs up needs no answer
        except Exception as error:  # whose text may quote a request
            without_frames(error)
            log("failed", level="error", route=_route(scope), sort=type(error).__name__)
            if not started:
                await problem_of(Refused(Why.broken))(scope, receive, noted)
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
    if refused.why in _CUT_SHORT:
        headers["connection"] = "close"  # nobody shall have to send the rest of a body in vain
    if refused.why is Why.no_token:
        headers["www-authenticate"] = "Bearer"
    fields = refused.problem()
    return JSONResponse(fields, fields["status"], headers, PROBLEM)


async def refused_by_router(_request: Request, error: Exception) -> Response:
    """What the router refuses, as a problem: an address or a method that there is not."""
    assert isinstance(error, HTTPException)
    without_frames(error)
    answer = problem_of(Refused(_BY_STATUS.get(error.status_code, Why.bad_request)))
    answer.headers.update({name: value for name, value in (error.headers or {}).items() if name.lower() == "allow"})
    return answer


def _route(scope: Scope) -> str:
    """The route as it is written in the code, without what a request put in it."""
    route = scope.get("route")
    return getattr(route, "path", "none")
