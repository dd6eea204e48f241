"""`--delta` in the shell: in new states and old ones, in what is shown, and in notes."""

import json
from pathlib import Path

import polars as pl
import pytest

import panprivacy as pp
from commands import answer, refused, run, start

pytestmark = pytest.mark.slow

PLANS = {
    "density": ("-n", 1000, "-e", 2),
    "distinct": ("-e", 2, "--buckets", 64),
}
FEW = PLANS | {
    "counts": ("-n", 1000, "-e", 2, "--up-to", 4),
    "retention": ("-n", 1000, "-e", 2),
}
MANY = {command: (*plan, "--releases", 100) for command, plan in FEW.items()}
both = pytest.mark.parametrize("command", PLANS)


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    pl.DataFrame({"user": [i % 500 for i in range(2000)]}).write_parquet(tmp_path / "visits.parquet")
    return tmp_path / "visits.parquet"


@both
def test_an_answer_says_its_delta_and_how_much_of_its_error_is_noise(command: str, visits: Path) -> None:
    found = answer(command, visits, "-c", "user", *PLANS[command], "--releases", 100, "--delta", "1e-9")
    assert found["delta_spent"] == 1e-9
    assert 0 < found["noise_stderr"] <= found["count_stderr" if command == "distinct" else "density_stderr"]
    without = answer(command, visits, "-c", "user", *PLANS[command])
    assert without["delta_spent"] == 0


@both
def test_a_state_knows_its_delta(command: str, visits: Path, tmp_path: Path) -> None:
    state = tmp_path / "flu.pp"
    feed = (command, visits, "-c", "user", "--state", state)
    assert run(*feed, *PLANS[command], "--releases", 100, "--delta", "1e-9").exit_code == 0
    assert pp.load(state).delta == 1e-9
    assert run(*feed, *PLANS[command], "--delta", "1e-9").exit_code == 0  # the same, said again
    assert run(*feed).exit_code == 0
    assert refused(*feed, "--delta", "1e-8").endswith("flu.pp: delta 1e-09 in the state, and 1e-08 was asked for")
    shown = answer("show", state)
    assert (shown["delta"], shown["delta_spent"], shown["last"]) == (1e-9, 0, None)
    assert shown["noise_stderr"] == pp.load(state).budget.noise_stderr
    assert "delta 1e-09" in run("show", state).stdout
    assert answer("release", state)["delta_spent"] == 1e-9
    shown = answer("show", state)
    assert (shown["delta_spent"], shown["last"]["delta_spent"]) == (1e-9, 1e-9)


@both
def test_a_state_without_a_delta_keeps_to_its_promise_where_one_is_allowed_later(
    command: str, visits: Path, tmp_path: Path
) -> None:
    state = tmp_path / "flu.pp"
    assert run(command, visits, "-c", "user", *PLANS[command], "--releases", 100, "--state", state).exit_code == 0
    told = run(command, visits, "-c", "user", "--state", state, "--delta", "1e-9")
    assert (told.exit_code, pp.load(state).delta) == (0, 0.0)
    assert "panprivacy: this state has Laplace noise, so no delta is used\n" in told.stderr


@pytest.mark.parametrize("command", FEW)
def test_a_delta_that_is_not_used_is_told_and_the_same_command_goes_on(
    command: str, visits: Path, tmp_path: Path
) -> None:
    asked = (command, visits, "-c", "user", *FEW[command], "--delta", "1e-9", "--state", tmp_path / "flu.pp")
    told = run(*asked)
    assert told.exit_code == 0
    assert told.stderr.count("panprivacy: Laplace noise errs less here, so no delta is used\n") == 1
    assert pp.load(tmp_path / "flu.pp").delta == 0.0
    again = run(*asked)
    assert again.exit_code == 0
    assert "panprivacy: this state has Laplace noise, so no delta is used\n" in again.stderr
    many = run(*asked[:4], *MANY[command], "--delta", "1e-9", "--state", tmp_path / "many.pp").stderr
    assert "no delta is used" not in many
    assert pp.load(tmp_path / "many.pp").delta == 1e-9


def test_the_same_command_goes_on_with_a_state_whose_size_depends_on_the_delta(visits: Path, tmp_path: Path) -> None:
    command = ("distinct", visits, "-c", "user", "--error", 0.2, "--state", tmp_path / "visitors.pp")
    assert run(*command, "-e", 2, "--releases", 60, "--delta", "1e-9").exit_code == 0
    assert run(*command).exit_code == 0
    assert refused(*command[:5], 0.1, *command[6:]).endswith("were asked for")


@both
@pytest.mark.parametrize("delta", ["0", "-1e-9", "1", "0.01", "nan"])
def test_a_bad_delta_is_one_line(command: str, delta: str, visits: Path) -> None:
    line = refused(command, visits, "-c", "user", *PLANS[command], "--delta", delta)
    assert line == f"panprivacy: delta must be above 0 and at most 0.001, got {float(delta)}"


@both
def test_a_delta_that_is_not_tiny_gets_a_note_in_words_and_no_trace_of_python(command: str, visits: Path) -> None:
    asked = (command, visits, "-c", "user", *PLANS[command], "--releases", 100, "--delta", "1e-4")
    process = start(*asked)
    _, said = process.communicate()
    assert process.returncode == 0
    lines = said.decode().splitlines()
    assert all(line.startswith("panprivacy: ") for line in lines)
    (line,) = (line for line in lines if "delta" in line)
    assert line.startswith("panprivacy: delta 0.0001 is a probability: with a chance of up to one in 10,000 a person")
    assert run(*asked, "--quiet").stderr == ""


@both
def test_many_releases_without_a_delta_are_told_what_one_would_buy(command: str, visits: Path, tmp_path: Path) -> None:
    state = tmp_path / "flu.pp"
    asked = (command, visits, "-c", "user", *PLANS[command], "--releases", 1000, "--state", state)
    assert "planned releases err by" not in run(*asked, "--quiet").stderr
    state.unlink()
    told = run(*asked).stderr
    assert "panprivacy: 1,000 planned releases err by " in told
    assert "with --delta 1e-09 their noise is Gaussian, and they err by " in told
    assert "planned releases err by" not in run(*asked).stderr, "a state that is there has decided"


@both
@pytest.mark.parametrize("rest", [("--releases", 12), ("--releases", 1000, "--delta", "1e-9")])
def test_few_releases_and_those_with_a_delta_are_told_nothing(
    command: str, rest: tuple[str | int, ...], visits: Path
) -> None:
    assert "Gaussian" not in run(command, visits, "-c", "user", *PLANS[command], *rest).stderr


def test_the_note_says_the_two_standard_errors(visits: Path) -> None:
    said = run("density", visits, "-c", "user", "-n", 1_000_000, "-e", 1, "--releases", 8760).stderr
    assert "8,760 planned releases err by 0.071 each (standard error at density 1/2)" in said
    assert "and they err by 0.0042" in said


def test_a_series_says_its_delta(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("user,day\n" + "".join(f"{i},2026-01-{1 + i // 100:02}\n" for i in range(900)))
    daily = ("--time", "day", "--start", "2026-01-01", "--release-every", "1d")
    asked = ("density", path, "-c", "user", "-n", 1000, "-e", 2, *daily)
    told = run(*asked, "--releases", 100, "--delta", "1e-9", "--json")
    lines = [json.loads(line) for line in told.stdout.splitlines() if "density_interval" in line]
    assert {line["delta_spent"] for line in lines} == {1e-9}
