"""What people see of things: in print, in a terminal, in a notebook."""

import io
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest
from rich.console import Console

import panprivacy as pp
from panprivacy.display import Card
from panprivacy.testing import SeededCoins


def windows() -> pp.Windows[pp.Release]:
    weeks = pp.Windows(lambda: pp.Density(1000, 1.0), every="7d", start="2026-01-05")
    weeks.advance("2026-01-20")
    return weeks


SHOWN: dict[str, Callable[[], Any]] = {
    "Density": lambda: pp.Density(1000, 1.0),
    "DistinctCount": lambda: pp.DistinctCount(1.0, 64),
    "Counts": lambda: pp.Counts(1000, 1.0),
    "Continual": lambda: pp.Continual(100_000, 4.0, step=0.1),
    "Windows": windows,
    "Window": lambda: windows().closed[0],
    "Release": lambda: pp.Density(1000, 1.0).release(),
    "CountRelease": lambda: pp.DistinctCount(1.0, 64).release(universe=1000),
    "FrequencyRelease": lambda: pp.Counts(1000, 1.0).release(),
    "Observation": lambda: pp.Continual(100_000, 4.0, step=0.1).observe(),
    "Budget": lambda: pp.Density(1000, 2.0, intrusions=1).budget,
    "ContinualBudget": lambda: pp.Continual(100_000, 4.0, step=0.1).budget,
    "Plan": lambda: pp.plan(universe=1000, epsilon=1.0),
    "Plan: Counts": lambda: pp.plan(universe=1000, epsilon=1.0, up_to=4),
    "Plan: Retention": lambda: pp.plan_periods("Retention", 1000, 1.0),
}


class Cells(HTMLParser):
    """Reads the cells of a table, and sees to it that all that is opened is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []
        self.tags: set[str] = set()
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        assert {name for name, _ in attrs} <= {"style", "scope"}
        if tag in ("th", "td", "caption"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.cells[-1] += data


def in_a_terminal(thing: Any) -> str:
    console = Console(width=250, file=io.StringIO(), record=True)
    console.print(thing)
    return console.export_text()


@pytest.mark.parametrize("name", SHOWN)
def test_a_terminal_and_a_notebook_show_the_same_rows(name: str) -> None:
    thing = SHOWN[name]()
    card, seen = thing.card(), Cells(thing._repr_html_())
    assert seen.cells == [card.title, *(text for row in card.rows for text in row)]
    assert seen.tags == {"table", "caption", "tr", "th", "td"}, "nothing that would be fetched, or run"
    words = in_a_terminal(thing).split()
    for row in card.rows:
        for text in row:
            assert set(text.split()) <= set(words)


@pytest.mark.parametrize("name", SHOWN)
def test_a_repr_names_its_class_and_no_address(name: str) -> None:
    text = repr(SHOWN[name]())
    assert re.match(rf"<?{name}\b", text)
    assert " at 0x" not in text


def test_a_list_of_users_says_how_many_they_are() -> None:
    assert repr(pp.Users(["ada", "grace"])) == "<Users: 2 listed users>"


def test_windows_say_how_long_they_are_and_show_the_last_ones() -> None:
    weeks = windows()
    assert repr(weeks).startswith("<Windows of 7 days, 2 closed; the open one: <Density of 1,000 users")
    weeks.advance("2028-01-20")
    rows = weeks.card().rows
    assert rows[1] == ("closed", "106, the last 8:")
    assert rows[-2][0] == "from 2028-01-10"
    assert str(weeks.closed[0]).startswith("from 2026-01-05; until 2026-01-12; released density 0.")


@pytest.mark.parametrize("name", ["Density", "DistinctCount", "Continual"])
def test_seeded_coins_are_warned_of_everywhere(name: str) -> None:
    size = {"Density": {"universe": 1000}, "DistinctCount": {}, "Continual": {"universe": 100_000}}[name]
    est = getattr(pp, name)(epsilon=4.0, coins=SeededCoins(1), **size)
    said = est.observe() if name == "Continual" else est.release()
    for thing in (est, said):
        assert "not private: seeded coins" in in_a_terminal(thing)
        assert Cells(thing._repr_html_()).cells[-2:] == ["warning", "not private: seeded coins"]
    assert str(said).endswith("; NOT PRIVATE: SEEDED COINS")


def test_text_is_shown_as_it_is_and_not_as_markup() -> None:
    card = Card("<script>alert(1)</script>", (("[bold]a", "<b>&"),), "<i>")
    assert "<script" not in card.html
    assert Cells(card.html).cells == ["<script>alert(1)</script>", "[bold]a", "<b>&", "warning", "<i>"]
    assert "[bold]a" in in_a_terminal(card.grid)


def test_a_budget_in_print_has_its_numbers_below_each_other() -> None:
    lines = str(pp.Density(1000, 2.0, intrusions=1).budget).splitlines()
    assert [line[:10] for line in lines[:2]] == ["total     ", "state     "]
    assert len(lines) == 6
