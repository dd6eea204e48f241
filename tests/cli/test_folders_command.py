"""`--state DIR/ --shards N`: several commands feed and release one state folder."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE, Popen
from time import sleep

import numpy as np
import pytest

import panprivacy as pp
from commands import answer, refused, run
from panprivacy import testing
from panprivacy.cli import run as keeping
from panprivacy.cli.output import Output
from panprivacy.cli.run import Run
from panprivacy.cli.schedule import AtTheEnd, Pipe
from panprivacy.folder.stores import Edit, Files
from panprivacy.ingest import Columns, Layout
from panprivacy.testing import CertainCoins, folder_table

CERTAIN = """
from panprivacy.privacy import coins
from panprivacy.testing import CertainCoins
coins.system = CertainCoins()
from panprivacy.cli import app
app()
"""


def certain(*words: object) -> "Popen[bytes]":
    """A command with coins that are certain, as a process of its own."""
    return Popen([sys.executable, "-c", CERTAIN, *map(str, words)], stdin=PIPE, stdout=PIPE, stderr=PIPE)


def ended(process: "Popen[bytes]") -> str:
    """What a process printed; it must end well."""
    printed, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors.decode()
    return printed.decode()


def ended_with_note(process: "Popen[bytes]") -> str:
    """What a process said on standard error; it must end well."""
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said.decode()
    return said.decode()


def events(path: Path, ids: object) -> Path:
    """A file of ids."""
    path.write_text("user\n" + "".join(f"{user}\n" for user in ids))  # type: ignore[attr-defined]
    return path


def present(place: Path) -> set[int]:
    """Who came, if the coins were certain."""
    table = folder_table(pp.StateFolder(place, coins=CertainCoins()))
    return set(np.flatnonzero(table.bits(0, table.size)).tolist())


@pytest.mark.slow
def test_four_commands_feed_and_one_releases_at_the_same_time(tmp_path: Path) -> None:
    place, said = tmp_path / "flu", ("-c", "user", "-n", 4000, "-e", 1, "--releases", 9, "--shards", 5)
    parts = [events(tmp_path / f"{i}.csv", range(i, 3000, 4)) for i in range(4)]
    feeding = [certain("density", part, *said, "--state", f"{place}/") for part in parts]  # all of them make it
    while not (place / "ledger.pp").exists():
        sleep(0.01)
    releasing = certain("release", place, "--json")
    for process in feeding:
        ended(process)
    assert json.loads(ended(releasing))["number"] == 1
    assert present(place) == set(range(3000))
    assert pp.StateFolder(place, coins=CertainCoins()).budget.releases_made == 1


@pytest.mark.slow
def test_a_pipe_is_in_the_folder_batch_by_batch(tmp_path: Path) -> None:
    place = tmp_path / "flu"
    pipe = certain("density", "-", "-c", "user", "-n", 100, "-e", 1, "--shards", 2, "--state", f"{place}/")
    assert pipe.stdin is not None
    for batch in ([], [3, 4], [99]):
        pipe.stdin.write("".join(["user\n"] if not batch else [f"{user}\n" for user in batch]).encode())
        pipe.stdin.flush()
        for _ in range(2400):  # two minutes: a busy machine takes long to start
            if place.exists() and (place / "ledger.pp").exists() and set(batch) <= present(place):
                break
            sleep(0.05)
    assert present(place) == {3, 4, 99}  # while the pipe is open
    os.kill(pipe.pid, signal.SIGINT)
    assert "density" in ended(pipe)


@pytest.mark.slow
def test_a_folder_is_made_continued_shown_released_and_rerandomised(tmp_path: Path) -> None:
    place, file = f"{tmp_path}/flu/", events(tmp_path / "a.csv", range(600))
    result = run(
        "density",
        file,
        "-c",
        "user",
        "-n",
        1000,
        "-e",
        20,
        "--releases",
        2,
        "--intrusions",
        1,
        "-s",
        place,
        "--shards",
        2,
    )
    assert result.exit_code == 0, result.output
    assert "saved; 2 of 2 releases left" in result.stderr
    assert answer("density", file, "-c", "user", "-s", place, "--release")["density"] == pytest.approx(0.6, abs=0.05)
    assert "every bit is redrawn" in run("rerandomize", place).stderr
    assert answer("release", tmp_path / "flu")["number"] == 2
    shown = answer("show", place)
    assert (shown["estimator"], shown["shards"], shown["releases_made"]) == ("Density", 2, 2)
    assert "of 2 shards: <Density of 1,000 users" in run("show", place).stdout
    assert "all 2 planned releases are made" in refused("release", place)


def test_a_pipe_goes_on_when_others_have_made_all_releases(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = pp.StateFolder.create(tmp_path / "flu", universe=100, epsilon=2.0, releases=2, shards=2)
    with keeping.KeptFolder(f"{tmp_path}/flu/") as kept:
        pipe = Run(kept.opened(), kept, 0.95, Output(as_json=False, quiet=False))
        schedule = AtTheEnd(pipe)
        schedule.source = Pipe(Columns(("user",)), False, False, False, None, Layout())
        other.release()
        assert pipe.left == 1
        with monkeypatch.context() as patch:  # as if it looked before the last one was made
            patch.setattr(Run, "check_left", lambda _: None)
            other.release()
            schedule.ring()
        schedule.ring()
        schedule.final = True
        schedule._finish()
        assert capsys.readouterr().err.count("no planned release is left") == 2
        with monkeypatch.context() as patch:
            looks: Iterator[Callable[[Run], None]] = iter([lambda _: None, Run.check_left])
            patch.setattr(Run, "check_left", lambda run: next(looks)(run))  # noqa: PLW0108 - a function each time
            with testing.refused("budget-exhausted"):
                schedule.release()


@pytest.mark.slow
def test_a_file_without_rows_writes_every_shard_like_one_with_rows(tmp_path: Path) -> None:
    place = tmp_path / "flu"
    pp.StateFolder.create(place, universe=100, epsilon=2.0, shards=2)
    for ids in ([], [7]):
        for path in place.iterdir():
            os.utime(path, (1, 1))
        file = events(tmp_path / "a.csv", ids)
        assert run("density", file, "-c", "user", "-s", f"{place}/").exit_code == 0
        assert all(path.stat().st_mtime > 1 for path in place.glob("shard*"))
    for path in place.iterdir():
        os.utime(path, (1, 1))
    assert run("release", f"{place}/").exit_code == 0
    assert all(path.stat().st_mtime == 1 for path in place.glob("shard*"))


def test_a_rerandomisation_that_broke_off_is_shown_and_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"{tmp_path}/flu/"
    folder = pp.StateFolder.create(place, universe=100, epsilon=2.0, intrusions=1, shards=3)
    change = Files.change_one

    def breaking_off(store: Files, name: str, edit: Edit) -> None:
        if name == "shard-00001":
            raise KeyboardInterrupt
        change(store, name, edit)

    with monkeypatch.context() as patch:
        patch.setattr(Files, "change_one", breaking_off)
        with pytest.raises(KeyboardInterrupt):
            folder.rerandomize()
    assert "2 of 3 shards are as they were" in run("show", place).stderr
    assert answer("show", place)["shards_behind"] == 2
    assert "every bit is redrawn; 0 more planned" in run("rerandomize", place).stderr
    assert answer("show", place)["shards_behind"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("lost", [True, False], ids=["lost", "corrupt"])
def test_a_shard_is_replaced_as_its_error_says(tmp_path: Path, lost: bool) -> None:
    place, said = f"{tmp_path}/flu/", ("-c", "user", "-n", 100, "-e", 50, "--shards", 4)
    file, shard = events(tmp_path / "a.csv", range(100)), tmp_path / "flu" / "shard-00002.pp"
    ended(certain("density", file, *said, "-s", place))
    shard.unlink() if lost else shard.write_bytes(b"nothing")
    why = refused("release", place)
    assert "shard-00002" in why
    assert "panprivacy replace-shard" in why
    assert "this shard is whole" in refused("replace-shard", place, 1)
    assert "4" in refused("replace-shard", place, 4)
    assert "25.00% of all" in ended_with_note(certain("replace-shard", place, 2))
    assert present(tmp_path / "flu") == {*range(50), *range(75, 100)}
    ended(certain("density", file, "-c", "user", "-s", place))
    assert present(tmp_path / "flu") == set(range(100))


def test_batches_before_a_bad_row_are_kept_and_those_after_it_are_not(tmp_path: Path) -> None:
    place = f"{tmp_path}/flu/"
    good, bad = events(tmp_path / "a.csv", range(50)), events(tmp_path / "b.csv", [60, 1000])
    result = run("density", good, bad, "-c", "user", "-n", 100, "-e", 50, "--shards", 2, "-s", place)
    assert result.exit_code == 2
    assert "b.csv: row 2" in result.stderr
    assert "saved in" in result.stderr
    assert answer("release", place)["count"] == pytest.approx(50, abs=1)


@pytest.mark.slow
def test_insertions_and_deletions_of_a_file_come_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("user,what\n" + "".join(f"{user},{what}\n" for what in ("+", "-", "+") for user in range(5)))
    other = tmp_path / "b.csv"
    other.write_text("user,what\n1,-\n9,+\n")
    place = f"{tmp_path}/flu/"
    said = ("-c", "user", "--action", "what", "-n", 20, "-e", 50, "--shards", 2, "-s", place)
    assert run("density", file, other, *said).exit_code == 0
    assert answer("release", place)["count"] == pytest.approx(5, abs=0.5)


@pytest.mark.slow
def test_a_batch_of_files_counts_once(tmp_path: Path) -> None:
    place, file = f"{tmp_path}/visits/", events(tmp_path / "a.csv", [*range(2000)] * 2)
    said = ("counts", file, "-c", "user", "-n", 4000, "-e", 60, "--up-to", 4, "-s", place)
    assert run(*said, "--shards", 2, "--batch", "north:0").exit_code == 0
    again = run(*said, "--batch", "north:0")
    assert "has batch 0 of north already, and it is not counted again" in again.stderr
    assert run(*said, "--batch", "north:5").exit_code == 0
    assert "batch 3 of north comes too late: batch 5 of the same writer was fed" in refused(*said, "--batch", "north:3")
    assert answer("release", place)["mean"] == pytest.approx(2.0, abs=0.3)  # it would be 3 or 4


def test_ctrl_c_waits_until_all_shards_have_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, file = f"{tmp_path}/visits/", events(tmp_path / "a.csv", [*range(2000)] * 2)
    change, changed = Files.change_one, list[str]()

    def interrupted(store: Files, name: str, edit: Edit) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        change(store, name, edit)
        changed.append(name)

    monkeypatch.setattr(Files, "change_one", interrupted)
    result = run("counts", file, "-c", "user", "-n", 4000, "-e", 60, "--shards", 3, "-s", place)
    assert (result.exit_code, len(changed)) == (130, 3)
    assert "interrupted" in result.stderr


@pytest.mark.slow
def test_what_ids_are_is_kept_for_other_commands(tmp_path: Path) -> None:
    place, file = f"{tmp_path}/visitors/", events(tmp_path / "a.csv", range(50))
    assert run("distinct", file, "-c", "user", "-e", 1, "--buckets", 64, "--shards", 2, "-s", place).exit_code == 0
    assert "ids of this estimator are integers" in refused("distinct", file, "-c", "user", "--ids", "text", "-s", place)


@pytest.mark.slow
def test_a_series_is_released_into_a_folder(tmp_path: Path) -> None:
    place, file = f"{tmp_path}/flu/", tmp_path / "a.csv"
    file.write_text("user,day\n" + "".join(f"{user},2026-01-{1 + user // 10:02d}\n" for user in range(40)))
    said = ("-c", "user", "-n", 100, "-e", 60, "--releases", 4, "--shards", 2, "-s", place)
    result = run("density", file, *said, "--release-every", "1d", "--time", "day", "--start", "2026-01-01", "--json")
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()[:3]]
    assert [row["count"] for row in rows] == [pytest.approx(many, abs=2) for many in (10, 20, 30)]
    assert answer("show", place)["releases_made"] == 3


@pytest.mark.slow
def test_what_a_folder_cannot_do_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, file = f"{tmp_path}/flu/", events(tmp_path / "a.csv", range(50))
    feed = ("density", file, "-c", "user", "-n", 100, "-e", 1)
    assert "is a file" in refused(*feed, "-s", tmp_path / "flu.pp", "--shards", 2)
    assert "--state DIR/" in refused(*feed, "--shards", 2)
    assert "has other files" in refused(*feed, "-s", tmp_path)
    assert "between 1 and 100, got 101" in refused(*feed, "-s", place, "--shards", 101)
    assert "no state folder here" in refused("show", place)
    assert "no state folder here" in refused("release", place)
    assert run(*feed, "-s", place, "--shards", 2).exit_code == 0
    assert "has 2 shards, and 3 were asked for" in refused(*feed, "-s", place, "--shards", 3)
    assert "epsilon 1.0 in the state, and 2.0" in refused(*feed[:-1], 2, "-s", place)
    assert "Density in the state, and Counts" in refused("counts", file, "-c", "user", "-s", place)
    assert "takes a state file" in refused("grow", place, "-n", 200)
    assert "takes a state file" in refused("merge", place, place, "-o", tmp_path / "x.pp")
    assert "takes a state file" in refused("retention", *feed[1:], "-s", place)
    assert "--batch is for files" in refused("counts", *feed[1:], "-s", tmp_path / "c.pp", "--batch", "a:1")
    assert f"{file} is a file" in refused(*feed, "-s", f"{file}/")
    assert "as in panprivacy show DIR/" in refused("release", f"{place}shard-00000.pp")
    monkeypatch.setattr(keeping, "_PATIENCE", 0.1)
    monkeypatch.setattr("panprivacy.folder.folder._IN_MAKING", 0.1)
    (tmp_path / "flu" / "ledger.pp").unlink()
    assert "shards and no ledger" in refused(*feed, "-s", place)
