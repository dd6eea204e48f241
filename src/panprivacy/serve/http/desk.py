"""What all routes share: the service, who may use it, what is measured, and who waits for news."""

import asyncio
import time
from collections.abc import Callable

from starlette.requests import Request

from panprivacy.hardening import Hardening
from panprivacy.serve.http.board import Board
from panprivacy.serve.http.durations import Durations
from panprivacy.serve.http.rates import Rates
from panprivacy.serve.http.reception import Room
from panprivacy.serve.refusals import Refused, Why
from panprivacy.serve.service import Service
from panprivacy.serve.tokens import ROLES, Token, holder_of

_BEARER = "bearer "


class Desk:
    """One service as HTTP sees it."""

    def __init__(self, service: Service, hardening: Hardening | None = None) -> None:
        self.service = service
        self.settings = service.settings.service
        self.hardening = hardening
        self.board = Board(service.counters)
        self.durations = Durations(kept=self.settings.count_events)
        self.room = Room(self.settings.limits.waiting)
        self.started = time.time()
        self._rates = Rates(self.settings.limits.requests, _later)

    def allow(self, request: Request, role: str, counter: str | None = None) -> None:
        """Refuse whoever may not do this; a counter that a token is not for is told from none that is not there."""
        holder = self._holder(request)
        self._rates.check(holder.name if holder else _address(request))
        if role in self.settings.anonymous or "admin" in self.settings.anonymous:
            return
        if holder is None:
            raise Refused(Why.no_token)
        if not holder.allows(role, counter):
            raise Refused(Why.role, f"this needs the role {role}{' for this counter' if counter else ''}")

    def may(self, request: Request) -> list[str]:
        """What whoever asks may do with the whole service: the page shows what it can."""
        holder = self._holder(request)
        return [role for role in ROLES if role in self.settings.anonymous or (holder and role in holder.roles)]

    def visible(self, request: Request) -> list[str]:
        """The names of the counters that whoever asks may read."""
        self.allow_some(request, "read")
        holder = self._holder(request)
        only = None if "read" in self.settings.anonymous or holder is None else holder.counters
        return [name for name in self.service.counters if only is None or name in only]

    def allow_some(self, request: Request, role: str) -> None:
        """Refuse whoever may do this with no counter at all."""
        holder = self._holder(request)
        known = next(iter(holder.counters), None) if holder is not None and holder.counters else None
        self.allow(request, role, known)

    def _holder(self, request: Request) -> Token | None:
        given = request.headers.get("authorization", "")
        if not given.lower().startswith(_BEARER):
            return None
        holder = holder_of(given[len(_BEARER) :].strip(), self.settings.tokens)
        if holder is None:
            self._rates.check(_address(request))  # or tokens could be tried out as fast as they come
            raise Refused(Why.no_token, "this token is not known")
        return holder


def _later(seconds: float, call: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(seconds, call)


def _address(request: Request) -> str:
    """Who a request is from that has no token, in a form that is no name of a token."""
    return f"@{request.client.host if request.client else ''}"
