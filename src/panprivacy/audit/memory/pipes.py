"""Scenarios of the command line: ``panprivacy density -`` and ``panprivacy distinct -``, fed through a pipe.

Each row has a column that was not asked for, which must leave nothing either, and one with a category; and a time,
where releases go by times.
"""

import fcntl
import struct
import subprocess
import termios
from collections.abc import Sequence
from pathlib import Path
from signal import SIGUSR1
from time import monotonic, sleep
from typing import IO

import numpy as np
from numpy.typing import NDArray

from panprivacy.audit.memory.batches import LETTERS, Batch, UserPool, letters
from panprivacy.audit.memory.estimators import EPSILON, RELEASES, TableLocation, shards_of
from panprivacy.audit.memory.images import CannotImage, bits_of, family, peek
from panprivacy.audit.memory.programs import Trial, folders
from panprivacy.audit.memory.scenarios import BATCHES, LIST, SHARDS, START
from panprivacy.audit.memory.traces import Record, TableVersion, Traces
from panprivacy.folder import StateFolder
from panprivacy.periods import DAY

_PAGE = 4096
_CLINICS = (b"north", b"south", b"west")
_OPTIONS = ("-c", "user", "-e", str(EPSILON), "--releases", str(RELEASES), "--quiet", "-f", "csv")
_PATIENCE = 60.0  # seconds for a batch
_STILL = 0.4  # seconds without work after which a process is taken to wait
_WRITTEN = 1.5  # seconds after which a state must be on disk


def run(trial: Trial, pool: UserPool) -> tuple[Record, Traces]:
    """Run a command, feed it batch after batch, and image it while it waits for more."""
    words = trial.scenario.pipe
    rows = _Rows(pool, timed="--time" in words, strangers="--skip-outside" in words)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with folders() as (imaged, beside):
        record = Record(pool, imaged)
        (beside / LIST).write_text("\n".join(["user", *map(str, [] if pool.listed is None else pool.listed)]))
        given = {"USERS": str(trial.users), LIST: str(beside / LIST)}
        with trial.command(*(given.get(word, word) for word in words), *_OPTIONS, cwd=imaged, **pipes) as process:
            shards = imaged / SHARDS if SHARDS in words else None
            pipe = _Pipe(process, pool, saves="--state" in words, shards=shards)
            pipe.feed(rows.header)
            record.start(process.pid, pipe.first_versions())
            for number, step in enumerate(trial.scenario.steps):
                batch = pool.batch(number, step) if step in BATCHES else None
                if batch is not None:
                    pipe.feed(rows.of(number, batch))
                elif rows.timed:
                    rows.day += 1  # the next batch ends the period, and is cut from it
                else:
                    pipe.ask_for_release()
                record.step(batch, pipe.versions())
            record.end(process.pid)
    traces = record.traces()
    rows.add_to(traces, [fed.people for fed in record.fed])
    return record, traces


class _Rows:
    """The rows that a command is fed, and what came in them beside the ids."""

    def __init__(self, pool: UserPool, *, timed: bool, strangers: bool = False) -> None:
        self._pool = pool
        self.timed = timed
        self._strangers = strangers
        self.day = 0
        """Of which day the times of the next batch are."""
        self._notes: list[NDArray[np.bytes_]] = []
        self._times: list[NDArray[np.datetime64]] = []
        self._masks: list[NDArray[np.bool_]] = []

    @property
    def header(self) -> bytes:
        """The first line."""
        return b"user,note,clinic,at\n" if self.timed else b"user,note,clinic\n"

    def of(self, number: int, batch: Batch) -> bytes:
        """The lines of a batch: a note for each row, and a time of the day, to the microsecond."""
        random, size = np.random.default_rng(number), len(batch.events)
        self._notes.append(letters(random, size))
        clinics = np.array(_CLINICS)[random.integers(0, len(_CLINICS), size)]
        columns = [self._pool.given(batch.events).astype(f"S{LETTERS}"), self._notes[-1], clinics]
        if self.timed:
            midnight = np.datetime64(START, "us") + self.day * np.timedelta64(1, "D")
            self._times.append(midnight + random.integers(0, DAY, size))
            columns.append(np.datetime_as_string(self._times[-1]).astype(np.bytes_))
        lines = [b",".join(row) + b"\n" for row in zip(*(column.tolist() for column in columns), strict=True)]
        return b"".join(self._among_strangers(lines, random) if self._strangers else lines)

    def _among_strangers(self, lines: list[bytes], random: np.random.Generator) -> list[bytes]:
        """The rows of a batch, each at random before or after that of somebody outside the universe."""
        first = random.integers(0, 2, len(lines)).astype(np.bool_)
        self._masks.append(np.stack([first, ~first], axis=1).ravel())
        stranger = b"%d,%s,%s\n" % (self._pool.users, b"-" * LETTERS, _CLINICS[0])
        pairs = ((line, stranger) if before else (stranger, line) for line, before in zip(lines, first, strict=True))
        return [line for pair in pairs for line in pair]

    def add_to(self, traces: Traces, fed: Sequence[NDArray[np.int64]]) -> None:
        """Look for what came with the users of all batches but the last."""
        for notes, people in zip(self._notes[:-1], fed, strict=False):
            traces.add_texts(notes, people)
        for times, people in zip(self._times[:-1], fed, strict=False):
            traces.add_times(times, people)
        for mask, people in zip(self._masks[:-1], fed, strict=False):
            traces.add_mask(mask, people)


