"""`panprivacy counts`: how often."""

import json
import signal
from pathlib import Path

import polars as pl
import pytest

import panprivacy as pp
from commands import answer, refused, run, start, wait_until_written

TRUTH = (0.75, 0.5, 0.25, 0.0)
"""Shares of 20,000 users who appear at least once, twice, three times, four times."""


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    ids = [user for share in TRUTH for user in range(int(20_000 * share))]
    pl.DataFrame({"who": ids}).write_csv(tmp_path / "visits.csv")
    return tmp_path / "visits.csv"


def near(found: dict[str, list[float]], truth: tuple[float, ...]) -> bool:
    """Within eight standard errors, which noise leaves less often than once in a million."""
    return all(
        abs(share - true) < 8 * stderr
        for share, true, stderr in zip(found["at_least"], truth, found["at_least_stderr"], strict=True)
    )


@pytest.mark.slow
def test_appearances_are_counted(visits: Path) -> None:
    found = answer("counts", visits, "-c", "who", "-n", 20_000, "-e", 8, "--up-to", 4)
    assert near(found, TRUTH)
    assert found["secure"] is True
    alone = answer("counts", visits, "-c", "who", "-n", 20_000, "-e", 8, "--up-to", 4, "--only", "mean")
    assert alone["at_least"] == []
    assert abs(alone["mean"] - 1.5) < 8 * alone["mean_stderr"]


@pytest.mark.slow
def test_a_state_goes_on_and_rows_that_are_fed_again_count_again(visits: Path, tmp_path: Path) -> None:
    state = tmp_path / "c.pp"
    command = ("counts", visits, "-c", "who", "-n", 20_000, "-e", 8, "--up-to", 4, "-s", state)
    assert run(*command).exit_code == 0
    assert run(*command).exit_code == 0
    assert '"estimator": "Counts"' in run("show", state, "--json").stdout
    assert near(answer("release", state), (0.75, 0.75, 0.5, 0.5))
    assert "up_to 4 in the state, and 8 was asked for" in refused(*command[:-2], "-s", state, "--up-to", 8)
    assert "only nothing in the state, and mean was asked for" in refused(*command, "--only", "mean")
    assert "estimator Counts in the state" in refused("density", visits, "-c", "who", "-n", 20_000, "-s", state)
    assert "Counts has no rerandomize" in refused("rerandomize", state)


