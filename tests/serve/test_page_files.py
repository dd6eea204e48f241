"""What the page is made of: files of this repository, the script of an installed package, nothing from elsewhere."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from service_for_tests import client_of, settings_for

from panprivacy.serve.http.app import STATIC, script_path
from panprivacy.serve.service import Service

FILES = sorted(path for path in STATIC.iterdir() if path.is_file())
MODULES = [path for path in FILES if path.suffix == ".js"]


class _Tags(HTMLParser):
    """All tags of a page, and what is written inside scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inline: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside.removesuffix(tag)

    def handle_data(self, data: str) -> None:
        if self._inside in ("script", "style") and data.strip():
            self.inline.append(data)


def inline_parts(text: str) -> list[str]:
    """What a strict policy would refuse: scripts, styles and handlers inside the page."""
    parsed = _Tags(text)
    named = [name for _, given in parsed.tags for name in given if name == "style" or name.startswith("on")]
    return parsed.inline + named


def test_the_page_has_no_script_style_or_handler_inside() -> None:
    assert inline_parts((STATIC / "index.html").read_text()) == []
    assert inline_parts('<p style="color: red" onclick="go()"><script>go()</script>') == ["go()", "style", "onclick"]


def test_no_file_names_another_place() -> None:
    for path in FILES:
        elsewhere = re.findall(r"(?:https?:)?//[a-z0-9-]+\.[a-z]+[^\s\"']*", path.read_text())
        assert [each for each in elsewhere if not each.endswith("/2000/svg")] == [], path.name


def test_modules_name_modules_that_exist() -> None:
    for path in MODULES:
        for named in re.findall(r'from "([^"]+)"', path.read_text()):
            assert (STATIC / named).is_file(), f"{path.name}: {named}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_is_served_and_asked_for_again_after_an_upgrade(path: Path, tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path)) as client:
        answer = client.get(f"/static/{path.name}")
        again = client.get(f"/static/{path.name}", headers={"if-none-match": answer.headers["etag"]})
    assert answer.content == path.read_bytes()
    assert answer.headers["cache-control"] == "no-cache"
    assert again.status_code == 304


def test_the_policy_of_the_page_allows_nothing_inline_and_nothing_from_elsewhere(tmp_path: Path) -> None:
    with client_of(settings_for(tmp_path)) as client:
        policy = client.get("/").headers["content-security-policy"]
    allowed = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert allowed["default-src"] == "'none'"
    assert {allowed[key] for key in ("script-src", "style-src", "connect-src")} == {"'self'"}
    assert allowed["img-src"] == "'self' blob:"  # a chart on its way to a PNG
    assert "unsafe" not in policy


@pytest.mark.slow
def test_plotly_comes_from_its_package_compressed_and_only_once(tmp_path: Path) -> None:
    path = script_path()
    if path is None:
        pytest.skip("Plotly is not installed")
    with client_of(settings_for(tmp_path)) as client:
        packed = client.get("/static/plotly.min.js")
        plain = client.get("/static/plotly.min.js", headers={"accept-encoding": "identity"})
        again = client.get("/static/plotly.min.js", headers={"if-none-match": packed.headers["etag"]})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == plain.content == path.read_bytes()
    assert int(packed.headers["content-length"]) < len(plain.content) / 3
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.slow
def test_without_plotly_the_script_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("panprivacy.serve.http.app.script_path", lambda: None)
    with client_of(settings_for(tmp_path)) as client:
        assert client.get("/static/plotly.min.js").status_code == 404


def test_whoever_hears_of_a_release_finds_the_budget_after_it(tmp_path: Path) -> None:
    with Service(settings_for(tmp_path)) as service:
        counter = service.counter("flu")
        left: list[int] = []
        counter.release_log.listeners.append(lambda: left.append(counter.status["budget"]["releases_left"]))
        counter.release().result()
    assert left == [2]
