"""What commands say of a delta: what a large one means, that none is used, and what one would buy."""

from dataclasses import replace
from typing import Any

from panprivacy.checks import TINY_DELTA, large_delta
from panprivacy.cli.plainly import Speaker
from panprivacy.density import Density
from panprivacy.distinct import DistinctCount
from panprivacy.estimator import Estimator
from panprivacy.sizes import counted

MANY = 50
"""Releases beyond which Gaussian noise is usually worth a word."""

UNUSED = "Laplace noise errs less here, so no delta is used"
"""What is said where a delta was allowed and is not needed."""

_OFFERED = 1e-9


def note_large_delta(delta: float, speaker: Speaker) -> None:
    """Say in words what a delta is that is not tiny."""
    if delta > TINY_DELTA:
        speaker.note(large_delta(delta))


def note_unused_delta(est: Estimator[Any], asked: float | None, speaker: Speaker, *, continued: bool) -> None:
    """Say so where a delta was allowed and the noise is Laplace noise, which needs none."""
    if asked and not est.delta:
        speaker.note("this state has Laplace noise, so no delta is used" if continued else UNUSED)


def note_what_a_delta_buys(est: Estimator[Any], speaker: Speaker) -> None:
    """Say of many releases with Laplace noise what they would err by with Gaussian noise, if that is less."""
    releases = est.budget.releases
    if est.delta or releases <= MANY:
        return
    with_laplace, with_gaussian, of_what = _errors(est)
    if with_gaussian < with_laplace:
        speaker.note(
            f"{counted(releases, 'planned release')} err by {with_laplace:.2g} each (standard error {of_what}); with "
            f"--delta {_OFFERED:g} their noise is Gaussian, and they err by {with_gaussian:.2g}"
        )


def _errors(est: Estimator[Any]) -> tuple[float, float, str]:
    """Standard errors of an estimator as it is, and as it would be with a delta; and what they are errors of."""
    from panprivacy.distinct.buckets import relative_error
    from panprivacy.planning.noises import stderr_of_density
    from panprivacy.planning.terms import Terms

    budget = est.budget
    terms = Terms(est.universe.size, est.epsilon, budget.releases, budget.redraws, _OFFERED)
    if isinstance(est, DistinctCount):
        split = terms.split(est.buckets)
        pair = split.pair_after(split.intrusions)
        return est.relative_error, relative_error(pair, est.buckets, split.noise), "relative to the count"
    assert isinstance(est, Density)
    with_laplace, with_gaussian = (
        stderr_of_density(replace(terms, delta=delta), est.users, 0.5) for delta in (None, _OFFERED)
    )
    return with_laplace, with_gaussian, "at density 1/2"
