"""The thread of a counter and the estimator it changes: jobs are done in order, and the disk confirms many at once.

Memory and disk differ only while a group of jobs is on its way to the disk. While a long body is read, which changes
nothing yet, short jobs of other senders are let in between.
"""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Any

from panprivacy.errors import PanPrivacyError
from panprivacy.ingest.batch import ProblemType, Refused, drop_frames
from panprivacy.memory.intrinsics import wipe_stack
from panprivacy.serve.logs import log
from panprivacy.state import StateFile
from panprivacy.universe import Universe

_PAUSE = 1.0  # seconds after a failed write in which nothing is tried
_GROUP = 0.1  # seconds after which a group gets no further job: those that are done wait for the disk


class KeptEstimator:
    """An estimator in a state file that this process holds.

    A change that cannot be written did not happen: the estimator goes back to what the file has, so that there is one
    version of the bits, and the sender of the batch sends it again. `saved` and `lost` are told what became of changes.
    """

    def __init__(self, file: StateFile, universe: Universe | None) -> None:
        """Lock the file; from now on this process may touch the files beside it."""
        self._file = file
        self._universe = universe
        self._locks = ExitStack()
        self._locks.enter_context(file.locked())
        self._est: Any = None
        self._free = 0.0
        self.changed = False
        """Whether the file lacks a change."""
        self.failing = False
        """Whether the last write failed."""
        self.combined: Callable[[Any], None] = lambda _: None
        """Brings what waits for the next write to the bits."""
        self.dropped: Callable[[], None] = lambda: None
        """Forgets what waits for the next write."""
        self.saved: Callable[[], None] = lambda: None
        self.lost: Callable[[Refused], None] = lambda _: None

    def open(self, make: Callable[[], Any]) -> None:
        """Load the estimator, or make one and write it if there is no file."""
        self._est = self._file.load(self._universe) if self._file.exists else make()
        if not self._file.exists:
            self._est.save(self._file)

    @property
    def est(self) -> Any:
        """The estimator; refused while it cannot be read from the disk."""
        if self._est is None:
            try:
                self._file.mend()
                self._est = self._file.load(self._universe)
            except (PanPrivacyError, OSError):
                raise Refused(ProblemType.disk, retry=_PAUSE) from None
        return self._est

    def check_free(self) -> None:
        """Refuse changes shortly after a write has failed."""
        if time.monotonic() < self._free:
            raise Refused(ProblemType.disk, retry=_PAUSE)

    def save(self) -> None:
        """Write the state; when this returns, all changes are on disk."""
        try:
            self.combined(self._est)
        except BaseException:
            self.go_back()
            raise
        try:
            self._est.save(self._file)
        except (PanPrivacyError, OSError):
            if not self.failing:
                log("the disk does not take the state", level="error", counter=self._file.path.stem)
            self.failing, self._free = True, time.monotonic() + _PAUSE
            self._go_back()
            refused = Refused(ProblemType.disk, retry=_PAUSE)
            self.lost(refused)
            raise refused from None
        if self.failing:
            log("the disk takes the state again", counter=self._file.path.stem)
        self.changed = self.failing = False
        self.saved()

    def try_again(self) -> None:
        """Write the state as it is, after a write has failed."""
        self.est  # noqa: B018 - read, if the last attempt to read it failed
        self.save()

    def save_if_changed(self) -> None:
        """Write the state if the file lacks a change."""
        if self.changed:
            self.save()

    def go_back(self) -> None:
        """Undo all that is not on disk, after a job broke off half-way."""
        self._go_back()
        self.lost(Refused(ProblemType.broken))

    def _go_back(self) -> None:
        self.changed = False
        self.dropped()
        est, self._est = self._est, None
        if hasattr(est, "end"):
            est.end("its last change is not on disk, and was undone")
        del est  # before the file is read: there is one version of the bits in memory
        with suppress(Refused):
            self.est  # noqa: B018 - read now, if the disk lets us

    def close(self) -> None:
        """Unlock the file."""
        self._locks.close()


@dataclass(frozen=True)
class Job:
    """Something to do with the estimator, and the future of its result."""

    do: Callable[[], Any]
    done: "Future[Any]"
    is_short: bool = True
    """Whether it may be let in while a long body is read."""


