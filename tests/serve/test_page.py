"""The page in a real browser: what it shows, what it asks for, and that looking at it spends nothing."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browsing import chromium, opened, until, until_drawn
from served import Served, served
from service_for_tests import settings_for

from panprivacy.ingest.bodies import Body, ContentType
from panprivacy.serve.http.app import STATIC
from panprivacy.serve.tokens import new_token, written_hash

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow

REGIONS = ("north", "south", "<b>west</b>")
LISTED = {"kind": "density", "universe_file": "users.csv:id", "group": "region", "epsilon": 8.0, "column": "user"}
VISITORS = {"kind": "distinct", "ids": "integers", "epsilon": 8.0, "column": "user"}


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with chromium() as started:
        yield started


@contextmanager
def counting(folder: Path, service: dict[str, Any] | None = None, port: int = 0) -> Iterator[Served]:
    """A service with a counter of three regions and one of visitors, which everybody may read and release."""
    rows = "".join(f"{user},{REGIONS[user % 3]}\n" for user in range(3000))
    (folder / "users.csv").write_text("id,region\n" + rows)
    flu = LISTED | {"title": "Patients with flu", "releases": 9, "level": 0.9}
    flu["schedule"] = {"every": "1h"}
    visitors = VISITORS | {"title": "Visitors", "releases": 9}
    said = {"anonymous": ["read", "release"]} | (service or {})
    with served(settings_for(folder, said, flu=flu, visitors=visitors), port) as running:
        yield running


def feed(running: Served, name: str, users: range) -> None:
    running.service.counter(name).take(Body.copied(json.dumps(list(users)).encode(), ContentType.json)).result()


def release(running: Served, name: str = "flu") -> dict[str, Any]:
    return running.service.counter(name).release().result()


def fact(page: "Page", part: str, counter: str = "flu") -> str:
    return page.locator(f"#counter-{counter} [data-of='{part}']").inner_text()


def test_a_counter_shows_estimate_interval_error_budget_and_next_release(browser: "Browser", tmp_path: Path) -> None:
    with counting(tmp_path) as running:
        feed(running, "flu", range(1500))
        value = release(running)["values"][0]
        with opened(browser, running.address, charts=False) as page:
            page.wait_for_selector("[data-state=live]")
            assert page.locator("#counter-flu h2").inner_text() == "Patients with flu"
            shown = float(fact(page, "estimate").removesuffix("%"))
            assert shown == pytest.approx(100 * value["value"], abs=0.1)
            low, high = re.findall(r"[\d.]+(?=%)", fact(page, "interval"))[:2]
            assert (float(low), float(high)) == pytest.approx((100 * value["low"], 100 * value["high"]), abs=0.1)
            assert "90% interval" in fact(page, "interval")
            assert float(fact(page, "error")[2:-1]) == pytest.approx(100 * value["stderr"], rel=0.1)
            assert fact(page, "also").startswith("about 1,")
            meter = page.locator("#counter-flu [role=meter]").nth(1)
            assert meter.get_attribute("aria-valuetext") == "1 release made, 8 left"
            assert meter.locator("span").evaluate("(bar) => bar.style.width").startswith("11.1")
            assert re.fullmatch(r"in (\d+\smin ?)?(\d+\ss)?", fact(page, "countdown"))
            assert fact(page, "next").startswith("at ")
            assert fact(page, "estimate", "visitors") == "None yet"
            assert fact(page, "state", "visitors").startswith("Spent before the first release: ")
            assert re.fullmatch(r"[\d.]+ of it is for the state, which an intruder might read.", fact(page, "state"))
            assert fact(page, "countdown", "visitors") == "On request"


def test_groups_are_bars_whatever_they_are_called(browser: "Browser", tmp_path: Path) -> None:
    with counting(tmp_path) as running:
        feed(running, "flu", range(0, 3000, 3))
        release(running)
        with opened(browser, running.address) as page:
            until_drawn(page)
            bars = page.locator("#counter-flu [data-of=bars]")
            assert bars.locator(".bars .point").count() == 3
            assert bars.locator(".ytick text").all_text_contents()[0] == "north", "the largest is not first"
            page.select_option("#counter-flu [data-of=order]", "by name")
            labels = "[...document.querySelectorAll('#counter-flu [data-of=bars] .ytick text')]"
            names = f"{labels}.map((each) => each.textContent)"
            until(page, f"() => {names}.join() === '{','.join(sorted(REGIONS))}'")
            words = bars.get_attribute("aria-label") or ""
            north = re.search(r"north: ([\d.]+)% \([\d.]+% to [\d.]+%\)", words)
            assert north is not None
            assert float(north[1]) > 90
            page.select_option("#counter-flu [data-of=of]", "in south")
            assert float(fact(page, "estimate").removesuffix("%")) < 10
            page.select_option("#counter-flu [data-of=of]", "each group")
            until(page, "() => document.querySelectorAll('#counter-flu .legend .traces').length === 3")


def test_releases_of_one_second_have_hours_and_minutes_at_their_axis(browser: "Browser", tmp_path: Path) -> None:
    """Left to itself, Plotly would write parts of a second."""
    with counting(tmp_path) as running:
        for _ in range(3):
            release(running)
        with opened(browser, running.address) as page:
            until_drawn(page)
            ticks = page.locator("#counter-flu [data-of=series] .xtick text").all_text_contents()
            assert ticks
            assert not any("." in tick for tick in ticks), ticks


def left_after_looking(running: Served, page: "Page") -> tuple[int, set[str]]:
    """How many releases are left when the page was loaded three times more, and by which methods it asked."""
    asked: set[str] = set()
    page.on("request", lambda request: asked.add(request.method))
    for _ in range(3):
        page.reload()
        page.wait_for_selector("#counter-flu")
    return running.service.counter("flu").status["budget"]["releases_left"], asked


def test_looking_again_and_again_spends_nothing(browser: "Browser", tmp_path: Path) -> None:
    with counting(tmp_path) as running, opened(browser, running.address, charts=False) as page:
        assert left_after_looking(running, page) == (9, {"GET"})
        page.route(
            "**/static/page.js", lambda route: route.fulfill(body=_spendthrift(), content_type="text/javascript")
        )
        left, asked = left_after_looking(running, page)
        assert (left < 9, asked) == (True, {"GET", "POST"}), "a page that spends when it is loaded was not noticed"


def _spendthrift() -> str:
    """The page with a planted bug."""
    script = (STATIC / "page.js").read_text()
    return script.replace("const answer = await counters();", 'await spend("flu"); const answer = await counters();')


def test_a_new_release_appears_without_a_reload(browser: "Browser", tmp_path: Path) -> None:
    with counting(tmp_path) as running, opened(browser, running.address, charts=False) as page:
        page.wait_for_selector("[data-state=live]")
        page.evaluate("() => { window.same = true; }")
        for number in (1, 2):
            release(running)
            page.locator("#counter-flu", has_text=f"{number} release").wait_for()
        page.locator("#counter-flu figcaption", has_text="2 releases").wait_for()
        assert fact(page, "gauges").endswith("7 left")
        assert page.evaluate("() => window.same")
        assert page.locator("#news").inner_text().startswith("Patients with flu: ")


def test_after_a_break_the_page_connects_again_and_catches_up(browser: "Browser", tmp_path: Path) -> None:
    with counting(tmp_path) as running:
        release(running)
        port, address = running.port, running.address
        context = opened(browser, address, charts=False)
        page = context.__enter__()
        page.locator("#counter-flu", has_text="1 release made").wait_for()
    page.locator("[data-state=broken]", has_text="Connecting again").wait_for()
    page.locator("#gone", has_text="does not answer. Not connected since").wait_for()
    assert page.title().startswith("Not connected")
    card = page.locator("#counter-flu")
    assert card.evaluate("(card) => getComputedStyle(card).backgroundColor") == "rgba(0, 0, 0, 0)", "it looks old"
    with counting(tmp_path, port=port) as running:
        for name in ("flu", "flu", "visitors"):
            release(running, name)
        page.locator("#counter-flu", has_text="3 releases made").wait_for()
        page.locator("#counter-visitors", has_text="1 release made").wait_for()
        page.locator("#counter-flu figcaption", has_text="3 releases").wait_for()
        page.wait_for_selector("[data-state=live]")
        assert page.locator("#gone").is_hidden()
        context.__exit__(None, None, None)


def test_a_release_is_spent_after_a_question_and_not_before(browser: "Browser", tmp_path: Path) -> None:
    with counting(tmp_path) as running, opened(browser, running.address, charts=False) as page:
        flu = running.service.counter("flu")
        button = page.locator("#counter-flu button", has_text="Release now")
        button.click()
        assert "Left before it: 9 releases" in page.locator("#spending").inner_text()
        page.get_by_role("button", name="Keep it").click()
        button.click()
        page.keyboard.press("Escape")
        assert flu.status["budget"]["releases_left"] == 9
        button.click()
        page.get_by_role("button", name="Spend it").click()
        page.locator("#counter-flu", has_text="1 release made").wait_for()
        assert flu.status["budget"]["releases_left"] == 8


def test_a_reader_is_asked_for_a_token_which_never_is_part_of_an_address(browser: "Browser", tmp_path: Path) -> None:
    tokens = {new_token(): "read", new_token(): "feed"}
    reader, feeder = tokens
    known = {role: {"roles": [role], "hash": written_hash(token)} for token, role in tokens.items()}
    with counting(tmp_path, {"anonymous": [], "tokens": known}) as running:
        release(running)
        with opened(browser, running.address, charts=False) as page:
            addresses: list[str] = []
            page.on("request", lambda request: addresses.append(request.url))
            for token, said in ((feeder, "needs the role read"), ("nonsense", "not known"), (reader, "")):
                page.fill("#token", token)
                page.get_by_role("button", name="Read the counters").click()
                if said:
                    page.locator("#asking-why", has_text=said).wait_for()
            page.locator("#counter-flu", has_text="1 release made").wait_for()
            assert page.locator("#counter-flu button", has_text="Release now").is_hidden()
            page.reload()
            page.wait_for_selector("#counter-flu")
            assert not any(token in address for token in tokens for address in addresses)
            assert page.evaluate("() => [document.cookie, localStorage.length]") == ["", 0]
            page.get_by_role("button", name="Forget the token").click()
            page.locator("#asking[open]").wait_for()
            assert page.locator("#counter-flu").count() == 0


def test_nothing_is_fetched_from_elsewhere_or_written_into_the_page(browser: "Browser", tmp_path: Path) -> None:
    with counting(tmp_path) as running:
        release(running)
        with opened(browser, running.address) as page:
            until_drawn(page)
            refused = page.evaluate("() => window.refused")
            fetched = page.evaluate("() => performance.getEntriesByType('resource').map((each) => each.name)")
    assert [each for each in fetched if not each.startswith(running.address)] == []
    assert refused == []


# Points, seconds between them, their values, and the width of a chart, for which labels of both axes moved both margins
# to and fro until Plotly gave up.
_RESTLESS = [
    (436, "share", 24.645, [1.852, 2.4205, 1.5702, 3.0788]),
    (327, "users", 2404.4, [338.3, 188.5, 128.7, 177.3, 344.8, 297.3, 356.9]),
    (604, "users", 754.83, [40.88, 60.72, 47.27, 29.92, 33.44, 49.09, 51.27, 73.09, 57.80, 60.75, 59.29, 52.68]),
]
_DRAW = """async ([cases, automargin]) => {
  const { drawSeries } = await import("./static/charts.js");
  const said = [];
  for (const how of ["trace", "warn", "log", "error"]) console[how] = (...words) => said.push(words.join(" "));
  const react = Plotly.react;
  const with_ = (layout) => automargin === null ? layout
    : { ...layout, xaxis: { ...layout.xaxis, automargin }, yaxis: { ...layout.yaxis, automargin } };
  Plotly.react = (place, traces, layout, config) => react(place, traces, with_(layout), config);
  for (const [width, unit, seconds, values] of cases) {
    const place = document.createElement("div");
    place.className = "chart";
    place.style.width = `${width}px`;
    document.body.append(place);
    const moment = (i) => new Date(1.79e12 + 1000 * seconds * i);
    const around = (value) => ({ value, unit, stderr: null, low: value * 0.8, high: value * 1.2 });
    const points = values.map((value, i) => ({ moment: moment(i), ...around(value) }));
    await drawSeries(place, [{ name: "a", points }], unit);
    place.remove();
  }
  Plotly.react = react;
  return said;
}"""


def test_margins_of_charts_come_to_rest(browser: "Browser", tmp_path: Path) -> None:
    with counting(tmp_path) as running:
        release(running)
        with opened(browser, running.address) as page:
            until_drawn(page)
            said = page.evaluate(_DRAW, [_RESTLESS, None])
            planted = page.evaluate(_DRAW, [_RESTLESS, True])
    assert said == []
    assert any("auto-margin" in each for each in planted), "margins that go to and fro were not noticed"


def test_intervals_of_several_levels_are_not_said_to_be_of_one(browser: "Browser", tmp_path: Path) -> None:
    with counting(tmp_path) as running, opened(browser, running.address, charts=False) as page:
        for level, said in ((0.95, "1 release, with 95% intervals"), (0.9, "2 releases, with 90% to 95% intervals")):
            running.service.counter("flu").release(level).result()
            page.locator("#counter-flu [data-of=series-caption]", has_text=said).wait_for()


def test_a_release_that_is_mostly_noise_is_flagged(browser: "Browser", tmp_path: Path) -> None:
    faint = {"kind": "density", "universe": 1000, "epsilon": 0.01, "column": "user"}
    clear = faint | {"epsilon": 60.0}
    with served(settings_for(tmp_path, {"anonymous": ["read"]}, faint=faint, clear=clear)) as running:
        for name in ("faint", "clear"):
            release(running, name)
        with opened(browser, running.address, charts=False) as page:
            page.locator("#counter-faint [data-of=noisy]", has_text="Mostly noise").wait_for()
            assert fact(page, "also", "faint") == "", "a number of users would look like an estimate"
            assert page.locator("#counter-clear [data-of=noisy]").is_hidden()


def test_where_plotly_is_missing_the_page_is_numbers_and_tables(browser: "Browser", tmp_path: Path) -> None:
    with counting(tmp_path) as running:
        release(running)
        with opened(browser, running.address, charts=False) as page:
            page.locator("#counter-flu .chart", has_text="Charts need Plotly").first.wait_for()
            page.locator("#counter-flu summary").click()
            page.locator("#counter-flu tbody tr").wait_for()


def test_numbers_have_the_digits_that_their_error_lets_mean_something(browser: "Browser", tmp_path: Path) -> None:
    cases = [
        ("share", 0.0015, 0.123456, "12.35%"),
        ("share", 0.02, 0.5, "50.0%"),
        ("users", 2200.0, 60236.0, "60,200"),
        ("users", 15.2, 1006.49, "1,006"),
        ("appearances", 0.0066, 0.01216, "0.0122"),
        ("share", 0.01, -1e-12, "0.0%"),
        ("share", None, 0.25, "25.0%"),
        ("share", 1.5, 0.37, "40%"),  # whose error is above 100%
        ("share", 1.5, 1.5, "150%"),
        ("share", 22.0, 1.0, "100%"),
        ("appearances", 345.0, 4.0, "4"),
    ]
    with counting(tmp_path) as running, opened(browser, running.address, charts=False) as page:
        for unit, error, number, words in cases:
            written = page.evaluate(
                "async ([unit, error, number]) => (await import('/static/numbers.js')).writerFor(unit, error)(number)",
                [unit, error, number],
            )
            assert written == words
        spans = page.evaluate(
            "async () => { const { span } = await import('/static/words.js');"
            " return [0, 59, 3600, 3661, 90061, 172800].map((seconds) => span(seconds).replaceAll('\\u00a0', '~')); }"
        )
    assert spans[0] == "0 s"
    assert spans[1:] == ["59~s", "1~h", "1~h 1~min", "1~day 1~h", "2~days"], "a number stays with its unit"


def test_events_are_read_however_the_network_cuts_them(browser: "Browser", tmp_path: Path) -> None:
    sent = 'retry: 3000\n\n: still here\n\nid: a:1\nevent: release\ndata: {"n": 1}\n\ndata: {"n":\ndata: 2}\n\n'
    question = """async (sent) => {
      const { Cutter } = await import('/static/stream.js');
      return Array.from(sent, (_, at) => {
        const cutter = new Cutter();
        return [...cutter.take(sent.slice(0, at)), ...cutter.take(sent.slice(at))].map((event) => event.n).join();
      });
    }"""
    with counting(tmp_path) as running, opened(browser, running.address, charts=False) as page:
        assert set(page.evaluate(question, sent)) == {"1,2"}


def test_of_a_long_series_the_last_500_are_loaded_and_earlier_ones_on_request(
    browser: "Browser", tmp_path: Path
) -> None:
    question = """async () => {
      const { Published } = await import('/static/published.js');
      const all = Array.from({ length: 1200 }, (_, i) => ({ id: i + 1, at: `${i}` }));
      const asked = [];
      window.fetch = async (path) => {
        asked.push(path);
        return Response.json({ releases: all.slice(Number(path.split('=')[1])) });
      };
      const published = new Published('flu');
      await published.catchUp(all.at(-1));
      await published.catchUp(all.at(-1));
      const numbers = () => [published.records.length, published.records[0].id, published.last.id, published.earlier];
      const seen = [asked.length, numbers(), published.add({ id: 1202 })];
      seen.push(published.add({ id: 1201, at: 'x' }), numbers());
      await published.loadEarlier();
      seen.push(numbers());
      all.length = 3;
      all[2].at = 'another';
      await published.catchUp(all.at(-1));
      return [...seen, numbers()];
    }"""
    with counting(tmp_path) as running, opened(browser, running.address, charts=False) as page:
        page.wait_for_selector("[data-state=live]")
        first, news = [500, 701, 1200, 700], [500, 702, 1201, 701]
        everything, another = [1201, 1, 1201, 0], [3, 1, 3, 0]
        assert page.evaluate(question) == [1, first, False, True, news, everything, another]
