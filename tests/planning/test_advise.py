"""`advise`: its lines run, its promise is kept, and too few users are told so."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import panprivacy as pp
from command_line import invoke
from panprivacy.cli.commands.planning import command_of_advice
from panprivacy.planning.advisor import QUESTIONS, Advice, simulated
from panprivacy.testing import refused

ASKED: dict[Any, dict[str, Any]] = {
    "share": {"users": 3_000, "error": 0.08, "releases": 2},
    "series": {"users": 3_000, "error": 0.08, "delta": None},
    "distinct": {"users": 8_000, "error": 0.1, "delta": None},
    "often": {"users": 9_000, "error": 0.08},
    "actives": {"users": 15_000, "error": 0.1, "span": "4d"},
    "retention": {"users": 5_000, "error": 0.08, "delta": None},
}
RUNS, FALSE_ALARM = 200, 1e-6
ABOUT = 1.3
"""Promises of other estimators than `Density` are approximate: up to this multiple of 0.05 is let pass."""


@cache
def advised(question: Any) -> Advice:
    return pp.advise(question, **ASKED[question])


def test_every_question_has_an_estimator() -> None:
    assert set(ASKED) == set(QUESTIONS)


@pytest.mark.slow
@pytest.mark.parametrize("question", ASKED)
def test_the_promised_error_is_kept_and_errors_half_as_large_again_would_show(question: str) -> None:
    """Each run has other seeded coins. Misses are tested one-sidedly, at a false-alarm rate of 1e-6."""
    advice = advised(question)
    assert advice.possible
    assert advice.plan is not None
    unit = advice.ask.users if question == "distinct" else 1
    examples = [simulated(advice.ask, advice.plan, seed) for seed in range(RUNS)]
    errors = np.array([abs(each.estimate - each.truth) / unit for each in examples])

    def too_many(misses: Any) -> bool:
        return bool(stats.binomtest(int(misses.sum()), RUNS, ABOUT * 0.05, "greater").pvalue < FALSE_ALARM)

    assert not too_many(errors >= advice.ask.error)
    assert too_many(1.6 * errors >= advice.ask.error)


@pytest.mark.slow
@pytest.mark.parametrize("question", ASKED)
def test_the_suggested_lines_can_be_copied_and_run(
    question: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    advice = advised(question)
    for name in ("visits.csv", "later.csv"):
        Path(name).write_text(f"user,when\n5,{advice.start}\n7,{advice.start}\n", encoding="utf-8")
    assert advice.code is not None
    est = eval(advice.code, {"pp": pp})
    assert advice.plan is not None
    assert advice.plan.estimator in repr(est)
    command = command_of_advice(advice)
    if question == "series":
        assert command is None
        return
    assert command is not None
    result = invoke([*command.split()[1:], "--json"])
    assert (result.exit_code, result.stderr.count("Traceback")) == (0, 0), result.output
    assert json.loads(result.stdout.splitlines()[-1])["epsilon_spent"] <= advice.ask.epsilon


@pytest.mark.slow
@pytest.mark.parametrize("question", ["share", "often", "actives", "retention"])
def test_too_few_users_are_told_so_and_what_is_offered_can_be_had(question: Any) -> None:
    few = pp.advise(question, **{**ASKED[question], "users": 600})
    assert not few.possible
    assert few.verdict.startswith("not with 600 users")
    assert few.instead is not None
    assert few.instead.users is not None
    more = pp.advise(question, **{**ASKED[question], "users": few.instead.users})
    assert more.possible
    assert not few.ask.keeps(few.instead.users // 2)
    if few.instead.epsilon is not None:
        assert pp.advise(question, **{**ASKED[question], "users": 600, "epsilon": few.instead.epsilon}).possible


@pytest.mark.slow
def test_less_epsilon_than_accepted_is_taken_where_it_is_enough() -> None:
    many, few = (pp.advise("retention", users, error=0.05) for users in (1_000_000, 10_000))
    assert many.plan is not None
    assert few.plan is not None
    assert many.plan.epsilon < few.plan.epsilon < 1


@pytest.mark.slow
def test_an_epsilon_that_hardly_protects_is_not_offered() -> None:
    hopeless, hard = (pp.advise("share", 300, error=error) for error in (0.02, 0.1))
    assert hopeless.instead is not None
    assert hopeless.instead.epsilon is not None
    assert hopeless.instead.epsilon > 4
    assert hopeless.verdict.endswith("takes 12,000 users")
    assert hard.verdict.endswith("680 users or epsilon 1.521")


@pytest.mark.slow
def test_a_series_says_who_is_hardly_protected() -> None:
    days, hours = (pp.advise("series", 1_000_000, releases=releases, error=0.01) for releases in (52, 8_760))
    assert "hardly" not in days.verdict
    assert hours.verdict.endswith(
        "comes in all 8,760 loses at most 12.5 if the state is read once, which hardly protects such a user"
    )


@pytest.mark.slow
def test_an_example_of_a_billion_users_is_drawn_and_says_so() -> None:
    advice = pp.advise("retention", 10**9, error=0.05)
    assert advice.example is not None
    assert not advice.example.built
    assert "drawn from the planned error" in repr(advice)


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("advise-question", {"question": "who"}),
        ("advise-users", {"users": 0}),
        ("not-a-whole-number", {"users": "many"}),
        ("not-a-whole-number", {"releases": 1.5}),
        ("plan-releases", {"releases": 0}),
        ("error-range", {"error": 1.5}),
        ("epsilon-range", {"epsilon": 0.0}),
    ],
)
def test_what_cannot_be_asked_is_refused(code: str, wrong: dict[str, Any]) -> None:
    asked: Any = {"question": "share", "users": 1000} | wrong
    with refused(code):
        pp.advise(**asked)


@pytest.mark.slow
def test_the_command_prints_json_of_the_same_advice() -> None:
    result = invoke(["advise", "retention", "--users", "5000", "--error", "0.08", "--json"])
    advice = pp.advise("retention", 5000, error=0.08)
    assert json.loads(result.stdout) == json.loads(json.dumps(advice.to_dict() | {"shell": command_of_advice(advice)}))


def test_without_a_terminal_a_missing_question_is_refused() -> None:
    result = invoke(["advise"])
    assert result.exit_code == 2
    assert re.fullmatch(r"panprivacy: say a QUESTION and --users N.*\n", result.stderr)
