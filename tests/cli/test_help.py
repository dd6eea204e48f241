"""Help fits a screen and opens with an example; completion works; the benchmark runs."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from commands import refused, run, start

from drawn import rows
from panprivacy import __version__
from panprivacy.cli import app

PLENTY = 85  # lines: each option in a whole sentence
COMMANDS = [
    *("density", "distinct", "counts", "actives", "retention"),
    *("show", "release", "merge", "rerandomize", "grow", "consume", "bench"),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_a_screen_and_opens_with_an_example(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERMINAL_WIDTH", "100")
    lines = run(command, "--help").stdout.strip().splitlines()
    assert len(lines) <= PLENTY
    opening = [line for line in lines if line.strip()][:4]
    assert any(f"Example: panprivacy {command}" in line for line in opening)
    assert all(len(line) <= 100 for line in lines)


EVERY = [command.callback.__name__ for command in app.registered_commands if command.callback]


@pytest.mark.parametrize("command", EVERY)
def test_every_command_has_an_example_whose_options_it_knows(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERMINAL_WIDTH", "200")
    shown = run(command, "--help").stdout
    (example,) = re.findall(rf"Example: panprivacy {command}(.*)", shown)
    described = shown.replace(example, "")
    assert all(re.search(rf"{option}\b", described) for option in re.findall(r"(?<= )--?[a-z][a-z-]*", example))


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
        process = start(*arguments, env={**os.environ, "PYTHONIOENCODING": "ascii"})
        out, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, b"")
        assert out.isascii()
    assert b" ? " in out


def test_a_demo_refuses_what_cannot_be() -> None:
    assert refused("demo", "--visits", "-1") == "panprivacy: visits must not be negative, got -1"
    assert refused("demo", "--epsilon", "-1").startswith("panprivacy: epsilon must be positive")


def test_every_command_is_listed() -> None:
    boxes = run("--help").stdout.split("─ Commands ")[1]
    listed = re.findall(r"^│ ([a-z]+) +[A-Z]", boxes, flags=re.MULTILINE)
    assert set(COMMANDS) < set(listed)
    assert len(listed) == len(app.registered_commands)
    assert run("--version").stdout == f"panprivacy {__version__}\n"


@pytest.mark.slow
def test_completion_knows_commands_and_options() -> None:
    for words, expected in (("panprivacy den", "density"), ("panprivacy density --uni", "--universe-file")):
        environment = {"_PANPRIVACY_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": words}
        code = "import sys; sys.argv[0] = 'panprivacy'; from panprivacy.cli import app; app(prog_name='panprivacy')"
        result = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
        )
        assert expected in result.stdout, result.stderr


def test_bench_prints_who_is_private() -> None:
    result = run("bench", "--events", 20_000, "--users", 1000, "--rounds", 1)
    assert result.exit_code == 0, result.output
    header, *drawn = rows(result.stdout)
    private = {row[0]: row[header.index("private")] for row in drawn}
    assert private.pop("Density") == private.pop("DistinctCount") == "yes, epsilon 1"
    assert private.pop("Polars") == "no"
    assert set(private.values()) <= {"no"}


def test_the_commands_are_functions_of_their_own_names() -> None:
    """Typer calls a command as its function, unless a name is given to it: then help and code would differ."""
    names = {command.callback.__name__ for command in app.registered_commands if command.callback}
    assert set(COMMANDS) <= names
    assert {command.name for command in app.registered_commands} == {None}
