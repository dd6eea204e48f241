"""Chromium, as Debian packages it, moved by Playwright; whoever asks where one of them is missing is skipped."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from shutil import which
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-quic", "--disable-sync"]
_FLAGS += ["--disable-background-networking", "--disable-component-update"]
_PATIENCE = 90.0  # seconds; a busy machine takes a while to read 4.8 MB of Plotly
_DRAWN = """() => {
  const shown = [...document.querySelectorAll("figure")].filter((figure) => figure.offsetParent);
  return shown.length > 0 && shown.every((figure) => figure.querySelector(".main-svg"));
}"""
_NOTE_REFUSALS = """
window.refused = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.refused.push(`${event.violatedDirective}: ${event.target.textContent?.slice(0, 80)}`);
});
"""


@contextmanager
def chromium() -> Iterator["Browser"]:
    """A browser; each test opens a context of its own in it."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the extra browser: Playwright")
    path = which("chromium")
    if path is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


def until(page: "Page", question: str) -> None:
    """Wait until the page says yes (Playwright's own waiting needs `eval`, which the policy of the page forbids)."""
    end = time.monotonic() + _PATIENCE
    while not page.evaluate(question):
        assert time.monotonic() < end, f"the page never said yes to {question}"
        time.sleep(0.05)


def until_drawn(page: "Page") -> None:
    """Wait until every chart that is shown has been drawn."""
    until(page, _DRAWN)
    time.sleep(0.3)  # Plotly measures its labels once more


@contextmanager
def opened(browser: "Browser", address: str, *, charts: bool = True, before: str = "", **view: Any) -> Iterator["Page"]:
    """A page in a context of its own; an error of a script of it is an error of the test.

    Without charts it is as where Plotly is not installed, which takes seconds less. `before` runs before its scripts.
    """
    context = browser.new_context(**view)
    page = context.new_page()
    page.set_default_timeout(_PATIENCE * 1000)
    broken: list[str] = []
    page.on("pageerror", lambda error: broken.append(str(error)))
    page.add_init_script(_NOTE_REFUSALS + before)
    if not charts:
        page.route("**/plotly.min.js", lambda route: route.abort())
    page.goto(address)
    try:
        yield page
    finally:
        context.close()
    assert broken == [], broken
