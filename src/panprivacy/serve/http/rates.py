"""How many requests a second one sender may make: a bucket that fills up with time and is emptied by requests."""

import time

from panprivacy.serve.refusals import Refused, Why

_BURST = 2.0  # seconds' worth of requests that may come at once
_MOST = 10_000  # senders that are remembered


class Rates:
    """Refuses those who come too often; a rate of 0 refuses nobody.

    >>> rates = Rates(0.5)
    >>> rates.check("clinic")
    >>> rates.check("clinic")
    Traceback (most recent call last):
        ...
    panprivacy.serve.refusals.Refused: Too many requests; wait as long as Retry-After says.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._full = max(rate * _BURST, 1.0)
        self._left: dict[str, tuple[float, float]] = {}

    def check(self, sender: str) -> None:
        """Count a request, or refuse it."""
        if not self._rate:
            return
        now = time.monotonic()
        left, at = self._left.pop(sender, (self._full, now))
        left = min(left + (now - at) * self._rate, self._full)
        if len(self._left) >= _MOST:
            self._left.pop(next(iter(self._left)))  # who came longest ago
        self._left[sender] = (max(left - 1, 0) if left >= 1 else left, now)
        if left < 1:
            raise Refused(Why.rate, retry=(1 - left) / self._rate)
