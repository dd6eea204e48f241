"""The site builds without a warning, its search finds every public name, and everybody can read its pages."""

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler
from importlib import import_module
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
from panprivacy.cli import COMMANDS, app

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
    "How much memory do ten million users take?": (
        "how-to/which-estimator.md",
        ["How much memory?", "(1250000, 5000000)"],
    ),
    "A person asks to be forgotten: what now?": (
        "how-to/count-known-users.md",
        ["asks you to forget", "remove_many"],
    ),
    "What is lost in a crash?": ("how-to/keep-a-state.md", ["After a crash", "never half of both"]),
    "Which systems, and what stays the same?": (
        "reference/versions.md",
        ["Python 3.11 to 3.14", "| stable |", "macOS"],
    ),
    "How do we test our program?": ("how-to/check-the-privacy.md", ["SeededCoins", "They protect no one"]),
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
def test_the_search_finds_every_public_name(site: Path) -> None:
    written = (site / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(written.removeprefix("Search.setIndex(").removesuffix(")"))
    found = {f"{module}.{name}" for module, names in index["objects"].items() for *_, name in names}
    assert {f"panprivacy.{name}" for name in panprivacy.__all__} - found == set()


@needs_sphinx
@pytest.mark.slow
def test_the_search_finds_every_command(site: Path) -> None:
    page = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    for panel in COMMANDS.values():
        for name in panel:
            assert f'id="command-{name}"' in page
    assert "reference/commands" in (site / "searchindex.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def command_page() -> str:
    """The page of commands, as its generator writes it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS))
        return str(import_module("generated").commands())


@needs_sphinx
@pytest.mark.parametrize("command", [name for panel in COMMANDS.values() for name in panel])
def test_the_page_of_commands_has_the_options_of_the_help(
    command: str, command_page: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (part,) = re.findall(rf"^\(command-{command}\)=\n(.*?)(?=^\(command-|\Z)", command_page, flags=re.M | re.S)
    monkeypatch.setenv("COLUMNS", "1000")
    with suppress(SystemExit):
        app([command, "--help"])
    options = r"^(?:\* `|│ [* ]*)(--[a-z-]+(?:,? -[a-z-]+)*)"
    shown, helped = (re.findall(options, text, flags=re.M) for text in (part, capsys.readouterr().out))
    assert [each.replace(",", "") for each in shown] == helped


@needs_sphinx
@pytest.mark.slow
def test_options_are_written_as_a_shell_takes_them(site: Path) -> None:
    """No typography makes a dash of `--state`."""
    pages = [
        page.relative_to(site)
        for page in site.rglob("*.html")
        if re.search(r"[\u2013\u2014][a-z]", page.read_text(encoding="utf-8"))
    ]
    assert pages == []


# --- In a browser ---------------------------------------------------------------------------------------------------

Scheme = Literal["dark", "light"]
WINDOWS: tuple[tuple[str, int, Scheme], ...] = (("phone", 390, "dark"), ("desktop", 1280, "light"))
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
MEASURE = """(known) => {
  const columns = document.querySelectorAll(".bd-article-container, .bd-sidebar-primary, .bd-sidebar-secondary");
  const wider = [document.documentElement, ...columns]
    .some((each) => each.scrollWidth > each.clientWidth);
  const seen = new Set(known);
  const under = new Map();
  const colours = (each) => {
    if (!each) return "";
    if (!under.has(each)) {
      const {backgroundColor, backgroundImage, opacity} = getComputedStyle(each);
      const own = [backgroundColor, backgroundImage, opacity].join();
      const above = colours(each.parentElement);
      under.set(each, own === "rgba(0, 0, 0, 0),none,1" ? above : `${above} ${own}`);
    }
    return under.get(each);
  };
  for (const each of document.querySelectorAll("body, body *")) {
    if (![...each.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim())) continue;
    if (!each.checkVisibility({visibilityProperty: true})) continue;
    const {color, fontSize, fontWeight, textDecorationLine} = getComputedStyle(each);
    const beside = each.closest("a") ? getComputedStyle(each.closest("a").parentElement).color : "";
    const look = [each.tagName, color, fontSize, fontWeight, textDecorationLine, beside, colours(each)].join(" ");
    if (!seen.has(look)) each.setAttribute("data-new", "");
    seen.add(look);
  }
  return [wider, [...seen].slice(known.length)];
}"""
"""Whether the page is wider than the window, or its text than its column: blocks, tables and formulas scroll alone.

And mark the first element with each look of a text (colour, size, weight, line, the colour around a link, and all that
is painted under it) that no page before had.
"""
AT_REST = """const sheet = new CSSStyleSheet();
sheet.replaceSync("* { transition: none !important }");
document.adoptedStyleSheets = [sheet];"""
"""Colours change at once."""
AXE = """async ([within, rules]) => {
  const found = await axe.run(within, {resultTypes: ["violations"], preload: false, iframes: false, ...rules});
  document.querySelectorAll("[data-new]").forEach((each) => each.removeAttribute("data-new"));
  return found.violations.map((each) => `${each.id}: ${each.nodes[0].html.slice(0, 200)}`);
}"""
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}
"""They take most of axe's time, and say the same of texts that look the same."""
STRUCTURE = {"rules": {name: {"enabled": False} for name in COLOURS["runOnly"]}}


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Where the site is served."""
    with serving(partial(_Quiet, directory=str(site))) as served:
        yield f"{served}/"


class Visitor:
    """One window that goes through pages, and notes what is wrong with each.

    Every page is laid out at both widths and in both colours. axe looks at the structure of every page once, and at the
    colours of a text if no text before looked the same.
    """

    def __init__(self, window: "Page", address: str) -> None:
        axe = pytest.importorskip("axe_playwright_python", reason="needs the extra browser: axe")
        self._axe = (Path(next(iter(axe.__path__))) / "axe.min.js").read_text(encoding="utf-8") + ";0"
        self._window, self._address = window, address
        self._looks: dict[str, list[str]] = {name: [] for name, _, _ in WINDOWS}
        self._at = 0
        self._asked: list[str] = []
        window.on("request", lambda request: self._asked.append(request.url))
        window.add_init_script(AT_REST)
        self._turn(0)

    def wrong_with(self, page: str) -> list[str]:
        """What is wrong with a page."""
        self._asked.clear()
        self._window.goto(self._address + page)
        wrong = [name for name, is_so in self._window.evaluate(LOOK).items() if is_so]
        wrong += self._violations("html", STRUCTURE)
        wrong += self._painted()
        self._turn(1 - self._at)  # the next page begins with this window
        wrong += self._painted()
        return wrong + [f"asks {url}" for url in self._asked if not url.startswith((self._address, "data:"))]

    def _turn(self, window: int) -> None:
        self._at = window
        _, width, scheme = WINDOWS[window]
        self._window.set_viewport_size({"width": width, "height": 900})
        self._window.emulate_media(color_scheme=scheme)

    def _painted(self) -> list[str]:
        """Whether the page is wider than its window, and which texts of a new look are too faint."""
        name = WINDOWS[self._at][0]
        wider, looks = self._window.evaluate(MEASURE, self._looks[name])
        self._looks[name] += looks
        found = self._violations("[data-new]", COLOURS) if looks else []
        return [f"wider than a {name}"] * wider + [f"{name}: {each}" for each in found]

    def _violations(self, within: str, rules: dict[str, Any]) -> list[str]:
        if not self._window.evaluate("() => 'axe' in window"):
            self._window.evaluate(self._axe)
        return list(self._window.evaluate(AXE, [within, rules]))


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


@needs_sphinx
@pytest.mark.slow
def test_a_fault_in_a_text_is_found_where_the_page_around_it_is_known(site: Path, visitor: Visitor) -> None:
    page = (site / "how-to" / "index.html").read_text(encoding="utf-8")
    assert visitor.wrong_with("how-to/index.html") + visitor.wrong_with("how-to/index.html") == []
    faults = '<button type="button"></button><b style="color: #888; background: #777">Faint</b>'
    (site / "how-to" / "planted.html").write_text(page.replace("</article>", f"{faults}</article>"), encoding="utf-8")
    found = "\n".join(visitor.wrong_with("how-to/planted.html"))
    for word in ("button-name", "phone: color-contrast", "desktop: color-contrast"):
        assert word in found
