"""The statistical auditor, for sizes that no enumeration reaches."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from panprivacy.audit.auditor import Removal, claim_of
from panprivacy.audit.events import Runs, choose, lower_bound
from panprivacy.audit.features import Snapshot, columns, snapshot
from panprivacy.audit.machine import Make
from panprivacy.audit.search import READ, REDRAW, RELEASE
from panprivacy.testing import SeededCoins

_NOBODY = object()


@dataclass(frozen=True)
class Bound:
    """What the runs prove about the loss, but for a stated probability of error."""

    loss_at_least: float
    claimed: float
    confidence: float
    runs: int
    """Runs of each stream by which the event was judged; as many chose it."""
    event: str
    """What happens in runs of one stream more often than in those of the other."""
    likelier: str
    """Under which stream it happens more often: "a" or "b"."""
    hits: tuple[int, int]
    """How often it happened, under the likelier stream and under the other."""

    @property
    def refutes(self) -> bool:
        """Whether the claim is disproved."""
        return self.loss_at_least > self.claimed

    def __str__(self) -> str:
        more, less = self.hits
        return (
            f"loss at least {self.loss_at_least:.4f} with confidence {self.confidence:.6%}, claimed "
            f"{self.claimed:.4f}: {'refuted' if self.refutes else 'not refuted'}\n"
            f"{self.event}: in {more} of {self.runs} runs of stream {self.likelier}, in {less} of the other"
        )


def sampled(
    make: Make,
    stream_a: Sequence[Any],
    stream_b: Sequence[Any],
    *,
    runs: int = 10_000,
    confidence: float = 1 - 1e-6,
    seed: int = 0,
    progress: bool = False,
) -> Bound:
    r"""Bound the privacy loss of an estimator from below, by running it many times on two adjacent streams.

    Half of the runs choose an event of the states and releases seen; the other half bound its probabilities P_a and
    P_b under the two streams (Clopper and Pearson 1934), each wrong with probability ``(1-confidence)/2``. Then the
    loss is at least ``ln((P_a - delta) / P_b)``, delta being the one that is claimed, if any. An estimator that keeps
    its promise is refuted with probability at most ``1 - confidence``; one that does not may escape.

    Parameters
    ----------
    make
        ``make(coins)`` builds the estimator on the coins it is given, which are seeded.
    stream_a, stream_b
        Each a sequence of users, of batches (lists or arrays of users), of `audit.Removal`, and of the markers
        `audit.READ`, `audit.RELEASE` and `audit.REDRAW` where the state is read, a release made, the state redrawn.
        They must be the same once one user's events are deleted.
    runs
        How often each stream is run.
    confidence
        Of the bound.
    seed
        Of the coins: the same seed gives the same bound.
    progress
        Whether to show a progress bar.

    Examples
    --------
    >>> import panprivacy as pp
    >>> from panprivacy import audit
    >>> late = [range(1, 50), audit.READ, 0, audit.RELEASE]
    >>> early = [range(1, 50), 0, audit.READ, audit.RELEASE]
    >>> bound = audit.sampled(lambda coins: pp.Density(50, epsilon=1.0, coins=coins), late, early, runs=200)
    >>> bound.refutes
    False

    Notes
    -----
    It finds what it looks for: thresholds of single numbers, of released numbers less what the state predicts, and
    these together with one bit. It can disprove a claim and never prove one.
    """
    if runs < 100:
        raise ValueError(f"fewer than 100 runs show nothing, got {runs}")
    _check_adjacent(stream_a, stream_b)
    coins = SeededCoins(seed)
    shots = _played(lambda stream: _play(make(coins), stream), [stream_a] * runs + [stream_b] * runs, progress)
    everything = _laid_out(shots, runs)
    half = runs // 2
    first, rest = (
        Runs(everything.names, everything.states, everything.a[part], everything.b[part])
        for part in (slice(half), slice(half, 2 * half))
    )
    telling = first.telling()
    first, rest = first.only(telling), rest.only(telling)
    error = 1 - confidence
    turned = Runs(first.names, first.states, first.b, first.a)
    (promised_a, event_a), (promised_b, event_b) = choose(first, error), choose(turned, error)
    likelier, event = ("a", event_a) if promised_a >= promised_b else ("b", event_b)
    more, less = (rest.a, rest.b) if likelier == "a" else (rest.b, rest.a)
    hits = event.hits(more), event.hits(less)
    claimed, delta = claim_of(make(coins))
    bound = lower_bound(np.array([hits[0]]), np.array([hits[1]]), half, error, delta)
    return Bound(float(bound[0]), claimed, confidence, half, event.name, likelier, hits)


def _play(est: Any, stream: Sequence[Any]) -> tuple[list[Snapshot], list[Snapshot]]:
    """Feed one stream, and return what was seen: states, and releases."""
    states, releases = [], []
    for item in stream:
        if item is READ:
            states.append(snapshot(est))
        elif item is RELEASE:
            releases.append(snapshot(est.release() if hasattr(est, "release") else est.estimate()))
        elif item is REDRAW:
            est.rerandomize()
        else:
            removed = isinstance(item, Removal)
            what = item.user if removed else item
            name = ("remove" if removed else "update") + ("_many" if _is_batch(what) else "")
            getattr(est, name)(what)
    return states, releases


def _played(play: Callable[[Any], Any], streams: Sequence[Any], progress: bool) -> list[Any]:
    tracked: Iterable[Any] = streams
    if progress:
        from rich.progress import track

        tracked = track(streams, description="runs")
    return [play(stream) for stream in tracked]


def _laid_out(shots: Sequence[tuple[list[Snapshot], list[Snapshot]]], runs: int) -> Runs:
    """All runs as numbers, the states of a run first and its releases last."""
    parts = []
    for kind in (0, 1):
        several = [columns([shot[kind][i] for shot in shots]) for i in range(len(shots[0][kind]))]
        names = [name for one in several for name in one.names]
        parts.append((names, np.hstack([np.empty((len(shots), 0)), *(one.values for one in several)])))
    (states, seen), (releases, released) = parts
    values = np.hstack([seen, released])
    return Runs((*states, *releases), len(states), values[:runs], values[runs:])


def _check_adjacent(stream_a: Sequence[Any], stream_b: Sequence[Any]) -> None:
    a, b = (list(_tokens(stream)) for stream in (stream_a, stream_b))
    differ = next((i for i, pair in enumerate(zip(a, b, strict=False)) if pair[0] != pair[1]), min(len(a), len(b)))
    for _, user in [*a[differ : differ + 1], *b[differ : differ + 1]]:
        if user is not _NOBODY and [x for x in a if x[1] != user] == [x for x in b if x[1] != user]:
            return
    raise ValueError("the streams must be the same once one user's events are deleted, and not the same before")


def _tokens(stream: Sequence[Any]) -> Iterable[tuple[Any, Any]]:
    """Single events, and markers as events of nobody."""
    for item in stream:
        if item is READ or item is RELEASE or item is REDRAW:
            yield item, _NOBODY
            continue
        removed = isinstance(item, Removal)
        what = item.user if removed else item
        yield from ((removed, user) for user in (what if _is_batch(what) else [what]))


def _is_batch(what: Any) -> bool:
    return isinstance(what, list | range | np.ndarray)
