"""One version, wherever it is written; workflows call what CONTRIBUTING tells people to call."""

import re
from pathlib import Path

from panprivacy import __version__

ROOT = Path(__file__).parents[1]


def test_the_version_is_the_same_everywhere() -> None:
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d{2}-\d{2}$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    (cited,) = re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.M)
    assert released[0] == cited == __version__


def test_changes_have_the_usual_headings() -> None:
    headings = re.findall(r"^### (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert headings
    assert set(headings) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_workflows_call_the_scripts_of_the_repository() -> None:
    workflows = [path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml")]
    called = {script for text in workflows for script in re.findall(r"bash (\.ci/\w+)", text)}
    assert called == {".ci/run", ".ci/release"}
    assert all((ROOT / script).is_file() for script in called)
