r"""Smoothing: what remains of the noise of a series, given that it never falls, or moves slowly. It costs no epsilon.

**Series that never fall, or never rise: isotonic regression.** The nearest such sequence leans outwards at its ends.
Its last value is ``max over j of mean(y_j .. y_n)``: the largest of many noisy means, the noisiest of which are those
of the last few values. Where the truth is flat it lies 0.6 standard deviations of a *single* value too high, however
many values there are. Woodroofe and Sun (1993) take a penalty of the rise from end to end away from the fit, ``2 *
penalty * (f_n - f_1)``, which is the same as to move the last value down by the penalty and the first one up. Means of
few values then win only where they are higher by more than noise.

The penalty is ``(sqrt(k) - 1) / 2`` standard deviations of a value, where k is the number of values at that end which
show no rise: k doubles as long as the mean of the last k values is above that of the k before by at most two standard
deviations of such a difference. Where each value is clearly above the one before, k is 1, and nothing is moved.
`benchmarks/curve_ends.py` prints what the ends then err by.

**Series that move slowly: lines through neighbouring values.** The value at t is that of the straight line through the
values around it with the least weighted squares (Cleveland 1979), weights falling linearly to 0 at h + 1 steps. Lines,
unlike means, follow a trend up to the last value. How far a line reaches, h, is measured: among the reaches below, the
one whose risk is least by Mallows' C_p (1973),

    sum of (y - fit)^2 / variance  +  2 * sum of the weights that values have in their own fit,

which is an unbiased estimate of the mean squared error, since the variances are known. If the truth moves fast, h is 0,
and values stay as they are.

`monotone` fits a curve that never falls to the releases of a series, as the number of those who have *ever* appeared
never does.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, inf, isclose, isfinite, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeVar

import numpy as np

from panprivacy.display import Card, Tabular, counted, grid_of, group_column, html_of, line_of
from panprivacy.errors import InvalidType, InvalidValue, NoEstimate
from panprivacy.estimates.errors import Reals
from panprivacy.estimates.release import CountRelease, Release

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

_SURE = 2.0  # standard deviations of a rise that is not noise
_PENALTY = 0.5
_OUTLIER = 1.345  # standard deviations: Huber's, which gives up 5 % of the precision under normal noise
_ROUNDS, _CLOSE = 60, 1e-4  # of the search for outliers; changes below this share of the noise end it


def ordered_shares(raw: Sequence[float], weights: Sequence[float], *, rising: bool) -> tuple[float, ...]:
    """The nearest shares within [0, 1] that never fall, or never rise: their ends lean outwards.

    They err no more in all, if the truth does not fall, or rise, either.

    >>> ordered_shares([-0.25, 0.5, 0.25, 0.5], [1.0] * 4, rising=True)
    (0.0, 0.375, 0.375, 0.5)
    >>> ordered_shares([0.9, 0.5, 0.6, 0.2, -0.1], [1.0] * 5, rising=False)
    (0.9, 0.55, 0.55, 0.2, 0.0)
    """
    signed = np.asarray(raw) if rising else -np.asarray(raw)
    fitted = _isotonic(signed, np.asarray(weights))
    return tuple(np.clip(fitted if rising else -fitted, 0.0, 1.0).tolist())


def rising_curve(values: Reals, weights: Reals, noise: Reals, *, last: int = 1) -> Reals:
    """The fit to values with noise of these standard deviations, with its ends corrected; the last few are one number.

    >>> rising_curve(np.array([1.0, 3.0, 2.0, 5.0]), np.ones(4), np.full(4, 0.1)).tolist()
    [1.0, 2.5, 2.5, 5.0]
    """
    moved = values.copy()
    moved[-1] -= _penalty(values, noise[-1], last)
    moved[0] += _penalty(-values[::-1], noise[0], 1)
    return _pooled(moved, weights, last)


def robust_rising_curve(values: Reals, weights: Reals, noise: Reals, *, last: int = 1) -> Reals:
    """The same for noise with heavy tails: outliers are moved nearer to the fit.

    It has the least sum of Huber's losses, squares that go on as straight lines beyond 1.345 standard deviations. The
    fit that weighs each value there by 1 over its distance never raises that sum, and leads to the least one.
    """
    bound = _OUTLIER * noise
    fitted = _pooled(values, weights, last)
    for _ in range(_ROUNDS):
        far = np.maximum(np.abs(values - fitted) / bound, 1.0)
        before, fitted = fitted, _pooled(values, weights / far, last)
        if np.all(np.abs(fitted - before) <= _CLOSE * noise):
            break
    return rising_curve(fitted + np.clip(values - fitted, -bound, bound), weights, noise, last=last)


def _penalty(values: Reals, noise: Any, last: int) -> float:
    """By how much the last value is moved down, by how many of the last values show no rise."""
    flat, half = 1, last
    while 4 * half <= len(values):
        rise = values[-half:].mean() - values[-2 * half : -half].mean()
        if rise > _SURE * noise * sqrt(2 / half):
            break
        half *= 2
        flat = half
    return float(_PENALTY * noise * (sqrt(flat) - 1))


def _pooled(values: Reals, weights: Reals, last: int) -> Reals:
    """Isotonic regression in which the last few values are one number."""
    starts = np.arange(len(values) - last + 1)
    heavy = np.add.reduceat(weights, starts)
    means = np.add.reduceat(weights * values, starts) / heavy
    return np.repeat(_isotonic(means, heavy), np.diff(starts, append=len(values)))


def _isotonic(values: Reals, weights: Reals) -> Reals:
    from scipy.optimize import isotonic_regression

    return np.asarray(isotonic_regression(values, weights=weights).x)


BANDWIDTHS = (0, 1, 2, 3, 5, 7, 10, 14, 21)
"""How many steps to either side a line may reach."""

_FARTHEST = max(BANDWIDTHS)


class Smoothed(NamedTuple):
    """Values of lines through a series, their standard errors, and how many steps to either side the lines reach."""

    value: Reals
    stderr: Reals
    bandwidth: int


def local_lines(steps: Reals, values: Reals, variances: Reals) -> Smoothed:
    """Lines through values at whole steps of time, whose errors are independent and have these variances.

    The standard errors have two parts: the noise that is left, by the variances, and by how much the fit misses the
    values on average beyond their noise.

    >>> smoothed = local_lines(np.arange(40), np.tile([0.1, 0.3], 20), np.full(40, 0.01))
    >>> smoothed.bandwidth, smoothed.value[20:22].round(2).tolist(), bool(smoothed.stderr[20] < 0.05)
    (21, [0.2, 0.2], True)
    """
    places = (steps - steps[0]).astype(np.int64) + _FARTHEST
    around, weights = (np.zeros(places[-1] + 1 + _FARTHEST) for _ in range(2))
    around[places], weights[places] = values, 1 / variances
    wide = 2 * _FARTHEST + 1
    near, heavy = (
        np.lib.stride_tricks.sliding_window_view(each, wide)[places - _FARTHEST] for each in (around, weights)
    )
    fits = [_fitted(near, heavy, bandwidth) for bandwidth in BANDWIDTHS]
    risks = [float((np.square(values - fit) / variances).sum() + 2 * own.sum()) for fit, own, _ in fits]
    best = int(np.argmin(risks))
    fit, own, noise = fits[best]
    missed = np.square(values - fit) - (variances * (1 - 2 * own) + noise)
    return Smoothed(fit, np.sqrt(noise + max(float(missed.mean()), 0.0)), BANDWIDTHS[best])


def _fitted(near: Reals, heavy: Reals, bandwidth: int) -> tuple[Reals, Reals, Reals]:
    """The fits, the weight that each value has in its own fit, and the variances of the fits."""
    away = np.arange(-_FARTHEST, _FARTHEST + 1)
    kernel = heavy * np.maximum(1 - np.abs(away) / (bandwidth + 1), 0.0)
    level, slope, bend = ((kernel * away**power).sum(axis=1, keepdims=True) for power in (0, 1, 2))
    spread = level * bend - slope**2
    line = spread > 1e-9 * level * np.maximum(bend, level)  # through one value there is none
    linear = kernel * np.divide(bend - slope * away, spread, where=line, out=np.zeros_like(kernel))
    weights = np.where(line, linear, kernel / level)
    noise = np.divide(np.square(weights), heavy, where=heavy > 0, out=np.zeros_like(heavy)).sum(axis=1)
    return (weights * near).sum(axis=1), weights[:, _FARTHEST], noise


R = TypeVar("R", bound=Release | CountRelease)

_MOST_SHOWN = 8  # points that a display has room for
_LEAST_PRECISION = 0.25  # relative error of the releases that make up the last point of a curve


@dataclass(frozen=True)
class MonotoneCurve(Tabular, Generic[R]):
    """Numbers of users that never fall, one for each release of a series, and the releases that they were fitted to."""

    counts: tuple[float, ...]
    """How many users had ever appeared at each release; no number is below the one before it."""
    releases: tuple[R, ...]
    """The releases as they were made, with their intervals."""
    group: Any = None
    """The group that it is of; None for all users."""
    groups: "tuple[MonotoneCurve[R], ...]" = ()
    """A curve for each group of the releases; of releases by category there are only these."""

    @property
    def densities(self) -> tuple[float, ...]:
        """The counts as fractions of the universe. They never fall either, as long as the universe does not grow."""
        if not self.counts:
            return ()
        universes = [release.universe for release in self.releases]
        if None in universes:
            raise NoEstimate(self.releases[universes.index(None)].why_missing("densities"))
        return tuple(count / (universe or 1) for count, universe in zip(self.counts, universes, strict=True))

    def to_polars(self) -> "pl.DataFrame":
        """A frame with a row for each release: the curve beside what was released, in users and as shares.

        With groups, each of them has such rows, and the last ones are of all users: their group is null.
        """
        import polars as pl

        if self.groups:
            curves = [*self.groups, *([replace(self, groups=())] if self.counts else [])]
            each = [curve.to_polars().select(group_column(curve.group), pl.exclude("group")) for curve in curves]
            frame = pl.concat(each, how="diagonal_relaxed")
            return frame.with_columns(pl.col("users").fill_null(pl.col("universe"))) if "users" in frame else frame
        smoothed: dict[str, list[Any]] = {"release": [each.number for each in self.releases]}
        smoothed["smoothed_count"] = list(self.counts)
        if all(each.universe is not None for each in self.releases):
            smoothed["smoothed_density"] = list(self.densities)
        rows = [each.columns() for each in self.releases]
        return pl.DataFrame(smoothed | {name: [row[name] for row in rows] for name in (rows[0] if rows else ())})

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers and text, for JSON."""
        found: dict[str, Any] = {} if self.group is None else {"group": self.group}
        found |= {"counts": list(self.counts), "releases": [each.to_dict() for each in self.releases]}
        return found | ({"groups": [each.to_dict() for each in self.groups]} if self.groups else {})

    def plot(self, path: str | Path | None = None, *, ax: "Axes | None" = None) -> "Axes":
        """Draw the curve through the releases, and return Matplotlib's axes; with a path also into a file."""
        from panprivacy.estimates.timelines import draw_curve

        return draw_curve(self, path, ax)

    def card(self) -> Card:
        """Its representation: the last points, each beside its release."""
        points = list(zip(self.counts, self.releases, strict=False))  # by category, there is no curve of all
        shown = points[-_MOST_SHOWN:]
        last = f", of which the last {len(shown)} are shown" if len(shown) < len(points) else ""
        groups = (("groups", f"{len(self.groups):,}, each with a curve of its own"),) if self.groups else ()
        rows = (
            ("points", f"{len(self.releases):,}{last}"),
            *groups,
            *((f"release {each.number}", f"{count:,.0f} users (released {each.count:,.0f})") for count, each in shown),
        )
        return Card("Monotone curve", rows)

    __str__ = line_of
    __rich__ = grid_of
    _repr_html_ = html_of


