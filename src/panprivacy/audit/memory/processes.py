"""Processes under audit: programs that embed the library, and commands that read a pipe, as ``panprivacy density -``.

A `ProcessUnderAudit` is started in a folder, does one step after the other, and says where its bits are. `services` has
two more kinds of them.
"""

import atexit
import fcntl
import json
import os
import re
import socket
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from signal import SIGKILL, SIGUSR1
from tempfile import TemporaryDirectory
from threading import Thread
from time import monotonic, sleep
from typing import Any, Self

import numpy as np

from panprivacy.audit.memory.batches import LETTERS, LONG, Batch, UserPool, bare, letters, store
from panprivacy.audit.memory.estimators import (
    EPSILON,
    RELEASES,
    START,
    STRANGERS,
    TIMES,
    TableLocation,
    shards_of,
    times_of,
)
from panprivacy.audit.memory.images import (
    CannotImage,
    Image,
    about_threads,
    bits_of,
    family,
    memory_of,
    near_family,
    peek,
)
from panprivacy.audit.memory.scenarios import FIRST_DAY, LIST, SHARDS, STATE, Scenario
from panprivacy.audit.memory.search import ReleasedCounts
from panprivacy.audit.memory.traces import Beside, TableVersion, Traces, secrets_of
from panprivacy.folder import StateFolder
from panprivacy.ingest.files import STDIN
from panprivacy.kernels import ALWAYS, READERS, SOME, load_kernels
from panprivacy.memory.hardening import AT_START, STARTED
from panprivacy.periods import DAY

_PAGE = 4096
_CLINICS = (b"north", b"south", b"west")
_OPTIONS = ("-c", "user", "-e", str(EPSILON), "--releases", str(RELEASES), "--quiet")
_PATIENCE = 60.0  # seconds for a batch
_ASLEEP = 10  # looks in a row, 20 ms or more apart, at which all threads sleep: the process is taken to wait
_LENGTH = 2**26  # bytes of a file of which a server answers with parts
_EMPTY = b"<ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>"
_S3 = {"AWS_ACCESS_KEY_ID": "audited", "AWS_SECRET_ACCESS_KEY": "audited", "AWS_DEFAULT_REGION": "us-east-1"}
_WRITTEN = 1.5  # seconds after which a state must be on disk


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
    def at_start(self) -> frozenset[tuple[str, str]]:
        """Variables that a process reads when it starts: where the modules of this process are, and its allocators."""
        modules = os.pathsep.join(str(Path(folder).resolve()) for folder in sys.path)
        return frozenset({"PYTHONPATH": modules, **(AT_START if self.hardened else {})}.items())

    @property
    def environment(self) -> dict[str, str]:
        """All variables of the process."""
        plain = {name: value for name, value in os.environ.items() if name not in AT_START}
        return plain | dict(self.at_start) | dict(self.variables)

    @contextmanager
    def command(self, *words: str, **options: Any) -> "Iterator[subprocess.Popen[bytes]]":
        """Run ``panprivacy WORDS``. It starts itself anew, leaks are planted then, and it is killed in the end."""
        planted = "".join("import {0}; {0}.{1}(); ".format(*plant.split(":")) for plant in self.plants)
        code = f"import os\nif {STARTED!r} in os.environ: {planted or 'pass'}\nfrom panprivacy.cli import main; main()"
        arguments = [sys.executable, "-c", code, *words]
        with subprocess.Popen(arguments, env=self.environment, **options) as process:
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
    origin: Image | None = None
    """The memory of the process that this one is a fork of, where that knew no secret."""

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
        # A first run compiles them here. Where LLVM has worked, the heap has holes, over which small integers scatter.
        load_kernels((*ALWAYS, *SOME, *READERS))
        self._socket, theirs = socket.socketpair()
        module = "panprivacy.audit.memory.imaged_process"
        with theirs:
            arguments = [sys.executable, "-m", module, str(theirs.fileno())]
            options: dict[str, Any] = {"pass_fds": [theirs.fileno()], "start_new_session": True}
            self._process = subprocess.Popen(arguments, env=dict(environment), **options)
        atexit.register(self._end)
        self._hear(1)
        self._memory = list(memory_of(self._process.pid))  # before there is a fork, with which it may share pages

    def fork(self, plan: Path, handles: list[int]) -> int:
        """Start a program with these open files; returns its number."""
        socket.send_fds(self._socket, [str(plan).encode()], handles)
        return int.from_bytes(self._hear(8), "little")

    def image_for(self, child: int) -> Image:
        """What a fork of it began with."""
        return Image([replace(segment, process=child) for segment in self._memory])

    def _hear(self, size: int) -> bytes:
        if not (heard := self._socket.recv(size)):
            raise CannotImage("the process that forks the programs under audit has ended")
        return heard

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def _fork_server(at_start: frozenset[tuple[str, str]]) -> ForkServer:
    """The fork server whose allocators and modules are these; it ends with this process."""
    plain = {name: value for name, value in os.environ.items() if name not in AT_START}
    return ForkServer(plain | dict(at_start))


