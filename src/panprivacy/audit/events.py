"""Which event tells two streams apart best, and how sure one can be of its probabilities."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from panprivacy.audit.proportions import Counts, Reals, clopper_pearson

_THRESHOLDS = 200
_STATE_FEATURES = 8


@dataclass(frozen=True)
class Runs:
    """What was seen in many runs: named features, those of states first, those of releases last."""

    names: tuple[str, ...]
    states: int
    """How many features are of states."""
    a: Reals
    b: Reals
    """One row for each run of the one stream and of the other."""

    def telling(self) -> list[int]:
        """The features to work with: all sums and releases, and of the others those whose means differ most."""
        plain = [i for i in range(self.states) if not self.names[i].startswith("sum of")]
        spread = np.abs(self.a.mean(axis=0) - self.b.mean(axis=0))
        chosen = sorted(plain, key=lambda i: -spread[i])[:_STATE_FEATURES]
        return [i for i in range(len(self.names)) if i in chosen or i not in plain]

    def only(self, chosen: list[int]) -> "Runs":
        """The same runs with these features only."""
        states = sum(i < self.states for i in chosen)
        return Runs(tuple(self.names[i] for i in chosen), states, self.a[:, chosen], self.b[:, chosen])


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
    wheres = [(None, 0.0), *_conditions(runs)]
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


def _conditions(runs: Runs) -> Iterator[tuple[int | None, float]]:
    for i in range(runs.states):
        values = np.unique(runs.a[:, i])
        if len(values) == 2:
            yield from ((i, float(value)) for value in values)


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
