"""What commands say about a delta, and about releases that are mostly noise."""

from collections.abc import Sequence
from math import exp
from typing import Any

from panprivacy.checks import TINY_DELTA, large_delta
from panprivacy.cli.output import Output
from panprivacy.estimators.base import Estimator
from panprivacy.planning.advice import DELTA, error_left, expected_noise
from panprivacy.units import counted

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
_BETTER = "panprivacy plan finds an epsilon and a size that do better"


def note_large_delta(delta: float, output: Output) -> None:
    """Say in words what a delta is that is not tiny."""
    if delta > TINY_DELTA:
        output.note(large_delta(delta))


def note_unused_delta(est: Estimator[Any], asked: float | None, output: Output, *, continued: bool) -> None:
    """Say so where a delta was allowed and the noise is Laplace noise, which needs none."""
    if asked and not est.delta:
        output.note("this state has Laplace noise, so no delta is used" if continued else UNUSED)


def note_what_a_delta_buys(est: Estimator[Any], output: Output) -> None:
    """Say of many releases with Laplace noise what they would err by with Gaussian noise, if that is less."""
    releases = est.budget.releases
    if est.delta or releases <= _MANY:
        return
    left = error_left(est, delta=DELTA)
    if left < 1:
        errors = {name: error for name, error in est.expected_errors().items() if error is not None}
        name = next(name for name in _ERRORS if name in errors)
        output.note(
            f"{counted(releases, 'planned release')} err by {errors[name]:.2g} each (standard error {_ERRORS[name]}); "
            f"with --delta {DELTA:g} their noise is Gaussian, and they err by {left * errors[name]:.2g}"
        )


def note_epsilon(est: Estimator[Any], output: Output) -> None:
    """Say in words what a large epsilon and a large delta mean."""
    note_large_delta(est.delta, output)
    epsilon = est.epsilon
    if epsilon > _WEAK:
        times = f"{exp(epsilon):,.0f}" if epsilon < 30 else f"e^{epsilon:g}"
        output.note(
            f"epsilon {epsilon:g} protects hardly anybody: state and releases together may multiply the odds that a "
            f"user appeared by {times}; with epsilon 1, by {exp(1):.1f} at most"
        )


def note_expected_noise(est: Estimator[Any], output: Output) -> None:
    """Say beforehand that releases will be mostly noise, and what would help."""
    noise = expected_noise(est, spelled=lambda name: f"--{name}")
    if noise is not None:
        output.note(noise)


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


def note_noise(released: Any, output: Output) -> None:
    """Say of a release that it is mostly noise, if it is."""
    if released.mostly_noise:
        output.note(f"this answer is mostly noise; {_BETTER}")


def note_noise_of_series(releases: Sequence[Any], output: Output) -> None:
    """Say of a series that its releases are mostly noise, if at least half of them are.

    The first releases of a series often are, since few users have come yet.
    """
    noisy = sum(release.mostly_noise for release in releases)
    if noisy and 2 * noisy >= len(releases):
        output.note(f"{noisy:,} of {counted(len(releases), 'release')} are mostly noise; {_BETTER}")
