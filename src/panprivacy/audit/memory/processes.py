"""Processes under audit: what all of them share, and programs that embed the library.

A `ProcessUnderAudit` is started in a folder, does one step after the other, and says where its bits are. There are
programs, commands that read a pipe (`commands`), services, and services that read a broker (`services`).
"""

import atexit
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from signal import SIGKILL
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np

from panprivacy.audit.memory.batches import LONG, Batch, UserPool, bare, store
from panprivacy.audit.memory.estimators import START, STRANGERS, TIMES, TableLocation, times_of
from panprivacy.audit.memory.images import CannotImage
from panprivacy.audit.memory.scenarios import Scenario
from panprivacy.audit.memory.search import ReleasedCounts
from panprivacy.audit.memory.traces import Beside, TableVersion, Traces, secrets_of
from panprivacy.memory.hardening import AT_START


@dataclass(frozen=True)
class Trial:
    """One run of a scenario."""

    scenario: Scenario
    users: int
    hardened: bool
    """Whether the allocators of the process overwrite freed memory."""
    plants: tuple[str, ...] = ()
    """Functions, ``module:function``, that are called in the process before anything else: leaks to be found."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """More variables of the environment of the process."""

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the process: the modules of this one, and allocators as asked."""
        plain = {name: value for name, value in os.environ.items() if name not in AT_START}
        modules = os.pathsep.join(str(Path(folder).resolve()) for folder in sys.path)
        return plain | {"PYTHONPATH": modules} | (AT_START if self.hardened else {})

    @contextmanager
    def command(self, *words: str, **options: Any) -> "Iterator[subprocess.Popen[bytes]]":
        """Run ``panprivacy WORDS``; the process is killed in the end."""
        planted = "".join("import {0}; {0}.{1}(); ".format(*plant.split(":")) for plant in self.plants)
        code = f"{planted}from panprivacy.cli import main; main()"
        arguments = [sys.executable, "-c", code, *words]
        with subprocess.Popen(arguments, env=self.environment | dict(self.variables), **options) as process:
            try:
                yield process
            finally:
                process.kill()


@dataclass(frozen=True)
class Folders:
    """Where a process works."""

    imaged: Path
    """What it keeps there is part of its image."""
    handed: Path
    """What the auditor hands over: batches, settings, brokers."""


@contextmanager
def folders() -> Iterator[Folders]:
    """New folders, which are removed in the end."""
    with TemporaryDirectory(prefix="panprivacy-audit-") as name:
        made = Folders(Path(name).resolve() / "imaged", Path(name).resolve() / "handed")
        made.imaged.mkdir()
        made.handed.mkdir()
        yield made


class ProcessUnderAudit:
    """A process that takes one step after the other, and that is imaged while it waits for the next."""

    pid: int
    most: int | None = None
    """Users of a batch, where there is a limit."""

    def __init__(self, trial: Trial, pool: UserPool, folders: Folders) -> None:
        self.trial, self.pool, self.folders = trial, pool, folders
        self._open = ExitStack()

    def feed(self, number: int, step: str, batch: Batch) -> Beside:
        """Have a batch counted, and saved where the state is kept; returns what came with the ids."""
        raise NotImplementedError

    def do(self, step: str) -> None:
        """Do a step that is no batch."""
        raise NotImplementedError

    def versions(self) -> list[TableVersion]:
        """The bits of all tables at present."""
        raise NotImplementedError

    def add_secrets(self, traces: Traces) -> None:
        """Look for secrets that belong to no batch."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


class ForkServer:
    """A process that has loaded the library and does nothing but fork: each child is a program under audit."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair()
        module = "panprivacy.audit.memory.imaged_process"
        with theirs:
            arguments = [sys.executable, "-m", module, str(theirs.fileno())]
            options: dict[str, Any] = {"pass_fds": [theirs.fileno()], "start_new_session": True}
            self._process = subprocess.Popen(arguments, env=dict(environment), **options)
        atexit.register(self._end)

    def fork(self, plan: Path, handles: list[int]) -> int:
        """Start a program with these open files; returns its number."""
        socket.send_fds(self._socket, [str(plan).encode()], handles)
        return int.from_bytes(self._socket.recv(8), "little")

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def _fork_server(environment: frozenset[tuple[str, str]]) -> ForkServer:
    """The fork server of an environment; it ends with this process."""
    return ForkServer(dict(environment))


