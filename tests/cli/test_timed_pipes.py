"""A pipe whose events carry their times: releases go by these, and not by the clock."""

import io
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import polars as pl
import pytest
from weekly import FROM, USERS, WEEKS, visits

import panprivacy as pp
from commands import start, wait_until_written

pytestmark = pytest.mark.slow

WEEKLY = ("--release-every", "7d", *FROM, "--ahead", 1)
DENSITY = ("density", "-", "-c", "user", "-n", USERS, "-e", 12, "--releases", WEEKS, *WEEKLY)
PATIENCE = 600.0


def as_csv(frame: pl.DataFrame) -> bytes:
    return frame.write_csv().encode()


def as_ndjson(frame: pl.DataFrame) -> bytes:
    return frame.with_columns(pl.col("when").cast(pl.String)).write_ndjson().encode()


def as_seconds(frame: pl.DataFrame) -> bytes:
    return frame.with_columns(pl.col("when").dt.epoch("s")).write_ndjson().encode()


def as_arrow(frame: pl.DataFrame) -> bytes:
    written = io.BytesIO()
    frame.write_ipc_stream(written)
    return written.getvalue()


def ended(process: subprocess.Popen[bytes], data: bytes = b"", status: int = 0) -> tuple[list[dict[str, Any]], str]:
    """Send the last input; the lines that were shown, and the notes."""
    out, err = process.communicate(data, timeout=PATIENCE)
    assert process.returncode == status, err
    return [json.loads(line) for line in out.splitlines()], err.decode()


def densities(lines: list[dict[str, Any]]) -> list[float]:
    """What was released; the last line is the curve."""
    *weeks, last = lines
    assert list(last) == ["monotone"]
    return [week["density"] for week in weeks]


@pytest.mark.parametrize("written", [as_csv, as_ndjson, as_seconds, as_arrow])
def test_every_week_of_a_pipe_is_released_when_the_next_has_begun(written: Any) -> None:
    lines, notes = ended(start(*DENSITY, "--json"), written(visits()))

    assert densities(lines) == pytest.approx([0.25, 0.5, 0.75, 1.0], abs=0.05)
    assert [week["until"][:10] for week in lines[:-1]] == ["2026-01-12", "2026-01-19", "2026-01-26", "2026-02-02"]
    assert "periods end by the times of the events" in notes


def test_distinct_users_of_a_pipe_are_released_by_its_times() -> None:
    command = (
        "distinct",
        "-",
        "--ids",
        "integers",
        "-c",
        "user",
        "-e",
        30,
        "--buckets",
        65536,
        "--releases",
        WEEKS,
        *WEEKLY,
        "--json",
    )
    *weeks, last = ended(start(*command), as_csv(visits()))[0]

    assert [week["count"] for week in weeks] == pytest.approx([1000, 2000, 3000, 4000], rel=0.2)
    assert [point["monotone_density"] for point in last["monotone"]] == [None] * WEEKS
    assert [point["until"] for point in last["monotone"]] == [week["until"] for week in weeks]


def line_of(file: IO[bytes] | None) -> bytes:
    assert file is not None
    return file.readline()


