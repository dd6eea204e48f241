"""A registered estimator is checked, audited, crossed, saved, imaged and served by being registered."""

import pytest
from added_estimator import HalfSample
from checks_of_all import CHECKS, Check
from contracted import described

import panprivacy as pp
from panprivacy import registry
from panprivacy.audit import interference
from panprivacy.audit.crossings import COLUMNS, Verdict, rows
from panprivacy.audit.memory import scenarios
from panprivacy.audit.memory.estimators import parts_of
from panprivacy.audit.subjects import Case, subjects


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_CLASSES", dict(registry._CLASSES))
    registry.register(HalfSample.KIND, "added_estimator:HalfSample")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_it_keeps_the_contract(check: Check) -> None:
    check(described(HalfSample))


def test_the_exact_auditor_finds_that_it_loses_what_it_claims() -> None:
    (subject,) = (subject for subject in subjects() if subject.kind is HalfSample)
    result = subject.audit(Case(epsilon=1.0))

    assert result.holds, str(result)
    assert result.worst_loss > result.claimed - 1e-6


def test_the_auditor_finds_a_coin_of_it_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: an event sets the bit for certain."""
    monkeypatch.setattr(HalfSample, "_threshold", lambda self, remove: 2**31 if remove else 2**32 - 1)  # noqa: ARG005
    (subject,) = (subject for subject in subjects() if subject.kind is HalfSample)
    assert not subject.audit(Case(epsilon=1.0)).holds


@pytest.mark.slow
def test_it_is_crossed_with_all_features() -> None:
    (row,) = (row for row in rows() if row.kind is HalfSample)
    for title in ("1 release", "state file", "pickle", "1 window", "clock and refusals"):
        cell = COLUMNS[title](row)
        assert cell.verdict is Verdict.AUDITED, f"{title}: {cell}"
        assert cell.holds, f"{title}: {cell}"
    for title in ("state folder", "merge", "Continual"):
        assert COLUMNS[title](row).verdict is Verdict.REFUSED, title


def test_no_user_changes_what_happens_to_the_rows_of_others() -> None:
    (subject,) = (subject for subject in interference.subjects() if subject.name == "HalfSample")
    assert not list(interference.interference(subject))


def test_it_is_loaded_by_its_kind() -> None:
    est = HalfSample(1000, 1.0)
    assert type(pp.load(est.to_bytes())) is HalfSample


def test_its_memory_is_imaged() -> None:
    assert "releases and saves, HalfSample" in {scenario.name for scenario in scenarios()}
    assert [type(part) for part in parts_of("HalfSample", 1000, None)] == [HalfSample]


def test_it_can_be_served() -> None:
    assert registry.served()["half"] is HalfSample
    assert HalfSample(1000, 1.0).expected_errors().keys() == {"density_stderr"}
