"""Help fits a screen and opens with an example; completion works; the benchmark runs."""

import os
import re
import shlex
from importlib import import_module
from pathlib import Path
from typing import Literal

import pytest

from commands import PROGRAM, refused, run, start
from drawn import rows
from panprivacy import __version__
from panprivacy.cli import COMMANDS, all_commands
from panprivacy.cli.options import whole_number

PLENTY = 85  # lines: each option in a whole sentence
SCREENS = [
    *("density", "distinct", "counts", "actives", "retention"),
    *("show", "release", "merge", "rerandomize", "replace-shard", "grow", "consume", "bench"),
]


@pytest.mark.slow
@pytest.mark.parametrize("command", SCREENS)
def test_help_fits_a_screen_and_opens_with_an_example(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERMINAL_WIDTH", "100")
    lines = run(command, "--help").stdout.strip().splitlines()
    assert len(lines) <= PLENTY
    opening = [line for line in lines if line.strip()][:4]
    assert any(f"Example: panprivacy {command}" in line for line in opening)
    assert all(len(line) <= 100 for line in lines)


EVERY = {name: described for panel in COMMANDS.values() for name, described in panel.items()}


@pytest.mark.slow
@pytest.mark.parametrize("command", EVERY)
def test_every_command_has_an_example_whose_options_it_knows(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERMINAL_WIDTH", "200")
    shown = run(command, "--help").stdout
    (example,) = re.findall(rf"Example: panprivacy {command}(.*)", shown)
    described = shown.replace(example, "")
    assert all(re.search(rf"{option}\b", described) for option in re.findall(r"(?<= )--?[a-z][a-z-]*", example))


@pytest.mark.slow
@pytest.mark.parametrize("command", ["density", "distinct", "counts"])
def test_the_example_of_help_works(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERMINAL_WIDTH", "200")
    monkeypatch.chdir(tmp_path)
    Path("visits.csv").write_text("patient,when\n5,2026-01-05\n7,2026-01-06\n", encoding="utf-8")
    (example,) = re.findall(r"Example: panprivacy (.*)", run(command, "--help").stdout)
    assert run(*shlex.split(example)).exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize("command", ["density", "distinct"])
def test_the_series_of_help_works(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERMINAL_WIDTH", "200")
    monkeypatch.chdir(tmp_path)
    Path("visits.csv").write_text("patient,visited\n5,2026-01-05\n7,2026-01-13\n", encoding="utf-8")
    shown = run(command, "--help").stdout
    (example,), (more,) = re.findall(r"Example: panprivacy (.*)", shown), re.findall(r"For a series, add: (.*)", shown)
    assert run(*shlex.split(example), *shlex.split(more)).exit_code == 0
    assert Path("series.png").exists()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["density", "distinct", "counts"])
def test_80_columns_tell_that_a_dash_is_standard_input(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    assert "- is standard input" in run(command, "--help").stdout


def test_help_names_the_extra_that_brings_other_sketches() -> None:
    assert "pip install '.[bench]'" in " ".join(run("bench", "--help").stdout.split())


@pytest.mark.slow
def test_a_terminal_without_the_signs_of_an_answer_is_shown_others() -> None:
    for arguments in (("--help",), ("demo", "--visits", "10")):
        process = start(*arguments, command=PROGRAM, env={**os.environ, "PYTHONIOENCODING": "ascii"})
        out, errors = process.communicate(timeout=120)
        assert (process.returncode, errors) == (0, b"")
        assert out.isascii()
    assert b" ? " in out


def test_a_demo_refuses_what_cannot_be() -> None:
    assert refused("demo", "--visits", "-1") == "panprivacy: visits must not be negative, got -1"
    assert refused("demo", "--epsilon", "-1").startswith("panprivacy: epsilon must be positive")


def test_every_command_is_listed() -> None:
    listed = re.findall(r"^│ ([a-z][a-z-]*) +[A-Z]", run("--help").stdout, flags=re.MULTILINE)
    assert set(listed) == set(EVERY)
    assert run("--version").stdout == f"panprivacy {__version__}\n"


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_options(shell: Literal["bash", "zsh", "fish"]) -> None:
    script = all_commands().generate_completion(shell=shell)
    for word in ("density", "universe-file", "release-every"):
        assert word in script


@pytest.mark.slow
def test_bench_prints_who_is_private() -> None:
    result = run("bench", "--events", 20_000, "--users", 1000, "--rounds", 1)
    assert result.exit_code == 0, result.output
    header, *drawn = rows(result.stdout)
    private = {row[0]: row[header.index("private")] for row in drawn}
    assert private.pop("Density") == private.pop("DistinctCount") == "yes, epsilon 1"
    assert private.pop("Polars") == "no"
    assert set(private.values()) <= {"no"}


@pytest.mark.parametrize("command", EVERY)
def test_the_line_of_a_command_begins_its_own_help(command: str) -> None:
    module, _, line = EVERY[command]
    described = getattr(import_module(f"panprivacy.cli.commands.{module}"), command.replace("-", "_")).__doc__
    assert described.startswith(line.rstrip("."))


NUMBERS = {"100k": 100000, "1.5M": 1500000, "100,000": 100000, "1e6": 1000000, "1 000": 1000, "1,5": None, "many": None}


@pytest.mark.parametrize("text", NUMBERS)
def test_a_number_is_refused_with_the_one_that_was_probably_meant(text: str) -> None:
    hint = "" if NUMBERS[text] is None else f"; write {NUMBERS[text]}"
    with pytest.raises(ValueError) as error:
        whole_number(text)
    assert str(error.value) == f"{text!r} is not a whole number{hint}"
