"""Which releases are mostly noise, before they are made and when they are."""

from typing import Any

from panprivacy.actives import ActiveUsers
from panprivacy.counts import Counts
from panprivacy.density import Density
from panprivacy.distinct import DistinctCount
from panprivacy.privacy.splitting import best_split
from panprivacy.release import CategoryRelease
from panprivacy.release.actives import ActivesRelease
from panprivacy.retention import Retention

_OF_A_COUNT = 0.5  # a relative error above this leaves hardly more than the order of magnitude
_GUESS = 12**-0.5  # standard deviation of a number that is drawn from 0 to 1: who errs more would do better to guess
_DELTA = 1e-9  # that is suggested
_PLAUSIBLE = 0.05  # a share of users that may be active on a day: an error as large hides it


def expected_noise(est: Any) -> str | None:
    """Say that releases of an estimator will be mostly noise, and what would help; None if they will not.

    What helps is named by options of commands; `as_keys` makes keys of a file of them.
    """
    if isinstance(est, DistinctCount):
        error, most, unit = est.relative_error, _OF_A_COUNT, " of the count"
    elif isinstance(est, ActiveUsers):
        error, most = est.stderr_at(_PLAUSIBLE), _PLAUSIBLE
        unit = f", or {error * est.universe.size:,.0f} users, which hides a day on which {_PLAUSIBLE:.0%} are active"
    else:
        error, most, unit = _error_of_a_share(est), _GUESS, ", of a share between 0 and 1"
    if error <= most:
        return None
    shown = f"{error:.0%}" if isinstance(est, DistinctCount) else f"{error:.2g}"
    return (
        f"releases will be mostly noise: each has a standard error of about {shown}{unit}; what helps: "
        f"{', '.join(_what_helps(est))}; panprivacy plan compares them"
    )


def as_keys(text: str) -> str:
    """The same text with the names of options as those of keys.

    >>> as_keys("what helps: more --epsilon, --delta 1e-9")
    'what helps: more epsilon, delta = 1e-9'
    """
    return text.replace("--delta ", "delta = ").replace("--", "")


def is_mostly_noise(released: Any) -> bool:
    """Whether a release says hardly anything; one of categories, whether at least half of them do not."""
    if isinstance(released, CategoryRelease):
        return 2 * sum(bool(row.mostly_noise) for row in released.groups) >= len(released.groups)
    if errors := getattr(released, "at_least_stderr", ()):
        return bool(max(errors) > _GUESS)
    if isinstance(released, ActivesRelease):
        return released.active_stderr[0] > max(released.active[0], _PLAUSIBLE)
    if hasattr(released, "up_to"):  # the mean alone
        return bool(released.mean_stderr > _GUESS * released.up_to)
    if hasattr(released, "returned_stderr"):
        return bool(released.returned_stderr > _GUESS)
    return bool(getattr(released, "mostly_noise", False))  # an observation at any time has a band that says it


def _error_of_a_share(est: Any) -> float:
    """The standard error of a release, where a half of the users appeared."""
    if isinstance(est, Density):
        return est.density_stderr_at(0.5)
    if isinstance(est, Counts):
        return est.share_stderr if est.share_stderr is not None else est.mean_stderr / est.up_to
    return est.stderr_at(0.5) if isinstance(est, Retention) else 0.0


def _what_helps(est: Any) -> list[str]:
    helps = ["more --epsilon"]
    if isinstance(est, ActiveUsers):
        helps.append("a shorter --span")
    elif est.budget.releases > 1:
        helps.append("fewer --releases")
    if not est.delta and _a_delta_helps(est):
        helps.append("--delta 1e-9")
    if isinstance(est, DistinctCount):
        helps.append(f"more than {est.buckets:,} --buckets")
    elif isinstance(est, Density) and est.users < est.universe.size:
        helps.append("a larger --sample")
    if getattr(est, "categories", None) is not None:
        helps.append("fewer --categories")
    return helps


def _a_delta_helps(est: Any) -> bool:
    """Whether Gaussian noise would err less than the Laplace noise of an estimator: not of few releases."""
    size = est.buckets if isinstance(est, DistinctCount) else est.users
    each = size // est.days if isinstance(est, ActiveUsers) else size
    up_to = est.up_to if isinstance(est, Counts) and not est.only else None
    plan = est.budget.releases, est.budget.redraws
    return bool(best_split(est.epsilon, max(each, 1), *plan, _DELTA, up_to=up_to).delta)
