"""The site builds without a warning, and its search finds every public name."""

from importlib.util import find_spec
from pathlib import Path
from subprocess import PIPE, STDOUT, run
from sys import executable

import pytest

import panprivacy
from panprivacy.cli import COMMANDS

DOCS = Path(__file__).parents[1] / "docs"
MISSING = [name for name in ("sphinx", "myst_parser", "numpydoc", "latex2mathml") if find_spec(name) is None]

needs_sphinx = pytest.mark.skipif(bool(MISSING), reason="pip install '.[docs]' brings Sphinx and what it needs")

QUESTIONS = {
    "Which estimator counts visitors whom nobody listed?": ("how-to/which-estimator.md", ["DistinctCount", "nothing"]),
    "How many users does an error of 0.01 take?": ("how-to/which-estimator.md", ["| 10,000 | 0.011 |", "advise"]),
    "Which epsilon should we take?": ("how-to/which-estimator.md", ["Which epsilon?", "the usual choice"]),
    "What does a year of hourly releases cost?": ("how-to/release-often.md", ["8760: 0.0707, with a delta 0.0042"]),
    "How is the service deployed?": ("how-to/run-a-service.md", ["systemd unit", "container file", "service.tls"]),
    "May we back up a state?": ("how-to/keep-a-state.md", ["Do not copy or back up a state", "second reading"]),
    "What does an intruder learn who reads the memory?": (
        "explanation/guarantee.md",
        ["steals our memory once", "at most a factor of 2.7"],
    ),
    "What is not protected?": ("explanation/guarantee.md", ["What is not promised", "Two readings", "Swap"]),
    "A court wants the state: what now?": ("how-to/hand-over-a-state.md", ["rerandomize", "--intrusions"]),
    "How do many machines feed one count?": ("how-to/feed-from-many-processes.md", ["state folder", "s3://"]),
    "Who checks all of this?": ("how-to/check-the-privacy.md", ["panprivacy audit", "every outcome of its coins"]),
}
"""What strangers ask, the page that answers it, and words of the answer."""


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_page_answers_what_strangers_ask(question: str) -> None:
    page, words = QUESTIONS[question]
    text = " ".join((DOCS / page).read_text(encoding="utf-8").split())
    assert [word for word in words if word not in text] == []


def test_the_reference_lists_every_public_name() -> None:
    listed = (DOCS / "reference" / "api" / "index.md").read_text(encoding="utf-8").split()
    assert set(panprivacy.__all__) - set(listed) == set()


@pytest.mark.parametrize("folder", ["tutorials", "how-to", "reference", "explanation"])
def test_the_index_of_a_folder_names_its_pages(folder: str) -> None:
    listed = (DOCS / folder / "index.md").read_text(encoding="utf-8").split()
    assert {page.stem for page in (DOCS / folder).glob("*.md")} - {"index"} - set(listed) == set()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site; a warning is an error."""
    built = tmp_path_factory.mktemp("site")
    command = [executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-d", f"{built}/trees", str(DOCS)]
    ran = run([*command, f"{built}/html"], stdout=PIPE, stderr=STDOUT, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    return built / "html"


@needs_sphinx
@pytest.mark.slow
def test_the_index_has_every_public_name(site: Path) -> None:
    from sphinx.util.inventory import InventoryFile

    with (site / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", lambda _, path: path)
    names = {name for kind, names in inventory.items() if kind.startswith("py:") for name in names}
    assert {f"panprivacy.{name}" for name in panprivacy.__all__} - names == set()


@needs_sphinx
@pytest.mark.slow
def test_the_search_finds_every_command(site: Path) -> None:
    page = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    for panel in COMMANDS.values():
        for name in panel:
            assert f'id="command-{name}"' in page
    assert "reference/commands" in (site / "searchindex.js").read_text(encoding="utf-8")
