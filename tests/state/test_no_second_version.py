"""After saving and loading, the memory of the process holds the bits that it has now, and no older ones."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from saving import VERSIONS

from imaged import image_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux" or not hasattr(os, "copy_file_range"), reason="memory is read through /proc"
    ),
]
_PIECE = 64  # bytes of a table: 512 bits that are never the same twice


def found(folder: Path, way: str, plant: str) -> list[int]:
    """Of each version that was saved, how many of 25 pieces of it are in memory."""
    script = Path(__file__).with_name("saving.py")
    process = subprocess.Popen(
        [sys.executable, script, folder, way, plant], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        image = image_of(process.pid)
    finally:
        process.communicate()
    counts = []
    for number in range(VERSIONS):
        blob = (folder / f"version{number}").read_bytes()
        pieces = [blob[at : at + _PIECE] for at in range(1000, len(blob) - 1000, len(blob) // 25)]
        counts.append(sum(any(piece in part for part in image) for piece in pieces))
    return counts


@pytest.mark.parametrize("way", ["kept", "moved and loaded"])
def test_no_older_version_is_in_memory(way: str, tmp_path: Path) -> None:
    assert found(tmp_path, way, "") == [0] * VERSIONS


def test_a_copy_of_what_is_written_is_found(tmp_path: Path) -> None:
    assert sum(found(tmp_path, "kept", "kept")) > 0
