"""Every estimator that the package exports is audited, and the private ones hold."""

import math
from typing import Any

import pytest

import panprivacy
from panprivacy import paper
from panprivacy.audit.subjects import SUBJECTS, Case, Subject
from panprivacy.estimators.continual import Continual, DriftTest

PRIVATE = [subject for subject in SUBJECTS if subject.private]
PRINTED = [subject for subject in SUBJECTS if not subject.private]


QUICK = ("Density", "DistinctCount", "Counts", "FixedLevelPPDS")  # the others take seconds


def name_of(subject: Subject) -> str:
    return subject.name


COMPOSED = {
    "StateFolder": "its estimator is one of those above, whose bits are kept in parts",
    "Windows": "each window is one of the estimators above, and `Windows.loss` adds up what they lose",
}
"""What holds estimators and no state of its own: `panprivacy.audit.crossings` audits it while it holds one."""


def exported() -> list[type]:
    """Everything exported that answers something about users; a client has no state, its service does."""
    things: list[Any] = [getattr(module, name) for module in (panprivacy, paper) for name in module.__all__]
    verbs = ("update", "release", "estimate", "answer", "observe")
    answering = [each for each in things if isinstance(each, type) and any(hasattr(each, verb) for verb in verbs)]
    return [kind for kind in answering if kind is not panprivacy.Client]


def test_every_exported_estimator_is_audited() -> None:
    known = {subject.kind for subject in SUBJECTS}

    assert {kind.__name__ for kind in exported() if kind not in known} == set(COMPOSED)
    assert len(exported()) >= 9


def test_names_are_given_once() -> None:
    assert len({subject.name for subject in SUBJECTS}) == len(SUBJECTS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "subject", [pytest.param(s, marks=[] if s.name in QUICK else [pytest.mark.slow]) for s in PRIVATE], ids=name_of
)
def test_a_private_estimator_loses_what_it_claims_and_no_more(subject: Subject) -> None:
    result = subject.audit(Case(epsilon=1.0))

    assert result.holds, str(result)
    assert not subject.tight or result.worst_loss > result.claimed - 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("subject", [s for s in PRIVATE if s.releases], ids=name_of)
def test_a_private_estimator_keeps_its_plan(subject: Subject) -> None:
    result = subject.audit(Case(epsilon=0.8, users=2, events=1, releases=2, intrusions=1, deletions=True))

    assert result.holds, str(result)
    assert not subject.tight or result.worst_loss > result.claimed - 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("subject", PRINTED, ids=name_of)
def test_a_printed_algorithm_does_not_hold(subject: Subject) -> None:
    result = subject.audit(Case())

    assert result.witness is not None
    claims_nothing = subject.name == "DistinctSampling"
    assert result.holds is claims_nothing
    assert (result.claimed == math.inf) is claims_nothing


@pytest.mark.slow
@pytest.mark.parametrize("subject", [s for s in PRIVATE if s.delta and s.kind is not Continual], ids=name_of)
def test_a_claimed_delta_is_not_far_above_the_one_that_is_found(subject: Subject) -> None:
    """The audit fixes the moment of the reading, and the claim covers every choice of it: of K+1 paths, or more."""
    result = subject.audit(Case(events=1))
    slack = {"Density, 2 releases, delta": 16, "Density, 3 releases, delta": 25, "Counts, delta": 25}
    most = 100 if subject.name == "Density, announced, delta" else slack.get(subject.name, 10)

    assert result.claimed_delta == subject.delta
    assert result.claimed_delta / most < result.worst_delta <= result.claimed_delta


@pytest.mark.slow
def test_an_observer_with_a_delta_whose_test_has_no_noise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DriftTest, "has_drifted", lambda watch, distance, coins: distance >= watch.bar)  # noqa: ARG005
    (subject,) = (subject for subject in SUBJECTS if subject.name == "Continual, delta")
    result = subject.audit(Case(events=1))

    assert not result.holds
    assert result.worst_delta > 0.1
