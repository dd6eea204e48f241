"""Every exported estimator is crossed with every feature, and no crossing loses more than is stated."""

from pathlib import Path
from typing import Any

import pytest

import panprivacy
from command_line import invoke
from panprivacy.audit import crossings
from panprivacy.audit.crossings import (
    COLUMNS,
    MORE,
    Cell,
    Filled,
    Row,
    Scenario,
    Verdict,
    line_of,
    measure,
    rows,
    title_of,
)
from panprivacy.audit.holders import OneBit
from panprivacy.estimators.density import Density
from panprivacy.testing import SeededCoins, refused, split_of

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "crossings.md").read_text(encoding="utf-8")
CROSSINGS = crossings.crossings()


def name_of(crossing: Any) -> str:
    return f"{crossing.estimator}, {crossing.feature}"


def section_of(estimator: str) -> list[str]:
    """The lines of the page about one estimator."""
    (section,) = (part for part in PAGE.split("\n## ") if part.startswith(f"{title_of(estimator)}\n"))
    return section.splitlines()


def test_every_exported_estimator_has_a_row() -> None:
    takes_events = {
        name for name in panprivacy.__all__ if hasattr(getattr(panprivacy, name), "update") and name[0].isupper()
    }
    takes_events -= {"Client"}  # it has no state: its service does
    assert {row.name for row in rows()} == takes_events >= {"Density", "Counts", "Windows", "StateFolder"}


def test_an_estimator_with_an_option_that_nobody_knows_fails_the_audit() -> None:
    class Novelty(Density):
        def __init__(self, universe: int, epsilon: float, *, moons: int, coins: Any) -> None:
            super().__init__(universe, epsilon, coins=coins)
            self.moons = moons

    with pytest.raises(TypeError, match="moons"):
        COLUMNS["1 release"](Row(Novelty))


def test_no_cell_is_empty() -> None:
    for estimator, feature, _ in CROSSINGS:
        verdicts = [line.split(" | ")[1] for line in section_of(estimator) if line.startswith(f"| {feature} | ")]
        assert verdicts[0].strip("*") in {*Verdict, "DOES NOT HOLD"}, f"crossings.md: {estimator}, {feature}"
    assert len(CROSSINGS) == len(rows()) * len(COLUMNS) + len(MORE)


def test_a_cell_without_a_reason_does_not_hold() -> None:
    assert not Cell(Verdict.REFUSED).holds
    assert not Cell(Verdict.NOT_APPLICABLE).holds
    assert not Cell(Verdict.AUDITED, epsilon=1.0, found=1.1).holds
    assert not Cell(Verdict.AUDITED, epsilon=1.0, delta=1e-3, found=2e-3).holds
    assert Cell(Verdict.AUDITED, epsilon=1.0, delta=1e-3, found=1e-3).holds


@pytest.mark.slow
@pytest.mark.parametrize("crossing", CROSSINGS, ids=name_of)
def test_no_crossing_loses_more_than_is_stated(crossing: Any) -> None:
    cell = crossing.cell()
    assert cell.holds, str(cell)
    if "delta" in crossing.feature and cell.verdict is Verdict.AUDITED:
        assert cell.delta > 0, "the estimator draws no Gaussian noise: this crossing audits nothing"
    line = line_of(Filled(crossing.estimator, crossing.feature, cell))
    assert line in section_of(crossing.estimator), f"python tests/audit/crossing_page.py writes another line: {line}"


@pytest.mark.slow
@pytest.mark.parametrize("readings", [0, 1])
def test_the_abstract_machine_loses_what_the_code_loses_in_two_cycles(readings: int) -> None:
    """Those that are too large with a delta are replaced by one bit: without a delta the two can be compared."""
    row = Row(panprivacy.ActiveUsers)
    cell = COLUMNS[f"2 cycles, {'read once' if readings else 'unread'}"](row)
    split = split_of(row.build(SeededCoins(0)))
    scenario = Scenario(range(1), 4, releases=4, readings=readings)
    machine = measure(lambda coins: OneBit(split, (cell.epsilon, 0.0), 2, coins), scenario)
    assert machine.found == pytest.approx(cell.found, abs=1e-12)


def test_the_command_prints_crossings_and_fails_when_one_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [Cell(Verdict.AUDITED, epsilon=1.0, found=1.0), Cell(Verdict.AUDITED, epsilon=1.0, found=1.5)]
    made = [crossings.Crossing("Density", f"feature {i}", lambda cell=cell: cell) for i, cell in enumerate(cells)]  # type: ignore[misc]
    monkeypatch.setattr(crossings, "crossings", lambda estimator: made[: 1 if estimator else 2])

    good = invoke(["audit", "--crossings", "Density", "--json"])
    assert good.exit_code == 0
    assert '"found": 1.0' in good.stdout
    bad = invoke(["audit", "--crossings"], {"COLUMNS": "118", "NO_COLOR": "1", "TERM": "dumb"})
    assert bad.exit_code == 1
    assert "DOES NOT HOLD" in bad.stdout


def test_an_unknown_estimator_is_an_error_in_one_line() -> None:
    with refused("audit-estimator", "'nobody'", "ActiveUsers"):
        crossings.crossings("nobody")