@dataclass
class _Line:
    """The jobs of one sender that wait, shortest first, and the seconds that the sender has had."""

    used: float
    served: int = 0  # the size up to which jobs are served: a job that waits is not overtaken for ever
    jobs: list[tuple[int, int, Job]] = field(default_factory=list)


class FairQueue:
    """Jobs of many senders: next is the sender that has had the least time.

    Of the jobs of one sender a short one goes before a long one, until as much as the long one has gone before it.
    Those of size 0 stay in order. A sender that has had no more than the others, and has no job here, is forgotten.

    >>> queue = FairQueue()
    >>> jobs = {name: Job(lambda: None, Future()) for name in ("long", "longer", "other")}
    >>> queue.push(jobs["longer"], b"one", 10**9)
    >>> queue.push(jobs["long"], b"one", 10**6)
    >>> queue.pop()[0] is jobs["long"]
    True
    >>> queue.push(jobs["other"], b"another", 10**9)
    >>> queue.charge(b"one", 0.5)
    >>> queue.pop()[0] is jobs["other"]
    True
    """

    def __init__(self) -> None:
        self._lines: dict[bytes, _Line] = {}
        self._least = 0.0  # seconds that a new sender is taken to have had
        self._number = count()

    def __len__(self) -> int:
        return sum(len(line.jobs) for line in self._lines.values())

    @property
    def senders(self) -> int:
        """How many senders are remembered."""
        return len(self._lines)

    def push(self, job: Job, sender: bytes, size: int) -> None:
        """Add a job of a sender."""
        line = self._lines.setdefault(sender, _Line(self._least))
        line.used = max(line.used, self._least)
        heappush(line.jobs, (line.served + size, next(self._number), job))

    @property
    def next_sender(self) -> bytes | None:
        """Whose job is next; None if there is none."""
        lines = [(name, line) for name, line in self._lines.items() if line.jobs]
        return min(lines, key=_used)[0] if lines else None

    def pop(self) -> tuple[Job, bytes]:
        """The next job, and its sender, who is to be charged for it."""
        return self._pop((name, line) for name, line in self._lines.items() if line.jobs)

    def pop_instead_of(self, sender: bytes) -> tuple[Job, bytes] | None:
        """A short job of another sender that has had no more time than this one, whose job is under way."""
        most = self._lines[sender].used if sender in self._lines else self._least
        lines = [
            (name, line)
            for name, line in self._lines.items()
            if name != sender and line.used <= most and line.jobs and line.jobs[0][2].is_short
        ]
        return self._pop(lines) if lines else None

    def _pop(self, lines: Iterable[tuple[bytes, _Line]]) -> tuple[Job, bytes]:
        sender, line = min(lines, key=_used)
        self._least = line.used
        line.served, _, job = heappop(line.jobs)
        return job, sender

    def charge(self, sender: bytes, seconds: float) -> None:
        """Note how long a job of a sender has taken."""
        self._lines.setdefault(sender, _Line(self._least)).used += seconds
        for name in [name for name, line in self._lines.items() if not line.jobs and line.used <= self._least]:
            del self._lines[name]
        if not len(self):
            self._lines.clear()


def _used(line: tuple[bytes, _Line]) -> float:
    return line[1].used


@dataclass
class _Turn:
    """The job that is under way: whose it is, and since when its time is not charged."""

    sender: bytes
    since: float
    gives_way: bool


