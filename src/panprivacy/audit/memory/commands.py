"""Commands that read a pipe, such as ``panprivacy density -``.

Each row has a column that was not asked for, which must leave nothing either, and one with a category; and a time,
where releases go by times.
"""

import fcntl
import struct
import subprocess
import termios
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from signal import SIGUSR1
from time import monotonic, sleep

import numpy as np

from panprivacy.audit.memory.batches import LETTERS, Batch, UserPool, letters
from panprivacy.audit.memory.estimators import EPSILON, RELEASES, TableLocation, shards_of
from panprivacy.audit.memory.images import CannotImage, bits_of, family, peek
from panprivacy.audit.memory.processes import Folders, ProcessUnderAudit, Trial
from panprivacy.audit.memory.scenarios import LIST, SHARDS, START, STATE
from panprivacy.audit.memory.traces import Beside, TableVersion
from panprivacy.folder import StateFolder
from panprivacy.periods import DAY

_PAGE = 4096
_CLINICS = (b"north", b"south", b"west")
_OPTIONS = ("-c", "user", "-e", str(EPSILON), "--releases", str(RELEASES), "--quiet", "-f", "csv")
_PATIENCE = 60.0  # seconds for a batch
_ASLEEP = 10  # looks in a row, 20 ms or more apart, at which all threads sleep: the process is taken to wait
_WRITTEN = 1.5  # seconds after which a state must be on disk


class Command(ProcessUnderAudit):
    """A command that is fed through a pipe."""

    def __init__(self, trial: Trial, pool: UserPool, folders: Folders) -> None:
        super().__init__(trial, pool, folders)
        words = trial.scenario.pipe
        self._timed, self._skips, self._day = "--time" in words, "--skip-outside" in words, 0
        self._state = folders.imaged / (SHARDS if SHARDS in words else STATE) if "--state" in words else None
        listed = folders.handed / LIST
        listed.write_text("\n".join(["user", *map(str, [] if pool.listed is None else pool.listed)]))
        given = {"USERS": str(trial.users), LIST: str(listed)}
        words = (*(given.get(word, word) for word in words), *_OPTIONS)
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

    def feed(self, number: int, step: str, batch: Batch) -> Beside:  # noqa: ARG002
        random, size = np.random.default_rng(number), len(batch.events)
        notes, times, mask = letters(random, size), None, None
        clinics = np.array(_CLINICS)[random.integers(0, len(_CLINICS), size)]
        columns = [self.pool.given(batch.events).astype(f"S{LETTERS}"), notes, clinics]
        if self._timed:
            midnight = np.datetime64(START, "us") + self._day * np.timedelta64(1, "D")
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
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(rows)
            self._process.stdin.flush()
        except BrokenPipeError:
            self._fail("the command has ended")

    def _wait(self, *, fed: bool = True) -> None:
        """Wait until the command has read its pipe and sleeps, and what it was fed is written, if it has a state."""
        assert self._process.stdin is not None
        active, before, asleep, saves = monotonic(), -1, 0, fed and self._state is not None
        deadline = active + _PATIENCE
        while asleep < _ASLEEP:
            if self._process.poll() is not None:
                self._fail("the command has ended")
            if monotonic() > deadline:
                self._fail(f"the command did not take a batch within {_PATIENCE:g} s")
            waiting = struct.unpack("i", fcntl.ioctl(self._process.stdin.fileno(), termios.FIONREAD, b"\0" * 4))[0]
            worked = _worked(self.pid)
            asleep += 1
            if waiting or worked < 0 or worked != before:
                before, active, asleep = worked, monotonic(), 0
            elif saves and not self.written(monotonic() - active):
                asleep = 0
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
    for member in family(process):
        for stat in Path(f"/proc/{member}/task").glob("*/stat"):
            try:
                state, *fields = stat.read_text().rpartition(")")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            if state != "S":
                return -1
            ticks += int(fields[10]) + int(fields[11])
    return ticks