class Program(ProcessUnderAudit):
    """A program that embeds the library. It tells which keys its coins drew, and which counts were released."""

    def __init__(self, trial: Trial, pool: UserPool, folders: Folders) -> None:
        super().__init__(trial, pool, folders)
        self._days = 0
        self._keys, self._counts = b"", b""
        plan = {"kind": trial.scenario.kind, "users": trial.users, "folder": str(folders.imaged)}
        plan |= {"listed": self._listed, "plants": trial.plants, "variables": trial.environment}
        path = folders.handed / "plan.json"
        path.write_text(json.dumps(plan))
        pipes = [os.pipe() for _ in range(5)]
        given = [pipes[0][0], *(pipe[1] for pipe in pipes[1:])]
        kept = [pipes[0][1], *(pipe[0] for pipe in pipes[1:])]
        self._steps, self._locations, self._errors, self._told_keys, self._told_counts = (
            self._open.enter_context(os.fdopen(handle, "rb" if number else "wb", buffering=-1 if number == 1 else 0))
            for number, handle in enumerate(kept)
        )
        server = _fork_server(trial.at_start)
        self.pid = server.fork(path, given)
        self.origin = server.image_for(self.pid)
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


# --- commands ---------------------------------------------------------------------------------------------------------


class Command(ProcessUnderAudit):
    """A command that is fed through a pipe.

    Each row has a column that was not asked for, which must leave nothing either, and one with a category; and a time,
    where releases go by times.
    """

    def __init__(self, trial: Trial, pool: UserPool, folders: Folders) -> None:
        super().__init__(trial, pool, folders)
        words, self._format, self._header = trial.scenario.pipe, trial.scenario.form.lower(), b""
        self._timed, self._skips, self._day = "--time" in words, "--skip-outside" in words, 0
        self._state = folders.imaged / (SHARDS if SHARDS in words else STATE) if "--state" in words else None
        listed = folders.handed / LIST
        listed.write_text("\n".join(["user", *map(str, [] if pool.listed is None else pool.listed)]))
        given = {"USERS": [str(trial.users)], LIST: [str(listed)], STDIN: self._files()}
        words = (*(each for word in words for each in given.get(word, [word])), *_OPTIONS, "-f", self._format)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        self._process = self._open.enter_context(trial.command(*words, cwd=folders.imaged, **pipes))
        self.pid = self._process.pid
        self.written: Callable[[float], bool] = self._has_written
        """Whether everything that was counted is on disk, given the seconds since the command has worked."""
        self._write(b"user,note,clinic,at\n" if self._timed else b"user,note,clinic\n")
        self._wait(fed=False)
        deadline = monotonic() + _PATIENCE
        while not self.versions() and monotonic() < deadline:  # it may still be loading modules
            self._wait(fed=False)

    def _files(self) -> list[str]:
        """What the command reads."""
        return [STDIN]

    def feed(self, number: int, step: str, batch: Batch) -> Beside:  # noqa: ARG002
        random, size = np.random.default_rng(number), len(batch.events)
        notes, times, mask = letters(random, size), None, None
        clinics = np.array(_CLINICS)[random.integers(0, len(_CLINICS), size)]
        columns = [self.pool.given(batch.events).astype(f"S{LETTERS}"), notes, clinics]
        if self._timed:
            midnight = np.datetime64(FIRST_DAY, "us") + self._day * np.timedelta64(1, "D")
            times = midnight + random.integers(0, DAY, size)
            columns.append(np.datetime_as_string(times).astype(np.bytes_))
        lines = [b",".join(row) + b"\n" for row in zip(*(column.tolist() for column in columns), strict=True)]
        if self._skips:  # each row at random before or after the row of a stranger
            first = random.integers(0, 2, size).astype(np.bool_)
            mask = np.stack([first, ~first], axis=1).ravel()
            stranger = b"%d,%s,%s\n" % (self.pool.users, b"-" * LETTERS, _CLINICS[0])
            lines = [line + stranger if before else stranger + line for line, before in zip(lines, first, strict=True)]
        self._write(b"".join(lines))
        self._wait()
        return Beside(texts=notes, times=times, mask=mask)

    def do(self, step: str) -> None:  # noqa: ARG002 - all else is a release
        """Let the command spend a release; by times, the next batch ends the period, and is cut from it."""
        if self._timed:
            self._day += 1
        else:
            self._process.send_signal(SIGUSR1)
            self._wait()

    def versions(self) -> list[TableVersion]:
        """The bits, read off the shards, or off their pages."""
        if self._state is None or self._state.name == STATE:
            return versions_of(self.pid, self.pool)
        if not self._state.exists():
            return []
        return [TableVersion.at(location, self.pid) for location in shards_of(StateFolder(self._state))]

    def _write(self, rows: bytes) -> None:
        """Send rows. The first are the header, which every file and every Arrow stream has."""
        if self._format == "csv" and not self.trial.scenario.remote:
            self._send(rows)
        elif self._header:
            self._send(_packed(self._header + rows, self._format, in_file=self.trial.scenario.remote))
        self._header = self._header or rows

    def _send(self, content: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(content)
            self._process.stdin.flush()
        except BrokenPipeError:
            self._fail("the command has ended")

    def _wait(self, *, fed: bool = True) -> None:
        """Wait until the command has read its pipe and sleeps, and what it was fed is written, if it has a state."""
        assert self._process.stdin is not None
        active, before, asleep, saves = monotonic(), -1, 0, fed and self._state is not None
        deadline = active + _PATIENCE
        while asleep < _ASLEEP or (saves and not self.written(monotonic() - active)):
            if self._process.poll() is not None:
                self._fail("the command has ended")
            if monotonic() > deadline:
                self._fail(f"the command did not take a batch within {_PATIENCE:g} s")
            waiting = struct.unpack("i", fcntl.ioctl(self._process.stdin.fileno(), termios.FIONREAD, b"\0" * 4))[0]
            worked = _worked(self.pid)
            asleep += 1
            if waiting or worked < 0 or worked != before:
                before, active, asleep = worked, monotonic(), 0
            sleep(0.02)

    def _fail(self, why: str) -> None:
        self._process.kill()
        assert self._process.stderr is not None
        raise CannotImage(f"{why}: {self._process.stderr.read().decode()}")

    def _has_written(self, seconds: float) -> bool:
        """Whether a state file has the bits that are in memory; a folder is given its time."""
        assert self._state is not None
        if seconds > _WRITTEN:
            return True
        if self._state.name != STATE or not self._state.exists():
            return False
        return [now.octets.tobytes() for now in self.versions()] == [
            version_in(self._state, self.pool).octets.tobytes()
        ]


class Fetching(Command):
    """A command that reads files from a web server: every batch is a file, and then it waits for the next."""

    def __init__(self, trial: Trial, pool: UserPool, folders: Folders) -> None:
        self._server = FileServer(len(trial.scenario.steps) + 1, ranged=trial.scenario.ranged)
        store = {**trial.variables, **_S3, "AWS_ENDPOINT_URL": self._server.url}
        super().__init__(replace(trial, variables=store), pool, folders)
        self._open.callback(self._server.close)

    def _files(self) -> list[str]:
        start = "s3://bucket" if self.trial.scenario.ranged else self._server.url
        return [f"{start}/{number}" for number in range(len(self._server.files))]

    def _send(self, content: bytes) -> None:
        """Serve a file, and wait until the command asks for the one after it."""
        self._server.serve(content)
        deadline = monotonic() + _PATIENCE
        while not self._server.is_done:
            if self._process.poll() is not None or monotonic() > deadline:
                self._fail("the command has ended, or did not ask for the next file")
            sleep(0.02)


class FileServer:
    """Answers requests for files that come one after the other: a file that is not there yet is waited for.

    With `ranged`, it answers as S3 does, with parts of them. A command asks for the lengths of all files before it
    reads the first, so all have the same length, and zeros before their index.
    """

    def __init__(self, many: int, *, ranged: bool = False) -> None:
        from http.server import ThreadingHTTPServer

        self.files: list[Future[bytes]] = [Future() for _ in range(many)]
        self._asked = [0] * many
        self._next = self._before = 0
        self._ranged = ranged
        self._listening = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._listening.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._listening.server_port}"
        Thread(target=self._listening.serve_forever, daemon=True).start()

    def _handler(self) -> Any:
        from http.server import BaseHTTPRequestHandler

        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                """Tell the length at most: the file may not be there yet."""
                self._begin(200, _LENGTH if server._ranged else None)

            def do_GET(self) -> None:
                """Answer with a file, or a part of it, as soon as it is there."""
                name = self.path.partition("?")[0].rpartition("/")[2]
                if not name.isdecimal():  # what is below a file: nothing is
                    self._begin(200, len(_EMPTY))
                    self.wfile.write(_EMPTY)
                    return
                asked = re.fullmatch(r"bytes=([0-9]+)-([0-9]+)", self.headers["Range"] or "")
                part = slice(None)
                if server._ranged and asked:
                    part = slice(int(asked[1]), int(asked[2]) + 1)
                    self._begin(206, part.stop - part.start)
                else:
                    self.do_HEAD()
                server._asked[int(name)] += 1
                with suppress(OSError):  # who asked only whether it is there has gone
                    self.wfile.write(server.files[int(name)].result()[part])

            def _begin(self, status: int, length: int | None) -> None:
                self.send_response(status)
                if length is not None:
                    self.send_header("content-length", str(length))
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        return Handler

    def serve(self, content: bytes) -> None:
        """Let the next file be there."""
        self._next += 1
        self._before = self._asked[self._next]
        self.files[self._next - 1].set_result(_lengthened(content) if self._ranged else content)

    @property
    def is_done(self) -> bool:
        """Whether the file after the last one that was served has been asked for since."""
        return self._asked[self._next] > self._before

    def close(self) -> None:
        """Stop listening; who waits for a file gets none."""
        for file in self.files[self._next :]:
            file.set_result(b"")
        self._listening.shutdown()
        self._listening.server_close()


