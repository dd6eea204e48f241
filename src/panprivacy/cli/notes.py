"""What commands say about a delta, and about releases that are mostly noise, before and after they are made.

Each piece of advice is computed first, and given only if the standard error would fall by a tenth or more.
"""

from collections.abc import Callable, Iterator, Sequence
from math import exp, inf, sqrt
from typing import Any

from panprivacy.checks import TINY_DELTA, large_delta
from panprivacy.cli.counting import plan_of
from panprivacy.cli.output import Output
from panprivacy.display import counted
from panprivacy.estimates.actives import PLAUSIBLE
from panprivacy.estimates.estimate import GUESS
from panprivacy.estimators.base import Estimator
from panprivacy.estimators.distinct_law import relative_error
from panprivacy.privacy.splitting import best_split

DELTA = 1e-9
"""The delta that is suggested."""

_OF_A_COUNT = 0.5  # a relative error above this leaves hardly more than the order of magnitude
_HELPS = 0.9  # of the standard error is left, at most, if a change is worth a word


def expected_error(est: Any) -> tuple[float, float, str]:
    """The standard error of the next release, the largest that tells anything, and the first in words."""
    errors = est.expected_errors()
    if "count_relative_stderr" in errors:
        error = errors["count_relative_stderr"]
        return error, _OF_A_COUNT, f"{error:.0%} of the count"
    if "active_stderr" in errors:
        error = est.stderr_at(PLAUSIBLE)
        users = f"{error * est.universe.size:,.0f} users, which hides a day on which {PLAUSIBLE:.0%} are active"
        return error, PLAUSIBLE, f"{error:.2g}, or {users}"
    mean, share = errors.pop("mean_stderr", None), next((each for each in errors.values() if each is not None), 0.0)
    error = share if mean is None or share else mean / est.up_to
    return error, GUESS, f"{error:.2g}, of a share between 0 and 1"


