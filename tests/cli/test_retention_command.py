"""`panprivacy retention`: two periods of files, a state between them, and a picture."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from commands import answer, refused, run

USERS = 20_000
WHOM = ("-c", "user", "-n", USERS, "-e", 20)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, users in {"january": range(8000), "week1": range(6000, 9000), "week2": range(4000, 10_000)}.items():
        pl.DataFrame({"user": users}).write_csv(f"{name}.csv")
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_files_of_the_second_period_follow_then() -> None:
    said = answer("retention", "january.csv", "--then", "week2.csv", *WHOM)
    assert said["cohort"] == pytest.approx(0.4, abs=0.02)
    assert said["returned"] == pytest.approx(0.2, abs=0.02)
    assert said["rate"] == pytest.approx(0.5, abs=0.05)
    assert said["epsilon_spent"] <= 20


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_each_then_is_followed_by_a_release() -> None:
    ran = run("retention", "january.csv", "--then", "week1.csv", "--then", "week2.csv", *WHOM, "--plot", "c.png")
    assert ran.exit_code == 0, ran.output
    assert len(ran.stdout.splitlines()) == 2
    assert "returned by release 0." in ran.stdout
    assert Path("c.png").stat().st_size > 10_000


WEEKS = {"2026-01-05": range(8000), "2026-01-12": range(6000, 9000), "2026-01-19": range(4000, 10_000)}
BY_TIMES = ("-c", "user", "--time", "day", "--start", "2026-01-05", "--release-every", "7d")


def timed(*starts: str) -> None:
    """Write the events of some weeks, in order, to a file."""
    pl.concat(pl.DataFrame({"user": WEEKS[start], "day": start}) for start in starts).write_csv("visits.csv")


def released_by_times(*more: str | int) -> list[dict[str, Any]]:
    ran = run("retention", "visits.csv", *BY_TIMES, *more, "--json")
    assert ran.exit_code == 0, ran.output
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_periods_of_one_file_are_cut_by_its_times() -> None:
    timed(*WEEKS)
    releases = released_by_times("-n", USERS, "-e", 20, "--releases", 2)
    cohort, first, second = releases
    assert cohort["density"] == pytest.approx(0.4, abs=0.02)
    assert [first["returned"], second["returned"]] == pytest.approx([0.1, 0.2], abs=0.02)
    assert [released["until"][:10] for released in releases] == ["2026-01-12", "2026-01-19", "2026-01-26"]
    assert [released["period_over"] for released in releases] == [True, True, False]


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_a_state_goes_on_with_its_periods_by_their_times() -> None:
    timed("2026-01-05", "2026-01-12")
    (cohort,) = released_by_times("-n", USERS, "-e", 20, "-s", "r.pp")
    assert cohort["density"] == pytest.approx(0.4, abs=0.02)
    timed("2026-01-05")
    assert "until which this state has released" in refused("retention", "visits.csv", *BY_TIMES, "-s", "r.pp")
    timed("2026-01-19")
    (second,) = released_by_times("-s", "r.pp")
    assert second["returned"] == pytest.approx(0.1, abs=0.02)


@pytest.mark.usefixtures("folder")
def test_the_second_period_is_said_in_one_way() -> None:
    timed(*WEEKS)
    assert "leave --time and --release-every out" in refused(
        "retention", "visits.csv", "--then", "week1.csv", *BY_TIMES, "-n", USERS, "-e", 20
    )
    assert "--time goes with --release-every" in refused("retention", "visits.csv", *WHOM, "--time", "day")


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_a_state_is_in_its_first_period_until_it_is_released() -> None:
    whom = ("--state", "r.pp", "-c", "user")
    assert run("retention", "january.csv", *whom, "-n", USERS, "-e", 20).exit_code == 0
    assert answer("release", "r.pp")["density"] == pytest.approx(0.4, abs=0.02)
    said = answer("retention", "week2.csv", *whom, "--release")
    assert said["returned"] == pytest.approx(0.2, abs=0.02)
    assert answer("show", "r.pp")["last"] == said
    assert "all 2 planned releases are made" in refused("release", "r.pp")


@pytest.mark.usefixtures("folder")
def test_newcomers_are_counted_instead_if_they_are_asked_for() -> None:
    said = answer("retention", "january.csv", "--then", "week2.csv", *WHOM, "--newcomers")
    assert (said["asked"], said["newcomers"]) == ("newcomers", pytest.approx(0.1, abs=0.02))
    assert said["newcomers_stderr"] < said["returned_stderr"]


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_another_question_or_plan_than_that_of_the_state_is_refused() -> None:
    assert run("retention", "january.csv", *WHOM, "-s", "r.pp", "--releases", 3).exit_code == 0
    again = ("retention", "week1.csv", "-c", "user", "-s", "r.pp")
    assert "r.pp: releases 3 in the state, and 5 was asked for" in refused(*again, "--releases", 5)
    assert "r.pp: this state asks who came back: leave --newcomers out" in refused(*again, "--newcomers")
    assert run(*again, "--releases", 3).exit_code == 0


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_what_cannot_be_is_said_in_one_line() -> None:
    assert "which events are the second period?" in refused("retention", "january.csv", *WHOM)
    assert "who could appear?" in refused("retention", "january.csv", "--then", "week1.csv", "-c", "user", "-e", 1)
    then = ("--then", "week1.csv", "--then", "week2.csv")
    assert "say --releases 2" in refused("retention", "january.csv", *then, *WHOM, "--releases", 1)
    run("retention", "january.csv", *WHOM, "-s", "r.pp", "--release")
    over = refused("retention", "january.csv", *then[:2], *WHOM, "-s", "r.pp")
    assert "the first period of this state is over" in over


@pytest.mark.slow
def test_a_retention_is_not_counted_anew_and_help_does_not_offer_it(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("user,at\n1,2026-01-05\n", encoding="utf-8")
    message = refused("retention", path, *WHOM, "--time", "at", "--release-every", "7d", "--anew")
    assert "leave it out" in message
    assert "close()" not in message
    assert "--anew" not in run("retention", "--help").stdout
