"""What all routes share: the service, roles of senders and how often they may ask, durations, readers of streams."""

import asyncio
import secrets
import time
from collections import Counter as Tally
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from ipaddress import ip_address, ip_network
from typing import Any

from starlette.requests import Request

from panprivacy.display import magnitude
from panprivacy.ingest.batch import ProblemType, Refused
from panprivacy.memory.hardening import Hardening
from panprivacy.serve.config import Network
from panprivacy.serve.http.bodies import BodyQuota
from panprivacy.serve.http.stream import ReleaseNotifier
from panprivacy.serve.logs import log
from panprivacy.serve.memory import MemoryLimit
from panprivacy.serve.service import Service
from panprivacy.serve.tokens import ROLES, Token, holder_of

_BURST = 2.0  # seconds' worth of requests that may come at once
_MOST = 10_000  # senders that are remembered
_OCTETS = 16  # of a key and of a digest


class Rates:
    """Refuses senders that send too often; a rate of 0 refuses none.

    A sender is remembered by a keyed hash, and only until its bucket is full again, which takes two seconds, or the
    time of one request where that is longer. `later` calls a function after some seconds, as `loop.call_later` does:
    with it senders are forgotten in time even if no request comes. The key lives as long as the process.

    >>> rates = Rates(0.5)
    >>> rates.check("clinic")
    >>> rates.check("clinic")
    Traceback (most recent call last):
        ...
    panprivacy.ingest.batch.Refused: Too many requests; wait as long as Retry-After says.
    """

    def __init__(self, rate: float, later: Callable[[float, Callable[[], None]], Any] = lambda *_: None) -> None:
        self._rate, self._later = rate, later
        self._full = max(rate * _BURST, 1.0)
        self._left: dict[bytes, tuple[float, float]] = {}
        self._key = secrets.token_bytes(_OCTETS)
        self._forgetting = False

    def check(self, sender: str) -> None:
        """Count a request, or refuse it."""
        if not self._rate:
            return
        now = time.monotonic()
        hashed = self.hash_of(sender)
        left = self._filled(self._left.pop(hashed, (self._full, now)), now)
        if len(self._left) >= _MOST:
            self._left.pop(next(iter(self._left)))  # the oldest
        self._left[hashed] = (max(left - 1, 0) if left >= 1 else left, now)
        if not self._forgetting:
            self._forgetting = True
            self._later(self._full / self._rate, self._forget_again)
        if left < 1:
            raise Refused(ProblemType.rate, retry=(1 - left) / self._rate)

    def hash_of(self, sender: str) -> bytes:
        """What stands for a sender while it is remembered."""
        return blake2b(sender.encode(), digest_size=_OCTETS, key=self._key).digest()

    def forget(self) -> None:
        """Forget senders whose bucket is full: to them it is as if they had never come."""
        now = time.monotonic()
        full = [sender for sender, bucket in self._left.items() if self._filled(bucket, now) >= self._full]
        for sender in full:
            del self._left[sender]

    def _forget_again(self) -> None:
        self.forget()
        self._forgetting = bool(self._left)
        if self._forgetting:
            self._later(self._full / self._rate / 4, self._forget_again)

    def _filled(self, bucket: tuple[float, float], now: float) -> float:
        left, at = bucket
        return min(left + (now - at) * self._rate, self._full)


_BEARER = "bearer "
_KEPT = 500  # durations of each route
_OF_SENDERS = (401, 403, 421)  # statuses that depend on who sends, and never on what
_HOUR = 3600.0
_NETWORK = 64  # bits of an address of version 6 that name a network
_FEW = 100  # refusals in an hour that are not told


