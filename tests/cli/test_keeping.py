"""When a command writes its state, and how it ends."""

import signal
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import panprivacy as pp
from commands import start, wait_until_written
from panprivacy.cli.output import Output
from panprivacy.cli.run import Kept, KeptFolder, Run
from panprivacy.estimators.base import Estimator
from panprivacy.state import Snapshot, StateFile


class Clock:
    """A clock that moves when told to, and a file whose writes take a time of our choice."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, takes: float) -> None:
        self.now = 100.0
        self.writes: list[float] = []
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

        def write(_: StateFile, __: Snapshot) -> None:
            self.now += takes
            self.writes.append(self.now)

        monkeypatch.setattr(StateFile, "write", write)


def fed(est: Estimator[Any], kept: Kept | None) -> Run:
    """A run that counts in a state."""
    return Run(est, kept, 0.95, Output(quiet=True))


def test_a_batch_is_written_at_once_if_writing_is_quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, takes=0.001)
    run = fed(pp.Density(100, 1.0), StateFile(tmp_path / "s.pp"))
    for _ in range(5):
        run.counted()
        assert not run.behind
        assert run.due is None
        clock.now += 0.03
    assert len(clock.writes) == 5


@pytest.mark.parametrize("takes", [0.001, 0.02, 0.5])
def test_writing_takes_a_small_part_of_the_time_and_lags_a_second_at_most(
    takes: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch, takes)
    run = fed(pp.Density(100, 1.0), StateFile(tmp_path / "s.pp"))
    begun = clock.now
    while clock.now < begun + 60:
        clock.now += 0.004  # a batch
        run.counted()
        assert run.due is None or run.due <= clock.now + 1.0
    share = takes * len(clock.writes) / (clock.now - begun)
    assert share < 0.05 if takes < 0.04 else share < takes / (1 + takes) + 0.01


@pytest.mark.parametrize(("live", "most"), [(True, 0.5), (False, 10.0)], ids=["of a pipe", "of files"])
def test_what_waits_for_a_folder_waits_as_long_as_a_write_takes_or_ten_seconds(
    live: bool, most: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KeptFolder(f"{tmp_path}/folder/") as folder:
        est = folder.opened(make=lambda: pp.Density(100, 1.0))
        clock = Clock(monkeypatch, takes=0.5)
        monkeypatch.setattr(KeptFolder, "write", lambda _: StateFile.write(None, None))  # type: ignore[arg-type]
        run = fed(est, folder)
        for _ in range(6000):
            clock.now += 0.01
            run.counted(live=live)
            assert run.due is None or run.due <= clock.now + most
    pauses = [after - 0.5 - before for before, after in pairwise(clock.writes)]
    assert most - 0.001 < min(pauses)
    assert max(pauses) < most + 0.011, "a batch later"


@pytest.mark.parametrize("ids", [[], [7]], ids=["nobody who is sampled", "one who is"])
def test_a_batch_is_written_to_all_shards_whoever_is_in_it(
    ids: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, write = [], StateFile.write

    def noted(self: StateFile, parts: Snapshot) -> None:
        written.append(self.path.name)
        write(self, parts)

    with KeptFolder(f"{tmp_path}/folder/", shards=3) as folder:
        est = folder.opened(make=lambda: pp.Density(1000, 1.0))
        run = fed(est, folder)
        run.write()
        monkeypatch.setattr(StateFile, "write", noted)
        est.update_many(ids)
        run.counted()
        run.write_what_is_left()
        assert written == [f"shard-{number:05}.pp" for number in range(3)]
        run.write()  # nothing was counted since
    assert len(written) == 3


def test_without_a_file_nothing_is_due() -> None:
    run = fed(pp.Density(100, 1.0), None)
    run.counted()
    run.write()
    assert run.due is None


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_command_that_is_ended_gives_its_lock_back(number: signal.Signals, tmp_path: Path) -> None:
    state, events = tmp_path / "s.pp", tmp_path / "events.csv"
    with events.open("w") as file:
        file.write("user\n")
        for _ in range(60):
            file.write("".join(f"{user}\n" for user in range(100_000)))
    process = start("density", events, "-c", "user", "-n", 100_000, "-e", 1, "--state", state)
    wait_until_written(state, process)
    process.send_signal(number)
    _, err = process.communicate(timeout=600)
    if process.returncode != 0:  # on a machine that is quick enough it was done before
        assert process.returncode == 128 + number, err
        assert b"a state file is as it was last saved" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["events.csv", "s.pp"]
    assert pp.load(state).users == 100_000
