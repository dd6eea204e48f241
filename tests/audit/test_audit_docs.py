"""What the page on the auditor shows is what the programs on it print."""

import re
import warnings
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "audit.md"
PROGRAMS = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize(("program", "output"), PROGRAMS, ids=["exact", "delta", "sampled"])
def test_a_program_prints_what_the_page_says(program: str, output: str, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        exec(compile(program, str(PAGE), "exec"), {})

    assert capsys.readouterr().out == output


def test_an_estimator_of_ones_own_is_audited_in_about_ten_lines() -> None:
    program = PROGRAMS[0][0]
    lines = [line for line in program.splitlines() if line and not line.startswith(("from", "import"))]

    assert len(lines) <= 10
