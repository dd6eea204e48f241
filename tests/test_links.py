"""Links between the pages lead somewhere, and to headings that exist."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")


def anchors(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    found = set()
    for line in re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S).splitlines():
        if line.startswith("#"):
            title = re.sub(r"[`*]|\]\([^)]*\)|\[", "", line.lstrip("#").strip()).lower()
            found.add(re.sub(r"[^\w\- ]", "", title).replace(" ", "-"))
    return found


def dead_links(page: Path) -> list[str]:
    """Links of a page to files or headings that do not exist."""
    dead = []
    for file, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        if ":" in file:
            continue
        target = (page.parent / file).resolve() if file else page
        is_there = target.exists() and (not anchor or target.suffix != ".md" or anchor in anchors(target))
        if not is_there:
            dead.append(f"{file}#{anchor}")
    return dead


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    assert dead_links(page) == []


@cache
def programs() -> frozenset[str]:
    """Every Python file, by each end of its path."""
    folders = [ROOT / name for name in ("src", "tests", "benchmarks", ".ci", "docs")]
    paths = [path.relative_to(ROOT).parts for folder in folders for path in folder.rglob("*.py")]
    return frozenset("/".join(parts[start:]) for parts in [*paths, ("conftest.py",)] for start in range(len(parts)))


def lost_programs(page: Path) -> list[str]:
    """Python files that a page names, alone or in a command, and that do not exist."""
    named = re.findall(r"(?:`|python )([a-z_./]+\.py)\b", page.read_text(encoding="utf-8"))
    return [name for name in named if name not in programs()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_programs_that_a_page_names_exist(page: Path) -> None:
    assert lost_programs(page) == []


def test_a_program_that_is_gone_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("`privacy/coins.py`, `coins.py`, `python benchmarks/gone.py --quick`, `estimators/gone.py`")
    assert lost_programs(page) == ["benchmarks/gone.py", "estimators/gone.py"]


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One thing\n[a](#one-thing) [b](#another) [c](gone.md) [d](page.md#one-thing)")
    assert dead_links(page) == ["#another", "gone.md#"]
