"""The page for reviewers names every file of the trusted core."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "panprivacy"
PAGE = (ROOT / "docs" / "explanation" / "reviewers.md").read_text()
CORE = ("memory", "privacy", "universe", "slots", "table", "estimators", "state")


@pytest.mark.parametrize("room", CORE)
def test_the_page_for_reviewers_names_every_file_of_a_room(room: str) -> None:
    part = PAGE.split(f"`{room}/`", 1)[1].split("\n## ", 1)[0]
    named = dict(re.findall(r"^\| `(.+?)\.py` \| ([0-9]+) \|", part, re.MULTILINE))
    folder = SOURCE / room
    files = {path.relative_to(folder).with_suffix("").as_posix(): path for path in folder.rglob("*.py")}
    assert named.keys() == {name for name in files if not name.endswith("__init__")}
    for name, said in named.items():
        lines = len(files[name].read_text(encoding="utf-8").splitlines())
        assert abs(lines - int(said)) <= 10 + lines // 20, f"{room}/{name}.py has {lines} lines, the page says {said}"


def test_the_page_for_reviewers_says_what_the_core_imports_beside_itself() -> None:
    told = PAGE.split("Beside each other they import", 1)[1].split("(a test", 1)[0]
    files = [path for room in CORE for path in (SOURCE / room).rglob("*.py")]
    found = {
        name
        for path in files
        for match in re.finditer(
            r"^ *from panprivacy(?:\.([a-z_]+)\S*)? import ([a-z_]+)?", path.read_text(encoding="utf-8"), re.MULTILINE
        )
        for name in [match[1] or match[2]]
    }
    assert found - set(CORE) == set(re.findall(r"`([a-z]+)`", told))
