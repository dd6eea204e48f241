"""Standard input, counted as it arrives: signals, periods, the end of input, and kill -9 at any moment."""

import json
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import IO

import pytest

import panprivacy as pp
from commands import PROGRAM, start, wait_until_written
from panprivacy.testing import table_of

pytestmark = pytest.mark.slow

DENSITY = ("density", "-", "-c", "user", "-n", 100, "-e", 30, "--json")
PATIENCE = 600.0  # seconds: a process that hangs is found at last, and one on a busy machine is waited for


def _wait_for(file: IO[bytes] | None, text: bytes) -> bytes:
    """Read lines until one has this text."""
    assert file is not None
    for line in file:
        if text in line:
            return line
    raise AssertionError(f"{text!r} did not come")


def _ended(process: subprocess.Popen[bytes], data: bytes = b"") -> tuple[list[float], str]:
    """Send the last input; the densities that were shown, and the notes."""
    out, err = process.communicate(data, timeout=PATIENCE)
    assert process.returncode == 0, err
    lines = [json.loads(line) for line in out.splitlines()]  # of which the last, with --release-every, is the curve
    return [line["density"] for line in lines if "monotone" not in line], err.decode()


def _lines(first: int, last: int) -> bytes:
    return b"".join(b"%d\n" % i for i in range(first, last))


def test_a_signal_spends_a_release_and_the_end_the_last(tmp_path: Path) -> None:
    state = tmp_path / "s.pp"
    process = start(*DENSITY, "--releases", 2, "--state", state)
    assert process.stdin is not None
    _wait_for(process.stderr, b"reading standard input")
    process.stdin.write(b"user\n" + _lines(0, 50) + b"5")  # the last line has not ended yet
    process.stdin.flush()
    process.send_signal(signal.SIGUSR1)  # what is in the pipe by now is counted first
    assert json.loads(_wait_for(process.stdout, b"density"))["density"] == pytest.approx(0.5, abs=0.1)
    assert pp.load(state).budget.releases_made == 1
    process.send_signal(signal.SIGUSR1)
    _wait_for(process.stderr, b"the last planned release is kept for the end of input")
    densities, _ = _ended(process, b"0\n" + _lines(51, 75))
    assert densities == [pytest.approx(0.75, abs=0.1)]
    assert pp.load(state).budget.releases_made == 2


def test_a_period_spends_releases_while_lines_trickle_in() -> None:
    process = start(*DENSITY, "--releases", 3, "--release-every", "100ms", "-q")
    assert process.stdin is not None
    process.stdin.write(b'{"user": 1}\n')
    process.stdin.flush()
    _wait_for(process.stdout, b"density")
    _wait_for(process.stdout, b"density")
    densities, notes = _ended(process, b'{"user": 2}\n')
    assert len(densities) == 1
    assert notes == ""


def test_ctrl_c_ends_the_input_and_keeps_what_came(tmp_path: Path) -> None:
    state = tmp_path / "s.pp"
    process = start(*DENSITY, "--state", state, "--no-release", "--no-header", "-c", "1")
    assert process.stdin is not None
    process.stdin.write(_lines(0, 50))
    process.stdin.flush()
    _wait_for(process.stderr, b"reading standard input")
    process.send_signal(signal.SIGINT)
    densities, notes = _ended(process)
    assert densities == []
    assert "saved; 1 of 1 releases left" in notes
    assert pp.load(state).release().density == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_row_that_a_signal_cuts_short_is_not_counted(tmp_path: Path, number: signal.Signals) -> None:
    """Of user 57 there is only a 5 so far."""
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip(f"these tests were started with {number.name} ignored, as nohup does")
    state = tmp_path / "s.pp"
    process = start(*DENSITY, "--state", state, "--no-release")
    assert process.stdin is not None
    _wait_for(process.stderr, b"reading standard input")
    process.stdin.write(b"ward,user\n" + b"".join(b"x,%d\n" % i for i in range(10, 60)) + b"x,5")
    process.stdin.flush()
    time.sleep(0.2)
    process.send_signal(number)
    process.wait(PATIENCE)  # the pipe stays open: its end would make the row whole
    _ended(process)
    est = pp.load(state)
    assert table_of(est).bits(0, 10).sum() == 0
    assert table_of(est).bits(0, 64).sum() == 50


