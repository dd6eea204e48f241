"""What the page on the auditor shows is what the programs on it print."""

import re
import warnings
from math import ceil
from pathlib import Path

import pytest

import panprivacy as pp

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


def test_the_guarantee_states_what_a_user_loses_in_a_year() -> None:
    page = (PAGE.parent / "guarantee.md").read_text(encoding="utf-8")
    actives, with_delta = (pp.ActiveUsers(10**6, 1.0, start=0, delta=delta) for delta in (None, 1e-9))
    densities = pp.Windows(lambda: pp.Density(10**6, 1.0), "7d")
    counts = pp.Windows(lambda: pp.Counts(10**6, 1.0), "7d")
    year, delta = (ceil(100 * each.loss(14, readings=1)) / 100 for each in (actives, with_delta))
    weekly, twice = (ceil(100 * loss(53, readings=1)) / 100 for loss in (densities.loss, counts.loss))

    assert f"{year} in 14 cycles; {delta} with `delta=1e-9`" in page
    assert f"{weekly} in 53 windows of `Density`; {twice} of `Counts`" in page
