"""What the examples of the pages show is what happens; pages with more to test have tests of their own beside this."""

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
EXAMPLES = {"cli.md": 2, "counts.md": 7, "distinct.md": 6, "plan.md": 4, "folder.md": 6}
"""How many examples a page has at least."""


@pytest.mark.slow
@pytest.mark.parametrize("page", EXAMPLES)
def test_the_examples_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What noise could change is shown in few digits, six standard errors and more from where they would change."""
    monkeypatch.chdir(tmp_path)  # some write files
    result = doctest.testfile(str(DOCS / page), module_relative=False)

    assert result.attempted >= EXAMPLES[page]
    assert result.failed == 0


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md") if path.name != "audit.md"))
def test_a_block_of_python_is_one_that_runs(page: str) -> None:
    """A block without prompts runs in no test, and so comes to be wrong; those of audit.md have a test of their own."""
    for block in (DOCS / page).read_text(encoding="utf-8").split("```python\n")[1:]:
        assert block.startswith(">>> "), block[:80]