def monotone(releases: Sequence[R], *, weights: Sequence[float] | None = None) -> MonotoneCurve[R]:
    r"""Fit a curve that never falls to the releases of one estimator: post-processing, which costs nothing of epsilon.

    If no user is ever removed, the number of users who have appeared does not fall; releases of it do, by their
    noise. Among all curves that never fall and stay between 0 and the universe, this is about the one with the least
    ``sum_i weights_i * (curve_i - raw_count_i)^2`` (isotonic regression). Stretches in which releases go up and down
    are averaged; a release that is above all before it and below all after it stays as it is, by far most often.
    Two things differ from the textbook: the ends, and counts of an open universe; see the notes.
    Groups and categories of the releases have a curve each, `curve.groups`.

    Parameters
    ----------
    releases
        All releases of a series, in the order in which they were made.
    weights
        One over the variance of the noise of each release. Default: those of the releases themselves. Of one estimator
        they are all the same, unless `rerandomize` or `grow` came between.

    Examples
    --------
    >>> import panprivacy as pp
    >>> est = pp.Density(universe=100_000, epsilon=1.0, releases=50)
    >>> series = []
    >>> for hour in range(50):
    ...     est.update_many(range(1000 * hour, 1000 * hour + 1000))
    ...     series.append(est.release())
    >>> curve = pp.monotone(series)
    >>> all(earlier <= later for earlier, later in zip(curve.densities, curve.densities[1:]))
    True
    >>> curve.releases[7].density_interval == series[7].density_interval
    True

    Notes
    -----
    *Why these weights.* The error of a release has two parts. The noise of the release is drawn anew each time, and
    averaging over a stretch makes it small. The coins of the bits (and who is in the sample) are drawn once: two
    releases share them but for the bits that were redrawn in between. What all releases of a stretch share moves the
    whole curve up or down and no point of it against another, so no weights could make it smaller, and it has no place
    in them: weights made of `density_stderr` would count it.

    *The ends.* The last point of isotonic regression leans upwards, the first one downwards, by 0.6 standard deviations
    of a single release where the truth is flat, and people quote the last point. So the last release is moved down and
    the first one up before the fit, by as much as the releases beside them allow.
    Of a flat truth the last point then lies 0.27 (52 releases) to 0.12 (8,736) too high, of a rising one at most 0.2
    too low, and its root mean squared error falls by up to half (`benchmarks/curve_ends.py`).

    *Counts of an open universe.* The noise of a `CountRelease` is a share of the count, with heavy tails: of
    many releases with little epsilon each, some are wrong by orders of magnitude, and on the scale of users
    one of them would outweigh all others. So they are fitted on the scale on which their noise is even,
    ``asinh(count / unit)``, by Huber's loss, for which what is far off counts by its side more than by its distance;
    and where a release errs by more than a quarter, several of the last ones make up the last point together. With
    little noise this is the same curve as by squares; with much noise it is nearly a median.

    *Limits.* No interval is given for the curve. The error that is left is the shared one of the coins and a part of
    the noise that depends on how steep the truth is, which is not known. The interval of each release holds at its
    level as before. The highest lower end so far and the lowest upper end to come may be taken together only if all
    intervals hold at once: K releases of ``level=1 - 0.05/K`` do, with probability 0.95.

    Nothing in a release tells whether users were removed, since an estimator must not remember it: you have to know.
    Releases of `pp.Windows` count anew in each window, and may well fall.

    References
    ----------
    Barlow, Bartholomew, Bremner and Brunk, *Statistical inference under order restrictions* (1972): the fit within
    bounds is the fit without them, brought between them. Woodroofe and Sun, *A penalized maximum likelihood estimate of
    f(0+) when f is non-increasing* (1993): the ends.
    """
    if not isinstance(releases, Iterable):
        raise InvalidType(
            f"a monotone curve is fitted to a list of releases, got a {type(releases).__name__}", code="curve-release"
        )
    made = tuple(releases)
    _check_series(made)
    _check_weights(weights, len(made))
    if not made:
        return MonotoneCurve((), ())
    rows: Any = list(zip(*(release.groups for release in made), strict=True))
    known = [row for row in rows if all(isfinite(release.raw_count) for release in row)]
    groups = tuple(replace(monotone(row, weights=weights), group=row[0].group) for row in known)
    if made[0].by_category:
        return MonotoneCurve((), made, groups=groups)
    universes = [float(release.universe or inf) for release in made]
    most = np.minimum.accumulate(universes[::-1])[::-1]  # no more users than there can have been at any later release
    return MonotoneCurve(tuple(np.clip(_fitted_counts(made, weights), 0.0, most).tolist()), made, groups=groups)


