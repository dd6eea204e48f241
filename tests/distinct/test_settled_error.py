"""From which count on the error of a `DistinctCount` stays the same: one number, wherever it is said."""

import re
from pathlib import Path

import pytest

import panprivacy as pp

PAGES = Path(__file__).parents[2]


def said(text: str) -> int:
    """The count that a text says."""
    found = re.search(r"from ([0-9,]+) users on", text)
    assert found is not None, text
    return int(found[1].replace(",", ""))


def test_every_display_says_the_same_count() -> None:
    est = pp.DistinctCount(epsilon=1.0)
    assert said(repr(est)) == said(str(est.card().text)) == said((PAGES / "README.md").read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("asked", [{}, {"error": 0.02}, {"buckets": 256}, {"epsilon": 0.3}, {"releases": 20}])
def test_it_is_the_count_from_which_on_the_error_holds(asked: dict[str, float]) -> None:
    est = pp.DistinctCount(**{"epsilon": 1.0, **asked})  # type: ignore[arg-type]
    first = said(repr(est))
    exact = est.counts_within(est.relative_error * 1.001)
    assert exact is not None
    assert exact[0] <= first <= 1.1 * exact[0]
    assert est.count_stderr_at(first) / first <= 1.01 * est.relative_error