@pytest.mark.slow
def test_files_are_kept_whole_or_not_at_all(visits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "c.pp"
    command = ("-c", "who", "-n", 20_000, "-s", state)
    assert run("counts", visits, *command, "-e", 8).exit_code == 0
    before = state.read_bytes()
    bad = tmp_path / "bad.csv"
    bad.write_text(visits.read_text() + "20000\n")
    assert refused("counts", visits, bad, *command).endswith("leaves such rows out")
    assert state.read_bytes() == before
    # Whatever may be fed again is kept as far as it was counted.
    monkeypatch.setattr(pp.Counts, "REPEATABLE", True)
    assert "counting a row twice does no harm" in refused("counts", visits, bad, *command)
    assert state.read_bytes() != before


@pytest.mark.slow
def test_a_pipe_releases_when_it_is_asked_and_keeps_what_it_counted(visits: Path, tmp_path: Path) -> None:
    state = tmp_path / "c.pp"
    process = start(
        "counts", "-", "-c", "who", "-n", 20_000, "-e", 8, "--up-to", 4, "--releases", 2, "-s", state, "--json"
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(visits.read_bytes())  # more than a pipe holds: when it is written, somebody is reading
    process.stdin.flush()
    process.send_signal(signal.SIGUSR1)
    assert b'"number": 1' in process.stdout.readline()
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert b'"at_least"' in out
    kept = pp.load(state).last
    assert kept is not None
    assert near(kept.to_dict(), TRUTH)


@pytest.mark.slow
def test_a_bad_row_in_a_pipe_says_that_rows_count_again(tmp_path: Path) -> None:
    state = tmp_path / "c.pp"
    process = start("counts", "-", "-c", "who", "-n", 100, "-e", 8, "-s", state)
    assert process.stdin is not None
    process.stdin.write(b"who\n1\n2\n")
    process.stdin.flush()
    wait_until_written(state, process)
    _, errors = process.communicate(b"100\n", timeout=120)
    assert process.returncode == 2
    assert b"a row that is fed again counts again" in errors


@pytest.mark.slow
def test_shares_are_drawn(visits: Path, tmp_path: Path) -> None:
    command = ("counts", visits, "-c", "who", "-n", 20_000, "-e", 8)
    assert run(*command, "--plot", tmp_path / "shares.png").exit_code == 0
    assert (tmp_path / "shares.png").read_bytes().startswith(b"\x89PNG")
    assert "cannot draw" in refused(*command, "--plot", "shares.doc")


@pytest.mark.slow
def test_who_and_how_much_have_to_be_said(visits: Path) -> None:
    assert "who could appear?" in refused("counts", visits, "-c", "who", "-e", 1)
    assert "how much privacy?" in refused("counts", visits, "-c", "who", "-n", 20_000)
    assert "which column" in refused("counts", visits, "-n", 20_000, "-e", 1)
    assert "between 2 and 256" in refused("counts", visits, "-c", "who", "-n", 20_000, "-e", 1, "--up-to", 1)


# --- groups ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def patients(tmp_path: Path) -> Path:
    regions = ["coast" if user < 5000 else "hills" for user in range(20_000)]
    pl.DataFrame({"id": range(20_000), "region": regions}).write_csv(tmp_path / "patients.csv")
    return tmp_path / "patients.csv"


@pytest.mark.slow
def test_groups_of_users_are_answered_with_the_total(visits: Path, patients: Path, tmp_path: Path) -> None:
    feed = ("counts", visits, "-c", "who", "--universe-file", f"{patients}:id", "--group", "region", "-e", 8)
    found = answer(*feed, "--up-to", 4)
    assert near(found, TRUTH)
    coast, hills = found["groups"]
    assert (coast["group"], coast["universe"], hills["universe"]) == ("coast", 5000, 15_000)
    assert near(coast, (1.0, 1.0, 1.0, 0.0))
    assert near(hills, (2 / 3, 1 / 3, 0.0, 0.0))
    lines = run(*feed).stdout.splitlines()
    assert [line.split(":")[0] for line in lines[1:]] == ["coast", "hills"]
    assert run(*feed, "--only", "mean", "--plot", tmp_path / "means.png").exit_code == 0
    assert (tmp_path / "means.png").read_bytes().startswith(b"\x89PNG")
    assert "say --universe-file" in refused("counts", visits, "-c", "who", "-n", 20_000, "-e", 1, "--group", "region")


@pytest.mark.slow
def test_events_in_categories_are_answered_by_category_and_kept(tmp_path: Path) -> None:
    ids = [*range(9000), *range(9000), *range(3000)]
    clinics = ["north"] * 18_000 + ["south"] * 3000
    visits, state = tmp_path / "visits.csv", tmp_path / "c.pp"
    pl.DataFrame({"who": ids, "clinic": clinics}).write_csv(visits)
    feed = ("counts", visits, "-c", "who", "-n", 9000)
    by = ("--by", "clinic", "--categories", "north,south")
    north, south = answer(*feed, "-e", 8, "--up-to", 2, *by)["groups"]
    assert near(north, (1.0, 1.0))
    assert near(south, (1 / 3, 0.0))
    assert run(*feed, "-e", 8, *by, "-s", state).exit_code == 0
    assert "say --by NAME" in refused(*feed, "-s", state)
    assert "this state has categories north, south" in refused(
        *feed, "--by", "clinic", "--categories", "a", "-s", state
    )
    assert [row["group"] for row in answer("release", state)["groups"]] == ["north", "south"]
    assert "category 'south' is none of 'north'; --other gathers such rows" in refused(
        *feed, "-e", 8, "--by", "clinic", "--categories", "north"
    )


def test_a_state_of_counters_grows(visits: Path, tmp_path: Path) -> None:
    state = tmp_path / "c.pp"
    assert run("counts", visits, "-c", "who", "-n", 20_000, "-e", 8, "--up-to", 4, "-s", state).exit_code == 0
    assert run("grow", state, "-n", 40_000).exit_code == 0
    assert near(answer("release", state), (0.375, 0.25, 0.125, 0.0))


@pytest.mark.slow
def test_what_does_not_grow_says_why(visits: Path, tmp_path: Path) -> None:
    retained, distinct = tmp_path / "r.pp", tmp_path / "d.pp"
    assert run("retention", visits, "-c", "who", "-n", 20_000, "-e", 8, "-s", retained).exit_code == 0
    assert run("distinct", visits, "-c", "who", "-e", 8, "-s", distinct).exit_code == 0
    assert "its key would give other users the bits" in refused("grow", retained, "-n", 30_000)
    assert "it takes anybody" in refused("grow", distinct, "-n", 30_000)


# --- series ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_series_by_times_counts_up_to_the_end_of_each_period(tmp_path: Path) -> None:
    path = tmp_path / "days.csv"
    path.write_text("who,day\n" + "".join(f"{user},2026-01-0{day}\n" for day in (5, 6, 7) for user in range(1000)))
    asked = ("counts", path, "-c", "who", "-n", 2000, "-e", 30, "--up-to", 4, "--releases", 3)
    daily = ("--release-every", "1d", "--time", "day", "--start", "2026-01-05")
    lines = [json.loads(line) for line in run(*asked, *daily, "--json").stdout.splitlines()]
    assert [line["until"][:10] for line in lines] == ["2026-01-06", "2026-01-07", "2026-01-08"]
    assert [round(2 * line["mean"]) for line in lines] == [1, 2, 3]
    assert not any("monotone" in line for line in lines), "a mean is no number of users that never falls"


def test_a_series_by_times_is_kept_in_no_state(visits: Path, tmp_path: Path) -> None:
    daily = ("--releases", 3, "--release-every", "1d", "--time", "day", "--state", tmp_path / "c.pp")
    assert "leave --state or --time out" in refused("counts", visits, "-c", "who", "-n", 20_000, "-e", 1, *daily)
    assert not (tmp_path / "c.pp").exists()
