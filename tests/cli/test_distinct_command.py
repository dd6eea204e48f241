"""`panprivacy distinct`: how many, whoever they are."""

from pathlib import Path

import polars as pl
import pytest

from commands import answer, refused, run
from panprivacy.cli.output import Output

KEY = "00112233445566778899aabbccddeeff"


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """5,000 visitors, twice each."""
    pl.DataFrame({"who": [f"visitor {i % 5000}" for i in range(10_000)]}).write_csv(tmp_path / "visits.csv")
    return tmp_path / "visits.csv"


def test_different_users_are_counted(visits: Path) -> None:
    found = answer("distinct", visits, "--column", "who", "--epsilon", 8, "--key", KEY)
    assert found["count"] == pytest.approx(5000, rel=0.2)
    assert found["secure"] is True


def test_an_interval_without_end_has_none_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Infinity is a word of Python's, and of no JSON reader's."""
    Output(as_json=True, quiet=True).answer({"count": 3.5, "interval": (0.0, float("inf")), "last": {"x": [1e999]}})
    assert capsys.readouterr().out == '{"count": 3.5, "interval": [0.0, null], "last": {"x": [null]}}\n'


@pytest.mark.slow
def test_a_state_goes_on_and_shows_itself(visits: Path, tmp_path: Path) -> None:
    state = tmp_path / "d.pp"
    command = ("distinct", visits, "-c", "who", "-e", 8, "--error", 0.05, "--key", KEY, "-s", state)
    assert run(*command).exit_code == 0
    assert run(*command).exit_code == 0
    assert '"estimator": "DistinctCount"' in run("show", state, "--json").stdout
    assert answer("release", state)["count"] == pytest.approx(5000, rel=0.3)
    assert "buckets, and 64 were asked for" in refused("distinct", visits, "-c", "who", "-s", state, "--buckets", 64)
    assert "another key" in refused("distinct", visits, "-c", "who", "-s", state, "--key", KEY[::-1])
    assert "estimator DistinctCount in the state" in refused("density", visits, "-c", "who", "-s", state)


@pytest.mark.slow
def test_ids_may_be_kept_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("who\n" + "".join(f"{i}\n" for i in range(2000)) + "x\n")
    command = ("distinct", tmp_path / "f.csv", "-c", "who", "-e", 8)
    assert "row 2001: who 'x' is not a whole number" in refused(*command)
    assert answer(*command, "--ids", "text")["count"] == pytest.approx(2001, rel=0.5)


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        (("-e", 1), "which column holds the ids"),
        (("-c", "who"), "how much privacy?"),
        (("-c", "who", "-e", 1, "--key", "xyz"), "is not 32 hexadecimal digits"),
        (("-c", "who", "-e", 1, "--key", "00"), "is not 32 hexadecimal digits"),
        (("-c", "who", "-e", 1, "--error", 2), "error is a relative standard error"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(options: tuple[str | int, ...], cause: str, visits: Path) -> None:
    assert cause in refused("distinct", visits, *options)


def test_files_have_no_clock_to_release_by(tmp_path: Path) -> None:
    pl.DataFrame({"user": [1]}).write_csv(tmp_path / "f.csv")
    message = refused("distinct", tmp_path / "f.csv", "-c", "user", "-e", 1, "--release-every", "7d")
    assert message.endswith("goes by the clock of standard input (-), or by --time COLUMN of events")


def test_no_row_of_a_pipe_decides_what_ids_are() -> None:
    """Else one user's text would decide that all ids are text, or end the input of all whose ids are integers."""
    assert "No row of a pipe decides that: say --ids integers, or --ids text" in refused(
        "distinct", "-", "-c", "user", "-e", 1, "--quiet"
    )


@pytest.mark.slow
def test_an_error_that_holds_for_more_users_only_is_told(visits: Path) -> None:
    told = run("distinct", visits, "-c", "who", "-e", 1, "--error", 0.01).stderr

    assert "this count has a standard error of " in told
    assert "users: --error 0.01 holds from " in told
