"""Whatever happens while a state is written: the old one or the new one, whole, and after the next run nothing else."""

import errno
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from crashing import Disk, Failure

import panprivacy as pp
from panprivacy.state import Snapshot, StateFile, StateFileError, disk, journal, seal
from panprivacy.testing import refused

MOST_STEPS = 100


def _state(blocks: int, *changed: int) -> Snapshot:
    """A state of so many blocks of 4 KiB; two of the same length differ in the blocks that are named."""
    words = np.arange(512 * blocks - 64, dtype=np.uint64)
    for block in changed:
        words[512 * block + 7] ^= np.uint64(1)
    return Snapshot(1, True, b"parameters", words)


CHANGES = {
    "creation": (None, _state(5)),
    "one block": (_state(5), _state(5, 2)),
    "some blocks": (_state(600), _state(600, 3, 4, 5, 500)),
    "all blocks": (_state(5), _state(5, *range(4))),
    "longer": (_state(5), _state(6)),
    "shorter": (_state(6), _state(5)),
}


def outcome(
    before: Snapshot | None, after: Snapshot, failure: Failure, at: int, folder: Path
) -> tuple[bool, str | None]:
    """Write one state over another with a disk that fails at a step, and check what is left.

    Returns whether it failed at all, and what the error said.
    """
    path, graves = folder / "state" / "flu.pp", folder / "graves"
    for each in (path.parent, graves):
        each.mkdir(parents=True)
    if before is not None:
        with StateFile(path).locked() as file:
            file.write(before)
        (graves / "before").hardlink_to(path)
    said = None
    with Disk(failure, at, graves).used() as failing:
        try:
            with StateFile(path).locked() as file:
                file.write(after)
        except StateFileError as error:
            said = str(error)
    old, new = None if before is None else seal(before), seal(after)
    # Whoever reads it sees one of them, whole.
    found = seal(StateFile(path).read()) if path.exists() else None
    assert found in (old, new)
    assert failing.failed or found == new
    # And so does the next run, after which there is nothing else.
    with StateFile(path).locked():
        kept = path.read_bytes() if path.exists() else None
        assert kept == found
    assert [left.name for left in path.parent.iterdir()] == (["flu.pp"] if kept else [])
    # Wherever anything was written: there is this version, or zeros.
    for grave in graves.iterdir():
        content = grave.read_bytes()
        assert content == kept or not any(content), f"{grave.name} has something of another version"
    return failing.failed, said


def all_outcomes(change: str, failure: Failure, folder: Path) -> list[str | None]:
    """Fail at every step in turn; what the errors said."""
    said: list[str | None] = []
    for at in range(1, MOST_STEPS):
        failed, message = outcome(*CHANGES[change], failure, at, folder / str(at))
        if not failed:
            return said
        said.append(message)
    raise AssertionError(f"more than {MOST_STEPS} steps")


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("failure", [Failure.crash, Failure.torn, Failure.power])
def test_a_crash_at_any_step_leaves_one_whole_state_and_no_rest(failure: Failure, change: str, tmp_path: Path) -> None:
    assert len(all_outcomes(change, failure, tmp_path)) > 10


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_a_full_disk_leaves_the_file_as_it_was(change: str, tmp_path: Path) -> None:
    said = all_outcomes(change, Failure.full, tmp_path)
    assert said
    for at, message in enumerate(said, 1):
        path, before = tmp_path / str(at) / "state" / "flu.pp", CHANGES[change][0]
        assert message is not None
        assert "flu.pp: cannot be written, and is as it was: no space left on device" in message
        assert (path.read_bytes() if path.exists() else None) == (before and seal(before))


