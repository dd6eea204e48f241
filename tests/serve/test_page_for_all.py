"""The page for everybody: by keyboard, by screen reader, on a phone, in the dark, and with counters of every kind."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from browsing import chromium, opened, until, until_drawn
from pictures import VIEWS, winter
from served import Served

from panprivacy.serve.config import KINDS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.slow
DAYS = 14


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def running() -> Iterator[Served]:
    with winter(DAYS) as service:
        yield service


def found_by_axe(page: "Page") -> list[str]:
    """What axe finds that is serious or worse."""
    axe: Any = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs the extra browser: axe")
    found = axe.Axe().run(page).response["violations"]
    return [f"{each['id']}: {each['help']}" for each in found if each["impact"] in ("serious", "critical")]


@pytest.mark.parametrize("view", ["light", "phone-dark"])
def test_axe_finds_nothing_serious(view: str, browser: "Browser", running: Served) -> None:
    with opened(browser, running.address, **VIEWS[view]) as page:
        until_drawn(page)
        page.locator("#counter-flu summary").click()
        assert found_by_axe(page) == []
        page.evaluate("() => document.getElementById('asking').showModal()")
        assert found_by_axe(page) == []


def test_axe_would_find_a_choice_without_a_name_and_words_that_are_too_faint(
    browser: "Browser", running: Served
) -> None:
    with opened(browser, running.address) as page:
        until_drawn(page)
        page.evaluate("() => document.querySelector('label').replaceWith(document.createElement('select'))")
        page.evaluate("() => document.documentElement.style.setProperty('--faint', '#bbbbbb')")
        assert {each.partition(":")[0] for each in found_by_axe(page)} == {"select-name", "color-contrast"}


def test_everything_is_done_by_keyboard(browser: "Browser", running: Served) -> None:
    with opened(browser, running.address) as page:
        until_drawn(page)
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.textContent") == "Skip to the counters"
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.dataset.of") == "of"
        page.keyboard.press("ArrowDown")
        page.locator("#counter-flu figcaption", has_text="each group").wait_for()
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.locator("#counter-flu tbody tr").first.wait_for()
        assert page.locator("#counter-flu tbody tr").count() == 4 * DAYS
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.getAttribute('role')") == "region"


@pytest.mark.parametrize("width", [320, 390])
def test_nothing_is_wider_than_a_phone(width: int, browser: "Browser", running: Served) -> None:
    with opened(browser, running.address, viewport={"width": width, "height": 700}) as page:
        until_drawn(page)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        ends = page.locator(".main-svg").evaluate_all("(all) => all.map((each) => each.getBoundingClientRect().right)")
        assert max(ends) <= width


def test_charts_follow_the_colours_of_the_system(browser: "Browser", running: Served) -> None:
    colour = "document.querySelector('.scatterlayer .js-line:not([style*=\"stroke-width: 0\"])').style.stroke"
    with opened(browser, running.address) as page:
        until_drawn(page)
        light = page.evaluate(f"() => {colour}")
        page.emulate_media(color_scheme="dark")
        until(page, f"() => {colour} !== '{light}'")


def options(card: "Locator", choice: str) -> list[str]:
    found = card.locator(f"[data-of={choice}] option")
    return [str(each) for each in found.evaluate_all("(all) => all.map((each) => each.value)")]


def test_every_kind_of_counter_is_drawn(browser: "Browser", running: Served) -> None:
    with opened(browser, running.address) as page:
        until_drawn(page)
        kinds = page.evaluate("async () => (await (await fetch('counters')).json()).counters.map((each) => each.kind)")
        assert set(kinds) == set(KINDS)
        for name in running.service.counters:
            card = page.locator(f"#counter-{name}")
            for group in options(card, "of")[:3]:
                card.locator("[data-of=of]").select_option(group, force=True)
                for value in options(card, "value"):
                    card.locator("[data-of=value]").select_option(value, force=True)
                    words = card.inner_text()
                    wrong = [each for each in ("NaN", "undefined", "null", "Infinity") if each in words]
                    assert wrong == [], f"{name}: {value} of {group}"
        assert page.locator("#overview a").count() == len(kinds)
