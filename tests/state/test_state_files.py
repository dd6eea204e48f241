"""State files: one version, one writer, no copies, and no links that somebody planted."""

import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import panprivacy as pp
from journals import of_changed_blocks
from panprivacy.errors import CorruptState
from panprivacy.estimators.distinct import DistinctCount
from panprivacy.state import StateFile, StateFileError, format
from panprivacy.state.format import Snapshot
from panprivacy.state.journal import Journal
from panprivacy.testing import refused, table_of


def _fed(est: pp.Density) -> pp.Density:
    est.update_many(np.arange(0, est.universe.size, 3))
    return est


def test_what_is_written_is_read_by_its_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with StateFile(tmp_path / "flu.pp").locked() as file:
            assert not file.exists
            for users in (1000, 2000, 2000):
                est = pp.Density(users, epsilon=1.0)
                est.save(file)
                assert file.load().to_bytes() == est.to_bytes() == (tmp_path / "flu.pp").read_bytes()
                assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    finally:
        os.umask(before)
    assert [path.name for path in tmp_path.iterdir()] == ["flu.pp"]


def test_the_bits_go_to_the_file_and_back_without_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    est, path = _fed(pp.Density(1_000_000, epsilon=1.0)), tmp_path / "flu.pp"
    table, written, read = table_of(est).words, [], []
    write, preadv = os.pwrite, os.preadv

    def watched_write(handle: int, buffer: memoryview, at: int) -> int:
        written.append(np.shares_memory(np.frombuffer(buffer, dtype=np.uint8), table))
        return write(handle, buffer, at)

    def watched_read(handle: int, buffers: list[memoryview], at: int) -> int:
        read.append(np.frombuffer(buffers[0], dtype=np.uint8))
        return preadv(handle, buffers, at)

    monkeypatch.setattr(os, "pwrite", watched_write)
    monkeypatch.setattr(os, "preadv", watched_read)
    est.save(path)
    assert written == [False, True, False]  # head and parameters, the table itself, the checksum
    again = pp.load(path)
    assert any(np.shares_memory(buffer, table_of(again).words) for buffer in read)
    assert not any(buffer.nbytes > 4096 and not np.shares_memory(buffer, table_of(again).words) for buffer in read)


# --- one version ------------------------------------------------------------------------------------------------------


def test_after_five_runs_no_older_version_is_in_any_block_that_was_used(tmp_path: Path) -> None:
    """A hard link keeps the blocks of the first version, if they are ever given back."""
    path, link, older = tmp_path / "flu.pp", tmp_path / "link", set()
    pp.Density(200_000, epsilon=1.0).save(path)
    link.hardlink_to(path)
    for _ in range(5):
        est = pp.load(path)
        older |= set(table_of(est).words.tolist())
        est.update_many(np.arange(200_000))
        blob = est.to_bytes()
        est.save(path)
        assert link.read_bytes() == blob
        assert sorted(left.name for left in tmp_path.iterdir()) == ["flu.pp", "link"]
    words = table_of(pp.load(path)).words
    assert len(older & set(words.tolist())) < 10, "words of 64 redrawn bits are hardly ever the same"


def test_a_version_of_another_length_is_overwritten_before_its_blocks_are_given_back(tmp_path: Path) -> None:
    path, link = tmp_path / "flu.pp", tmp_path / "link"
    pp.Density(200_000, epsilon=1.0).save(path)
    link.hardlink_to(path)
    pp.Density(300_000, epsilon=1.0).save(path)
    assert not any(link.read_bytes())
    assert sorted(left.name for left in tmp_path.iterdir()) == ["flu.pp", "link"]


def test_between_two_writes_the_journal_is_the_same_version_as_the_file(tmp_path: Path) -> None:
    """Not even which blocks were changed last: that tells who may have come."""
    with StateFile(tmp_path / "flu.pp").locked() as file:
        est = pp.Density(1_000_000, epsilon=1.0)
        est.save(file)
        for users in (1_000_000, 10):
            est.update_many(np.arange(users))
            est.save(file)
            assert (tmp_path / ".flu.pp.journal").read_bytes() == (tmp_path / "flu.pp").read_bytes()
    assert [left.name for left in tmp_path.iterdir()] == ["flu.pp"]