def _fitted_counts(releases: Sequence[Any], weights: Sequence[float] | None) -> Reals:
    """The numbers of users that rise. The weights are by the noise, unless it is even, as on the scale of counts."""
    raw, even = np.array([release.raw_count for release in releases]), np.ones(len(releases))
    if isinstance(releases[0], Release):
        noise = np.array([each.noise_stderr * each.universe for each in releases])
        own = np.square(noise.min() / noise) if noise.min() > 0 else even
        return rising_curve(raw, own if weights is None else np.asarray(weights, dtype=np.float64), noise)
    heavy = even if weights is None else np.asarray(weights, dtype=np.float64)
    scale = AsinhScale.of(releases)
    if scale is None:
        return rising_curve(raw, heavy, np.zeros(len(raw)))
    last = min(scale.last, len(raw) // 4 or 1)
    return scale.users(robust_rising_curve(scale.scaled(raw), heavy, scale.relative * even, last=last))


@dataclass(frozen=True)
class AsinhScale:
    r"""Numbers of users as ``u = asinh(n / unit)``, which is even near zero and geometric far from it.

    The noise of a `CountRelease` has standard deviation ``at_zero`` where few users came and ``relative * n`` where
    many did, so on the scale with ``unit = at_zero / relative`` it is `relative` everywhere, as a fit of squares wants
    it. On the scale of users one estimate that is a thousand times too high would outweigh all others.
    """

    unit: float
    relative: float

    @classmethod
    def of(cls, releases: Sequence[CountRelease]) -> Self | None:
        """The scale, from the noise of the releases; None where there is no noise."""
        at_zero = min(release.noise_stderr for release in releases)
        if not 0 < at_zero < inf:
            return None
        relative = min(release.noise_stderr / release.count if release.count > 0 else inf for release in releases)
        return cls(at_zero, 1.0) if relative == inf else cls(at_zero / relative, relative)

    @property
    def last(self) -> int:
        """How many releases the last point of a curve is made of, so that their mean errs by a quarter at most.

        By wide noise a single release is wrong by orders of magnitude; if it is the last one, no later one corrects it.
        """
        return max(1, ceil((self.relative / _LEAST_PRECISION) ** 2))

    def scaled(self, counts: Any) -> Reals:
        """Numbers of users on this scale."""
        return np.asarray(np.arcsinh(np.asarray(counts) / self.unit))

    def users(self, scaled: Reals) -> Reals:
        """Numbers of users, from numbers on this scale."""
        return np.asarray(self.unit * np.sinh(scaled))


# --- refusals -------------------------------------------------------------------------------------------------------


def _check_series(releases: Sequence[Any]) -> None:
    """Refuse releases that cannot be of one estimator: it has one budget, and a universe that never shrinks.

    Two estimators of one plan cannot be told apart by their releases.
    """
    for release in releases:
        if not isinstance(release, Release | CountRelease):
            raise InvalidType(
                f"a monotone curve is fitted to releases of Density or DistinctCount, and a {type(release).__name__} "
                "is none; windows count anew each time, and their releases may fall",
                code="curve-release",
            )
        if type(release) is not type(releases[0]):
            raise InvalidType(
                "these are releases of Density and of DistinctCount: give releases of one estimator",
                code="curve-kinds",
            )
        if not release.by_category and not isfinite(release.raw_count):
            raise InvalidValue(
                f"release {release.number} has no estimate: its raw count is {release.raw_count}", code="curve-estimate"
            )
    for before, after in pairwise(releases):
        if after.number <= before.number:
            raise InvalidValue(
                f"release {after.number} comes after release {before.number}: give the releases of one estimator, in "
                "the order in which they were made",
                code="curve-order",
            )
        said = f"releases {before.number} and {after.number} are of different estimators"
        budgets = [each.epsilon_spent + each.epsilon_remaining for each in (before, after)]
        if not isclose(*budgets, rel_tol=1e-9) or after.epsilon_spent < before.epsilon_spent:
            raise InvalidValue(
                f"{said}, whose budgets differ: give the releases of one, in the order in which they were made",
                code="curve-estimators",
            )
        if isinstance(before, Release) and after.universe < before.universe:
            raise InvalidValue(
                f"{said}: a universe of {before.universe:,} users never has {after.universe:,} later",
                code="curve-estimators",
            )


def _check_weights(weights: Sequence[float] | None, releases: int) -> None:
    if weights is None:
        return
    if len(weights) != releases:
        raise InvalidValue(
            f"there are {counted(releases, 'release')} and {counted(len(weights), 'weight')}", code="curve-weights"
        )
    if not all(0 < weight < inf for weight in weights):
        raise InvalidValue(
            "a weight is one over the variance of a release's noise: a positive number", code="curve-weights"
        )
