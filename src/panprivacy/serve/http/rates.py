"""How many requests a second a sender may make: a token bucket for each sender."""

import secrets
import time
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from panprivacy.ingest.problems import ProblemType, Refused

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
    panprivacy.ingest.problems.Refused: Too many requests; wait as long as Retry-After says.
    """

    def __init__(self, rate: float, later: Callable[[float, Callable[[], None]], Any] | None = None) -> None:
        self._rate, self._later = rate, later
        self._full = max(rate * _BURST, 1.0)
        self._left: dict[bytes, tuple[float, float]] = {}
        self._key = secrets.token_bytes(_OCTETS)
        self._forgetting = False

    @property
    def remembered(self) -> int:
        """How many senders are remembered."""
        return len(self._left)

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
        if self._later is not None and not self._forgetting:
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
        if self._forgetting and self._later is not None:
            self._later(self._full / self._rate / 4, self._forget_again)

    def _filled(self, bucket: tuple[float, float], now: float) -> float:
        left, at = bucket
        return min(left + (now - at) * self._rate, self._full)