def _design(est: Any) -> dict[str, Any]:
    """What the standard error of an estimator follows from.

    `bits` are those that one released number counts: a category's, a day's, or all. `population` are the users that
    they speak for; None where users share bits.
    """
    buckets = getattr(est, "buckets", None)
    if buckets is not None:
        bits, population = buckets, None
    else:
        parts = est.days if est.TRAITS.unit == "days" else len(getattr(est, "categories", None) or ()) or 1
        bits, population = max(est.users // parts, 1), getattr(est, "population", est.universe.size)
    up_to = None if getattr(est, "only", None) else getattr(est, "up_to", None)
    return plan_of(est) | {"bits": bits, "population": population, "up_to": up_to}


def _stderr(*, bits: int, intrusions: int, population: int | None, up_to: int | None, **budget: Any) -> float:
    """A number that the standard error of a design is proportional to, whatever is changed."""
    try:
        split = best_split(size=bits, intrusions=intrusions, up_to=up_to, **budget)
    except ValueError:  # too little epsilon for any noise
        return inf
    pair, t = split.pair_after(intrusions), up_to or 1
    if population is None:
        return relative_error(pair, bits, split.noise)
    coins = bits * (t - pair.gap**2) / 4
    noise = split.noise.variance * (1 if up_to is None else (t / 2) ** 2)
    sampled = max(1 / bits - 1 / population, 0.0) / 4
    return sqrt((coins + noise) / (bits * pair.gap) ** 2 + sampled)


def error_left(est: Any, **changed: Any) -> float:
    """The share of an estimator's standard error that is left if its budget is changed.

    >>> import panprivacy as pp
    >>> many = pp.Density(1000, epsilon=1.0, releases=500)
    >>> error_left(many, delta=1e-9) < 0.5, error_left(pp.Density(1000, epsilon=1.0), delta=1e-9)
    (True, 1.0)
    """
    design = _design(est)
    before, after = _stderr(**design), _stderr(**(design | changed))
    return after / before if before < inf else 1.0


def expected_noise(est: Any, spelled: Callable[[str], str] = str) -> str | None:
    """Say that releases of an estimator will be mostly noise, and what would help; None if they will not.

    What helps is named by arguments of estimators; `spelled` makes options of a command of them.

    >>> import panprivacy as pp
    >>> expected_noise(pp.Density(10**6, epsilon=1.0)), "more epsilon" in expected_noise(pp.Continual(10, epsilon=0.02))
    (None, True)
    """
    error, most, told = expected_error(est)
    if error <= most:
        return None
    if est.TRAITS.unit == "moves":  # has no planned releases that could be fewer
        return f"releases will be mostly noise: each errs by about {error:.2g}; what helps: more {spelled('epsilon')}"
    helps = [advice for advice, changed in _advice(est, spelled) if error_left(est, **changed) < _HELPS]
    return (
        f"releases will be mostly noise: each has a standard error of about {told}; what helps: "
        f"{', '.join(helps)}; panprivacy plan compares them"
    )


def _advice(est: Any, spelled: Callable[[str], str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What might help, and what it changes."""
    now = _design(est)
    bits = now["bits"]
    yield f"more {spelled('epsilon')}", {"epsilon": 2 * now["epsilon"]}
    if est.TRAITS.unit == "days":
        yield f"a shorter {spelled('span')}", {"releases": max(now["releases"] // 2, 1), "bits": 2 * bits}
    else:
        yield f"fewer {spelled('releases')}", {"releases": 1 + est.TRAITS.own_periods}
    if not est.delta:
        yield f"{spelled('delta')} {DELTA:g}", {"delta": DELTA}
    if now["population"] is None:
        many = f"more than {bits:,} {spelled('buckets')} if more than {16 * bits:,} users come"
        yield many, {"bits": 4 * bits}
        return
    if "sample" in est.TRAITS.options:
        yield f"a larger {spelled('sample')}", {"bits": bits * now["population"] // est.users}
    if getattr(est, "categories", None) is not None:
        yield f"fewer {spelled('categories')}", {"bits": 2 * bits}


UNUSED = "Laplace noise errs less here, so no delta is used"
"""The note for a delta that was allowed and is not needed."""

_ERRORS = {
    "density_stderr": "at density 1/2",
    "count_relative_stderr": "relative to the count",
    "share_stderr": "of each share",
    "mean_stderr": "of the mean",
    "returned_stderr": "of the share that came back",
    "active_stderr": "of the share that is active",
}
"""What each expected standard error is of, in the order of preference for a note."""

_MANY = 50  # releases beyond which Gaussian noise is usually worth a word
_WEAK = 10.0  # an epsilon above this is hardly a promise


def note_delta(est: Estimator[Any], asked: float | None, output: Output, *, continued: bool) -> None:
    """Say that a delta was allowed and Laplace noise needs none; or by how much one would help many releases."""
    releases = est.budget.releases
    if est.delta:
        return
    if asked:
        output.note("this state has Laplace noise, so no delta is used" if continued else UNUSED)
    elif not continued and releases > _MANY and (left := error_left(est, delta=DELTA)) < 1:
        errors = {name: error for name, error in est.expected_errors().items() if error is not None}
        name = next(name for name in _ERRORS if name in errors)
        output.note(
            f"{counted(releases, 'planned release')} err by {errors[name]:.2g} each (standard error {_ERRORS[name]}); "
            f"with --delta {DELTA:g} their noise is Gaussian, and they err by {left * errors[name]:.2g}"
        )


def note_epsilon(est: Estimator[Any], output: Output) -> None:
    """Say in words what a large epsilon and a large delta mean."""
    epsilon, delta = est.epsilon, est.delta
    if delta > TINY_DELTA:
        output.note(large_delta(delta))
    if epsilon > _WEAK:
        times = f"{exp(epsilon):,.0f}" if epsilon < 30 else f"e^{epsilon:g}"
        output.note(
            f"epsilon {epsilon:g} protects hardly anybody: state and releases together may multiply the odds that a "
            f"user appeared by {times}; with epsilon 1, by {exp(1):.1f} at most"
        )


def note_missed_error(est: Any, asked: float | None, output: Output) -> None:
    """Say so if the last release errs by more than `--error`, which holds from some count on."""
    last = est.last
    if asked is None or last is None or last.by_category or not last.count_stderr > 1.1 * asked * last.count:
        return
    within = est.counts_within(asked * 1.001)
    where = "for no count" if within is None else f"from {within[0]:,} users on"
    output.note(
        f"this count has a standard error of {last.count_stderr:,.0f} users: --error {asked:g} holds {where}, and for "
        "fewer users a larger --error errs less"
    )


def note_noise(releases: Sequence[Any], output: Output) -> None:
    """Say of an answer that it is mostly noise, or of a series, if at least half of its releases are.

    The first releases of a series often are, since few users have come yet.
    """
    noisy, many = sum(release.mostly_noise for release in releases), len(releases)
    if noisy and 2 * noisy >= many:
        what = "this answer is" if many == 1 else f"{noisy:,} of {many:,} releases are"
        output.note(f"{what} mostly noise; panprivacy plan finds an epsilon and a size that do better")