def _lengthened(file: bytes) -> bytes:
    """A Parquet or Arrow file with zeros before its index, which is found from the end of the file."""
    mark = 4 if file.startswith(b"PAR1") else 6
    index = int.from_bytes(file[-mark - 4 : -mark], "little") + mark + 4
    return file[:-index] + bytes(_LENGTH - len(file)) + file[-index:]


def _packed(rows: bytes, form: str, *, in_file: bool) -> bytes:
    """Rows of CSV in another form, compressed by Zstandard; Arrow as a file or as a stream."""
    import polars as pl

    if form == "csv":
        return rows
    packed, table = BytesIO(), pl.read_csv(rows)
    write = table.write_parquet if form == "parquet" else table.write_ipc if in_file else table.write_ipc_stream
    write(packed, compression="zstd")
    return packed.getvalue()


def versions_of(process: int, pool: UserPool) -> list[TableVersion]:
    """The bits of a program, read off the pages that hold nothing else; none if there are no such pages."""
    octets = -(-pool.slots_in_all // 64) * 8
    pages = -(-octets // _PAGE) * _PAGE
    for member in family(process):
        places = bits_of(member)
        for start, length in sorted(places, key=lambda place: place[1] != pages):
            if length >= pages:
                return [TableVersion.read(_location(pool, start, octets), peek(member, start, octets))]
    return []


def version_in(file: Path, pool: UserPool) -> TableVersion:
    """The bits of a state file: they stand before the checksum that ends it."""
    octets = -(-pool.slots_in_all // 64) * 8
    return TableVersion.at(_location(pool, file.stat().st_size - sha256().digest_size - octets, octets, str(file)), 0)


def _location(pool: UserPool, address: int, octets: int, file: str | None = None) -> TableLocation:
    return TableLocation(address, octets, pool.slots_in_all, False, epoch=0, offset=0, each=pool.bits_each, file=file)


def _worked(process: int) -> int:
    """Ticks for which a process and its descendants have worked; -1 if a thread works now, or waits for its turn."""
    ticks = 0
    for member in near_family(process):
        for stat in about_threads(member, "stat"):
            state, *fields = stat.rpartition(b")")[2].split()
            if state != b"S":
                return -1
            ticks += int(fields[10]) + int(fields[11])
    return ticks
