"""`panprivacy actives`: days by a column of times, a state between files, a pipe, and a picture."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import panprivacy as pp
from commands import refused, run, start
from panprivacy.planning.search import rounded_up

USERS = 7000
MONDAY = datetime(2026, 1, 5)
WHOM = ("-c", "user", "--time", "when", "-n", USERS, "-e", 20, "--span", "7d")


def visits(days: range) -> pl.DataFrame:
    """Each day 700 users, other ones than on the days before."""
    rows = [
        {"user": 700 * day + i, "when": MONDAY + timedelta(days=day, minutes=i)} for day in days for i in range(700)
    ]
    return pl.DataFrame(rows)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    visits(range(9)).write_csv("visits.csv")
    visits(range(4)).write_parquet("first.parquet")
    visits(range(4, 9)).write_parquet("later.parquet")


def lines(*arguments: Any) -> list[dict[str, Any]]:
    ran = run("actives", *arguments, "--json")
    assert ran.exit_code == 0, ran.output
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.slow
def test_every_day_is_released_when_it_is_over() -> None:
    said = lines("visits.csv", *WHOM, "--start", "2026-01-05", "--plot", "actives.png")
    assert [line["until"][:10] for line in said] == [f"2026-01-{day:02}" for day in range(6, 15)]
    for day, line in enumerate(said, 1):
        assert len(line["active"]) == min(day, 7)
        assert line["active"][-1] == pytest.approx(0.1 * min(day, 7), abs=0.15)
        assert line["epsilon_spent"] <= 20
    assert said[-1]["weekly"] == said[-1]["active"][6]
    assert Path("actives.png").stat().st_size > 10_000


ASKED = ("actives", "visits.csv", "-c", "user", "--time", "when", "-n", USERS, "-e", 1, "--start", "2026-01-05")


@pytest.mark.slow
def test_the_loss_is_told_for_a_cycle_that_is_read_and_for_one_that_is_not() -> None:
    alone = rounded_up(pp.ActiveUsers(USERS, 1.0, span="7d", start=MONDAY).unread_loss)
    assert (
        "panprivacy: loss per user: at most 1 in a cycle of 7 days in which the state is read once; "
        f"at most {alone:g} in each cycle without a reading\n"
    ) in run(*ASKED, "--span", "7d").stderr


@pytest.mark.slow
def test_with_a_delta_it_is_named_and_the_loss_of_several_cycles_is_that_of_one_law() -> None:
    est = pp.ActiveUsers(USERS, 1.0, span="28d", start=MONDAY, delta=1e-9)
    several = rounded_up(est.loss(13, readings=1))
    assert several < 0.6 * (est.loss() + 12 * est.unread_loss), "cycles do not just add up"
    assert (
        "panprivacy: loss per user: at most 1 in a cycle of 28 days in which the state is read once, with a failure "
        f"probability of at most 1e-09; at most {several:g} in 13 cycles if it is read in one of them, with the same "
        "failure probability\n"
    ) in run(*ASKED, "--span", "28d", "--delta", "1e-9").stderr


@pytest.mark.slow
def test_a_short_cycle_uses_no_delta_and_says_so() -> None:
    told = run(*ASKED, "--span", "7d", "--delta", "1e-9").stderr
    assert "panprivacy: Laplace noise errs less here, so no delta is used\n" in told
    assert "failure probability" not in told


@pytest.mark.slow
def test_a_state_goes_on_on_the_day_that_is_open() -> None:
    first = lines("first.parquet", *WHOM, "--start", "2026-01-05", "--state", "s.pp")
    assert len(first) == 3
    later = lines("later.parquet", "-c", "user", "--time", "when", "--state", "s.pp", "--release")
    assert [line["number"] for line in first + later] == list(range(1, 10))
    shown = json.loads(run("show", "s.pp", "--json").stdout)["last"]
    assert later[-1] == {"until": later[-1]["until"]} | shown
    assert json.loads(run("release", "s.pp", "--json").stdout)["number"] == 10
    wrong = refused("actives", "first.parquet", "-c", "user", "--time", "when", "-s", "s.pp")
    assert (
        "row 1: when 2026-01-05 is before 2026-01-15, until which this state has released; feed later events" in wrong
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "other", "same", "said"),
    [
        ("--span", "28d", "1w", "span 7 days in the state, and 28 days was asked for"),
        ("--every", "12h", "24h", "every 1 day in the state, and 12:00:00 was asked for"),
        ("--start", "2026-01-06", "2026-01-05T00:00", "start 2026-01-05 00:00:00+00:00 in the state"),
    ],
)
def test_other_days_than_those_of_the_state_are_refused(option: str, other: str, same: str, said: str) -> None:
    assert run("actives", "first.parquet", *WHOM, "--start", "2026-01-05", "--state", "s.pp").exit_code == 0
    later = ("actives", "later.parquet", "-c", "user", "--time", "when", "--state", "s.pp", option)
    before = Path("s.pp").read_bytes()
    assert said in refused(*later, other)
    assert Path("s.pp").read_bytes() == before
    assert run(*later, same).exit_code == 0  # spelled otherwise, it is the same


@pytest.mark.slow
def test_what_cannot_be_is_said_in_one_line() -> None:
    begun = ("--start", "2026-01-05")
    assert "when does the first day start?" in refused("actives", "visits.csv", *WHOM)
    assert "which column holds the times?" in refused("actives", "visits.csv", "-c", "user", "-n", USERS, "-e", 1)
    early = refused("actives", "visits.csv", *WHOM, "--start", "2026-01-07")
    assert "row 1: when 2026-01-05 is before 2026-01-07, when the first day starts; sort by when, or give an" in early
    assert "which column holds the times?" in refused(
        "actives", "visits.csv", "-c", "user", "-n", 9, "-e", 1, "--span", "2d", *begun
    )
    assert "who could appear?" in refused("actives", "visits.csv", "-c", "user", "--time", "when", "-e", 1, *begun)
    assert "--start: 'soon' is not a time" in refused("actives", "visits.csv", *WHOM, "--start", "soon")
    visits(range(1)).with_columns(when=pl.lit("2030-01-01")).write_csv("far.csv")
    far = refused("actives", "far.csv", *WHOM, *begun)
    assert "row 1: when 2030-01-01 is 1,457 days after the one from 2026-01-05 on, which is open by then; mend" in far


@pytest.mark.slow
def test_nothing_of_a_batch_with_a_wrong_time_is_released() -> None:
    rows = visits(range(3)).with_columns(pl.col("when").dt.to_string("%F"))
    rows[-1, "when"] = "2026-01-06"
    rows.write_csv("mixed.csv")
    message = refused("actives", "mixed.csv", *WHOM, "--start", "2026-01-05")
    assert "row 2100: when 2026-01-06 comes after a row of the day from 2026-01-07 on" in message


@pytest.mark.slow
def test_a_bad_row_says_from_which_day_on_to_feed_again() -> None:
    ran = run("actives", "first.parquet", "visits.csv", *WHOM, "--start", "2026-01-05", "--state", "s.pp")
    assert ran.exit_code == 2
    assert "visits.csv: row 1: when 2026-01-05 comes after a row of the day from 2026-01-08 on" in ran.stderr
    assert "days before 2026-01-08 are released; feed events from then on" in ran.stderr


@pytest.mark.slow
def test_who_stops_reading_is_told_from_which_day_on_to_feed_again() -> None:
    process = start("actives", "visits.csv", *WHOM, "--start", "2026-01-05", "--state", "s.pp", stdin=None)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    said = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait(120) == 1
    assert "days before 2026-01-06 are released; feed events from then on" in said
    visits(range(1, 9)).write_csv("rest.csv")
    rest = lines("rest.csv", "-c", "user", "--time", "when", "--state", "s.pp", "--release")
    assert [line["number"] for line in rest] == list(range(2, 10))


@pytest.mark.slow
def test_a_pipe_with_times_goes_by_them() -> None:
    process = start("actives", "-", *WHOM, "--start", "2026-01-05", "--ahead", 1, "--json")
    out, err = process.communicate(Path("visits.csv").read_bytes(), timeout=120)
    assert process.returncode == 0, err
    said = [json.loads(line) for line in out.splitlines()]
    assert [line["until"][:10] for line in said] == [f"2026-01-{day:02}" for day in range(6, 15)]
    assert said[-1]["weekly_count"] == pytest.approx(4900, abs=700)


@pytest.mark.slow
def test_a_live_pipe_does_not_begin_on_a_day_that_is_over() -> None:
    process = start("actives", "-", *WHOM, "--start", "2026-01-05", "--json")
    out, err = process.communicate(Path("visits.csv").read_bytes(), timeout=120)
    assert (process.returncode, out) == (2, b"")
    assert b"is over by the clock. If rows of the past are to end days, say --ahead 1" in err


def test_a_pipe_with_times_has_to_say_when_it_starts() -> None:
    assert "when does the first day start?" in refused("actives", "-", *WHOM)


@pytest.mark.slow
def test_a_pipe_goes_by_the_clock() -> None:
    process = start("actives", "-", "-c", "user", "-n", USERS, "-e", 20, "--span", "7d", "--json")
    out, _ = process.communicate(b"user\n" + b"\n".join(b"%d" % user for user in range(3500)) + b"\n", timeout=120)
    assert process.returncode == 0
    *_, last = (json.loads(line) for line in out.splitlines())
    assert last["active"][-1] == pytest.approx(0.5, abs=0.1)


@pytest.mark.slow
def test_days_that_are_mostly_noise_are_announced_before_the_first_release() -> None:
    asked = ("actives", "visits.csv", "-c", "user", "--time", "when", "--start", "2026-01-05", "-e", 1)
    few = run(*asked, "-n", USERS).stderr.splitlines()
    assert "releases will be mostly noise: each has a standard error of about " in few[0]
    assert "which hides a day on which 5% are active; what helps: more --epsilon, a shorter --span" in few[0]
    assert any("releases are mostly noise" in line for line in few[1:])
    assert "mostly noise" not in run(*asked, "-n", 10_000_000, "--span", "7d").stderr


def test_without_a_start_the_day_of_the_first_event_is_asked_for() -> None:
    message = refused("actives", "visits.csv", *WHOM)
    assert message.endswith("when does the first day start? Say --start YYYY-MM-DD, the day of the first event")