class Answers:
    """How many answers had which status, and how long the last ones of each route took.

    All are noted if `kept`. Otherwise only refusals of senders are, whatever they sent: of the last full hour, and
    rounded down to a power of ten, so that none tells of a single request.

    >>> answers = Answers(kept=False, clock=iter([0, *[1] * 250, 3600]).__next__)
    >>> for _ in range(250):
    ...     answers.note(401)
    >>> answers.last_hour()
    {401: 100, 403: 0, 421: 0}
    """

    def __init__(self, *, kept: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._kept, self._clock = kept, clock
        self.totals: Tally[int] = Tally()
        self._hour, self._now, self._last = self._clock() // _HOUR, Tally[int](), Tally[int]()
        self._lately: dict[str, deque[float]] = {}

    def note(self, status: int) -> None:
        """Note an answer."""
        if self._kept:
            self.totals[status] += 1
        if status in _OF_SENDERS:
            self._turn()
            self._now[status] += 1

    def note_duration(self, route: str, seconds: float) -> None:
        """Note how long a request took."""
        if self._kept:
            self._lately.setdefault(route, deque(maxlen=_KEPT)).append(seconds)

    def quantiles(self, *shares: float) -> Iterator[tuple[str, float, float]]:
        """For each route and share, the time within which this share of its last requests was served."""
        for route, times in self._lately.items():
            for share in shares:
                yield route, share, sorted(times)[min(int(share * len(times)), len(times) - 1)]

    def last_hour(self) -> dict[int, int]:
        """Refusals of senders in the last full hour: 0, 100, 1000 and so on."""
        self._turn()
        return {status: magnitude(self._last[status], _FEW) for status in _OF_SENDERS}

    def _turn(self) -> None:
        hour = self._clock() // _HOUR
        if hour != self._hour:
            self._last = self._now if hour == self._hour + 1 else Tally()
            self._hour, self._now = hour, Tally()


class AppContext:
    """The service as the routes see it."""

    def __init__(self, service: Service, hardening: Hardening | None = None, memory: int | None = None) -> None:
        self.service = service
        self.settings = service.settings.service
        self.limits = service.settings.limits
        self.tokens = service.settings.tokens
        self.hardening = hardening
        self.notifier = ReleaseNotifier(service.counters)
        self.answers = Answers(kept=self.settings.count_events)
        self.memory = MemoryLimit(self.limits.memory if memory is None else memory)
        self.quota = BodyQuota(self.limits.waiting, self.memory, self.limits.body)
        self.started = time.time()
        self._rates = Rates(self.limits.requests, lambda *call: asyncio.get_running_loop().call_later(*call))

    def access(self, request: Request) -> "Access":
        """What the sender of a request may do; refused if its token is not known, or if it sends too often."""
        holder = self.limit(request)
        if holder is None and _token(request) is not None:
            log("a token is not known", level="warning")
            raise Refused(ProblemType.no_token, "this token is not known")
        return Access(holder, frozenset(self.settings.anonymous))

    def limit(self, request: Request) -> Token | None:
        """Refuse a sender that sends too often: each token counts, and each address without a known one."""
        holder, sender = self._sender(request)
        self._rates.check(sender)
        return holder

    def sender(self, request: Request) -> bytes:
        """What stands for the sender of a request: its token, or its address."""
        return self._rates.hash_of(self._sender(request)[1])

    def _sender(self, request: Request) -> tuple[Token | None, str]:
        """The holder of a request's token, and its name; without a known token, an address that no name equals."""
        token = _token(request)
        holder = None if token is None else holder_of(token, self.tokens)
        if holder is not None:
            return holder, holder.name
        client = request.client.host if request.client else ""
        return None, f"@{sender_address(client, request.headers.get('x-forwarded-for', ''), self.settings.proxies)}"


@dataclass(frozen=True)
class Access:
    """What the sender of a request may do: as the holder of a token, or without one."""

    holder: Token | None
    anonymous: frozenset[str]

    def require(self, role: str, counter: str | None = None) -> None:
        """Refuse a sender without this role; a counter that a token is not for is not told from a missing one."""
        if self.may(role, counter):
            return
        if self.holder is None:
            raise Refused(ProblemType.no_token)
        raise Refused(ProblemType.role, f"this needs the role {role}{' for this counter' if counter else ''}")

    def may(self, role: str, counter: str | None = None) -> bool:
        """Whether the sender has this role."""
        if role in self.anonymous or "admin" in self.anonymous:
            return True
        return self.holder is not None and self.holder.allows(role, counter)

    @property
    def roles(self) -> list[str]:
        """What the sender may do with the whole service: the page shows what it can."""
        return [role for role in ROLES if role in self.anonymous or (self.holder and role in self.holder.roles)]

    def readable(self, counters: Iterable[str]) -> list[str]:
        """The counters that the sender may read; refused if it may read none at all."""
        holder = self.holder
        self.require("read", next(iter(holder.counters), None) if holder is not None and holder.counters else None)
        only = None if "read" in self.anonymous or holder is None else holder.counters
        return [name for name in counters if only is None or name in only]


def _token(request: Request) -> str | None:
    """The token that a request has, known or not."""
    given = request.headers.get("authorization", "")
    return given[len(_BEARER) :].strip() if given.lower().startswith(_BEARER) else None


def sender_address(client: str, forwarded: str, proxies: Sequence[Network]) -> str:
    """The address of a sender: the last one before the listed proxies. Addresses that a sender makes up come earlier.

    An address of version 6 is cut to its network, since one sender has them all.

    >>> trusted = [ip_network("10.0.0.0/8")]
    >>> sender_address("10.0.0.1", "8.8.8.8, 192.0.2.7, 10.0.0.2", trusted)
    '192.0.2.7'
    """
    chain = [*forwarded.split(","), client] if proxies else [client]
    known = client
    for each in reversed(chain):
        try:
            address = ip_address(each.strip())
        except ValueError:
            break  # what stands before it is no better
        address = getattr(address, "ipv4_mapped", None) or address
        known = str(address if address.version == 4 else ip_network((address, _NETWORK), strict=False))
        if not any(address in proxy for proxy in proxies):
            break
    return known
