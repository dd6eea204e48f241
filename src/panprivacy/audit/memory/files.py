"""Names, lengths and times of files: do they depend on one user's rows?

A program runs twice. The second time, the rows of one user are missing; the coins are new. After every batch the
auditor notes the files there are and what `stat` shows of each: mode, length, allocated blocks, links, whether it is
still the same file, and which of its times have changed. Between batches the program notes every call that changes a
file, with its place and length, outside the folder: the history that a file system's own journal may remember. Notes
have neither times nor content, and no process numbers. Both runs must be the same.
"""

import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic, perf_counter, sleep
from typing import Any, TypeAlias

import numpy as np

from panprivacy.audit.memory.batches import store
from panprivacy.audit.memory.estimators import EPSILON
from panprivacy.audit.memory.images import CannotImage, Imaged
from panprivacy.audit.memory.programs import ImagedProgram, Trial, folders, port_of
from panprivacy.audit.memory.scenarios import SHARDS, Scenario

FOLDER, NOTES = "PANPRIVACY_AUDIT_FOLDER", "PANPRIVACY_AUDIT_NOTES"
"""Variables of the environment: which folder is watched, and the file that calls are noted in."""

_EVENTS = ("open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.utime", "os.chmod")
_WRITES = ("pwrite", "write", "posix_fallocate", "fsync", "fdatasync")

FEWEST = 200_000
"""Users of whom the bits take several blocks of a disk."""
_BATCHES, _FEW = 10, 4  # of a program that embeds the library, and of a command or a service, which takes longer
_SUSPECT, _OTHERS = 1, 3
_PATIENCE = 120.0  # seconds for a batch, the first of which waits until the program is loaded
_STILL = 0.2  # seconds in which a command does what follows the last call that is noted of a write
_TICK = 0.01  # seconds after which a file that is written has another time, on any file system
_PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
_START = "panprivacy.audit.memory.files:start"
_FILE_WRITTEN = re.compile(r"(?:rename \S+|fdatasync) /state\.pp\b")  # the last call of a write that is noted
_FOLDER_WRITTEN = re.compile(r"fdatasync /shards/shard-00002\.pp\n(?:.*\n)*?remove /shards/\.shard-00002\.pp\.lock")

Batches: TypeAlias = list[list[int]]


@dataclass(frozen=True)
class Step:
    """What one batch has done to the files."""

    calls: tuple[str, ...]
    files: tuple[str, ...]