def test_a_release_comes_as_soon_as_a_row_shows_that_its_week_is_over() -> None:
    process = start(*DENSITY, "--json", "-q")
    assert process.stdin is not None
    process.stdin.write(as_csv(visits()[: USERS // 2]))
    process.stdin.flush()
    first = json.loads(line_of(process.stdout))  # while the pipe is open

    assert first["until"].startswith("2026-01-12")
    assert len(ended(process)[0]) == 1 + 1  # at the end the open week, and the curve


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("1,2026-01-04\n", "row 1: when 2026-01-04 is before 2026-01-05, when the first period starts"),
        ("1,2026-01-05\n2,2031-01-05\n", "row 2: when 2031-01-05 is 260 periods after the one from 2026-01-05 on"),
        ("1,soon\n", "row 1: when 'soon' is not a time; write it like"),
    ],
)
def test_what_is_refused_in_a_file_can_be_refused_in_a_pipe(rows: str, message: str, tmp_path: Path) -> None:
    refusing = ("--late", "refuse", "--early", "refuse")
    process = start(*DENSITY, *refusing, "-q", "--json", "--state", tmp_path / "s.pp")
    lines, notes = ended(process, b"user,when\n" + rows.encode(), status=2)

    assert lines == []
    assert f"panprivacy: standard input: {message}" in notes
    assert list(tmp_path.iterdir()) == []


def test_untimely_rows_of_a_pipe_are_left_out_or_counted_one_by_one() -> None:
    """An early row and one without a time are left out; a late one counts in the open week."""
    bad = b"1,2031-01-05\n2,soon\n3,2025-01-01\n"
    header, rows = as_csv(visits()).split(b"\n", 1)
    lines, notes = ended(start(*DENSITY, "--json"), header + b"\n" + bad + rows + bad)

    assert densities(lines) == pytest.approx([0.25, 0.5, 0.75, 1.0], abs=0.05)
    assert not any(word in notes for word in ("2031", "soon", "left out", "skip"))


BY_CLOCK = ("density", "-", "-c", "user", "-n", USERS, "-e", 12, "--releases", WEEKS, "--release-every", "7d", "--json")
CLOCK = """
import os, panprivacy.cli.schedule as series
from panprivacy.periods import moment_of
series.wall_clock = lambda: moment_of("2026-01-12T00:00:01" if os.path.exists("over") else "2026-01-06")
from panprivacy.cli import app; app()
"""


def test_the_clock_ends_the_periods_of_a_pipe_and_rows_do_not(tmp_path: Path) -> None:
    """The planted clock stands on the second day until a file says that the week is over."""
    words = (*BY_CLOCK, *FROM, "--state", "s.pp")
    command = [sys.executable, "-c", CLOCK, *map(str, words)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process: Any = subprocess.Popen(command, cwd=tmp_path, **pipes)  # type: ignore[call-overload]
    rows = "".join(f"{user},2026-01-05\n" for user in range(1000))
    process.stdin.write(f"user,when\n7,2031-01-05\n{rows}".encode())
    process.stdin.flush()
    wait_until_written(tmp_path / "s.pp", process)
    (tmp_path / "over").touch()
    first = json.loads(line_of(process.stdout))  # nothing more comes, and the week ends
    process.kill()
    process.communicate()

    assert first["density"] == pytest.approx(0.25, abs=0.05)
    assert first["until"].startswith("2026-01-12")


def test_a_live_pipe_does_not_begin_in_the_past() -> None:
    lines, notes = ended(start(*BY_CLOCK, *FROM), b"user,when\n1,2026-01-06\n", status=2)

    assert lines == []
    assert "periods are over by the clock and not released. If rows of the past are to end periods, say" in notes


def test_no_row_of_a_pipe_decides_when_the_first_period_starts() -> None:
    pipe = ("density", "-", "-c", "user", "-n", USERS, "-e", 12, "--releases", WEEKS, "--release-every", "7d")
    assert "No row of a pipe decides that" in ended(start(*pipe, "--time", "when"), status=2)[1]


def test_a_state_goes_on_with_the_series_through_another_pipe(tmp_path: Path) -> None:
    state = tmp_path / "s.pp"
    first, _ = ended(start(*DENSITY, "--json", "--state", state), as_csv(visits()[:1500]))
    second, _ = ended(start(*DENSITY, "--json", "--state", state), as_csv(visits()[1500:]))

    assert densities(first) == pytest.approx([0.25], abs=0.05)
    assert densities(second) == pytest.approx([0.5, 0.75], abs=0.05)
    assert pp.load(state).budget.releases_made == 3


def test_a_signal_spends_nothing_and_ctrl_c_ends_the_input() -> None:
    process = start(*DENSITY, "--json")
    assert process.stdin is not None
    assert process.stderr is not None
    assert b"Ctrl-C ends the input" in process.stderr.readline()
    process.stdin.write(as_csv(visits()[:500]))
    process.stdin.flush()
    process.send_signal(signal.SIGUSR1)
    assert b"SIGUSR1 spends nothing here" in process.stderr.readline()
    process.send_signal(signal.SIGINT)

    assert densities(ended(process)[0]) == pytest.approx([0.125], abs=0.05)


def test_ctrl_c_in_the_midst_of_a_batch_releases_no_week_twice(tmp_path: Path) -> None:
    """Polars raises where Ctrl-C finds it; what it did is done once more, and a release is not."""
    state = tmp_path / "s.pp"
    plant = (
        "import panprivacy.ingest.feed as f; take, calls = f.BatchFeeder.take, []\n"
        "def broken(self, batch):\n"
        "    calls.append(batch)\n"
        "    if len(calls) in (1, 4): raise KeyboardInterrupt\n"
        "    take(self, batch)\n"
        "f.BatchFeeder.take = broken\n"
        "from panprivacy.cli import app; app()"
    )
    command = [sys.executable, "-c", plant, *map(str, DENSITY), "--json", "--state", str(state)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    lines, _ = ended(subprocess.Popen(command, **pipes), as_arrow(visits()))  # type: ignore[call-overload]

    assert densities(lines) == pytest.approx([0.25, 0.5, 0.75], abs=0.05)
    assert pp.load(state).budget.releases_made == 3


def test_a_pipe_by_the_clock_ends_with_its_curve_and_its_picture(tmp_path: Path) -> None:
    picture = tmp_path / "pipe.svg"
    command = ("density", "-", "-c", "user", "-n", 100, "-e", 30, "--releases", 3, "--release-every", "100ms")
    process = start(*command, "--json", "-q", "--plot", picture)
    assert process.stdin is not None
    process.stdin.write(b'{"user": 1}\n')
    process.stdin.flush()
    first = [json.loads(line_of(process.stdout)) for _ in range(2)]
    last, curve = ended(process, b'{"user": 2}\n')[0]

    assert [point["at"] for point in curve["monotone"]] == [line["at"] for line in (*first, last)]
    assert "time of the release (UTC)" in picture.read_text()