class Worker:
    """Group commit: while one group of jobs is written, the next one gathers.

    The future of a job is done when a state with its changes is on disk. A job that is refused changes nothing, and the
    others of its group go on. `tick` is called before each job, and after as many seconds as `due` says, None for
    never.
    """

    def __init__(
        self,
        name: str,
        kept: KeptEstimator,
        tick: Callable[[], None],
        due: Callable[[], float | None],
        broken: Callable[[BaseException], None],
    ) -> None:
        self._kept = kept
        self._tick, self._due, self._broken = tick, due, broken
        self._jobs = FairQueue()
        self._ready = threading.Condition()
        self._closing = False
        self._turn: _Turn | None = None
        self._writing = 0.0  # seconds that the last write took
        self._served: set[bytes] = set()  # senders whose jobs are in this group
        self._waiting: list[tuple[Job, Any]] = []  # done, and not on disk yet
        kept.saved, kept.lost = self._confirm, self._refuse
        self._thread = threading.Thread(target=self._run, name=f"counter {name}", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def queue(self) -> int:
        """How many jobs wait."""
        with self._ready:
            return len(self._jobs)

    def submit(
        self, do: Callable[[], Any], sender: bytes = b"", size: int = 0, *, is_short: bool = True
    ) -> "Future[Any]":
        """Do something in the thread; the result is there when it is on disk."""
        job = Job(do, Future(), is_short)
        job.done.set_running_or_notify_cancel()  # it cannot be cancelled: a body is wiped by its job
        with self._ready:
            if self._closing:
                raise Refused(ProblemType.closing)
            self._jobs.push(job, sender, size)
            self._ready.notify()
        return job.done

    def close(self) -> None:
        """Do the jobs that wait, and end."""
        with self._ready:
            self._closing = True
            self._ready.notify()
        self._thread.join()

    def _run(self) -> None:
        while self._wait():
            self._work_on_group()
            began = time.monotonic()
            self._guarded(self._kept.save_if_changed)
            self._writing = time.monotonic() - began
            self._confirm()
            wipe_stack()

    def _wait(self) -> bool:
        """Wait for a job, or until it is time to look at the clock; False at the end."""
        with self._ready:
            if not self._jobs and not self._closing:
                self._ready.wait(self._due())
            return bool(self._jobs) or not self._closing

    def _work_on_group(self) -> None:
        """Do the jobs that wait, and go on with those that come meanwhile until as much time is spent as a write takes.

        Senders wait for the write. A group that took all that comes would let them wait together, and then send
        together, while there is nothing to do here. Nor does a sender wait for many jobs of another one.
        """
        began, waiting = time.monotonic(), self.queue
        self._served.clear()
        while self._do_next():
            waiting, spent = waiting - 1, time.monotonic() - began
            if spent > _GROUP or (spent > self._writing and (waiting <= 0 or self._others_wait())):
                break

    def _others_wait(self) -> bool:
        """Whether a sender waits for the write, and the next job is of another one."""
        with self._ready:
            return not self._served <= {self._jobs.next_sender}

    def _do_next(self, instead_of: bytes | None = None) -> bool:
        """Do a job that waits, or one that `pop_instead_of` has; False if there is none."""
        self._guarded(self._tick)  # before the job: what came after the end of a period belongs to the next
        with self._ready:
            if instead_of is not None:
                found = self._jobs.pop_instead_of(instead_of)
            else:
                found = self._jobs.pop() if self._jobs else None
        if found is None:
            return False
        self._served.add(found[1])
        before, self._turn = self._turn, _Turn(found[1], time.monotonic(), gives_way=instead_of is None)
        self._work(found[0])
        self._charge(self._turn)
        self._turn = before
        return True

    def give_way(self) -> None:
        """Let short jobs of other senders in, and write those that are done.

        For a job that takes long, and has changed nothing so far.
        """
        turn = self._turn
        if turn is None or not turn.gives_way:
            return
        self._charge(turn)
        while self._jobs and self._do_next(turn.sender):
            pass
        if self._waiting:
            self._guarded(self._kept.save_if_changed)
            self._confirm()
        turn.since = time.monotonic()

    def _charge(self, turn: "_Turn") -> None:
        now = time.monotonic()
        with self._ready:
            self._jobs.charge(turn.sender, now - turn.since)
        turn.since = now

    def _work(self, job: Job) -> None:
        try:
            result = job.do()  # which may write, and so confirm the jobs before it
            self._waiting.append((job, result))
        except Refused as refused:
            drop_frames(refused)
            job.done.set_exception(refused)
        except BaseException as error:  # a job that fails must not end the thread, and its error may quote rows
            self._broken(error)
            drop_frames(error)
            job.done.set_exception(Refused(ProblemType.broken))
            self._guarded(self._kept.go_back)

    def _guarded(self, do: Callable[[], None]) -> None:
        try:
            do()
        except Refused as refused:
            drop_frames(refused)
        except BaseException as error:  # as above
            self._broken(error)
            drop_frames(error)

    def _confirm(self) -> None:
        waiting, self._waiting = self._waiting, []
        for job, result in waiting:
            job.done.set_result(result)

    def _refuse(self, refused: Refused) -> None:
        waiting, self._waiting = self._waiting, []
        for job, _ in waiting:
            job.done.set_exception(refused)