def compare(trial: Trial) -> Imaged:
    """Run a scenario with and without one user's rows, and count the batches after which the files differ."""
    started, users, scenario = perf_counter(), max(trial.users, FEWEST), trial.scenario
    trial = replace(trial, users=users, plants=(_START, *trial.plants))
    batches = _batches(scenario, users)
    without = [[user for user in batch if user != _SUSPECT] for batch in batches]
    ran = [_run(trial, each) for each in (batches, without)]
    told = [_differences(*steps) for steps in zip(*ran, strict=True)]
    return Imaged(
        scenario=scenario.name,
        users=users,
        came=1 + _OTHERS,
        hardened=trial.hardened,
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


def _run(trial: Trial, batches: Batches) -> list[Step]:
    with folders() as (imaged, handed):
        watched = _Watched(imaged, handed / "calls")
        run = _serve if trial.scenario.service else _pipe if trial.scenario.pipe else _embed
        return list(run(trial, batches, watched, handed))


class _Watched:
    """A folder, and the calls that a process has noted since the last batch."""

    def __init__(self, folder: Path, notes: Path) -> None:
        self.folder, self._notes = folder.resolve(), notes.resolve()
        self._read = 0
        self._before: dict[str, os.stat_result] = {}

    @contextmanager
    def told(self) -> Iterator[None]:
        """Tell processes that are started meanwhile what to note, and where."""
        os.environ |= {FOLDER: str(self.folder), NOTES: str(self._notes)}
        try:
            yield
        finally:
            del os.environ[FOLDER], os.environ[NOTES]

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


def _embed(trial: Trial, batches: Batches, watched: _Watched, handed: Path) -> Iterator[Step]:
    """A program that feeds an estimator and saves it after every batch, or feeds a state folder."""
    scenario = trial.scenario
    steps: list[dict[str, Any]] = []
    for number, batch in enumerate(batches):
        stored = store(np.array(batch, dtype=np.int64), scenario.container, handed / f"batch{number}")
        steps.append({"verb": "feed", "batch": asdict(stored)})
        steps.extend({"verb": verb} for verb in scenario.steps)
    with watched.told(), ImagedProgram(trial, watched.folder, steps, handed) as program:
        program.versions()
        yield watched.step()
        for _ in batches:
            for _ in range(1 + len(scenario.steps)):
                program.go_on()
                program.versions()
            yield watched.step()


def _pipe(trial: Trial, batches: Batches, watched: _Watched, handed: Path) -> Iterator[Step]:  # noqa: ARG001
    """A command that is fed through a pipe."""
    words = [str(trial.users) if word == "USERS" else word for word in trial.scenario.pipe]
    options = ("-c", "user", "-e", str(EPSILON), "--quiet", "-f", "csv")
    with watched.told(), trial.command(*words, *options, cwd=watched.folder, **_PIPES) as process:
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


def _serve(trial: Trial, batches: Batches, watched: _Watched, handed: Path) -> Iterator[Step]:
    """A service that answers when a body is on disk."""
    file = handed / "counters.toml"
    file.write_text(
        f'[service]\nport = 0\nfolder = "{watched.folder}"\nanonymous = ["feed"]\n'
        f'[counters.audited]\nkind = "counts"\nup_to = 4\nuniverse = {trial.users}\nepsilon = {EPSILON}\n'
        'column = "user"\n'
    )
    with watched.told(), trial.command("serve", str(file), cwd=handed, **_PIPES) as process:
        port = port_of(process)
        for batch in batches:
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
            kind = {"content-type": "application/json"}
            client.request("POST", "/counters/audited/events", json.dumps(batch), kind)
            answer = client.getresponse()
            said = answer.read()
            client.close()
            if answer.status >= 300:
                raise CannotImage(f"the service refused a body: {answer.status} {said.decode(errors='replace')}")
            yield watched.step()


def start() -> None:
    """Note from now on what this process does to the folder."""
    folder = os.environ[FOLDER]
    notes = os.open(os.environ[NOTES], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    write = os.write

    def note(call: str, *about: Any) -> None:
        named = [_named(each, folder) for each in about]
        if any(isinstance(each, str) and each.startswith("/") for each in named):
            write(notes, f"{call} {' '.join(map(str, named))}\n".encode())

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _EVENTS:
            path, *rest = arguments
            note(event.removeprefix("os."), *([path, rest[-1]] if event == "open" else arguments))

    sys.addaudithook(heard)
    for name in _WRITES:
        setattr(os, name, _noted(name, getattr(os, name), note))


def _noted(name: str, call: Callable[..., Any], note: Callable[..., None]) -> Callable[..., Any]:
    def noted(handle: int, *arguments: Any) -> Any:
        note(name, Path(f"/proc/self/fd/{handle}"), *(_length(each) for each in arguments))
        return call(handle, *arguments)

    return noted


def _length(argument: Any) -> int:
    """Of content how long it is, of a number the number."""
    return argument if isinstance(argument, int) else len(argument)


def _named(about: Any, folder: str) -> Any:
    """A file by its name in the folder, which then begins with a slash; anything else as it is."""
    if isinstance(about, Path):
        try:
            about = os.readlink(about)  # noqa: PTH115 - an open file, by its number
        except OSError:
            return ""
    if isinstance(about, bytes):
        about = os.fsdecode(about)
    if isinstance(about, str):
        return about.removeprefix(folder) if about.startswith(folder + "/") else ""
    return "" if about is None else about
