"""`--plot FILE` of every command that prints an estimate, a series or a plan."""

import shlex
from pathlib import Path

import polars as pl
import pytest

from commands import refused, run

USERS = 2000
DAYS = 21
BUDGET = f"-n {USERS} -e 4"
WEEKLY = "--release-every 7d"
LISTED = "--universe-file users.csv:user --group clinic"
BY = "--by clinic --categories north,south"
COUNTED = {
    "density": f"density visits.csv -c user {BUDGET}",
    "distinct": "distinct visits.csv -c user -e 4",
    "counts": f"counts visits.csv -c user {BUDGET} --up-to 4",
    "counts, the mean": f"counts visits.csv -c user {BUDGET} --up-to 4 --only mean",
    "counts by category": f"counts visits.csv -c user {BUDGET} --by clinic --categories north,south",
    "actives": f"actives visits.csv -c user {BUDGET} --time when --start 2026-01-05 --span 7d",
    "retention": f"retention visits.csv --then later.csv -c user {BUDGET}",
    "retention by time": f"retention visits.csv -c user {BUDGET} --releases 2 {WEEKLY} --time when --start 2026-01-05",
    "series": f"density visits.csv -c user {BUDGET} --releases 3 {WEEKLY} --time when",
    "series of counts": f"counts visits.csv -c user {BUDGET} --up-to 4 --releases 3 {WEEKLY} --time when",
    "groups": f"density visits.csv -c user -e 4 {LISTED}",
    "groups of counts": f"counts visits.csv -c user -e 4 --up-to 4 {LISTED}",
    "groups of actives": f"actives visits.csv -c user -e 8 {LISTED} --time when --start 2026-01-05 --span 7d",
    "groups of retention": f"retention visits.csv --then later.csv -c user -e 8 {LISTED}",
    "categories": f"density visits.csv -c user {BUDGET} {BY}",
    "categories of distinct users": f"distinct visits.csv -c user -e 4 {BY}",
    "series of groups": f"density visits.csv -c user -e 8 {LISTED} --releases 3 {WEEKLY} --time when",
    "windows": f"density visits.csv -c user {BUDGET} {WEEKLY} --time when --anew",
    "windows of categories": f"density visits.csv -c user {BUDGET} {WEEKLY} --time when --anew {BY}",
    "windows of distinct users": f"distinct visits.csv -c user -e 4 {WEEKLY} --time when --anew",
    "plan": "plan -n 100000 -e 1",
    "plan of groups": "plan -e 1 --groups north=4000,south=2000",
    "plan of categories": "plan -n 100000 -e 1 --categories flu,cold",
    "plan of distinct users": "plan -e 1 --count 10000",
    "plan of counts": "plan -n 100000 -e 1 --up-to 4",
    "plan of actives": "plan -n 100000 -e 1 --estimator ActiveUsers --span 7d",
    "plan of retention": "plan -n 100000 -e 1 --estimator Retention",
}


@pytest.fixture(autouse=True)
def _visits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three weeks of visits, and a week after them."""
    monkeypatch.chdir(tmp_path)
    day = pl.int_range(DAYS * 200, eager=True) // 200
    rows = pl.DataFrame({"user": (day * 61 + pl.int_range(DAYS * 200, eager=True) % 400) % USERS, "day": day})
    when = pl.date(2026, 1, 5) + pl.duration(days="day")
    clinic = pl.when(pl.col("user") % 3 == 0).then(pl.lit("north")).otherwise(pl.lit("south"))
    rows.select("user", when=when, clinic=clinic).write_csv("visits.csv")
    rows.head(1000).write_csv("later.csv")
    pl.DataFrame({"user": range(USERS)}).select("user", clinic=clinic).write_csv("users.csv")


def _is_picture(name: str) -> bool:
    drawn = Path(name).read_text(encoding="utf-8")
    return drawn.startswith("<?xml") and "epsilon" in drawn


@pytest.mark.slow
@pytest.mark.parametrize("command", COUNTED.values(), ids=COUNTED.keys())
def test_every_command_draws_what_it_prints(command: str) -> None:
    drawn = run(*shlex.split(command), "--plot", "drawn.svg")
    assert drawn.exit_code == 0, drawn.output
    assert drawn.stdout
    assert _is_picture("drawn.svg")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["density", "distinct", "counts", "retention", "actives"])
def test_a_release_of_a_state_is_drawn_and_shown_again(command: str) -> None:
    counted = COUNTED[command].replace(" --then later.csv", "")
    assert run(*shlex.split(counted), "--state", "kept.pp").exit_code == 0
    if command != "actives":  # which have made releases already
        assert "no release" in refused("show", "kept.pp", "--plot", "shown.svg", "--json")
    released = run("release", "kept.pp", "--plot", "released.svg")
    assert released.exit_code == 0, released.output
    assert run("show", "kept.pp", "--plot", "shown.svg").exit_code == 0
    assert _is_picture("released.svg")
    assert _is_picture("shown.svg")


@pytest.mark.slow
def test_a_retention_by_time_is_drawn_over_time() -> None:
    assert run(*shlex.split(COUNTED["retention by time"]), "--plot", "drawn.svg").exit_code == 0
    drawn = Path("drawn.svg").read_text(encoding="utf-8")
    assert "until (UTC)" in drawn
    assert "2026-01-26" in drawn


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["density", "counts"])
def test_where_nothing_is_released_a_picture_is_refused_before_anything_is_counted(kind: str) -> None:
    assert "--release makes one" in refused(*shlex.split(COUNTED[kind]), "--state", "kept.pp", "--plot", "a.svg")
    assert not Path("kept.pp").exists()
    assert not Path("a.svg").exists()


@pytest.mark.parametrize("command", ["density", "counts", "retention", "plan"])
@pytest.mark.parametrize("name", ["a.doc", "nowhere/a.png"])
def test_a_picture_that_cannot_be_written_is_refused_first(command: str, name: str) -> None:
    assert "cannot draw" in refused(*shlex.split(COUNTED[command]), "--plot", name)


@pytest.mark.slow
def test_noise_is_called_noise_in_the_picture() -> None:
    tiny = ("-n", USERS, "-e", 0.001)
    for command in ("density visits.csv -c user", COUNTED["series"].replace(BUDGET, "")):
        assert run(*shlex.split(command), *tiny, "--plot", "noise.svg").exit_code == 0
        assert "mostly noise" in Path("noise.svg").read_text(encoding="utf-8")