def test_a_release_that_nobody_keeps_nor_sees_is_refused() -> None:
    process = start(*DENSITY, "--no-release")
    out, err = process.communicate(b"user\n1\n", timeout=PATIENCE)
    assert (process.returncode, out) == (2, b"")
    assert err == b"panprivacy: --no-release needs a --state FILE to keep the counts\n"


def test_bad_input_in_the_first_batch_is_named_by_its_row_and_changes_nothing(tmp_path: Path) -> None:
    process = start(*DENSITY, "--state", tmp_path / "s.pp", "-q")
    out, err = process.communicate(b"user\n" + _lines(0, 101), timeout=PATIENCE)
    assert (process.returncode, out) == (2, b"")
    cause = b"user 100 is outside the universe 0..99; --skip-outside leaves such rows out"
    assert err == b"panprivacy: standard input: row 101: " + cause + b"\n"
    assert list(tmp_path.iterdir()) == []


def test_bad_input_later_on_leaves_what_came_before_counted_and_saved(tmp_path: Path) -> None:
    state = tmp_path / "s.pp"
    process = start(*DENSITY, "--state", state, "-q")
    assert process.stdin is not None
    process.stdin.write(b"user\n" + _lines(0, 50))
    process.stdin.flush()
    wait_until_written(state, process)
    out, err = process.communicate(b"60\nx\n", timeout=PATIENCE)
    assert (process.returncode, out) == (2, b"")
    assert b"standard input: row 52: user 'x' is not a whole number of 64 bits; ids that are text need" in err
    assert b"the batches before it are counted, and saved in" in err
    est = pp.load(state)
    assert table_of(est).bits(0, 64).sum() == 50
    assert not table_of(est).bits(0, 64)[60]


def test_what_was_counted_is_on_disk_within_a_second_and_outlasts_kill_9(tmp_path: Path) -> None:
    state = tmp_path / "s.pp"
    process = start(*DENSITY, "--state", state, "--no-release")
    assert process.stdin is not None
    _wait_for(process.stderr, b"reading standard input")
    for i in range(0, 100, 10):
        process.stdin.write((b"user\n" if i == 0 else b"") + _lines(i, i + 10))
        process.stdin.flush()
        time.sleep(0.02)
    for _ in range(600):  # a second, on a machine that has nothing else to do
        if state.exists() and table_of(pp.load(state)).ones() == 100:
            break
        time.sleep(0.1)
    process.kill()
    process.communicate()
    assert pp.load(state).release().density == pytest.approx(1.0, abs=0.1)


def test_the_program_starts_itself_anew_and_reads_the_same_input(tmp_path: Path) -> None:
    process = start(*DENSITY, "--state", tmp_path / "s.pp", "-q", command=PROGRAM)
    densities, notes = _ended(process, b"user\n" + _lines(0, 50))
    assert densities == [pytest.approx(0.5, abs=0.1)]
    assert notes == ""


def test_what_was_shown_was_spent_on_disk_before_whenever_it_is_killed(tmp_path: Path) -> None:
    state = tmp_path / "s.pp"
    generator, shown = random.Random(1), 0
    for _ in range(2):
        command = (*DENSITY, "--releases", 5000, "--release-every", "1ms", "--state", state, "-q")
        process = start(*command)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"user\n" + _lines(0, 100))
        process.stdin.flush()
        _wait_for(process.stdout, b"density")
        shown += 1
        time.sleep(generator.uniform(0.0, 0.1))
        process.kill()
        shown += process.stdout.read().count(b"\n")  # `communicate` would pass over lines that were read ahead
        process.communicate()
        budget = pp.load(state).budget
        # At most one release of each run was written and not yet shown.
        assert shown <= budget.releases_made <= shown + 2