def _calls_of_a_write(folder: Path, changed: int) -> list[tuple[object, ...]]:
    """Lengths and places of all that is written when the bits of so many users have changed, and what `ls` shows."""
    calls: list[tuple[object, ...]] = []
    est, write = pp.Density(1_000_000, epsilon=20.0), os.pwrite
    folder.mkdir()

    def watched(handle: int, buffer: memoryview, at: int) -> int:
        calls.append((at, len(buffer)))
        return write(handle, buffer, at)

    with StateFile(folder / "flu.pp").locked() as file:
        for _ in range(2):
            est.save(file)
        est.update_many(np.arange(changed))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "pwrite", watched)
            est.save(file)
        return calls + sorted((each.name, each.stat().st_size, each.stat().st_blocks) for each in folder.iterdir())


def test_a_write_makes_the_same_calls_whatever_has_changed(tmp_path: Path) -> None:
    first, *others = (_calls_of_a_write(tmp_path / str(changed), changed) for changed in (0, 1, 10, 40_000, 1_000_000))
    assert len(first) > 8
    assert all(other == first for other in others)


def test_a_journal_of_the_blocks_that_changed_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Journal, "commit", of_changed_blocks)
    assert _calls_of_a_write(tmp_path / "few", 10) != _calls_of_a_write(tmp_path / "many", 40_000)


# --- one writer -------------------------------------------------------------------------------------------------------


