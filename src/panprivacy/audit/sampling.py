"""The statistical auditor, for sizes that no enumeration reaches: it can disprove a claim, and never prove one.

`sampled` runs an estimator many times on two adjacent streams. The states and releases of the runs become rows of
numbers; half of the rows choose the event that tells the streams apart best, and the other half bound its
probabilities.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.audit.enumeration import Removal, claim_of
from panprivacy.audit.enumeration.machine import Make
from panprivacy.audit.enumeration.search import READ, REDRAW, RELEASE
from panprivacy.audit.enumeration.wording import leaves
from panprivacy.errors import InvalidValue
from panprivacy.testing import SeededCoins

Counts: TypeAlias = NDArray[np.int64]
Reals: TypeAlias = NDArray[np.float64]
Snapshot: TypeAlias = dict[str, NDArray[Any]]
"""The numbers in a memory or a release, by name."""

_NOBODY = object()
_THRESHOLDS = 200
_STATE_FEATURES = 8


def snapshot(thing: Any) -> Snapshot:
    """Copy the numbers out of an object.

    >>> snapshot({"level": 3, "bits": [0, 1]})
    {'level': array(3), 'bits': array([0, 1])}
    """
    if isinstance(thing, bool | int | float):
        return {"value": np.array(thing)}
    found = {}
    for name, value in leaves(thing):
        with suppress(ValueError):  # a list of lists of different lengths
            found[name] = np.array(value)  # a copy: the estimator goes on
    return {name: array for name, array in found.items() if array.dtype.kind in "biuf"}


def columns(snapshots: Sequence[Snapshot]) -> tuple[list[str], Reals]:
    """Names and columns of the snapshots of many runs, without what never varies; packed bits are unpacked."""
    names: list[str] = []
    parts: list[Reals] = [np.empty((len(snapshots), 0))]
    for name in dict.fromkeys(name for shot in snapshots for name in shot):
        block = _block([shot.get(name, np.empty(0)) for shot in snapshots])
        varies = (block != block[0]).any(axis=0)
        names += [f"{name}[{i}]" for i in np.flatnonzero(varies)]
        parts.append(block[:, varies])
        if varies.sum() > 1:
            names.append(f"sum of {name}")
            parts.append(block.sum(axis=1, keepdims=True))
    return names, np.hstack(parts)


def _block(arrays: list[NDArray[Any]]) -> Reals:
    flat = [np.ravel(array) for array in arrays]
    if len({array.shape for array in flat}) > 1:  # a list of changing length: its length and sum
        return np.array([[len(array), array.sum()] for array in flat], dtype=np.float64)
    block = np.stack(flat)
    if block.size and all(array.dtype == np.uint64 for array in arrays):
        block = np.unpackbits(block.astype("<u8").view(np.uint8), axis=1, bitorder="little")
    return block.astype(np.float64)


@dataclass(frozen=True)
class Runs:
    """Observations of many runs: named features, first of states, then of releases."""

    names: tuple[str, ...]
    states: int
    """How many features are of states."""
    a: Reals
    b: Reals
    """One row for each run of the one stream and of the other."""

    def halves(self) -> tuple["Runs", "Runs"]:
        """The first runs and the rest, with the features to work with by the first.

        These are all sums and releases, and of the others those whose means differ most.
        """
        half = len(self.a) // 2
        plain = [i for i in range(self.states) if not self.names[i].startswith("sum of")]
        spread = np.abs(self.a[:half].mean(axis=0) - self.b[:half].mean(axis=0))
        telling = sorted(plain, key=lambda i: -spread[i])[:_STATE_FEATURES]
        kept = [i for i in range(len(self.names)) if i in telling or i not in plain]
        names, states = tuple(self.names[i] for i in kept), sum(i < self.states for i in kept)
        first, rest = (
            Runs(names, states, self.a[part][:, kept], self.b[part][:, kept])
            for part in (slice(half), slice(half, 2 * half))
        )
        return first, rest


@dataclass(frozen=True)
class Event:
    """``sum of coefficient * feature > threshold``, where one more feature has a given value."""

    coefficients: Reals
    threshold: float
    feature: int | None
    value: float
    name: str

    def hits(self, values: Reals) -> int:
        """In how many runs it happened."""
        beyond = values @ self.coefficients > self.threshold
        if self.feature is not None:
            beyond &= values[:, self.feature] == self.value
        return int(beyond.sum())


def lower_bound(hits_a: Counts, hits_b: Counts, runs: int, error: float, delta: float = 0.0) -> Reals:
    """What ``ln((P_a - delta) / P_b)`` is at least, but for a probability of `error`; 0 says nothing."""
    low, _ = clopper_pearson(hits_a, runs, error / 2)
    _, high = clopper_pearson(hits_b, runs, error / 2)
    return np.maximum(np.log(np.maximum(low - delta, 1e-300) / high), 0.0)


def choose(runs: Runs, error: float) -> tuple[float, Event]:
    """The event that promises the largest bound on ``ln(P_a / P_b)``, and that promise.

    Tried are all single features, and every released number less what the state seen predicts of it; beyond any
    threshold, alone and together with either value of a two-valued feature of the state.
    """
    best = 0.0, Event(np.zeros(len(runs.names)), 0.0, None, 0.0, "nothing")
    wheres: list[tuple[int | None, float]] = [(None, 0.0)]
    for i in range(runs.states):
        values = np.unique(runs.a[:, i])
        wheres += [(i, float(value)) for value in values if len(values) == 2]
    for (coefficients, centre, name), sign, (feature, value) in product(_statistics(runs), (1, -1), wheres):
        beyond = sign * coefficients
        loss, threshold = _best_threshold(runs, beyond, feature, value, error)
        if loss > best[0]:
            text = f"{name} {'>' if sign > 0 else '<'} {sign * threshold - centre:.6g}"
            where = "" if feature is None else f", where {runs.names[feature]} = {value:g}"
            best = loss, Event(beyond, threshold, feature, value, text + where)
    return best


def _statistics(runs: Runs) -> Iterator[tuple[Reals, float, str]]:
    """Coefficients, where zero lies, and a name."""
    units = np.eye(len(runs.names))
    yield from ((unit, 0.0, name) for unit, name in zip(units, runs.names, strict=True))
    both = np.vstack([runs.a, runs.b])
    known = np.column_stack([both[:, : runs.states], np.ones(len(both))])
    for i in range(runs.states, len(runs.names)):
        slopes = np.linalg.lstsq(known, both[:, i], rcond=None)[0]
        rest = units[i].copy()
        rest[: runs.states] = -slopes[:-1]
        yield rest, float(slopes[-1]), f"{runs.names[i]} less what the state predicts"


def _best_threshold(
    runs: Runs, coefficients: Reals, feature: int | None, value: float, error: float
) -> tuple[float, float]:
    chosen = (rows if feature is None else rows[rows[:, feature] == value] for rows in (runs.a, runs.b))
    stat_a, stat_b = (np.sort(rows @ coefficients) for rows in chosen)
    if not len(stat_a):
        return 0.0, 0.0
    cuts = np.unique(np.quantile(stat_a, np.linspace(0, 1, _THRESHOLDS)))
    middles = np.concatenate([[cuts[0] - 1], (cuts[1:] + cuts[:-1]) / 2])
    hits_a, hits_b = (len(stat) - np.searchsorted(stat, middles, side="right") for stat in (stat_a, stat_b))
    losses = lower_bound(hits_a, hits_b, len(runs.a), error)
    top = int(np.argmax(losses))
    return float(losses[top]), float(middles[top])


def clopper_pearson(hits: Counts, runs: int, error: float) -> tuple[Reals, Reals]:
    """A lower and an upper bound of a probability, each wrong with probability at most `error`.

    They are exact (Clopper and Pearson 1934): the probabilities at which as many hits or more, or as many or fewer,
    come with probability `error`.

    >>> low, high = clopper_pearson(np.array([50]), 100, 0.025)
    >>> round(float(low[0]), 4), round(float(high[0]), 4)
    (0.3983, 0.6017)
    """
    from scipy.special import betaincinv

    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), runs - hits + 1, error), 0.0)
    high = np.where(hits < runs, betaincinv(hits + 1, np.maximum(runs - hits, 1), 1 - error), 1.0)
    return low, high


@dataclass(frozen=True)
class Bound:
    """What the runs prove about the loss, but for a stated probability of error."""

    loss_at_least: float
    claimed: float
    confidence: float
    runs: int
    """Runs of each stream by which the event was judged; as many chose it."""
    event: str
    """It happens in runs of one stream more often than in runs of the other."""
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
    loss is at least ``ln((P_a - delta) / P_b)``, with the claimed delta, if any. An estimator that keeps
    its promise is refuted with probability at most ``1 - confidence``; a wrong one may escape.

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
        raise InvalidValue(f"fewer than 100 runs show nothing, got {runs}", code="audit-runs")
    _check_adjacent(stream_a, stream_b)
    from rich.progress import track

    coins, error = SeededCoins(seed), 1 - confidence
    streams = track([stream_a] * runs + [stream_b] * runs, "runs", disable=not progress)
    first, rest = _laid_out([_play(make(coins), stream) for stream in streams], runs).halves()
    turned = Runs(first.names, first.states, first.b, first.a)
    (promised_a, event_a), (promised_b, event_b) = choose(first, error), choose(turned, error)
    likelier, event = ("a", event_a) if promised_a >= promised_b else ("b", event_b)
    more, less = (rest.a, rest.b) if likelier == "a" else (rest.b, rest.a)
    hits = event.hits(more), event.hits(less)
    claimed, delta = claim_of(make(coins))
    bound = lower_bound(np.array([hits[0]]), np.array([hits[1]]), len(rest.a), error, delta)
    return Bound(float(bound[0]), claimed, confidence, len(rest.a), event.name, likelier, hits)


def _calls(stream: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Markers of nobody; verbs, and whom they are about: a user, or a batch of them."""
    for item in stream:
        if item is READ or item is RELEASE or item is REDRAW:
            yield item, _NOBODY
        else:
            yield ("remove", item.user) if isinstance(item, Removal) else ("update", item)


