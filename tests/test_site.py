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

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason="pip install '.[docs]' brings Sphinx and what it needs"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site; a warning is an error."""
    built = tmp_path_factory.mktemp("site")
    command = [executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-d", f"{built}/trees", str(DOCS)]
    ran = run([*command, f"{built}/html"], stdout=PIPE, stderr=STDOUT, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    return built / "html"


def test_the_index_has_every_public_name(site: Path) -> None:
    from sphinx.util.inventory import InventoryFile

    with (site / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", lambda _, path: path)
    names = {name for kind, names in inventory.items() if kind.startswith("py:") for name in names}
    assert {f"panprivacy.{name}" for name in panprivacy.__all__} - names == set()


def test_the_search_finds_every_command(site: Path) -> None:
    page = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    for panel in COMMANDS.values():
        for name in panel:
            assert f'id="command-{name}"' in page
    assert "reference/commands" in (site / "searchindex.js").read_text(encoding="utf-8")
