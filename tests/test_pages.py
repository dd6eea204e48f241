"""What the pages show is what happens; pages with more to test have tests of their own beside this.

Python runs as a doctest. A block of `sh` runs in a shell, one after the other in a folder of the page's own, and the
block of `console` after it is what it prints (``python tests/cli/shown.py PAGE`` writes it anew). What cannot run in a
test stands after a comment that says so, ``<!-- not run: a server -->``, or has a test of its own.
"""

import doctest
import re
import shlex
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "cli"))

from shown import blocks, printed, words

from panprivacy.cli import COMMANDS as PANELS
from panprivacy.cli import all_commands
from panprivacy.cli.options import DASH

DOCS = Path(__file__).parents[1] / "docs"
PAGES = {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))}
ELSEWHERE = {"how-to/spark.md", "explanation/audit.md", "reference/service.md"}
"""Pages whose Python runs in tests of their own: it needs Java, has programs of many lines, or asks a service."""
NEEDS = {"how-to/scale.md": "dask"}
"""Pages that are skipped where a package is missing."""
FLIGHTS = {page for page in PAGES if page.startswith("tutorials/flights")}
"""Pages whose commands run in tests of their own, where their data is installed, and are compared with the truth."""
COMMANDS = {"explanation/planning.md", "reference/command-line.md"}
"""Pages whose commands run in tests of their own, from a prompt."""
NAMES = {name for panel in PANELS.values() for name in panel}
NOT_RUN = re.compile(r"<!-- not run: [^>]+ -->\n```(?:console|python)\n(.*?)```", flags=re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if ">>> " in text and page not in ELSEWHERE])
def test_the_examples_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What noise could change is shown in few digits, six standard errors and more from where they would change."""
    if page in NEEDS:
        pytest.importorskip(NEEDS[page])
    monkeypatch.chdir(tmp_path)  # some write files
    result = doctest.testfile(str(DOCS / page), module_relative=False)

    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if "```python\n" in text])
def test_a_block_of_python_is_one_that_runs(page: str) -> None:
    """A block without prompts runs in no test, and comes to be wrong; those of the auditor have a test of their own."""
    for block in NOT_RUN.sub("", PAGES[page]).split("```python\n")[1:]:
        assert block.startswith(">>> ") or page == "explanation/audit.md", block[:80]


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if "```sh\n" in text and page not in FLIGHTS])
def test_the_commands_of_a_page_print_what_it_shows(page: str, tmp_path: Path) -> None:
    """But for their numbers, which are private."""
    for block, output in zip(blocks(PAGES[page]), printed(PAGES[page], tmp_path), strict=True):
        if block.output:
            assert words(output) == words(block.output)


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if "```console\n" in text])
def test_a_block_of_commands_runs_or_says_why_not(page: str) -> None:
    shown = sum(bool(block.output) for block in blocks(PAGES[page]))
    left = NOT_RUN.sub("", PAGES[page])
    if page not in COMMANDS:
        assert left.count("```console\n") == shown


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if NOT_RUN.search(text)])
def test_commands_that_are_not_run_have_options_that_exist(page: str) -> None:
    for block in NOT_RUN.findall(PAGES[page]):
        for line in block.replace("\\\n", " ").splitlines():
            _, found, rest = line.partition("panprivacy ")
            given = shlex.split(rest.split(" | ")[0].split(" & ")[0].removesuffix("&"), comments=True)
            if found and given and given[0] in NAMES and "pip install" not in line.split("panprivacy ")[0]:
                all_commands(given[0]).parse_args(
                    [DASH if word == "-" else word for word in given], exit_on_error=False
                )