def _play(est: Any, stream: Sequence[Any]) -> tuple[list[Snapshot], list[Snapshot]]:
    """Feed one stream, and return what was seen: states, and releases."""
    states, releases = [], []
    for call, what in _calls(stream):
        if call is READ:
            states.append(snapshot(est))
        elif call is RELEASE:
            releases.append(snapshot(est.release() if hasattr(est, "release") else est.estimate()))
        elif call is REDRAW:
            est.rerandomize()
        else:
            getattr(est, call + "_many" if _is_batch(what) else call)(what)
    return states, releases


def _laid_out(shots: Sequence[tuple[list[Snapshot], list[Snapshot]]], runs: int) -> Runs:
    """All runs as numbers, the states of a run first and its releases last."""
    states, releases = ([columns(several) for several in zip(*kind, strict=True)] for kind in zip(*shots, strict=True))
    names = tuple(name for each, _ in (*states, *releases) for name in each)
    values = np.hstack([np.empty((len(shots), 0)), *(each for _, each in (*states, *releases))])
    return Runs(names, sum(len(each) for each, _ in states), values[:runs], values[runs:])


def _check_adjacent(stream_a: Sequence[Any], stream_b: Sequence[Any]) -> None:
    a, b = (
        [(call, user) for call, what in _calls(stream) for user in (what if _is_batch(what) else [what])]
        for stream in (stream_a, stream_b)
    )
    differ = next((i for i, pair in enumerate(zip(a, b, strict=False)) if pair[0] != pair[1]), min(len(a), len(b)))
    for _, user in [*a[differ : differ + 1], *b[differ : differ + 1]]:
        if user is not _NOBODY and [x for x in a if x[1] != user] == [x for x in b if x[1] != user]:
            return
    raise InvalidValue(
        "the streams must be the same once one user's events are deleted, and not the same before", code="audit-streams"
    )


def _is_batch(what: Any) -> bool:
    return isinstance(what, list | range | np.ndarray)