class Program(ProcessUnderAudit):
    """A program that embeds the library. It tells which keys its coins drew, and which counts were released."""

    def __init__(self, trial: Trial, pool: UserPool, folders: Folders) -> None:
        super().__init__(trial, pool, folders)
        self._days = 0
        self._keys, self._counts = b"", b""
        plan = {"kind": trial.scenario.kind, "users": trial.users, "folder": str(folders.imaged)}
        plan |= {"listed": self._listed, "plants": trial.plants, "variables": dict(trial.variables)}
        path = folders.handed / "plan.json"
        path.write_text(json.dumps(plan))
        pipes = [os.pipe() for _ in range(5)]
        given = [pipes[0][0], *(pipe[1] for pipe in pipes[1:])]
        kept = [pipes[0][1], *(pipe[0] for pipe in pipes[1:])]
        self._steps, self._locations, self._errors, self._told_keys, self._told_counts = (
            self._open.enter_context(os.fdopen(handle, "rb" if number else "wb", buffering=-1 if number == 1 else 0))
            for number, handle in enumerate(kept)
        )
        self.pid = _fork_server(frozenset(trial.environment.items())).fork(path, given)
        self._open.callback(self._kill)
        for handle in given:
            os.close(handle)
        for told in (self._told_keys, self._told_counts):
            os.set_blocking(told.fileno(), False)
        self._wait()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, SIGKILL)

    @property
    def _listed(self) -> str | None:
        """The file with the list of users, where the universe is a list."""
        if self.pool.listed is None:
            return None
        path = self.folders.handed / ("listed.txt" if self.pool.text else "listed")
        path.write_bytes(np.sort(self.pool.ids).tobytes())
        return str(path)

    def feed(self, number: int, step: str, batch: Batch) -> Beside:
        kind, container = self.trial.scenario.kind, self.trial.scenario.container
        ids, beside = self.pool.given(batch.events), Beside()
        if kind.endswith(STRANGERS) and step != "singly":
            ids, inside = self.pool.among_strangers(ids, number)
            beside = Beside(mask=inside, numbers=None if self.pool.text else ids.astype(np.uint64))
        elif kind.endswith(TIMES):
            moments = times_of(ids, self._days, np.zeros(len(ids), dtype=np.int64))
            beside = Beside(times=moments.view("datetime64[us]"), numbers=(moments - START).view(np.uint64))
        stored = store(ids, bare(container) if step == "singly" else container, self.folders.handed / f"batch{number}")
        self._tell("feed singly" if step == "singly" else "feed", batch=asdict(stored))
        return beside

    def do(self, step: str) -> None:
        self._days += step == "next_window"
        self._tell(step)

    def _tell(self, verb: str, **more: Any) -> None:
        """Have a step done."""
        self._steps.write(json.dumps({"verb": verb, **more}).encode() + b"\n")
        self._wait()

    def _wait(self) -> None:
        line = self._locations.readline()
        if not line:
            raise CannotImage(f"the process under audit has ended: {self._errors.read().decode()}")
        self._tables = [TableLocation(**table) for table in json.loads(line)]
        self._keys += self._told_keys.read() or b""
        self._counts += self._told_counts.read() or b""

    def versions(self) -> list[TableVersion]:
        return [TableVersion.at(table, self.pid) for table in self._tables]

    def add_secrets(self, traces: Traces) -> None:
        traces.add_keys(secrets_of(self._keys, self.trial.users, LONG))
        traces.released = ReleasedCounts.told(self._counts)
