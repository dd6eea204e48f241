"""What is in the memory of a pipe, or of a command that reads URLs, when rows are counted: none of their ids."""

import io
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from commands import APP, PROGRAM, start, wait_until_written
from imaged import image_of, until_idle
from panprivacy.audit.memory.processes import FileServer

BATCHES, ROWS = 20, 1000
IDS = [[f"patient-{os.urandom(9).hex()}" for _ in range(ROWS)] for _ in range(BATCHES)]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux" or os.geteuid() != 0, reason="the memory of a hardened process is read by root only"
    ),
]


def _left(process: subprocess.Popen[bytes], state: Path, json: bool) -> list[int]:
    """Feed all batches, each of a day; of each of them, how many ids are found afterwards."""
    assert process.stdin is not None
    process.stdin.write(b"" if json else b"who,ward,at\n")
    for day, batch in enumerate(IDS, 1):
        line = '{{"who": "{}", "ward": 7, "at": "2026-01-{:02}"}}\n' if json else "{},7,2026-01-{:02}\n"
        process.stdin.write("".join(line.format(user, day) for user in batch).encode())
        process.stdin.flush()
        time.sleep(0.05)
    wait_until_written(state, process)
    until_idle(process)
    tokens = {token for part in image_of(process.pid) for token in re.findall(rb"patient-[0-9a-f]{18}", part)}
    process.communicate()
    assert process.returncode == 0
    return [sum(user.encode() in tokens for user in batch) for batch in IDS]


DAILY = ("--releases", BATCHES, "--release-every", "1d", "--time", "at", "--start", "2026-01-01", "--ahead", 1)


@pytest.mark.parametrize("timed", [(), DAILY], ids=["by the clock", "by times"])
@pytest.mark.parametrize("json", [False, True], ids=["csv", "ndjson"])
def test_no_id_of_an_earlier_batch_is_in_the_memory_of_a_pipe(
    json: bool, timed: tuple[str | int, ...], tmp_path: Path
) -> None:
    state = tmp_path / "s.pp"
    options = ("distinct", "-", "--ids", "text", "-c", "who", "-e", 1, "--no-release", "--state", state, *timed)
    left = _left(start(*options, command=PROGRAM), state, json)
    assert left[:-1] == [0] * (BATCHES - 1)


def test_a_pipe_that_is_not_started_that_way_keeps_ids(tmp_path: Path) -> None:
    """So the test above would find them."""
    state = tmp_path / "s.pp"
    left = _left(
        start("distinct", "-", "--ids", "text", "-c", "who", "-e", 1, "--no-release", "--state", state, command=APP),
        state,
        json=False,
    )
    assert sum(left[:-1]) > 0


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_no_id_of_a_file_is_in_the_memory_of_a_command_that_waits_for_the_next(form: str) -> None:
    assert _left_of_files(form, PROGRAM) == [0] * 4


def test_a_command_that_reads_urls_and_is_not_started_that_way_keeps_ids() -> None:
    """So the test above would find them."""
    assert sum(_left_of_files("csv", APP)) > 0


def _left_of_files(form: str, command: list[str]) -> list[int]:
    """Serve some files, each when the one before is counted; of each of them, how many ids are found afterwards."""
    pytest.importorskip("aiohttp")
    served, files = FileServer(5), IDS[:4]
    urls = [f"{served.url}/{number}" for number in range(5)]
    process = start("distinct", *urls, "--ids", "text", "-c", "who", "-e", 1, "-f", form, command=command)
    for batch in files:
        frame, out = pl.DataFrame({"who": batch}), io.BytesIO()
        frame.write_csv(out) if form == "csv" else frame.write_parquet(out)
        served.serve(out.getvalue())
        while not served.is_done:
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
    until_idle(process)
    tokens = {token for part in image_of(process.pid) for token in re.findall(rb"patient-[0-9a-f]{18}", part)}
    process.kill()
    process.communicate()
    served.close()
    return [sum(user.encode() in tokens for user in batch) for batch in files]
