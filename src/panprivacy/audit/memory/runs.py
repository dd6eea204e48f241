"""The run of a scenario: an image of its process is searched, or its files are compared in two runs.

**Images.** The process is started, fed step by step, and imaged; the image is searched for all that it must not hold.

**Files.** Do names, lengths and times of files depend on one user's rows? The process runs twice. The second time, the
rows of one user are missing; the coins are new. After every batch the auditor notes the files there are and what `stat`
shows of each: mode, length, allocated blocks, links, whether it is still the same file, and which of its times have
changed. Between batches the process notes every call that changes a file, with its place and length, outside the
folder: the history that a file system's own journal may remember. Notes have neither times nor content, and no process
numbers. Both runs must be the same.
"""

import os
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, NamedTuple

import numpy as np

from panprivacy.audit.memory.images import Imaged, take
from panprivacy.audit.memory.processes import FOLDER, NOTES, Command, ProcessUnderAudit, Program
from panprivacy.audit.memory.scenarios import BATCHES, HTTP, SHARDS, STORE, URLS, Scenario
from panprivacy.audit.memory.search import find_counts, look_for
from panprivacy.audit.memory.services import Consumer, Service
from panprivacy.audit.memory.traces import FedBatch, Traces

_PROCESSES: dict[str, type[ProcessUnderAudit]] = {"calls": Program, HTTP: Service}
_PROCESSES |= dict.fromkeys(("pipe", URLS, STORE), Command)


def process_of(scenario: Scenario, users: int) -> ProcessUnderAudit:
    """The process that a scenario is about."""
    return _PROCESSES.get(scenario.fed_by, Consumer)(scenario, users)


def search_image(scenario: Scenario, users: int) -> Imaged:
    """Run a scenario, and search its last image."""
    started, came = perf_counter(), list[FedBatch]()
    with process_of(scenario, users) as process:
        pool = process.pool
        traces, versions = Traces(pool), [process.versions()]
        before = take(process.pid, process.imaged)
        for number, step in enumerate(scenario.steps):
            if step in BATCHES:
                people, different = pool.batch(number % 8, step, process.most)
                beside = process.feed(number, step, people)
                versions.append(process.versions())
                came.append(FedBatch.of(people, different, pool, beside, versions[-1]))
            else:
                process.do(step)
                versions.append(process.versions())
        last = take(process.pid, process.imaged)
        process.add_secrets(traces)
    for version in (version for earlier in versions[:-1] for version in earlier):
        traces.add_version(version, versions[-1])
    for fed in came[:-1]:
        traces.add_batch(fed, versions[-1])
    searched = last if process.origin is None else last.written_since(process.origin)
    look_for(traces.patterns, searched, before)
    return Imaged(
        scenario=scenario.name,
        users=pool.users,
        came=len(np.unique(np.concatenate([fed.people for fed in came]))),
        hardened=scenario.hardened,
        bits_seen=all(versions),
        **traces.findings(came),
        releases_found=find_counts(traces.released, searched, before),
        where=traces.where(),
        image_bytes=last.size,
        seconds=round(perf_counter() - started, 1),
    )


# --- files -----------------------------------------------------------------------------------------------------------

_EVENTS = ("open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.utime", "os.chmod")
_WRITES = ("pwrite", "write", "posix_fallocate", "fsync", "fdatasync")

FEWEST = 200_000  # users of whom the bits take several blocks of a disk
_BATCHES, _FEW = 10, 4  # of a program that embeds the library, and of a command or a service, which takes longer
_SUSPECT, _OTHERS = 1, 3
_TICK = 0.01  # seconds after which a file that is written has another time, on any file system
_START = "panprivacy.audit.memory.runs:note_calls"
_FILE_WRITTEN = re.compile(r"(?:rename \S+|fdatasync) /state\.pp\b")  # the last call of a write that is noted
_FOLDER_WRITTEN = re.compile(r"fdatasync /shards/shard-00002\.pp\n(?:.*\n)*?remove /shards/\.shard-00002\.pp\.lock")


