"""The page for everybody: by keyboard, by screen reader, on a phone, in the dark, and with counters of every kind."""

import csv
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from browsing import chromium, opened, until, until_drawn
from pictures import REGIONS, VIEWS, winter
from PIL import Image
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


def with_flu(running: Served) -> str:
    """The address that opens one counter of many."""
    return f"{running.address}#counter-flu"


def found_by_axe(page: "Page") -> list[str]:
    """What axe finds that is serious or worse."""
    axe: Any = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs the extra browser: axe")
    found = axe.Axe().run(page).response["violations"]
    return [f"{each['id']}: {each['help']}" for each in found if each["impact"] in ("serious", "critical")]


@pytest.mark.parametrize("view", ["light", "phone-dark"])
def test_axe_finds_nothing_serious(view: str, browser: "Browser", running: Served) -> None:
    with opened(browser, with_flu(running), **VIEWS[view]) as page:
        until_drawn(page)
        page.locator("#counter-flu summary").click()
        assert found_by_axe(page) == []
        page.evaluate("() => document.getElementById('asking').showModal()")
        assert found_by_axe(page) == []


def test_axe_would_find_a_choice_without_a_name_and_words_that_are_too_faint(
    browser: "Browser", running: Served
) -> None:
    with opened(browser, with_flu(running)) as page:
        until_drawn(page)
        page.evaluate("() => document.querySelector('label').replaceWith(document.createElement('select'))")
        page.evaluate("() => document.documentElement.style.setProperty('--faint', '#bbbbbb')")
        assert {each.partition(":")[0] for each in found_by_axe(page)} == {"select-name", "color-contrast"}


def test_everything_is_done_by_keyboard(browser: "Browser", running: Served) -> None:
    focused = "() => document.activeElement.dataset.of"
    with opened(browser, running.address) as page:
        page.wait_for_selector("[data-state=live]")
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.textContent") == "Skip to the counters"
        for key in ("Enter", "Tab", "Enter"):
            page.keyboard.press(key)
        until_drawn(page)
        assert page.evaluate(focused) == "head"
        page.keyboard.press("Tab")
        assert page.evaluate(focused) == "of"
        page.keyboard.press("ArrowDown")
        page.locator("#counter-flu figcaption", has_text="each group").wait_for()
        for part in ("order", "series-png", "bars-png", "csv"):
            page.keyboard.press("Tab")
            assert page.evaluate(focused) == part
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.locator("#counter-flu tbody tr").first.wait_for()
        assert page.locator("#counter-flu tbody tr").count() == 4 * DAYS
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.getAttribute('role')") == "region"


@pytest.mark.parametrize("width", [320, 390])
def test_nothing_is_wider_than_a_phone(width: int, browser: "Browser", running: Served) -> None:
    with opened(browser, with_flu(running), viewport={"width": width, "height": 700}) as page:
        until_drawn(page)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        ends = page.locator(".main-svg").evaluate_all("(all) => all.map((each) => each.getBoundingClientRect().right)")
        assert max(ends) <= width


def test_charts_follow_the_colours_of_the_system(browser: "Browser", running: Served) -> None:
    colour = "document.querySelector('.scatterlayer .js-line:not([style*=\"stroke-width: 0\"])').style.stroke"
    with opened(browser, with_flu(running)) as page:
        until_drawn(page)
        light = page.evaluate(f"() => {colour}")
        page.emulate_media(color_scheme="dark")
        until(page, f"() => {colour} !== '{light}'")


def options(card: "Locator", choice: str) -> list[str]:
    found = card.locator(f"[data-of={choice}] option")
    return [str(each) for each in found.evaluate_all("(all) => all.map((each) => each.value)")]


def test_every_kind_of_counter_is_drawn(browser: "Browser", running: Served) -> None:
    with opened(browser, running.address) as page:
        page.locator("#all", has_text="Open all").click()
        until(
            page,
            "() => document.querySelectorAll('.counter.open').length === document.querySelectorAll('.counter').length",
        )
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
        assert page.locator(".counter.open").count() == len(kinds)


def test_buttons_and_choices_have_names_of_their_own(browser: "Browser", running: Served) -> None:
    with opened(browser, running.address, charts=False) as page:
        page.locator("#all", has_text="Open all").click()
        page.locator("#all", has_text="Close all").wait_for()
        controls = page.locator(".counter :is(button, select):visible")
        names = controls.evaluate_all("(all) => all.map((each) => each.getAttribute('aria-label') ?? each.textContent)")
        assert len(names) > 2 * len(running.service.counters)
        assert sorted(set(names)) == sorted(names)


_MANY = """(number) => {
  const asked = window.fetch;
  window.fetch = async (path, options) => {
    if (path !== "counters") return asked(path, options);
    const answer = await (await asked(path, options)).json();
    const all = Array.from({ length: number }, (_, i) => ({ ...answer.counters[i % answer.counters.length] }));
    all.forEach((each, i) => { each.title = `${each.title}, site ${i}`; each.name = `${each.name}-${i}`; });
    const spent = { releases: 5, releases_left: 0 };
    for (const each of all.filter((_, i) => i % 10 === 3)) each.budget = { ...each.budget, ...spent };
    for (const each of all.filter((_, i) => i % 10 === 4)) each.last = { ...each.last, mostly_noise: true };
    all[7].title = "Long " + "and longer ".repeat(30) + "x".repeat(300);
    return Response.json({ ...answer, counters: all, damaged: ["broken"] });
  };
}"""