class _Pipe:
    def __init__(
        self, process: subprocess.Popen[bytes], pool: UserPool, *, saves: bool, shards: Path | None = None
    ) -> None:
        self._process = process
        self._shards = shards
        self._pool = pool
        self._saves = saves

    def feed(self, rows: bytes) -> None:
        """Write rows, and wait until they have been counted, and written where the state is kept."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(rows)
            self._process.stdin.flush()
        except BrokenPipeError:
            self._ended()
        self._wait(self._process.stdin)

    def ask_for_release(self) -> None:
        """Let the command spend a release in between."""
        assert self._process.stdin is not None
        self._process.send_signal(SIGUSR1)
        self._wait(self._process.stdin)

    def _wait(self, stdin: IO[bytes]) -> None:
        deadline, still = monotonic() + _PATIENCE, monotonic()
        before = -1
        while monotonic() < still + _STILL:
            if self._process.poll() is not None:
                self._ended()
            if monotonic() > deadline:
                raise CannotImage(f"the command did not take a batch within {_PATIENCE:g} s")
            waiting = struct.unpack("i", fcntl.ioctl(stdin.fileno(), termios.FIONREAD, b"\0" * 4))[0]
            worked = _worked(self._process.pid)
            if waiting or worked != before:
                before, still = worked, monotonic()
            sleep(0.05)
        if self._saves:
            sleep(_WRITTEN)

    def _ended(self) -> None:
        assert self._process.stderr is not None
        raise CannotImage(f"the command has ended: {self._process.stderr.read().decode()}")

    def first_versions(self) -> list[TableVersion]:
        """The bits as soon as there are some: on a busy machine a command that is still being loaded seems to wait."""
        assert self._process.stdin is not None
        deadline = monotonic() + _PATIENCE
        while not (found := self.versions()) and monotonic() < deadline:
            self._wait(self._process.stdin)
        return found

    def versions(self) -> list[TableVersion]:
        """The bits, read off their pages, or off the shards."""
        if self._shards is not None:
            return [TableVersion.at(location, self._process.pid) for location in shards_of(StateFolder(self._shards))]
        return versions_of(self._process.pid, self._pool)


def versions_of(process: int, pool: UserPool) -> list[TableVersion]:
    """The bits of a program, read off the pages that hold nothing else; none if there are no such pages."""
    size, octets = pool.slots_in_all, -(-pool.slots_in_all // 64) * 8
    pages = -(-octets // _PAGE) * _PAGE
    for member in family(process):
        places = bits_of(member)
        for start, length in sorted(places, key=lambda place: place[1] != pages):
            if length >= pages:
                location = TableLocation(start, octets, size, sparse=False, epoch=0, offset=0, each=pool.bits_each)
                return [TableVersion.read(location, peek(member, start, octets))]
    return []


def _worked(process: int) -> int:
    """How long a process and its descendants have worked, in ticks of a clock."""
    ticks = 0
    for member in family(process):
        try:
            fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks
