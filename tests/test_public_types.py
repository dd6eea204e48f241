"""Every public name has a complete type under pyright, as under mypy."""

import json
from importlib.util import find_spec
from subprocess import PIPE, run
from sys import executable
from typing import Any

import pytest

import panprivacy


def incomplete(report: dict[str, Any]) -> list[str]:
    """Public names whose type is unknown, or that checkers may infer differently, themselves or in a part."""
    known = {each["name"]: each["isTypeKnown"] for each in report["typeCompleteness"]["symbols"]}
    return [name for name in panprivacy.__all__ if not known.get(f"panprivacy.{name}", True)]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("pyright") is None, reason="pip install 'pyright[nodejs]' brings pyright")
def test_pyright_knows_the_type_of_every_public_name() -> None:
    command = [executable, "-m", "pyright", "--verifytypes", "panprivacy", "--ignoreexternal", "--outputjson"]
    report = json.loads(run(command, stdout=PIPE, text=True, check=False).stdout)
    assert report["typeCompleteness"]["exportedSymbolCounts"]["withKnownType"] > 5000
    assert incomplete(report) == []


def test_a_public_name_without_a_whole_type_is_found() -> None:
    symbols = [{"name": "panprivacy.Density", "isTypeKnown": False}, {"name": "panprivacy.Counts", "isTypeKnown": True}]
    assert incomplete({"typeCompleteness": {"symbols": symbols}}) == ["Density"]
