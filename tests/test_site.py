"""The site builds without a warning, its search finds every public name, and everybody can read its pages."""

import os
import re
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from subprocess import PIPE, STDOUT, run
from sys import executable
from typing import TYPE_CHECKING, Any, Literal

import pytest

from http_servers import serving

sys.path.insert(0, str(Path(__file__).parent / "serve"))

from browsing import chromium

import panprivacy
from panprivacy.cli import COMMANDS

if TYPE_CHECKING:
    from playwright.sync_api import Page

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


def test_site_and_service_have_one_icon_and_one_colour() -> None:
    page = DOCS.parent / "src" / "panprivacy" / "serve" / "static"
    accents = re.findall(r"--accent: (#\w+);", (page / "page.css").read_text(encoding="utf-8"))
    assert len(accents) == 2, "light and dark"
    css = (DOCS / "_static" / "site.css").read_text(encoding="utf-8")
    assert re.findall(r"--pst-color-primary: (#\w+);", css) == accents
    icons = re.findall(r'html_logo = "../(.+?)"', (DOCS / "conf.py").read_text(encoding="utf-8"))
    assert [DOCS.parent / icon for icon in icons] == [page / "icon.svg"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site, as `make docs` builds it: a warning is an error."""
    if which("make") is None:
        pytest.skip("make is not installed")
    built = tmp_path_factory.mktemp("site") / "html"
    variables = os.environ | {"PATH": f"{Path(executable).parent}:{os.environ['PATH']}"}
    ran = run(
        ["make", "docs", f"html={built}"], cwd=DOCS.parent, env=variables, stdout=PIPE, stderr=STDOUT, check=False
    )
    assert ran.returncode == 0, ran.stdout.decode()
    return built


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


# --- In a browser ---------------------------------------------------------------------------------------------------

WIDTHS = {"phone": 390, "desktop": 1280}
LOOK = """() => {
  const levels = [...document.querySelectorAll("main :is(h1, h2, h3, h4, h5, h6)")].map((each) => +each.tagName[1]);
  const steps = levels.slice(1).map((level, at) => level - levels[at]);
  const images = [...document.images];
  const sized = (each) => each.getAttribute("width") && each.getAttribute("height");
  return {
    "no title": !document.title.trim(),
    "no description": !document.querySelector("meta[name=description]")?.content.trim(),
    "no language": !document.documentElement.lang,
    "headings out of order": levels[0] !== 1 || levels.slice(1).includes(1) || steps.some((step) => step > 1),
    "an image without words": images.some((each) => !each.alt.trim()),
    "an image without size": images.some((each) => each.closest("main") && !sized(each)),
    "a broken image": images.some((each) => each.complete && !each.naturalWidth),
  };
}"""
"""What a page lacks."""
WIDER = """() => [document.documentElement, ...document.querySelectorAll(".bd-article-container")]
  .some((each) => each.scrollWidth > each.clientWidth)"""
"""Whether the page is wider than the window, or its text than its column: blocks, tables and formulas scroll alone."""
NEW = """(known) => {
  const seen = new Set(known);
  for (const each of document.querySelectorAll("body *")) {
    for (const style of [...each.classList, ""].map((name) => `${each.tagName}.${name}`)) {
      if (!seen.has(style)) each.setAttribute("data-new", "");
      seen.add(style);
    }
  }
  return [...seen];
}"""
"""Mark the first element of each tag and class, which the colours depend on, that no page before had."""
AT_REST = "() => document.head.insertAdjacentHTML('beforeend', '<style>* { transition: none !important }</style>')"
"""Colours change at once."""
AXE = """async ([within, rules]) => {
  for (const body of document.querySelectorAll("main tbody")) [...body.rows].slice(8).forEach((row) => row.remove());
  if (!document.querySelector(within)) return [];
  const found = await axe.run(within, {resultTypes: ["violations"], preload: false, iframes: false, ...rules});
  return found.violations.map((each) => `${each.id}: ${each.nodes[0].html.slice(0, 200)}`);
}"""
"""Further rows of a table are like its first ones."""
COLOURS = {"runOnly": ["color-contrast"]}
ALL_BUT_COLOURS = {"rules": {"color-contrast": {"enabled": False}}}
"""Colours take most of axe's time."""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Where the site is served."""
    with serving(partial(_Quiet, directory=str(site))) as served:
        yield f"{served}/"


class Visitor:
    """One window that goes through pages, and notes what is wrong with each."""

    def __init__(self, window: "Page", address: str) -> None:
        axe = pytest.importorskip("axe_playwright_python", reason="needs the extra browser: axe")
        self._axe = (Path(next(iter(axe.__path__))) / "axe.min.js").read_text(encoding="utf-8") + ";0"
        self._window, self._address = window, address
        self._styles: list[str] = []
        self._asked: list[str] = []
        window.on("request", lambda request: self._asked.append(request.url))

    def wrong_with(self, page: str) -> list[str]:
        """What is wrong with a page, at both widths and in both colours.

        Colours are looked at where a tag or class is new.
        """
        self._asked.clear()
        self._turn("phone", "dark")
        self._window.goto(self._address + page)
        self._window.evaluate(AT_REST)
        wrong = [name for name, is_so in self._window.evaluate(LOOK).items() if is_so]
        self._styles = self._window.evaluate(NEW, self._styles)
        self._window.evaluate(self._axe)
        wrong += self._window.evaluate(AXE, ["html", ALL_BUT_COLOURS])
        wrong += self._found("phone")
        self._turn("desktop", "light")
        wrong += self._found("desktop")
        return wrong + [f"asks {url}" for url in self._asked if not url.startswith((self._address, "data:"))]

    def _turn(self, width: str, scheme: Literal["dark", "light"]) -> None:
        self._window.set_viewport_size({"width": WIDTHS[width], "height": 900})
        self._window.emulate_media(color_scheme=scheme)

    def _found(self, width: str) -> list[str]:
        """Whether the page is wider than its window, and which new colours are too faint."""
        wider = [f"wider than a {width}"] if self._window.evaluate(WIDER) else []
        return wider + [f"{width}: {each}" for each in self._window.evaluate(AXE, ["[data-new]", COLOURS])]


@pytest.fixture(scope="module")
def visitor(address: str) -> Iterator[Visitor]:
    with chromium() as browser:
        yield Visitor(browser.new_page(), address)


@needs_sphinx
@pytest.mark.slow
def test_everybody_can_read_every_page(site: Path, visitor: Visitor) -> None:
    """axe finds nothing; nothing is wider than the screen, without words or size, or asked for from elsewhere."""
    pages = sorted(page.relative_to(site).as_posix() for page in site.rglob("*.html") if "_static" not in page.parts)
    wrong = {page: found for page in pages if (found := visitor.wrong_with(page))}
    assert wrong == {}
    assert len(pages) > 100


@needs_sphinx
@pytest.mark.slow
def test_a_page_that_some_cannot_read_is_found(site: Path, visitor: Visitor) -> None:
    (site / "planted.html").write_text(
        """<html><body><main><h1>Title</h1><h3>Part</h3><img src="gone.png">
        <planted style="display: block; width: 3000px; color: #888; background: #777">Faint</planted>
        <script src="http://127.0.0.1:9/script.js"></script></main></body></html>""",
        encoding="utf-8",
    )
    found = "\n".join(visitor.wrong_with("planted.html"))
    for word in ("no title", "no description", "no language", "headings", "without words", "without size", "broken"):
        assert word in found
    for word in ("wider than a phone", "wider than a desktop", "image-alt", "asks http://127.0.0.1:9"):
        assert word in found
    for word in ("phone: color-contrast", "desktop: color-contrast"):
        assert word in found
