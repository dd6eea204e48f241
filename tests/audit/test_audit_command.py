"""`panprivacy audit` says what holds, and fails when something private does not."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import invoke
from drawn import rows
from panprivacy.audit import subjects

ENVIRONMENT = {"COLUMNS": "118", "NO_COLOR": "1", "TERM": "dumb"}
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "audit-table.md"


@pytest.mark.slow
def test_without_a_name_it_prints_the_table_of_the_documentation() -> None:
    result = invoke(["audit"], ENVIRONMENT)

    assert result.exit_code == 0
    printed = rows(result.stdout)
    assert [row[0] for row in printed[1:]] == [subject.name for subject in subjects.SUBJECTS]
    assert printed == rows(PAGE.read_text(encoding="utf-8"))[: len(printed)], "COLUMNS=118 panprivacy audit prints anew"
    found = {row[0]: row[1:4] for row in printed}
    assert found["Dwork"] == ["0.200000", "3.423372", "fails as printed"]
    assert found["PPDS"] == ["0.200000", "infinite", "fails as printed"]
    assert "FAILS" not in result.output


@pytest.mark.slow
def test_one_estimator_is_shown_with_its_witness() -> None:
    result = invoke(["audit", "DistinctCount", "--epsilon", "1", "--users", "2", "--events", "2"], ENVIRONMENT)

    assert result.exit_code == 0
    assert "worst loss 1.000000, claimed 1.000000: the claim holds" in result.output
    assert "Streams that differ in the events of user 0" in result.output


@pytest.mark.slow
def test_a_name_with_several_uses_prints_them_all() -> None:
    result = invoke(["audit", "optbern", "--users", "2", "--events", "1", "--json"], ENVIRONMENT)
    rows = json.loads(result.output)

    assert [row["name"] for row in rows] == ["OptBern"]
    several = json.loads(
        invoke(["audit", "fixedlevelppds", "--users", "2", "--events", "1", "--json"], ENVIRONMENT).output
    )
    assert several[0]["private"] is True


@pytest.mark.slow
def test_json_has_the_witness_and_names_the_infinite() -> None:
    result = invoke(["audit", "PPDS", "--json"], ENVIRONMENT)
    (row,) = json.loads(result.output)

    assert row["worst_loss"] == "infinite"
    assert row["private"] is False
    assert row["witness"]["stream_a"]
    assert result.exit_code == 0


@pytest.mark.slow
def test_options_reach_the_audit() -> None:
    options = ["--releases", "2", "--intrusions", "1", "--deletions", "--users", "2", "--events", "2", "--json"]
    (row, *_) = json.loads(invoke(["audit", "Density, one shard", *options], ENVIRONMENT).output)

    assert "redraw" in " ".join(row["witness"]["stream_a"])
    assert row["witness"]["release"].count(">=") == 2


def test_the_exit_status_tells_of_a_private_one_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    dwork = next(subject for subject in subjects.SUBJECTS if subject.name == "Dwork")
    monkeypatch.setattr(subjects, "subjects", lambda: [replace(dwork, private=True)])
    result = invoke(["audit", "--users", "2", "--events", "1"], ENVIRONMENT)

    assert result.exit_code == 1
    assert "FAILS" in result.output


def test_an_unknown_name_is_an_error_in_one_line() -> None:
    result = invoke(["audit", "nobody"], ENVIRONMENT)

    assert result.exit_code == 2
    assert result.stderr.startswith("panprivacy: there is no estimator 'nobody'")
    assert result.stderr.count("\n") == 1


def test_an_impossible_budget_is_an_error_in_one_line() -> None:
    result = invoke(["audit", "Density", "--epsilon", "-1"], ENVIRONMENT)

    assert result.exit_code == 2
    assert result.stderr.startswith("panprivacy: epsilon must be positive")
    assert result.stderr.count("\n") == 1


@pytest.mark.slow
def test_an_epsilon_that_had_to_be_raised_is_told() -> None:
    result = invoke(["audit", "Continual", "--epsilon", "1", "--events", "1"], ENVIRONMENT)

    assert result.exit_code == 0
    assert "claimed 8.000000" in result.stdout
    assert result.stderr.startswith("panprivacy: Continual: audited at epsilon 8; ")
    assert invoke(["audit", "Continual", "--epsilon", "9", "--events", "1"], ENVIRONMENT).stderr == ""
