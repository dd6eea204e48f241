"""Names, lengths and times of files: do they depend on one user's rows?

A program runs twice. The second time, the rows of one user are missing; the coins are new. After every batch the
auditor notes the files there are and what `stat` shows of each: mode, length, allocated blocks, links, whether it is
still the same file, and which of its times have changed. Between batches it notes every call that changes a file, with
its place and length: the history that a file system's own journal may remember. Both runs must be the same.
"""

import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic, perf_counter, sleep
from typing import Any, TypeAlias

import numpy as np

from panprivacy.audit.imaging import calls
from panprivacy.audit.imaging.containers import store
from panprivacy.audit.imaging.processes import CannotImage
from panprivacy.audit.imaging.result import Imaged
from panprivacy.audit.imaging.scenarios import SHARDS, Scenario
from panprivacy.audit.imaging.stage import Stage, environment, folders
from panprivacy.audit.imaging.subjects import EPSILON

FEWEST = 200_000
"""Users of whom the bits take several blocks of a disk."""
_BATCHES, _FEW = 10, 4  # of a program that embeds the library, and of a command or a service, which takes longer
_SUSPECT, _OTHERS = 1, 3
_PATIENCE = 120.0  # seconds for a batch, the first of which waits until the program is loaded
_STILL = 0.2  # seconds in which a command does what follows the last call that is noted of a write
_TICK = 0.01  # seconds after which a file that is written has another time, on any file system
_START = "panprivacy.audit.imaging.calls:start"
_FILE_WRITTEN = re.compile(r"(?:rename \S+|fdatasync) /state\.pp\b")  # the last call of a write that is noted
_FOLDER_WRITTEN = re.compile(r"fdatasync /shards/shard-00002\.pp\n(?:.*\n)*?remove /shards/\.shard-00002\.pp\.lock")

Batches: TypeAlias = list[list[int]]


@dataclass(frozen=True)
class Step:
    """What one batch has done to the files."""

    calls: tuple[str, ...]
    files: tuple[str, ...]


def compare(scenario: Scenario, users: int, *, hardened: bool, plants: Sequence[str]) -> Imaged:
    """Run a scenario with and without one user's rows, and count in how many batches the files tell."""
    started, users = perf_counter(), max(users, FEWEST)
    batches = _batches(scenario, users)
    without = [[user for user in batch if user != _SUSPECT] for batch in batches]
    ran = [_run(scenario, users, each, hardened=hardened, plants=plants) for each in (batches, without)]
    told = [_differences(*steps) for steps in zip(*ran, strict=True)]
    return Imaged(
        scenario=scenario.name,
        users=users,
        came=1 + _OTHERS,
        hardened=hardened,
        bits_seen=any(step.calls for step in ran[0]),
        users_named=int(any(told)),
        words_found=0,
        ids_found=0,
        counts_found=0,
        keys_found=0,
        where=tuple(sorted(set().union(*told))),
        image_bytes=sum(len(note) for steps in ran for step in steps for note in step.calls + step.files),
        seconds=round(perf_counter() - started, 1),
        differences=sum(map(bool, told)),
    )


def _batches(scenario: Scenario, users: int) -> Batches:
    """The batches of everybody: one user who is always there, and others who come every second time.

    A pipe has no empty batches, and a service takes none, so there one of the others comes every time.
    """
    many = _FEW if scenario.pipe or scenario.service else _BATCHES
    others = [users - 1 - number for number in range(_OTHERS)]
    least = 1 if scenario.pipe or scenario.service else 0
    return [[_SUSPECT, *others[: _OTHERS if number % 2 else least]] for number in range(many)]


def _differences(one: Step, other: Step) -> set[str]:
    """The files of which a batch tells whether the user was in it."""
    differ = set(one.files) ^ set(other.files)
    if one.calls != other.calls:
        differ |= set(one.calls) ^ set(other.calls) or set(one.calls)
    return {word[1:] for note in differ for word in note.split() if word.startswith("/")}


def _run(scenario: Scenario, users: int, batches: Batches, *, hardened: bool, plants: Sequence[str]) -> list[Step]:
    with folders() as (imaged, handed):
        watched = _Watched(imaged, handed / "calls")
        run = _serve if scenario.service else _pipe if scenario.pipe else _embed
        return list(run(scenario, users, batches, watched, handed, hardened=hardened, plants=[_START, *plants]))


class _Watched:
    """A folder, and the calls that a process has noted since the last batch."""

    def __init__(self, folder: Path, notes: Path) -> None:
        self.folder, self._notes = folder.resolve(), notes.resolve()
        self._read = 0
        self._before: dict[str, os.stat_result] = {}

    @contextmanager
    def told(self) -> Iterator[None]:
        """Tell processes that are started meanwhile what to note, and where."""
        os.environ |= {calls.FOLDER: str(self.folder), calls.NOTES: str(self._notes)}
        try:
            yield
        finally:
            del os.environ[calls.FOLDER], os.environ[calls.NOTES]

    @property
    def notes(self) -> str:
        """All that was noted so far."""
        return self._notes.read_text() if self._notes.exists() else ""

    def step(self) -> Step:
        """What has happened since the last step."""
        notes = self.notes
        fresh, self._read = notes[self._read :], len(notes)
        files = {str(path.relative_to(self.folder)): path.lstat() for path in sorted(self.folder.rglob("*"))}
        shown = tuple(f"/{name} {self._shown(name, found)}" for name, found in files.items())
        self._before = files
        sleep(_TICK)
        return Step(tuple(fresh.splitlines()), shown)

    def _shown(self, name: str, now: os.stat_result) -> str:
        before = self._before.get(name)
        history = {
            "same file": before is not None and before.st_ino == now.st_ino,
            "written": before is not None and before.st_mtime_ns != now.st_mtime_ns,
            "changed": before is not None and before.st_ctime_ns != now.st_ctime_ns,
        }
        facts = f"mode {now.st_mode:o}, {now.st_size} bytes, {now.st_blocks} blocks, {now.st_nlink} links"
        return f"{facts}, {', '.join(fact for fact, holds in history.items() if holds)}"


