"""State files: the old state or the new one, one writer, and no copies left behind."""

import errno
import os
import random
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import panprivacy as pp
from panprivacy.distinct import DistinctCount
from panprivacy.statefile import StateFile, StateFileError


def _old_and_new() -> tuple[bytes, bytes]:
    return pp.Density(1000, epsilon=1.0).to_bytes(), pp.Density(2000, epsilon=1.0).to_bytes()


def test_what_is_written_is_read_by_its_owner_only(tmp_path: Path) -> None:
    old, new = _old_and_new()
    before = os.umask(0)
    try:
        with StateFile(tmp_path / "flu.pp").locked() as file:
            assert not file.exists
            for blob in (old, new):
                file.write(blob)
                assert file.read() == blob
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "flu.pp").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["flu.pp"]


@pytest.mark.parametrize("step", ["open", "write", "fsync", "replace", "folder"])
def test_a_crash_at_any_step_leaves_the_old_state_or_the_new_one(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crash(BaseException):
        pass

    def crash(*_: object) -> None:
        raise Crash

    old, new = _old_and_new()
    path = tmp_path / "flu.pp"
    StateFile(path).write(old)
    with monkeypatch.context() as patch:
        target, name = {
            "open": (os, "open"),
            "write": (os, "fdopen"),
            "fsync": (os, "fsync"),
            "replace": (Path, "replace"),
            "folder": (sys.modules["panprivacy.statefile"], "_sync_folder"),
        }[step]
        patch.setattr(target, name, crash)
        with pytest.raises(Crash):
            StateFile(path).write(new)
    assert path.read_bytes() == (new if step == "folder" else old)
    with StateFile(path).locked():
        assert [left.name for left in tmp_path.iterdir() if left.suffix != ".lock"] == ["flu.pp"]


@pytest.mark.parametrize("step", ["write", "fsync"])
def test_a_full_disk_leaves_the_old_state_and_no_rest(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    old, new = _old_and_new()
    file = StateFile(tmp_path / "flu.pp")
    file.write(old)
    with monkeypatch.context() as patch:
        patch.setattr(os, {"write": "fdopen", "fsync": "fsync"}[step], full)
        with pytest.raises(StateFileError, match=r"flu\.pp: cannot be written, and is as it was: no space left"):
            file.write(new)
    assert file.read() == old
    assert [path.name for path in tmp_path.iterdir()] == ["flu.pp"]


def test_a_second_process_is_refused_until_the_first_is_done(tmp_path: Path) -> None:
    path = tmp_path / "flu.pp"
    with (
        StateFile(path).locked(),
        pytest.raises(StateFileError, match=r"flu\.pp: another process is using this state"),
        StateFile(path).locked(),
    ):
        pass
    with StateFile(path).locked():
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_was_deleted_meanwhile_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / ".flu.pp.lock"
    opened: list[int] = []
    open_file = os.open

    def open_and_lose(path: Path, *options: int) -> int:
        handle = open_file(path, *options)
        if Path(path) == lock and not opened:
            lock.unlink()  # the process before us is just done
        opened.append(handle)
        return handle

    monkeypatch.setattr(os, "open", open_and_lose)
    with StateFile(tmp_path / "flu.pp").locked():
        assert len(opened) == 2
        assert lock.exists()


def test_a_link_is_followed(tmp_path: Path) -> None:
    old, new = _old_and_new()
    real, link = tmp_path / "real.pp", tmp_path / "link.pp"
    StateFile(real).write(old)
    link.symlink_to(real)
    StateFile(link).write(new)
    assert link.is_symlink()
    assert real.read_bytes() == new


def test_what_cannot_be_read_or_locked_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateFileError, match=r"flu\.pp: cannot be read: no such file"):
        StateFile(tmp_path / "flu.pp").read()
    with pytest.raises(StateFileError, match="cannot be read: is a directory"):
        StateFile(tmp_path).read()
    with (
        pytest.raises(StateFileError, match=r"flu\.pp: there is no folder .*/no$"),
        StateFile(tmp_path / "no" / "flu.pp").locked(),
    ):
        pass


_WRITER = """
import sys
from panprivacy.statefile import StateFile
blobs = [open(path, "rb").read() for path in sys.argv[2:]]
with StateFile(sys.argv[1]).locked() as file:
    print("started", flush=True)
    while True:
        for blob in blobs:
            file.write(blob)
"""


@pytest.mark.slow
def test_kill_9_at_random_moments_leaves_one_whole_state(tmp_path: Path) -> None:
    blobs = [pp.Density(users, epsilon=1.0).to_bytes() for users in (2_000_000, 2_000_064)]
    sources = [tmp_path / "a", tmp_path / "b"]
    for source, blob in zip(sources, blobs, strict=True):
        source.write_bytes(blob)
    path = tmp_path / "folder" / "flu.pp"
    path.parent.mkdir()
    generator = random.Random(1)
    for attempt in range(8):
        writer = subprocess.Popen([sys.executable, "-c", _WRITER, path, *sources], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"started\n"
        time.sleep(generator.uniform(0.0, 0.02 * 2**attempt))  # the last ones long enough for a slow disk
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        if path.exists():
            assert path.read_bytes() in blobs
        with StateFile(path).locked():
            assert {left.name for left in path.parent.iterdir()} <= {"flu.pp", ".flu.pp.lock"}
    assert path.exists()


# --- the bytes themselves ---------------------------------------------------------------------------------------------

_STATES = [
    pp.Density(100, epsilon=1.0).to_bytes(),
    pp.Density(1000, epsilon=1.0, sample=100, releases=3, intrusions=1).to_bytes(),
    DistinctCount(1.0, 64).to_bytes(),
]


@given(st.sampled_from(_STATES), st.integers(0, 10**6), st.binary(max_size=9), st.integers(0, 9))
def test_altered_states_are_refused(state: bytes, place: int, inserted: bytes, removed: int) -> None:
    at = place % (len(state) + 1)
    altered = state[:at] + inserted + state[at + removed :]
    if altered == state:
        assert pp.load(altered).to_bytes() == state
    else:
        with pytest.raises(pp.CorruptState):
            pp.load(altered)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_no_state(data: bytes) -> None:
    with pytest.raises(pp.CorruptState):
        pp.load(data)
