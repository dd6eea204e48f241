"""What docs/explanation/planning.md shows is what the command prints: the same words and cells, however drawn."""

import re
import shlex
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path

import pytest

import panprivacy as pp
from command_line import invoke
from drawn import rows
from panprivacy.cli import app

pytestmark = pytest.mark.slow

TEXT = (Path(__file__).parents[2] / "docs" / "explanation" / "planning.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```console\n\$ panprivacy (plan .*?)\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.mark.parametrize(("command", "shown"), BLOCKS[1:], ids=[command for command, _ in BLOCKS[1:]])
def test_a_command_prints_what_the_page_shows(command: str, shown: str) -> None:
    result = invoke(shlex.split(command))
    assert result.output.split() == shown.split()


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_the_table_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    command, shown = BLOCKS[0]
    for name, value in {"COLUMNS": "120", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    with redirect_stdout(Terminal()) as screen, suppress(SystemExit):
        app(shlex.split(command))
    assert rows(screen.getvalue()) == rows(shown)


def test_the_errors_of_an_open_universe_are_those_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "distinct.md").read_text(encoding="utf-8")
    lines = re.findall(r"^  \| (?:`error|buckets|holds from|standard error).*$", page, flags=re.MULTILINE)
    cells = [[cell.strip() for cell in line.split("|")[2:-1]] for line in lines]
    for asked, buckets, first, there in zip(*cells, strict=True):
        error = float(asked.removesuffix(" %")) / 100
        est = pp.DistinctCount(1.0, error=error)
        within = est.counts_within(error)
        assert within is not None
        assert (f"{est.buckets:,}", f"{within[0]:,}") == (buckets, first)
        assert f"{est.count_stderr_at(23_570) / 235.70:.1f} %" == there
    assert len(cells[0]) == 6
