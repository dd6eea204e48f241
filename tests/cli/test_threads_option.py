"""`--threads` says how many threads a command uses."""

from pathlib import Path

import pytest

from commands import answer, run
from panprivacy.memory import threads


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command may change the process: here it is that of the tests."""
    monkeypatch.setattr(threads, "_most", None)
    monkeypatch.setenv("POLARS_MAX_THREADS", "2")


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    (tmp_path / "visits.csv").write_text("user,day\n" + "".join(f"{i},2026-01-05\n" for i in range(500)))
    return tmp_path / "visits.csv"


@pytest.mark.parametrize(
    "command", [("density", "-n", 1000), ("distinct",), ("counts", "-n", 1000)], ids=lambda command: command[0]
)
def test_a_command_uses_as_many_threads_as_it_is_told(command: tuple[str, ...], visits: Path) -> None:
    name, *options = command
    answer(name, visits, "-c", "user", *options, "-e", 9, "--threads", 1)
    assert threads.check_threads(None) == 1


def test_all_cores_are_used_if_nothing_is_said(visits: Path) -> None:
    answer("density", visits, "-c", "user", "-n", 1000, "-e", 9)
    assert threads.check_threads(None) == threads.cores()


@pytest.mark.parametrize("number", [0, 257, "many"])
def test_a_silly_number_of_threads_is_refused(number: int | str, visits: Path) -> None:
    result = run("density", visits, "-c", "user", "-n", 1000, "--threads", number)
    assert result.exit_code == 2
    assert "threads" in result.stderr