def test_a_disk_that_fails_in_the_middle_is_completed_by_whoever_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = CHANGES["all blocks"]
    assert before is not None
    path, mend = tmp_path / "flu.pp", StateFile._mend
    with StateFile(path).locked() as file:
        file.write(before)

    def fails(*_: object) -> None:
        path.write_bytes(seal(after)[:5000] + path.read_bytes()[5000:])
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch, StateFile(path).locked() as file:
        patch.setattr("panprivacy.state.file.apply", fails)
        patch.setattr(StateFile, "_mend", _nothing)
        with refused("state-half-written", "input/output"):
            file.write(after)
    assert StateFile._mend is mend
    assert seal(StateFile(path).read()) == seal(after) == path.read_bytes()
    assert [left.name for left in tmp_path.iterdir()] == ["flu.pp"]


@pytest.mark.parametrize("change", ["one block", "some blocks"])
def test_a_journal_is_not_applied_to_another_state_that_took_the_place_of_its_own(change: str, tmp_path: Path) -> None:
    before, after = CHANGES[change]
    assert before is not None
    path, other = tmp_path / "flu.pp", before._replace(parameters=b"different!")
    with pytest.MonkeyPatch.context() as patch, StateFile(path).locked() as file:
        file.write(before)
        patch.setattr("panprivacy.state.file.apply", _nothing)
        patch.setattr(StateFile, "_mend", _nothing)
        file.write(after)
    path.write_bytes(seal(other))
    assert seal(StateFile(path).read()) == seal(other)
    assert [left.name for left in tmp_path.iterdir()] == ["flu.pp"]


# --- the tests find what they are there for ---------------------------------------------------------------------------


def _nothing(*_: object) -> None:
    pass


PLANTED: dict[str, tuple[object, str, Callable[..., None], Failure]] = {
    "changes that go into the file without a journal": (journal.Journal, "commit", _nothing, Failure.crash),
    "a journal that is not on disk when the file is changed": (journal, "sync", _nothing, Failure.power),
    "an old version that is deleted and not overwritten": (disk, "overwrite", _nothing, Failure.crash),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bugs_are_found(bug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, instead, failure = PLANTED[bug]
    monkeypatch.setattr(where, name, instead)
    with pytest.raises((AssertionError, pp.CorruptState)):
        all_outcomes("some blocks", failure, tmp_path)


# --- processes that are killed ----------------------------------------------------------------------------------------

_WRITER = """
import sys
import panprivacy as pp
from panprivacy.state import StateFile
states = [pp.load(path, detached=True) for path in sys.argv[2:]]
with StateFile(sys.argv[1]).locked() as file:
    print("started", flush=True)
    while True:
        for est in states:
            est.save(file)
"""


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(2_000_000, 2_000_000), (2_000_000, 2_000_064)], ids=["in place", "replaced"])
def test_kill_9_at_random_moments_leaves_one_whole_state(sizes: tuple[int, int], tmp_path: Path) -> None:
    sources = [tmp_path / "a", tmp_path / "b"]
    for source, users in zip(sources, sizes, strict=True):
        pp.Density(users, epsilon=1.0).save(source)
    blobs = [source.read_bytes() for source in sources]
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
            assert seal(StateFile(path).read()) in blobs
        with StateFile(path).locked():
            assert {left.name for left in path.parent.iterdir()} <= {"flu.pp", ".flu.pp.lock"}
    assert path.exists()


@pytest.mark.slow
def test_readers_never_see_a_state_that_is_being_written(tmp_path: Path) -> None:
    sources, path = [tmp_path / "a", tmp_path / "b"], tmp_path / "flu.pp"
    for source in sources:
        pp.Density(1_000_000, epsilon=1.0).save(source)
    blobs = [source.read_bytes() for source in sources]
    writer = subprocess.Popen([sys.executable, "-c", _WRITER, path, *sources], stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None
        writer.stdout.readline()
        while not path.exists():
            assert writer.poll() is None
            time.sleep(0.01)
        seen: set[bytes] = set()
        reads = 0
        while reads < 200 or len(seen) < 2:  # on a busy machine the writer takes a while
            seen.add(pp.load(path).to_bytes())
            reads += 1
            assert seen <= set(blobs)
    finally:
        writer.kill()
        writer.communicate()
