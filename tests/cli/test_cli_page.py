"""The commands of docs/reference/command-line.md run, on files like those it speaks of, and say what it shows."""

import re
import subprocess
from pathlib import Path

import polars as pl
import pytest
from shown import shell_environment

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```console\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
ENDLESS = "tail -n +1 -f"  # runs until somebody ends it, and is tested among the pipes

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the page names."""
    folder = tmp_path_factory.mktemp("page")
    frame = pl.DataFrame({"patient": range(6000), "visitor": range(6000)}).with_columns(
        visited=pl.datetime(2026, 1, 5) + pl.duration(hours=pl.col("patient") // 3)
    )
    (folder / "visits").mkdir()
    frame.write_parquet(folder / "visits" / "all.parquet")
    bad = frame.select(pl.col("patient").cast(pl.String)).with_row_index()
    bad.select(pl.when(pl.col("index") == 4710).then(pl.lit("12x")).otherwise("patient").alias("patient")).write_csv(
        folder / "visits.csv"
    )
    for name in ("monday.csv", "tuesday.csv"):
        frame.write_csv(folder / name)
    subprocess.run(["gzip", "-k", "monday.csv"], cwd=folder, check=True)
    (folder / "monday.csv.gz").rename(folder / "visits.csv.gz")
    return folder


def commands(block: str) -> str:
    """The lines of a block that are typed: those after a dollar, and those that go on from a backslash."""
    return "\n".join(re.findall(r"^\$ ((?:.*\\\n)*.*)$", block, flags=re.MULTILINE))


def said(block: str) -> list[str]:
    """What the page shows that a block says."""
    return [line for line in block.splitlines() if line.startswith("panprivacy: ")]


@pytest.mark.parametrize("block", [block for block in BLOCKS if ENDLESS not in block])
def test_the_commands_run_and_say_what_the_page_shows(block: str, folder: Path) -> None:
    ran = subprocess.run(
        ["bash", "-e", "-c", commands(block)],
        cwd=folder,
        env=shell_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    fails = any(": row " in line for line in said(block))
    assert ran.returncode == (2 if fails else 0), ran.stdout
    assert all(line in ran.stdout.splitlines() for line in said(block)), ran.stdout
