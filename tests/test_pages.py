"""What the examples of the pages show is what happens; pages with more to test have tests of their own beside this."""

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))}
ELSEWHERE = {"how-to/spark.md", "explanation/audit.md"}
"""Pages whose Python runs in tests of their own: one needs Java, the other has programs of many lines."""


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if ">>> " in text and page not in ELSEWHERE])
def test_the_examples_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What noise could change is shown in few digits, six standard errors and more from where they would change."""
    monkeypatch.chdir(tmp_path)  # some write files
    result = doctest.testfile(str(DOCS / page), module_relative=False)

    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if "```python\n" in text])
def test_a_block_of_python_is_one_that_runs(page: str) -> None:
    """A block without prompts runs in no test, and comes to be wrong; those of the auditor have a test of their own."""
    for block in PAGES[page].split("```python\n")[1:]:
        assert block.startswith(">>> ") or page == "explanation/audit.md", block[:80]
