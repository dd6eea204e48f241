"""A type checker knows what users of the package write, and what they misspell."""

import re
import sys
from pathlib import Path

import pytest
from mypy import api

pytestmark = pytest.mark.slow

PROGRAM = """
from collections.abc import Iterator
from uuid import UUID
import numpy as np
import polars as pl
import panprivacy as pp

def feed(est: pp.Density, ids: pp.Ids) -> None:
    est.update_many(ids)
    est.remove_many(ids)

def made() -> Iterator[str]:
    yield "ada"

est = pp.Density(1000, 1.0)
column = np.arange(3)
feed(est, [1, 2])
feed(est, ["ada", 7])
feed(est, {UUID(int=1)})
feed(est, range(3))
feed(est, made())
feed(est, column)
feed(est, pl.Series([1, 2]))
feed(est, [(1, 2), (2, 3)])
feed(est, (column, column))
feed(est, np.zeros((3, 2), dtype=np.int64))

reveal_type(est.release().density_interval)
reveal_type(pp.DistinctCount(1.0).release().count_stderr)
reveal_type(pp.Continual(1000, 1.0).observe().count_band)
reveal_type(pp.monotone([est.release()]).releases[0].density)
reveal_type(pp.monotone([pp.DistinctCount(1.0).release()]).releases[0].raw_count)
reveal_type(pp.audit.exact)
reveal_type(pp.paper.FixedLevelPPDS(1000, 1.0, 100).release())
reveal_type(pp.theory.error_bound)
reveal_type(pp.Windows(lambda: est, every="7d").closed[0].release)
"""

MISTAKES = """
import panprivacy as pp
est = pp.Density(1000, 1.0)
est.update_many(7)
est.release().stderr
pp.Densty
pp.audit.exactly
"""


def checked(program: str, folder: Path) -> str:
    file = folder / "program.py"
    file.write_text(program, encoding="utf-8")
    options = [
        "--strict",
        "--ignore-missing-imports",
        "--follow-imports=silent",
        f"--python-executable={sys.executable}",
    ]
    return api.run([*options, f"--cache-dir={folder.parent / 'cache'}", str(file)])[0]


@pytest.fixture(autouse=True)
def source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYPYPATH", str(Path(__file__).parents[1] / "src"))


def test_what_users_see_has_a_type(tmp_path: Path) -> None:
    said = checked(PROGRAM, tmp_path)
    assert "error" not in said, said
    revealed = re.findall(r'Revealed type is "(.*)"', said)
    assert len(revealed) == PROGRAM.count("reveal_type(")
    assert "Any" not in revealed, said


def test_mistakes_are_found(tmp_path: Path) -> None:
    said = checked(MISTAKES, tmp_path)
    assert [int(line) for line in re.findall(r"program\.py:(\d+): error", said)] == [4, 5, 6, 7], said


def test_a_module_that_hides_its_types_would_be_noticed(tmp_path: Path) -> None:
    hidden = "from typing import Any\ndef __getattr__(name: str) -> Any: ...\n"
    (tmp_path / "hiding.py").write_text(hidden, encoding="utf-8")
    said = checked("import hiding\nreveal_type(hiding.audit)\n", tmp_path)
    assert 'Revealed type is "Any"' in said, said