class Step(NamedTuple):
    """What one batch has done to the files."""

    calls: list[str]
    files: list[str]


def compare_files(scenario: Scenario, users: int) -> Imaged:
    """Run a scenario with and without one user's rows, and count the batches after which the files differ."""
    started, users = perf_counter(), max(users, FEWEST)
    scenario = replace(scenario, plants=(_START, *scenario.plants))
    ran = [_run(scenario, users, with_suspect=present) for present in (True, False)]
    told: list[set[str]] = []  # the files of which a batch tells whether the user was in it
    for one, other in zip(*ran, strict=True):
        differ = set(one.files) ^ set(other.files)
        if one.calls != other.calls:
            differ |= set(one.calls) ^ set(other.calls) or set(one.calls)
        told.append({word[1:] for note in differ for word in note.split() if word.startswith("/")})
    return Imaged(
        scenario=scenario.name,
        users=users,
        came=1 + _OTHERS,
        hardened=scenario.hardened,
        bits_seen=any(step.calls for step in ran[0]),
        users_named=int(any(told)),
        where=tuple(sorted(set().union(*told))),
        image_bytes=sum(len(note) for steps in ran for step in steps for note in step.calls + step.files),
        seconds=round(perf_counter() - started, 1),
        differences=sum(map(bool, told)),
    )


def _run(scenario: Scenario, users: int, *, with_suspect: bool) -> list[Step]:
    """Feed batches: one user who is always there, unless left out, and others who come every second time.

    A pipe has no empty batches, and a service takes none, so there one of the others comes every time.
    """
    with process_of(scenario, users) as process:
        embedded = isinstance(process, Program)
        watched = _Watched(process)
        suspect = [_SUSPECT] * with_suspect
        others = [process.pool.users - 1 - number for number in range(_OTHERS)]
        if isinstance(process, Command):
            written = _FOLDER_WRITTEN if SHARDS in scenario.command else _FILE_WRITTEN
            process.written = lambda _: len(written.findall(watched.notes())) >= len(steps)
        steps = [watched.step()]
        for number in range(_BATCHES if embedded else _FEW):
            people = np.array(suspect + others[: _OTHERS if number % 2 else int(not embedded)], dtype=np.int64)
            process.feed(number, "short", people)
            for step in scenario.steps if embedded else ():
                process.do(step)
            steps.append(watched.step())
    return steps


class _Watched:
    """A folder, and the calls that a process has noted since the last batch."""

    def __init__(self, process: ProcessUnderAudit) -> None:
        self._folder, self._notes = process.imaged, process.handed / "calls"
        self._read = 0
        self._before: dict[str, os.stat_result] = {}

    def notes(self) -> str:
        """All that was noted so far."""
        return self._notes.read_text() if self._notes.exists() else ""

    def step(self) -> Step:
        """What has happened since the last step."""
        notes, shown = self.notes(), []
        fresh, self._read = notes[self._read :], len(notes)
        files = {str(path.relative_to(self._folder)): path.lstat() for path in sorted(self._folder.rglob("*"))}
        for name, now in files.items():
            facts = [f"mode {now.st_mode:o}, {now.st_size} bytes, {now.st_blocks} blocks, {now.st_nlink} links"]
            if before := self._before.get(name):
                facts += ["same file"] if before.st_ino == now.st_ino else []
                facts += ["written"] if before.st_mtime_ns != now.st_mtime_ns else []
                facts += ["changed"] if before.st_ctime_ns != now.st_ctime_ns else []
            shown.append(f"/{name} {', '.join(facts)}")
        self._before = files
        sleep(_TICK)
        return Step(fresh.splitlines(), shown)


def note_calls() -> None:
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

    def noted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def note_and_call(handle: int, *arguments: Any) -> Any:
            lengths = (each if isinstance(each, int) else len(each) for each in arguments)  # of content, its length
            note(name, Path(f"/proc/self/fd/{handle}"), *lengths)
            return call(handle, *arguments)

        return note_and_call

    sys.addaudithook(heard)
    for name in _WRITES:
        setattr(os, name, noted(name, getattr(os, name)))


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
