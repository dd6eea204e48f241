"""The estimators that the exact auditor enumerates, each small enough for it.

An estimator that is registered and has no entry here gets one from its `TRAITS`.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from panprivacy import paper, registry
from panprivacy.audit.enumeration import exact
from panprivacy.audit.enumeration.wording import Result
from panprivacy.audit.holders import Mechanism, Merged, ObserverByShares, TwoCategories, with_low_threshold
from panprivacy.checks import LargeDelta
from panprivacy.estimators.actives import ActiveUsers
from panprivacy.estimators.continual import Continual
from panprivacy.estimators.continual_law import Shares, loss_of_epochs
from panprivacy.estimators.counts import Counts
from panprivacy.estimators.density import Density
from panprivacy.estimators.distinct import DistinctCount
from panprivacy.estimators.retention import Retention
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.noise import Gaussian
from panprivacy.privacy.pairs import symmetric
from panprivacy.registry import Traits, options_of
from panprivacy.testing import gaussian_noise
from panprivacy.universe import Edges, Users

_KINDS = ["flu", "cold"]
_KEY = bytes([3] * 16)  # any key will do: it decides who owns which bit, and the state shows it


@dataclass(frozen=True)
class Case:
    """What an audit asks for."""

    epsilon: float = 0.2
    """The total that is claimed; the printed algorithms claim twice the epsilon they are given."""
    users: int = 3
    events: int = 3
    releases: int = 1
    intrusions: int = 0
    deletions: bool = False
    delta: float | None = None
    """The delta that is claimed beside epsilon, by those that draw Gaussian noise."""


@dataclass(frozen=True)
class Subject:
    """One estimator in one of its uses."""

    name: str
    kind: type
    build: Callable[[Case, Coins], Any]
    private: bool = True
    """Whether the package recommends it; an audit of a printed algorithm is expected to fail."""
    ids: Callable[[int], Sequence[Any]] = range
    """The users, of whom there are that many."""
    readings: int = 1
    """A mechanism that holds its data in the clear promises nothing to someone who reads it: 0."""
    one_release: bool = False
    """Whether several releases have too many outcomes to enumerate, though they can be planned."""
    tight: bool = True
    """Whether the claim is the exact loss, and not only a bound of it."""
    categories: bool = False
    """Whether a user can appear in either of two categories, or in both."""
    least: float = 0.0
    """The smallest epsilon whose outcomes are few enough to enumerate; one below it is raised to it."""
    delta: float | None = None
    """The delta that it claims: large, so that its noise has few outcomes."""
    plans: int = 1
    """The least number of releases."""
    announced: int = 0
    """The least number of announced readings."""
    longest: int = 6
    """The longest streams that are audited in seconds."""
    reach: int | None = None
    """How far from zero noise that stays in the state is followed, where more is needed than is usual."""
    shortest: int = 1
    """How many events it takes to lose as much as can be lost; fewer are raised to it."""

    @property
    def releases(self) -> bool:
        """Whether more than one release can be planned; if not, its claim is for one."""
        return not self.one_release and not {"releases", "observations"}.isdisjoint(options_of(self.kind))

    def audit(self, case: Case) -> Result:
        """Find the exact worst-case loss under a case, as far as the estimator can follow it."""
        options, two_periods = options_of(self.kind), hasattr(self.kind, "close")
        case = replace(
            case,
            epsilon=max(case.epsilon, self.least),
            events=max(case.events, self.shortest),
            deletions=case.deletions and getattr(self.kind, "TRAITS", Traits()).removes and not two_periods,
            releases=max(case.releases, self.plans) if self.releases else 1,
            intrusions=max(case.intrusions, self.announced) if "intrusions" in options else 0,
            delta=self.delta,
        )
        verbs = [verb + which for verb in ("update", "remove")[: 1 + case.deletions] for which in ("", "_other")]
        with warnings.catch_warnings(), gaussian_noise():
            warnings.simplefilter("ignore", paper.NotPrivateAsPrinted)
            warnings.simplefilter("ignore", LargeDelta)
            return exact(
                lambda coins: self.build(case, coins),
                self.ids(case.users),
                min(case.events, self.longest),
                releases=case.releases + (two_periods or hasattr(self.kind, "advance")),  # a cohort, or one more day
                intrusions=case.intrusions,
                deletions=case.deletions,
                readings=self.readings,
                verbs=verbs if self.categories else None,
                reach=self.reach,
            )


def _of(kind: Any, **options: Any) -> Callable[[Case, Coins], Any]:
    """A constructor with what it takes of a case, and with these options; an option may depend on the case."""
    known = options_of(kind)

    def build(case: Case, coins: Coins) -> Any:
        asked: dict[str, Any] = {"universe": case.users, "key": _KEY, "delta": case.delta}
        asked |= {"releases": case.releases, "intrusions": case.intrusions}
        taken = {name: value for name, value in asked.items() if name in known}
        given = {name: value(case) if callable(value) else value for name, value in options.items()}
        return kind(epsilon=case.epsilon, **{**taken, **given}, coins=coins)

    return build


def _by_category(kind: Any, **options: Any) -> Callable[[Case, Coins], TwoCategories]:
    build = _of(kind, categories=_KINDS, **options)
    return lambda case, coins: TwoCategories(build(case, coins), *_KINDS)


def _shards(case: Case, coins: Coins) -> Merged:
    return Merged([_of(Density, shard=(i, 2))(case, coins) for i in range(2)])


def _two(_: int) -> range:
    return range(2)


def _names(users: int) -> list[str]:
    return [f"user{i}" for i in range(users)]


def _edges(users: int) -> list[tuple[int, int]]:
    """As many edges as there are users: the first ones of the smallest graph that has them."""
    return [(low, high) for high in range(users + 2) for low in range(high)][:users]


def _continual(case: Case, coins: Coins) -> Continual:
    options: dict[str, Any] = {"step": 1.0, "moves": 1, "observations": case.releases}
    return with_low_threshold(Continual(2, case.epsilon, **options, coins=coins))


def _continual_with_delta(case: Case, coins: Coins) -> Continual:
    # Shares by hand: with so few users and moves a delta does not pay, and the best shares have none. The state has
    # the rest of epsilon.
    assert case.delta is not None
    threshold, test, noise = Fraction(1, 2), Fraction(1, 20), Gaussian(Fraction(1))
    beside = float(3 * threshold + test) + loss_of_epochs(test, noise.square, 1, case.delta)
    shares = Shares(case.epsilon, symmetric(case.epsilon - beside), 1, threshold, test, noise, delta=case.delta)
    return ObserverByShares.of(shares, 1, coins)


def _printed(name: str, kind: Any, *, sample: int, least: float = 0.0, **more: Any) -> Subject:
    """An algorithm as the paper prints it, which plans one release, and which the audit is expected to refute."""

    def build(case: Case, coins: Coins) -> Any:
        return kind(case.users, case.epsilon / 2, sample, coins=coins, **more)

    return Subject(name, kind, build, private=False, least=least)


def _with_delta(name: str, kind: type, build: Callable[[Case, Coins], Any], **more: Any) -> Subject:
    # The proofs of its delta are bounds: see `panprivacy.privacy.gaussian` and `panprivacy.privacy.renyi`.
    return Subject(f"{name}, delta", kind, build, tight=False, least=3.0, delta=1e-3, **more)


_DENSITY, _TWO_USERS = _of(Density), _of(Density, universe=2)
_SAMPLED = _of(Density, sample=lambda case: case.users - 1)
_LISTED = _of(Density, universe=lambda case: Users(_names(case.users)))
_EDGES = _of(Density, universe=lambda case: Edges(_edges(case.users)[-1][1] + 1))
_GROUPS = _of(  # every second user is in the other group
    Density, universe=lambda case: Users(_names(case.users), groups=[_KINDS[i % 2] for i in range(case.users)])
)
_DISTINCT = _of(DistinctCount, buckets=2, levels=2)  # some of the users share a bit
# Two places of a counter show all there is to it: staying, moving on, and coming back with another bit.
_COUNTS: dict[str, Any] = {"universe": 2, "up_to": 2}

SUBJECTS: tuple[Subject, ...] = (
    Subject("Density", Density, _DENSITY),
    Subject("Density, sampled", Density, _SAMPLED),
    Subject("Density, listed", Density, _LISTED, ids=_names),
    Subject("Density, edges", Density, _EDGES, ids=_edges),
    Subject("Density, groups", Density, _GROUPS, ids=_names),
    Subject("Density, categories", Density, _by_category(Density), categories=True),
    Subject("Density, one shard", Density, _of(Density, shard=(0, 2))),
    Subject("Density, merged", Density, _shards),
    Subject("DistinctCount", DistinctCount, _DISTINCT),
    Subject(
        "DistinctCount, categories", DistinctCount, _by_category(DistinctCount, buckets=2, levels=1), categories=True
    ),
    _with_delta("Density", Density, _DENSITY),
    _with_delta("Density, 2 releases", Density, _TWO_USERS, ids=_two, plans=2, longest=2),
    _with_delta("Density, 3 releases", Density, _TWO_USERS, ids=_two, plans=3, longest=2),
    _with_delta("Density, announced", Density, _TWO_USERS, ids=_two, announced=1, longest=2),
    _with_delta("Density, sampled", Density, _SAMPLED),
    _with_delta("Density, merged", Density, _shards),
    _with_delta("DistinctCount", DistinctCount, _DISTINCT),
    # Each of its releases has two numbers, and more than three numbers have too many outcomes.
    _with_delta("Counts", Counts, _of(Counts, **_COUNTS), ids=_two, shortest=2, longest=2, one_release=True),
    Subject("Counts", Counts, _of(Counts, **_COUNTS), ids=_two),
    Subject("Counts, groups", Counts, _of(Counts, **_COUNTS, groups=_KINDS), ids=_two),
    # Under this key one of the two users is asked about either category.
    Subject("Counts, categories", Counts, _by_category(Counts, **_COUNTS), ids=_two, categories=True),
    # A bit is certain to be redrawn only after as many events as its counter has places.
    Subject("Counts, mean only", Counts, _of(Counts, **_COUNTS, only="mean"), ids=_two, shortest=2),
    # With a small epsilon the walk of its threshold goes too far to be followed.
    Subject("Continual", Continual, _continual, ids=_two, tight=False, least=8.0),
    Subject(
        "Continual, delta",
        Continual,
        _continual_with_delta,
        ids=lambda users: range(1),  # noqa: ARG005
        one_release=True,
        tight=False,
        least=6.0,
        delta=1e-3,
        longest=2,
        reach=30,
    ),
    # A cycle of two days; some of the users are reset between them.
    Subject("ActiveUsers", ActiveUsers, _of(ActiveUsers, span="2d", start=0)),
    Subject("Retention", Retention, _of(Retention)),
    Subject("Retention, newcomers", Retention, _of(Retention, newcomers=True)),
    Subject("FixedLevelPPDS", paper.FixedLevelPPDS, _of(paper.FixedLevelPPDS, sample=lambda case: case.users + 1)),
    Subject(
        "RandomizedResponse",
        paper.RandomizedResponse,
        lambda case, coins: Mechanism(
            case.users, paper.RandomizedResponse.epsilon, paper.RandomizedResponse(coins=coins).answer
        ),
        readings=0,
    ),
    Subject(
        "LaplaceMechanism",
        paper.LaplaceMechanism,
        lambda case, coins: Mechanism(
            case.users, case.epsilon, paper.LaplaceMechanism(case.epsilon, coins=coins).release
        ),
        readings=0,
    ),
    _printed("Dwork", paper.Dwork, sample=2),
    _printed("OptBern", paper.OptBern, sample=2),
    _printed("OptBern, c = 0.8", paper.OptBern, sample=2, c=0.8),
    # With a small epsilon its numbers have too many values to enumerate.
    _printed("Continuous", paper.Continuous, sample=1, grid=1, least=8.0),
    _printed("PPDS", paper.PPDS, sample=2),
    Subject(
        "DistinctSampling",
        paper.DistinctSampling,
        lambda case, coins: paper.DistinctSampling(case.users, 2, coins=coins),
        private=False,
    ),
)


def subjects() -> list[Subject]:
    """All of these, and one for each registered estimator that is not among them, from what its class says."""
    known = {subject.kind for subject in SUBJECTS}
    others = (kind for kind in registry.estimators() if kind not in known)
    return [*SUBJECTS, *(Subject(kind.__name__, kind, _of(kind, **kind.TRAITS.small), tight=False) for kind in others)]
