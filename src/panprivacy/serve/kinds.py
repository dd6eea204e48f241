"""The estimators that can be served: which keys they have, how they are made, and what a release of theirs is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from panprivacy.actives import ActiveUsers
from panprivacy.continual import Continual
from panprivacy.counts import Counts
from panprivacy.density import Density
from panprivacy.distinct import DistinctCount
from panprivacy.errors import PanPrivacyError
from panprivacy.retention import Retention
from panprivacy.universe import Ids, Universe

_SIZE = ("sample", "memory")
_CATEGORIES = ("categories", "other")


@dataclass(frozen=True)
class Kind:
    """One estimator of the library, as the service uses it."""

    made_by: Callable[..., Any]
    keys: tuple[str, ...]
    """What its constructor takes besides the universe and epsilon."""
    release: Callable[[Any, float], Any]
    """Spends one release with intervals of a level."""
    error: Callable[[Any], dict[str, Any]]
    """The error to expect, before anything is spent."""
    left: Callable[[Any], int | None]
    """How many releases are left; None if days are released for ever."""
    open: bool = False
    """Whether anybody may appear: there is no universe."""
    groups: bool = False
    """Whether users can be in groups."""

    def make(self, universe: Universe | None, epsilon: float, plan: Mapping[str, Any]) -> Any:
        """A new estimator."""
        return self.made_by(epsilon=epsilon, **plan) if self.open else self.made_by(universe, epsilon, **plan)


def _planned(est: Any) -> int:
    return int(est.budget.releases - est.budget.releases_made)


def _always(_est: ActiveUsers) -> None:
    return None


def _observed(est: Continual, _level: float) -> Any:
    """An observation, whose level was decided when the counter was made."""
    return est.observe()


def _second_or_first(est: Retention, level: float) -> Any:
    """A release of the second period; the first one ends the first period."""
    return est.release(level) if est.closed else est.close(level)


KINDS: dict[str, Kind] = {
    "density": Kind(
        Density,
        (*_SIZE, "releases", "intrusions", "delta", *_CATEGORIES),
        lambda est, level: est.release(level),
        lambda est: {"density_stderr": est.density_stderr_at(0.5)},
        _planned,
        groups=True,
    ),
    "distinct": Kind(
        DistinctCount,
        ("buckets", "error", "releases", "intrusions", "delta", *_CATEGORIES, "ids"),
        lambda est, level: est.release(level),
        lambda est: {"count_relative_stderr": est.relative_error},
        _planned,
        open=True,
    ),
    "counts": Kind(
        Counts,
        ("up_to", "only", "releases", "delta", *_CATEGORIES),
        lambda est, level: est.release(level),
        lambda est: {"mean_stderr": est.mean_stderr, "share_stderr": est.share_stderr},
        _planned,
        groups=True,
    ),
    "actives": Kind(
        ActiveUsers,
        ("span", "every", "start", "delta", *_SIZE),
        lambda est, level: est.release(level),
        lambda est: {"active_stderr": est.stderr_at(0.5)},
        _always,
    ),
    "retention": Kind(
        Retention,
        ("newcomers", "releases", "delta", *_SIZE),
        _second_or_first,
        lambda est: {"returned_stderr": est.stderr_at(0.5)},
        _planned,
    ),
    "continual": Kind(
        Continual,
        ("step", "moves", "observations", "beta", "delta", *_SIZE),
        _observed,
        lambda est: {"density_error": est.accuracy().alpha},
        lambda est: est.moves_left,
    ),
}
"""By the name that a file has for them."""


class Fed:
    """An estimator as `feeding.Feed` feeds it: `Continual` knows no categories."""

    def __init__(self, est: Any) -> None:
        self._est = est
        self.universe = est.universe

    def update_many(self, ids: Ids, categories: None = None) -> None:
        """Note that these users appeared."""
        assert categories is None
        self._est.update_many(ids)

    def remove_many(self, ids: Ids, categories: None = None) -> None:
        """Note that these users were deleted; refused where no deletions are planned."""
        assert categories is None
        try:
            self._est.remove_many(ids)
        except PanPrivacyError:
            raise
        except ValueError as error:
            raise PanPrivacyError(str(error)) from None


def fed(est: Any) -> Any:
    """What takes the batches of an estimator."""
    return Fed(est) if isinstance(est, Continual) else est