def _embed(
    scenario: Scenario,
    users: int,
    batches: Batches,
    watched: _Watched,
    handed: Path,
    *,
    hardened: bool,
    plants: Sequence[str],
) -> Iterator[Step]:
    """A program that feeds an estimator and saves it after every batch, or feeds a state folder."""
    steps: list[dict[str, Any]] = []
    for number, batch in enumerate(batches):
        stored = store(np.array(batch, dtype=np.int64), scenario.container, handed / f"batch{number}")
        steps.append({"verb": "feed", "batch": asdict(stored)})
        steps.extend({"verb": verb} for verb in scenario.steps)
    plan = {"kind": scenario.kind, "users": users, "folder": str(watched.folder), "steps": steps, "listed": None}
    with watched.told(), Stage(plan | {"plants": plants}, handed / "plan.json", hardened=hardened) as stage:
        stage.versions()
        yield watched.step()
        for _ in batches:
            for _ in range(1 + len(scenario.steps)):
                stage.go_on()
                stage.versions()
            yield watched.step()


def _pipe(
    scenario: Scenario,
    users: int,
    batches: Batches,
    watched: _Watched,
    handed: Path,  # noqa: ARG001
    *,
    hardened: bool,
    plants: Sequence[str],
) -> Iterator[Step]:
    """A command that is fed through a pipe."""
    words = [str(users) if word == "USERS" else word for word in scenario.pipe]
    options = ("-c", "user", "-e", str(EPSILON), "--quiet", "-f", "csv")
    with watched.told(), _started([*words, *options], watched.folder, hardened=hardened, plants=plants) as process:
        assert process.stdin is not None
        process.stdin.write(b"user\n")
        last = _FOLDER_WRITTEN if SHARDS in words else _FILE_WRITTEN
        for number, batch in enumerate(batches):
            process.stdin.write(b"".join(b"%d\n" % user for user in batch))
            process.stdin.flush()
            _wait(process, watched, last, number + 1)
            yield watched.step()


def _wait(process: "subprocess.Popen[bytes]", watched: _Watched, last: "re.Pattern[str]", many: int) -> None:
    """Wait until a command has written so many batches."""
    until = monotonic() + _PATIENCE
    while len(last.findall(watched.notes)) < many:
        if process.poll() is not None or monotonic() > until:
            process.kill()
            assert process.stderr is not None
            raise CannotImage(f"the command did not write a batch: {process.stderr.read().decode()}")
        sleep(0.02)
    sleep(_STILL)


def _serve(
    scenario: Scenario,  # noqa: ARG001
    users: int,
    batches: Batches,
    watched: _Watched,
    handed: Path,
    *,
    hardened: bool,
    plants: Sequence[str],
) -> Iterator[Step]:
    """A service that answers when a body is on disk."""
    file = handed / "counters.toml"
    file.write_text(
        f'[service]\nport = 0\nfolder = "{watched.folder}"\nanonymous = ["feed"]\n'
        f'[counters.audited]\nkind = "counts"\nup_to = 4\nuniverse = {users}\nepsilon = {EPSILON}\ncolumn = "user"\n'
    )
    with watched.told(), _started(["serve", str(file)], handed, hardened=hardened, plants=plants) as process:
        assert process.stdout is not None
        found = re.search(rb":([0-9]+)/", process.stdout.readline())
        if found is None:
            assert process.stderr is not None
            raise CannotImage(f"the service has not started: {process.stderr.read().decode()}")
        for batch in batches:
            client = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=_PATIENCE)
            kind = {"content-type": "application/json"}
            client.request("POST", "/counters/audited/events", json.dumps(batch), kind)
            answer = client.getresponse()
            said = answer.read()
            client.close()
            if answer.status >= 300:
                raise CannotImage(f"the service refused a body: {answer.status} {said.decode(errors='replace')}")
            yield watched.step()


@contextmanager
def _started(
    words: list[str], folder: Path, *, hardened: bool, plants: Sequence[str]
) -> "Iterator[subprocess.Popen[bytes]]":
    """A command of the shell, in which calls are noted."""
    planted = "".join("import {0}; {0}.{1}(); ".format(*plant.split(":")) for plant in plants)
    code = f"{planted}from panprivacy.cli import main; main()"
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        cwd=folder,
        env=environment(hardened=hardened),
    ) as process:
        try:
            yield process
        finally:
            process.kill()
