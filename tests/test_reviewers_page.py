"""The page for reviewers names every file of the trusted core."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "explanation" / "reviewers.md").read_text()


@pytest.mark.parametrize("room", ["memory", "privacy", "universe", "slots", "table", "estimators", "state"])
def test_the_page_for_reviewers_names_every_file_of_a_room(room: str) -> None:
    part = PAGE.split(f"`{room}/`", 1)[1].split("\n## ", 1)[0]
    named = set(re.findall(r"^\| `(.+?)\.py`", part, re.MULTILINE))
    folder = ROOT / "src" / "panprivacy" / room
    files = {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.py")}
    assert named == {name for name in files if not name.endswith("__init__")}
