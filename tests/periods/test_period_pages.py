"""What docs/actives.md and docs/retention.md show is what happens."""

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
@pytest.mark.parametrize(("page", "examples"), [("actives.md", 10), ("retention.md", 8)])
def test_the_examples_of_a_page_run(page: str, examples: int) -> None:
    result = doctest.testfile(str(DOCS / page), module_relative=False)

    assert result.attempted >= examples
    assert result.failed == 0
