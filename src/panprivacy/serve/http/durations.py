"""How long requests took lately, by route, where `count_events` says that metrics may tell of single bodies."""

from collections import deque

_KEPT = 500  # of each route


class Durations:
    """The last few durations of each route, from which metrics take quantiles; none, unless `kept`."""

    def __init__(self, *, kept: bool) -> None:
        self._kept = kept
        self._lately: dict[str, deque[float]] = {}

    def note(self, route: str, seconds: float) -> None:
        """Note one."""
        if self._kept:
            self._lately.setdefault(route, deque(maxlen=_KEPT)).append(seconds)

    def quantiles(self, *shares: float) -> dict[tuple[str, float], float]:
        """For each route and share, the time within which so many of its last requests were served."""
        return {
            (route, share): sorted(times)[min(int(share * len(times)), len(times) - 1)]
            for route, times in self._lately.items()
            for share in shares
        }
