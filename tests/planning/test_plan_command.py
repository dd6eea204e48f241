"""`panprivacy plan` on the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import Result, invoke
from panprivacy.cli.commands.planning import command_of
from panprivacy.planning import plan as planned
from panprivacy.universe import Users


def run(*arguments: str) -> Result:
    return invoke(["plan", *arguments])


ASKED = ("--universe", "1000000", "--epsilon", "0.4", "--alpha", "0.1")


@pytest.mark.slow
def test_the_answer_is_the_plan() -> None:
    result = run(*ASKED)
    assert result.exit_code == 0
    assert f"<{result.stdout.strip()}>" == repr(planned(universe=10**6, epsilon=0.4, alpha=0.1))


@pytest.mark.slow
def test_a_plan_is_a_command_where_a_shell_can_build_it() -> None:
    many = planned(10**6, 4.0, alpha=0.1, releases=3, intrusions=1)
    assert command_of(many) == f"panprivacy density FILE -c NAME -n 1000000 -e 4.0 --sample {many.sample} " + (
        "--releases 3 --intrusions 1"
    )
    open_ = planned(epsilon=1.0, alpha=0.02, count=10**6)
    assert command_of(open_) == f"panprivacy distinct FILE -c NAME -e 1.0 --buckets {open_.buckets}"
    assert command_of(planned(10**6, 1.0, alpha=0.001, density=0.01)) is None  # fewer levels than the command takes
    assert command_of(planned(Users(["ada", "grace"]), 9.0)) is None


@pytest.mark.slow
def test_json_holds_everything() -> None:
    result = run(*ASKED, "--beta", "0.01", "--releases", "2", "--intrusions", "1", "--json")
    answer = json.loads(result.stdout)
    expected = planned(universe=10**6, epsilon=0.4, alpha=0.1, beta=0.01, releases=2, intrusions=1)
    assert answer == expected.to_dict()
    assert answer["probability"] <= answer["beta"]
    assert (answer["releases"], answer["noise"], answer["delta"]) == (2, "Laplace", 0.0)
    assert 0 < answer["epsilon_release"] < 0.4
    assert answer["epsilon_total"] <= 0.4


@pytest.mark.parametrize("how", [(), ("--json",)])
def test_a_plan_of_counts_ends_as_others_do(how: tuple[str, ...]) -> None:
    result = run("-n", "100000", "-e", "1", "--up-to", "8", *how)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "100" in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "options"), [("ActiveUsers", ("--span", "56d")), ("Retention", ())])
def test_a_delta_counts_for_periods_too(estimator: Any, options: tuple[str, ...]) -> None:
    asked = ("--estimator", estimator, "-n", "1000000", "-e", "1", "--releases", "100", *options, "--json")
    with_delta, without = json.loads(run(*asked, "--delta", "1e-9").stdout), json.loads(run(*asked).stdout)
    assert (with_delta["noise"], with_delta["delta"], without["noise"]) == ("Gaussian", 1e-9, "Laplace")
    assert with_delta["stderr"] < without["stderr"]
    assert with_delta["errors"] == {"laplace": without["stderr"], "gaussian": with_delta["stderr"]}
    large = run(*asked, "--delta", "0.01")
    assert "delta" in large.stderr


@pytest.mark.slow
def test_a_delta_buys_gaussian_noise_where_that_is_better() -> None:
    answer = json.loads(run("-n", "1000000", "-e", "1", "--releases", "8760", "--delta", "1e-9", "--json").stdout)
    assert answer == planned(universe=10**6, epsilon=1.0, releases=8760, delta=1e-9).to_dict()
    assert (answer["noise"], answer["delta"]) == ("Gaussian", 1e-9)
    few = json.loads(run("-n", "1000000", "-e", "1", "--releases", "12", "--delta", "1e-9", "--json").stdout)
    assert (few["noise"], few["delta"]) == ("Laplace", 0.0)


@pytest.mark.parametrize("delta", ["0", "-1", "1", "nan", "0.01"])
def test_a_delta_that_is_none_is_one_line(delta: str) -> None:
    refusal = run("-n", "1000", "-e", "1", "--delta", delta)
    assert refusal.exit_code == 2
    assert refusal.stderr == f"panprivacy: delta must be above 0 and at most 0.001, got {float(delta)}\n"


@pytest.mark.slow
def test_a_delta_that_is_not_tiny_gets_a_note_in_words() -> None:
    answer = run("-n", "100000", "-e", "1", "--delta", "1e-4", "--releases", "1000")
    assert answer.exit_code == 0
    assert answer.stderr.startswith("panprivacy: delta 0.0001 is a probability: with a chance of up to one in 10,000")
    assert answer.stderr.count("\n") == 1


@pytest.mark.slow
def test_an_open_universe_asks_for_the_count_that_is_expected() -> None:
    refusal = run("-e", "1", "--alpha", "0.02")
    assert refusal.exit_code == 2
    assert refusal.stderr.startswith("panprivacy: an open universe needs the expected count")
    answer = json.loads(run("-e", "1", "--alpha", "0.02", "--count", "1e6", "--json").stdout)
    assert answer == planned(epsilon=1.0, alpha=0.02, count=10**6).to_dict()
    first, last = answer["counts"]
    assert 23_570 < first < answer["count"] == 10**6 < last


@pytest.mark.slow
def test_memory_and_density_are_heeded() -> None:
    answer = json.loads(run("-n", "1000000", "-e", "1", "--memory", "4 KiB", "--density", "0.01", "--json").stdout)
    assert answer["estimator"] == "DistinctCount"
    assert answer["memory"] <= 4096


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "start", "arguments"),
    [
        ("plan.png", b"\x89PNG", ASKED),
        ("plan.svg", b"<?xml", ("-e", "1", "--alpha", "0.1", "--count", "50000")),
        ("plan.png", b"\x89PNG", ("-n", "9999", "-e", "9", "--density", "0.1")),
    ],
)
def test_a_picture_is_drawn(name: str, start: bytes, arguments: tuple[str, ...], tmp_path: Path) -> None:
    result = run(*arguments, "--plot", str(tmp_path / name))
    assert result.exit_code == 0, result.output
    assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.slow
def test_the_impossible_is_one_line_and_status_two() -> None:
    result = run("--universe", "1000", "--epsilon", "0.4", "--alpha", "0.1")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "possible: alpha = " in result.stderr


def test_a_picture_of_no_known_kind_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    result = run(*ASKED, "--plot", str(tmp_path / "plan.doc"))
    assert result.exit_code == 2
    assert ".png, .svg or .pdf" in result.stderr
    assert not list(tmp_path.iterdir())


def test_help_has_an_example() -> None:
    assert "Example: panprivacy plan --universe 1000000" in " ".join(run("--help").stdout.split())


def test_an_option_of_another_command_is_answered_with_the_one_that_helps() -> None:
    """The most similar option, --memory, is something else."""
    result = invoke(["plan", "-n", "1000", "--error", "0.01"])
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert "--alpha A" in line
    assert "--memory" not in line
    (line,) = invoke(["plan", "-n", "1000"]).stderr.splitlines()
    assert "--epsilon E" in line