def test_a_second_process_is_refused_until_the_first_is_done(tmp_path: Path) -> None:
    path = tmp_path / "flu.pp"
    with (
        StateFile(path).locked(),
        refused("state-in-use", "flu.pp"),
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
        if Path(path) == lock:
            if not opened:
                lock.unlink()  # the process before us is just done
            opened.append(handle)
        return handle

    monkeypatch.setattr(os, "open", open_and_lose)
    with StateFile(tmp_path / "flu.pp").locked():
        assert len(opened) == 2
        assert lock.exists()


@pytest.mark.slow
def test_a_reader_waits_while_the_file_is_changed_and_a_writer_while_it_is_read(tmp_path: Path) -> None:
    import fcntl

    est, path = pp.Density(1000, epsilon=1.0), tmp_path / "flu.pp"
    pp.load(est.to_bytes()).save(path)
    blob = _fed(est).to_bytes()
    handle = os.open(path, os.O_RDONLY)
    for mode, call in ((fcntl.LOCK_EX, lambda: pp.load(path)), (fcntl.LOCK_SH, lambda: est.save(path))):
        fcntl.flock(handle, mode)
        waiting = threading.Thread(target=call)
        waiting.start()
        time.sleep(0.1)
        assert waiting.is_alive()
        fcntl.flock(handle, fcntl.LOCK_UN)
        waiting.join(60)
        assert not waiting.is_alive()
    os.close(handle)
    assert path.read_bytes() == blob


def test_a_reader_that_waited_for_a_file_that_was_replaced_reads_the_new_one(tmp_path: Path) -> None:
    import fcntl

    path, longer = tmp_path / "flu.pp", pp.Density(2000, epsilon=1.0)
    pp.Density(1000, epsilon=1.0).save(path)
    handle = os.open(path, os.O_RDWR)
    fcntl.flock(handle, fcntl.LOCK_EX)
    seen: list[bytes] = []
    reader = threading.Thread(target=lambda: seen.append(pp.load(path).to_bytes()))
    reader.start()
    time.sleep(0.1)
    blob = longer.to_bytes()
    longer.save(tmp_path / "other.pp")
    (tmp_path / "other.pp").replace(path)
    os.pwrite(handle, bytes(1000), 0)
    os.close(handle)
    reader.join(60)
    assert seen == [blob]


# --- links and what is not there --------------------------------------------------------------------------------------


def _torn(path: Path) -> bytes:
    """Leave a state as a writer does that is killed while it writes the file: a whole journal, and half a file."""
    whole = path.read_bytes()
    path.with_name(f".{path.name}.journal").write_bytes(whole)
    path.write_bytes(whole[: len(whole) // 2] + bytes(len(whole) - len(whole) // 2))
    return whole


@pytest.fixture
def torn(tmp_path: Path) -> Iterator[tuple[Path, bytes, Callable[[], None]]]:
    """A torn file whose lock another process has, what is in the file when it is whole, and how it is mended."""
    path = tmp_path / "flu.pp"
    _fed(pp.Density(10_000, epsilon=1.0)).save(path)
    with ExitStack() as held:
        held.enter_context(StateFile(path).locked())
        whole = _torn(path)

        def mend() -> None:
            path.write_bytes(whole)
            held.close()  # the journal is gone, and the lock is given back

        yield path, whole, mend


def test_a_file_that_is_torn_twice_is_read_when_the_process_that_has_the_lock_has_mended_it(
    torn: tuple[Path, bytes, Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (path, whole, mend), pauses = torn, list[float]()

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            mend()

    monkeypatch.setattr(time, "sleep", pause)
    assert pp.load(path, detached=True).to_bytes() == whole
    assert len(pauses) == 2


def test_a_file_that_another_process_mends_after_it_was_read_is_read_again(
    torn: tuple[Path, bytes, Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (path, whole, mend), read = torn, format.read

    def reads_before_it_is_mended(size: int, fill: Callable[[memoryview, int], None]) -> Snapshot:
        try:
            return read(size, fill)
        except CorruptState:
            mend()
            raise

    monkeypatch.setattr(format, "read", reads_before_it_is_mended)
    assert pp.load(path, detached=True).to_bytes() == whole


def test_a_corrupt_file_that_no_process_has_is_refused_without_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, pauses = tmp_path / "flu.pp", list[float]()
    _fed(pp.Density(10_000, epsilon=1.0)).save(path)
    _torn(path)
    (tmp_path / ".flu.pp.journal").unlink()
    monkeypatch.setattr(time, "sleep", pauses.append)
    with pytest.raises(CorruptState):
        pp.load(path)
    assert not pauses
    assert [each.name for each in tmp_path.iterdir()] == ["flu.pp"]


def test_a_link_to_a_state_is_followed(tmp_path: Path) -> None:
    real, link = tmp_path / "real.pp", tmp_path / "link.pp"
    pp.Density(1000, epsilon=1.0).save(real)
    link.symlink_to(real)
    est = pp.Density(2000, epsilon=1.0)
    blob = est.to_bytes()
    est.save(link)
    assert link.is_symlink()
    assert real.read_bytes() == blob == pp.load(link).to_bytes()


@pytest.mark.parametrize("name", ["lock", "journal", "new", "old"])
@pytest.mark.parametrize("leads_somewhere", [True, False])
def test_a_link_that_somebody_planted_is_not_followed(name: str, leads_somewhere: bool, tmp_path: Path) -> None:
    path, victim, planted = tmp_path / "flu.pp", tmp_path / "victim", tmp_path / f".flu.pp.{name}"
    pp.Density(1000, epsilon=1.0).save(path)
    est, before = pp.load(path), path.read_bytes()
    if leads_somewhere:
        victim.write_text("precious")
    planted.symlink_to(victim)
    with refused("symbolic-link", name):
        _fed(est).save(path)
    assert victim.exists() == leads_somewhere
    assert not leads_somewhere or victim.read_text() == "precious"
    assert path.read_bytes() == before
    assert pp.load(path).to_bytes() == before


def test_what_cannot_be_read_or_locked_is_named(tmp_path: Path) -> None:
    with refused("state-unreadable", "flu.pp"):
        StateFile(tmp_path / "flu.pp").read()
    with refused("state-is-folder"):
        StateFile(tmp_path).read()
    with (
        refused("no-folder", "flu.pp"),
        StateFile(tmp_path / "no" / "flu.pp").locked(),
    ):
        pass


def test_an_estimator_on_seeded_coins_is_saved_only_by_name(tmp_path: Path) -> None:
    from panprivacy.testing import SeededCoins

    est = pp.Density(1000, epsilon=1.0, coins=SeededCoins(1))
    with refused("seeded-coins", "insecure=True"):
        est.save(tmp_path / "flu.pp")
    assert list(tmp_path.iterdir()) == []
    est.save(tmp_path / "flu.pp", insecure=True)
    assert not pp.load(tmp_path / "flu.pp").secure


@pytest.mark.slow
def test_saving_and_loading_a_file_does_not_load_what_importing_does_not(tmp_path: Path) -> None:
    code = f"""
import sys, panprivacy as pp
est = pp.Density(1000, epsilon=1.0)
before = set(sys.modules)
est.save({str(tmp_path / "flu.pp")!r})
pp.load({str(tmp_path / "flu.pp")!r})
print(*(name for name in set(sys.modules) - before if name.startswith(("polars", "panprivacy.paper"))))
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


# --- the bytes themselves ---------------------------------------------------------------------------------------------

_STATES = [
    pp.Density(100, epsilon=1.0).to_bytes(),
    pp.Density(1000, epsilon=1.0, sample=100, releases=3, intrusions=1).to_bytes(),
    DistinctCount(1.0, 64).to_bytes(),
]


@pytest.mark.slow
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


@pytest.mark.parametrize("beside", ["journal", "new", "old", "lock"])
def test_a_file_of_somebody_else_beside_the_state_is_not_overwritten(beside: str, tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "flu.pp"
    pp.Density(1000, 1.0).save(path)
    victim.write_bytes(b"a letter of somebody else")
    os.link(victim, tmp_path / f".flu.pp.{beside}")
    with refused("not-our-file"):
        pp.Density(1000, 1.0).save(path)
    assert victim.read_bytes() == b"a letter of somebody else"


def test_a_pipe_beside_the_state_does_not_keep_anybody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".flu.pp.journal")
    with refused("not-our-file"):
        pp.Density(1000, 1.0).save(tmp_path / "flu.pp")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_neither_writes_the_state_nor_gives_its_lock_back(tmp_path: Path) -> None:
    path = tmp_path / "flu.pp"
    with StateFile(path).locked() as file:
        pp.Density(1000, 1.0).save(file)
        child = os.fork()
        if not child:
            try:
                with refused("state-not-locked"):
                    pp.Density(1000, 1.0).save(file)
            except BaseException:
                os._exit(1)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        with refused("state-in-use"):
            pp.Density(1000, 1.0).save(path)


def test_a_part_whose_merge_is_on_disk_is_erased_by_whoever_opens_it(tmp_path: Path) -> None:
    part, whole = tmp_path / "north.pp", tmp_path / "all.pp"
    pp.Density(1000, 1.0).save(part)
    with StateFile(part).locked() as file:
        file.leave_to(StateFile(whole))
    assert pp.load(part).users == 1000, "there is no merge: the part is used"
    with StateFile(part).locked() as file:
        file.leave_to(StateFile(whole))
        pp.Density(1000, 1.0).save(whole)
    with pytest.raises(StateFileError):
        pp.load(part)
    assert [file.name for file in tmp_path.iterdir()] == ["all.pp"]


def test_the_time_of_a_file_does_not_tell_whether_a_bit_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "flu.pp"
    pp.Density(100_000, 1.0).save(path)
    for ids in ([], [5], range(1000)):
        est = pp.load(path)
        est.update_many(ids)
        os.utime(path, (1, 1))
        est.save(path)
        assert path.stat().st_mtime > 1
