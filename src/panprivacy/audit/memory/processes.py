"""Processes under audit: programs that embed the library, and commands such as ``panprivacy density -``.

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
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cache
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from signal import SIGKILL, SIGUSR1
from tempfile import TemporaryDirectory
from threading import Thread
from time import monotonic, sleep
from typing import Any, Self

import numpy as np

from panprivacy.audit.memory import estimators
from panprivacy.audit.memory.batches import LETTERS, LONG, People, UserPool, among_strangers, encoded, letters, store
from panprivacy.audit.memory.images import CannotImage, Image, about_threads, bits_of, family, memory_of, near_family
from panprivacy.audit.memory.scenarios import FIRST_DAY, LIST, SHARDS, STATE, STORE, Scenario
from panprivacy.audit.memory.traces import Beside, TableVersion, Traces, secrets_of
from panprivacy.folder import StateFolder
from panprivacy.ingest.files import STDIN
from panprivacy.kernels import ALWAYS, READERS, SOME, load_kernels
from panprivacy.memory.hardening import AT_START, STARTED
from panprivacy.periods import DAY

FOLDER, NOTES = "PANPRIVACY_AUDIT_FOLDER", "PANPRIVACY_AUDIT_NOTES"
"""Variables of the environment: which folder is imaged, and the file in which calls may be noted."""
_PAGE = 4096
_CLINICS = (b"north", b"south", b"west")
_OPTIONS = ("-c", "user", "-e", str(estimators.EPSILON), "--releases", str(estimators.RELEASES), "--quiet")
_PATIENCE = 60.0  # seconds for a batch
_ASLEEP = 10  # looks in a row, 20 ms or more apart, at which all threads sleep: the process is taken to wait
_LENGTH = 2**26  # bytes of a file of which a server answers with parts
_EMPTY = b"<ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>"
_S3 = {"AWS_ACCESS_KEY_ID": "audited", "AWS_SECRET_ACCESS_KEY": "audited", "AWS_DEFAULT_REGION": "us-east-1"}
_WRITTEN = 1.5  # seconds after which a state must be on disk


class ProcessUnderAudit:
    """A process that takes one step after the other, and that is imaged while it waits for the next.

    It works in the folder `imaged`, whose files are part of its image. What the auditor hands over is in `handed`.
    """

    pid: int
    own_key = True
    """Whether it draws a secret key of its own."""
    most: int | None = None
    """Users of a batch, where there is a limit."""
    origin: Image | None = None
    """The memory of the process that this one is a fork of, where that knew no secret."""

    def __init__(self, scenario: Scenario, users: int) -> None:
        self.scenario, self.users = scenario, users
        self.pool = UserPool(scenario.kind, users, scenario.container, own_key=self.own_key)
        self._octets = -(-self.pool.slots_in_all // 64) * 8

    def start(self) -> None:
        """Start it, and wait until it waits."""
        raise NotImplementedError

    def feed(self, number: int, step: str, people: People) -> Beside:
        """Have a batch counted, and saved where the state is kept; returns what came with the ids."""
        raise NotImplementedError

    def do(self, step: str) -> None:
        """Do a step that is no batch."""
        raise NotImplementedError

    def add_secrets(self, traces: Traces) -> None:
        """Look for secrets that belong to no batch."""

    def versions(self) -> list[TableVersion]:
        """The bits of all tables at present, read off the pages that hold nothing else; none without such pages."""
        pages = -(-self._octets // _PAGE) * _PAGE
        for member in family(self.pid):
            for start, length in sorted(bits_of(member), key=lambda place: place[1] != pages):
                if length >= pages:
                    return [TableVersion.at(self._location(start), member)]
        return []

    def version_in(self, file: Path) -> TableVersion:
        """The bits of a state file: they stand before the checksum that ends it."""
        return TableVersion.at(self._location(file.stat().st_size - sha256().digest_size - self._octets, str(file)), 0)

    def _location(self, address: int, file: str | None = None) -> estimators.TableLocation:
        size, each = self.pool.slots_in_all, self.pool.bits_each
        return estimators.TableLocation(address, self._octets, size, False, epoch=0, offset=0, each=each, file=file)

    def _command(self, *words: str, **options: Any) -> "subprocess.Popen[bytes]":
        """Run ``panprivacy WORDS``. It starts itself anew, leaks are planted then, and it is killed in the end."""
        planted = "".join("import {0}; {0}.{1}(); ".format(*plant.split(":")) for plant in self.scenario.plants)
        code = f"import os\nif {STARTED!r} in os.environ: {planted or 'pass'}\nfrom panprivacy.cli import main; main()"
        process = subprocess.Popen([sys.executable, "-c", code, *words], env=self.environment, **options)
        self._open.enter_context(process)
        self._open.callback(process.kill)
        self.pid = process.pid
        return process

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            self._open = opened
            folder = Path(opened.enter_context(TemporaryDirectory(prefix="panprivacy-audit-"))).resolve()
            self.imaged, self.handed = folder / "imaged", folder / "handed"
            self.imaged.mkdir()
            self.handed.mkdir()
            noted = {FOLDER: str(self.imaged), NOTES: str(self.handed / "calls")}
            self.environment = _environment(self.scenario.hardened) | noted
            self.start()
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


def _environment(hardened: bool) -> dict[str, str]:
    """Variables of a process: where the modules of this process are, and whether its allocators overwrite."""
    plain = {name: value for name, value in os.environ.items() if name not in AT_START}
    modules = os.pathsep.join(str(Path(folder).resolve()) for folder in sys.path)
    return plain | {"PYTHONPATH": modules} | (AT_START if hardened else {})


# --- programs ---------------------------------------------------------------------------------------------------------


class ForkServer:
    """A process that has loaded the library and does nothing but fork: each child is a program under audit."""

    def __init__(self, environment: dict[str, str]) -> None:
        # A first run compiles them here. Where LLVM has worked, the heap has holes, over which small integers scatter.
        load_kernels((*ALWAYS, *SOME, *READERS))
        self._socket, theirs = socket.socketpair()
        module = "panprivacy.audit.memory.imaged_process"
        with theirs:
            arguments = [sys.executable, "-m", module, str(theirs.fileno())]
            options: dict[str, Any] = {"pass_fds": [theirs.fileno()], "start_new_session": True}
            self._process = subprocess.Popen(arguments, env=environment, **options)
        atexit.register(self._end)
        self._hear(1)
        self._memory = list(memory_of(self._process.pid))  # before there is a fork, with which it may share pages

    def fork(self, plan: Path, steps: socket.socket) -> tuple[int, Image]:
        """Start a program that gets its steps from a socket; returns its number, and the memory it began with."""
        socket.send_fds(self._socket, [str(plan).encode()], [steps.fileno()])
        child = int.from_bytes(self._hear(8), "little")
        return child, Image([replace(segment, process=child) for segment in self._memory])

    def _hear(self, size: int) -> bytes:
        if not (heard := self._socket.recv(size)):
            raise CannotImage("the process that forks the programs under audit has ended")
        return heard

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def _fork_server(hardened: bool) -> ForkServer:
    """The fork server whose allocators are these; it ends with this process."""
    return ForkServer(_environment(hardened))


class Program(ProcessUnderAudit):
    """A program that embeds the library. It tells which keys its coins drew, and which counts were released."""

    own_key = False

    def start(self) -> None:
        self._days = 0
        if self.pool.listed is not None:
            np.save(self.handed / "listed.npy", np.sort(self.pool.ids))
        plan = {"kind": self.scenario.kind, "users": self.users, "folder": str(self.imaged)}
        path = self.handed / "plan.json"
        path.write_text(json.dumps(plan | {"plants": self.scenario.plants, "variables": self.environment}))
        ours, theirs = socket.socketpair()
        self._steps = self._open.enter_context(self._open.enter_context(ours).makefile("rwb"))
        with theirs:
            self.pid, self.origin = _fork_server(self.scenario.hardened).fork(path, theirs)
        self._open.callback(self._kill)
        self._wait()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, SIGKILL)

    def feed(self, number: int, step: str, people: People) -> Beside:
        kind, ids, beside = self.scenario.kind, self.pool.ids[people], Beside()
        if kind.endswith(estimators.STRANGERS) and step != "singly":
            random = np.random.default_rng(number)
            strangers = letters(random, len(ids)) if self.pool.text else random.integers(2**41, 2**42, len(ids))
            mixed, inside = among_strangers(random, {"user": ids}, [strangers])
            ids = mixed["user"]
            beside = Beside(mask=inside, numbers=None if self.pool.text else ids.astype(np.uint64))
        elif kind.endswith(estimators.TIMES):
            moments = estimators.times_of(ids, self._days, np.zeros(len(ids), dtype=np.int64))
            beside = Beside(times=moments.view("datetime64[us]"), numbers=(moments - estimators.START).view(np.uint64))
        stored = store(ids, self.scenario.container, self.handed / f"batch{number}", bare=step == "singly")
        self._tell("feed_one" if step == "singly" else "feed", batch=stored)
        return beside

    def do(self, step: str) -> None:
        self._days += step == "next_window"
        self._tell(step)

    def _tell(self, verb: str, **more: Any) -> None:
        """Have a step done."""
        self._steps.write(json.dumps({"verb": verb, **more}).encode() + b"\n")
        self._steps.flush()
        self._wait()

    def _wait(self) -> None:
        if not (line := self._steps.readline()):
            raise CannotImage(f"the process under audit has ended: {(self.handed / 'errors').read_text()}")
        self._tables = [estimators.TableLocation(**table) for table in json.loads(line)]

    def versions(self) -> list[TableVersion]:
        return [TableVersion.at(table, self.pid) for table in self._tables]

    def add_secrets(self, traces: Traces) -> None:
        traces.add_keys(secrets_of((self.handed / "keys").read_bytes(), self.users, LONG))
        traces.released = (self.handed / "counts").read_bytes()


# --- commands ---------------------------------------------------------------------------------------------------------


class Command(ProcessUnderAudit):
    """A command that is fed through a pipe, or that reads files from a web server: every batch is a file.

    Each row has a column that was not asked for, which must leave nothing either, and one with a category; and a time,
    where releases go by times.
    """

    def start(self) -> None:
        scenario, words = self.scenario, self.scenario.command
        self._timed, self._skips, self._day = "--time" in words, "--skip-outside" in words, 0
        self._state = self.imaged / (SHARDS if SHARDS in words else STATE) if "--state" in words else None
        self.written: Callable[[float], bool] = self._has_written
        """Whether everything that was counted is on disk, given the seconds since the command has worked."""
        self._server: FileServer | None = None
        forms, files = {"CSV": "rows", "Arrow": "compressed Arrow"}, [STDIN]
        if scenario.fed_by != "pipe":
            self._server = FileServer(len(scenario.steps) + 1, ranged=scenario.fed_by == STORE)
            self._open.callback(self._server.close)
            self.environment |= {**_S3, "AWS_ENDPOINT_URL": self._server.url}
            start = "s3://bucket" if scenario.fed_by == STORE else self._server.url
            forms, files = {"Arrow": "Arrow file"}, [f"{start}/{number}" for number in range(len(self._server.files))]
        self._form = forms.get(scenario.form, scenario.form)
        listed = self.handed / LIST
        listed.write_text("\n".join(["user", *map(str, [] if self.pool.listed is None else self.pool.listed)]))
        given = {"USERS": [str(self.users)], LIST: [str(listed)], STDIN: files}
        words = (*(each for word in words for each in given.get(word, [word])), *_OPTIONS, "-f", scenario.form.lower())
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        self._process = self._command(*words, cwd=self.imaged, **pipes)
        if self._form == "rows":
            self._send(b"user,note,clinic,at\n" if self._timed else b"user,note,clinic\n")
        self._wait(fed=False)
        deadline = monotonic() + _PATIENCE
        while not self.versions() and monotonic() < deadline:  # it may still be loading modules
            self._wait(fed=False)

    def feed(self, number: int, step: str, people: People) -> Beside:  # noqa: ARG002
        random, size = np.random.default_rng(number), len(people)
        notes, times, mask = letters(random, size), None, None
        columns = {"user": self.pool.ids[people], "note": notes}
        columns["clinic"] = np.array(_CLINICS)[random.integers(0, len(_CLINICS), size)]
        if self._timed:
            midnight = np.datetime64(FIRST_DAY, "us") + self._day * np.timedelta64(1, "D")
            times = midnight + random.integers(0, DAY, size)
            columns["at"] = np.datetime_as_string(times).astype(np.bytes_)
        if self._skips:
            columns, mask = among_strangers(random, columns, (self.pool.users, b"-" * LETTERS, _CLINICS[0]))
        self._send(encoded(self._form, columns))
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
            return super().versions()
        if not self._state.exists():
            return []
        return [TableVersion.at(location, self.pid) for location in estimators.shards_of(StateFolder(self._state))]

    def _send(self, content: bytes) -> None:
        """Write to the pipe; or serve a file, and wait until the command asks for the one after it."""
        if self._server is None:
            assert self._process.stdin is not None
            with suppress(BrokenPipeError):  # the command has ended, which `_check` will tell
                self._process.stdin.write(content)
                self._process.stdin.flush()
            return
        self._server.serve(content)
        deadline = monotonic() + _PATIENCE
        while not self._server.is_done:
            self._check(deadline)
            sleep(0.02)

    def _wait(self, *, fed: bool = True) -> None:
        """Wait until the command has read its pipe and sleeps, and what it was fed is written, if it has a state."""
        assert self._process.stdin is not None
        active, before, asleep, saves = monotonic(), -1, 0, fed and self._state is not None
        deadline = active + _PATIENCE
        while asleep < _ASLEEP or (saves and not self.written(monotonic() - active)):
            self._check(deadline)
            waiting = struct.unpack("i", fcntl.ioctl(self._process.stdin.fileno(), termios.FIONREAD, b"\0" * 4))[0]
            worked = _worked(self.pid)
            asleep += 1
            if waiting or worked < 0 or worked != before:
                before, active, asleep = worked, monotonic(), 0
            sleep(0.02)

    def _check(self, deadline: float) -> None:
        if self._process.poll() is not None or monotonic() > deadline:
            self._process.kill()
            assert self._process.stderr is not None
            why = f"the command has ended, or did not take a batch within {_PATIENCE:g} s"
            raise CannotImage(f"{why}: {self._process.stderr.read().decode()}")

    def _has_written(self, seconds: float) -> bool:
        """Whether a state file has the bits that are in memory; a folder is given its time."""
        assert self._state is not None
        if seconds > _WRITTEN:
            return True
        if self._state.name != STATE or not self._state.exists():
            return False
        return [now.octets.tobytes() for now in self.versions()] == [self.version_in(self._state).octets.tobytes()]


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


class FileServer(ThreadingHTTPServer):
    """Answers requests for files that come one after the other: a file that is not there yet is waited for.

    With `ranged`, it answers as S3 does, with parts of them. A command asks for the lengths of all files before it
    reads the first, so all have the same length, and zeros before their index.
    """

    daemon_threads = True

    def __init__(self, many: int, *, ranged: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), _FileRequest)
        self.files: list[Future[bytes]] = [Future() for _ in range(many)]
        self.asked = [0] * many
        """How often each was asked for."""
        self.ranged = ranged
        self.url = f"http://127.0.0.1:{self.server_port}"
        self._next = self._before = 0
        Thread(target=self.serve_forever, daemon=True).start()

    def serve(self, content: bytes) -> None:
        """Let the next file be there."""
        self._next += 1
        self._before = self.asked[self._next]
        if self.ranged:  # a Parquet or Arrow file, whose index is found from its end
            mark = 4 if content.startswith(b"PAR1") else 6
            index = int.from_bytes(content[-mark - 4 : -mark], "little") + mark + 4
            content = content[:-index] + bytes(_LENGTH - len(content)) + content[-index:]
        self.files[self._next - 1].set_result(content)

    @property
    def is_done(self) -> bool:
        """Whether the file after the last one that was served has been asked for since."""
        return self.asked[self._next] > self._before

    def close(self) -> None:
        """Stop listening; who waits for a file gets none."""
        for file in self.files[self._next :]:
            file.set_result(b"")
        self.shutdown()
        self.server_close()


class _FileRequest(BaseHTTPRequestHandler):
    server: FileServer

    def do_HEAD(self) -> None:
        """Tell the length at most: the file may not be there yet."""
        self._begin(200, _LENGTH if self.server.ranged else None)

    def do_GET(self) -> None:
        """Answer with a file, or a part of it, as soon as it is there."""
        name = self.path.partition("?")[0].rpartition("/")[2]
        if not name.isdecimal():  # what is below a file: nothing is
            self._begin(200, len(_EMPTY))
            self.wfile.write(_EMPTY)
            return
        asked = re.fullmatch(r"bytes=([0-9]+)-([0-9]+)", self.headers["Range"] or "")
        part = slice(None)
        if self.server.ranged and asked:
            part = slice(int(asked[1]), int(asked[2]) + 1)
            self._begin(206, part.stop - part.start)
        else:
            self.do_HEAD()
        self.server.asked[int(name)] += 1
        with suppress(OSError):  # who asked only whether it is there has gone
            self.wfile.write(self.server.files[int(name)].result()[part])

    def _begin(self, status: int, length: int | None) -> None:
        self.send_response(status)
        if length is not None:
            self.send_header("content-length", str(length))
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""