@pytest.mark.parametrize(("width", "most"), [(1280, 4500), (390, 8000)])
def test_sixty_counters_are_lines_that_are_searched_sorted_and_opened(
    width: int, most: int, browser: "Browser", running: Served
) -> None:
    script = f"({_MANY})(60)"
    view = {"viewport": {"width": width, "height": 800}}
    with opened(browser, running.address, charts=False, before=script, **view) as page:
        page.wait_for_selector("[data-state=live]")
        size = "() => [document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
        across, high = page.evaluate(size)
        assert across <= width
        assert 60 * 40 < high < most
        assert page.locator("#notice").inner_text().startswith("Damaged, and not shown: broken.")
        shown = page.locator(".counter:visible")
        page.fill("#search", "NOISE site")
        page.locator("#summary", has_text="6 of 60 counters · 6 mostly noise").wait_for()
        assert shown.count() == 6
        assert set(shown.locator(".flags .warns").all_text_contents()) == {"Mostly noise"}
        page.fill("#search", "budget spent")
        page.select_option("#sort", "title")
        assert shown.count() == 6
        titles = shown.locator("[data-of=title]").all_text_contents()
        assert titles == sorted(titles)
        shown.first.locator("button.head").click()
        page.locator(".counter.open .used-up").first.wait_for()
        assert page.evaluate("() => location.hash").startswith("#counter-")
        page.locator("#all", has_text="Close all").click()
        assert page.locator(".counter.open").count() == 0
        if width > 1000:
            assert found_by_axe(page) == []


def test_what_is_shown_of_a_time_is_saved_as_csv_and_as_png(browser: "Browser", running: Served) -> None:
    with opened(browser, with_flu(running)) as page:
        until_drawn(page)
        card = page.locator("#counter-flu")
        page.select_option("#range", "7")
        card.locator("figcaption", has_text="7 releases").wait_for()
        card.locator("[data-of=of]").select_option("each group")
        with page.expect_download() as saved:
            card.locator("[data-of=csv]").click()
        rows = list(csv.DictReader(saved.value.path().read_text().splitlines()))
        assert saved.value.suggested_filename == "flu.csv"
        assert len(rows) == 7 * len(REGIONS)
        records = running.service.counter("flu").release_log.records[-7:]
        known = {(each["id"], row["group"]): row["values"][0] for each in records for row in each["groups"]}
        assert {(int(row["release"]), row["group"]): float(row["estimate"]) for row in rows} == {
            key: value["value"] for key, value in known.items()
        }
        until_drawn(page)
        for chart in ("series", "bars"):
            with page.expect_download() as saved:
                card.locator(f"[data-of={chart}-png]").click()
            picture = Image.open(saved.value.path())
            assert picture.format == "PNG"
            assert len(picture.convert("RGB").getcolors(2**24) or ()) > 50, "an empty picture"
        page.select_option("#range", "dates")
        page.fill("#until", "2020-01-01")
        card.locator("[data-of=no-records]").wait_for()
        assert page.evaluate("() => window.refused") == []


def test_one_tiny_group_does_not_make_its_neighbours_read_nothing(browser: "Browser", running: Served) -> None:
    question = """async () => {
      const { Choice } = await import("/static/choice.js");
      const { inWords, errorInWords } = await import("/static/numbers.js");
      const value = (value, stderr) => [{ name: "density", unit: "share", value, stderr, low: 0, high: 1 }];
      const record = { values: [], groups: [
        { group: "tiny", values: value(1, 14), mostly_noise: true },
        { group: "large", values: value(0.034, 0.001), mostly_noise: false },
      ] };
      const parts = {};
      for (const name of ["value", "of", "order"]) {
        parts[name] = document.createElement("select");
        parts[`${name}-choice`] = document.createElement("label");
      }
      const choice = new Choice(parts, () => {});
      choice.offer("density", record);
      const all = choice.shownOf(record);
      const groups = [...all, choice.mainOf(record)].map((each) => each.group);
      return [...groups, ...all.map(inWords), errorInWords("share", 14)];
    }"""
    with opened(browser, running.address, charts=False) as page:
        page.wait_for_selector("[data-state=live]")
        order, said = (
            ["large", "tiny", "large"],
            ["3.40% (0.00% to 100.00%)", "100% (0% to 100%)", "± over 100%"],
        )
        assert page.evaluate(question) == order + said


def test_without_javascript_the_page_says_where_the_numbers_are(browser: "Browser", running: Served) -> None:
    with opened(browser, running.address, java_script_enabled=False) as page:
        assert "needs JavaScript" in page.locator("noscript").inner_text()
        assert page.locator("#notice").is_hidden()
        assert page.locator(".live").is_hidden(), "it would say Connecting for ever"
