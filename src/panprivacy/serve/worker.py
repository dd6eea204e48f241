"""The thread of a counter and the estimator it changes: jobs are done in order, and the disk confirms many at once.

Memory and disk differ only while a group of jobs is on its way to the disk. While a long body is read, which changes
nothing yet, short jobs of other senders are let in between.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Any

from panprivacy.errors import PanPrivacyError
from panprivacy.folder.batches import Combiner
from panprivacy.ingest.batch import ProblemType, Refused, drop_frames
from panprivacy.memory.intrinsics import wipe_stack
from panprivacy.serve.logs import cause_of, log
from panprivacy.state import StateFile
from panprivacy.universe import Universe

_PAUSE = 1.0  # seconds after a failed write in which nothing is tried
_GROUP = 0.1  # seconds after which a group gets no further job: those that are done wait for the disk


class KeptEstimator:
    """An estimator in a state file that this process holds.

    A change that cannot be written did not happen: the estimator goes back to what the file has, so that there is one
    version of the bits, and the sender of the batch sends it again.
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
        self.combiner = Combiner()
        """Holds sets of slots until the next write."""
        self.waiting: list[tuple[Future[Any], Any]] = []
        """Futures of jobs that are done and not on disk yet, with their results."""

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

    def combined(self) -> Any:
        """The estimator with the sets of slots that came so far: what came first counts first."""
        self.combiner.redraw(self.est)
        return self.est

    def check_free(self) -> None:
        """Refuse changes shortly after a write has failed."""
        if time.monotonic() < self._free:
            raise Refused(ProblemType.disk, retry=_PAUSE)

    def save(self) -> None:
        """Write the state; when this returns, all changes are on disk."""
        est = self.est
        try:
            self.combiner.redraw(est)
        except BaseException:
            self.go_back(Refused(ProblemType.broken))
            raise
        try:
            est.save(self._file)
        except (PanPrivacyError, OSError):
            if not self.failing:
                log("the disk does not take the state", level="error", counter=self._file.path.stem)
            self.failing, self._free = True, time.monotonic() + _PAUSE
            del est  # before it is read again
            refused = Refused(ProblemType.disk, retry=_PAUSE)
            self.go_back(refused)
            raise refused from None
        if self.failing:
            log("the disk takes the state again", counter=self._file.path.stem)
        self.changed = self.failing = False
        self.confirm()

    def save_if_changed(self) -> None:
        """Write the state if the file lacks a change."""
        if self.changed:
            self.save()

    def confirm(self) -> None:
        """Give the jobs that wait their results."""
        waiting, self.waiting = self.waiting, []
        for done, result in waiting:
            done.set_result(result)

    def go_back(self, refused: Refused) -> None:
        """Undo all that is not on disk, and refuse the jobs that wait."""
        self.changed = False
        self.combiner.wipe()
        est, self._est = self._est, None
        if hasattr(est, "end"):
            est.end("its last change is not on disk, and was undone")
        del est  # before the file is read: there is one version of the bits in memory
        with suppress(Refused):
            self.est  # noqa: B018 - read now, if the disk lets us
        waiting, self.waiting = self.waiting, []
        for done, _ in waiting:
            done.set_exception(refused)

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

    def push(self, job: Job, sender: bytes, size: int) -> None:
        """Add a job of a sender."""
        line = self._lines.setdefault(sender, _Line(self._least))
        line.used = max(line.used, self._least)
        heappush(line.jobs, (line.served + size, next(self._number), job))

    def next_sender(self, instead_of: bytes | None = None) -> bytes | None:
        """Whose job is next; None if there is none.

        With `instead_of`, a sender whose job is under way: another one that has had no more time, and has a short job.
        """
        lines = {name: line for name, line in self._lines.items() if line.jobs}
        if instead_of is not None:
            most = self._lines[instead_of].used if instead_of in self._lines else self._least
            lines.pop(instead_of, None)
            lines = {name: line for name, line in lines.items() if line.used <= most and line.jobs[0][2].is_short}
        return min(lines, key=lambda name: lines[name].used, default=None)

    def pop(self, instead_of: bytes | None = None) -> tuple[Job, bytes] | None:
        """The job of `next_sender`, and the sender, who is to be charged for it; None if there is none."""
        sender = self.next_sender(instead_of)
        if sender is None:
            return None
        line = self._lines[sender]
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


class Worker:
    """Group commit: while one group of jobs is written, the next one gathers.

    The future of a job is done when a state with its changes is on disk. A job that is refused changes nothing, and the
    others of its group go on. `tick` is called before each job, and after as many seconds as `due` says, None for
    never.
    """

    def __init__(
        self, name: str, kept: KeptEstimator, tick: Callable[[], None], due: Callable[[], float | None]
    ) -> None:
        self._name, self._kept, self._tick, self._due = name, kept, tick, due
        self._jobs = FairQueue()
        self._ready = threading.Condition()
        self._closing = False
        self._gives_way: bytes | None = None  # the sender of the job that is under way, if it may give way to others
        self._since = 0.0  # since when its time is not charged
        self._writing = 0.0  # seconds that the last write took
        self._served: set[bytes] = set()  # senders whose jobs are in this group
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
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while self._wait():
            self._work_on_group()
            began = time.monotonic()
            self._guarded(self._kept.save_if_changed)
            self._writing = time.monotonic() - began
            self._kept.confirm()
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
            with self._ready:
                others_wait = spent > self._writing and not self._served <= {self._jobs.next_sender()}
            if others_wait or spent > _GROUP or (spent > self._writing and waiting <= 0):
                break

    def _do_next(self, instead_of: bytes | None = None) -> bool:
        """Do the next job, `instead_of` as in `FairQueue.next_sender`; False if there is none."""
        self._guarded(self._tick)  # before the job: what came after the end of a period belongs to the next
        with self._ready:
            found = self._jobs.pop(instead_of)
        if found is None:
            return False
        job, sender = found
        self._served.add(sender)
        self._gives_way, self._since = sender if instead_of is None else None, time.monotonic()
        self._work(job)
        self._charge(sender)
        return True

    def give_way(self) -> None:
        """Let short jobs of other senders in, and write those that are done.

        For a job that takes long, and has changed nothing so far.
        """
        sender = self._gives_way
        if sender is None:
            return
        self._charge(sender)
        while self._jobs and self._do_next(sender):
            pass
        if self._kept.waiting:
            self._guarded(self._kept.save_if_changed)
            self._kept.confirm()
        self._gives_way, self._since = sender, time.monotonic()

    def _charge(self, sender: bytes) -> None:
        with self._ready:
            self._jobs.charge(sender, time.monotonic() - self._since)

    def _work(self, job: Job) -> None:
        try:
            result = job.do()  # which may write, and so confirm the jobs before it
            self._kept.waiting.append((job.done, result))
        except Refused as refused:
            drop_frames(refused)
            job.done.set_exception(refused)
        except BaseException as error:  # a job that fails must not end the thread, and its error may quote rows
            self._note_broken(error)
            job.done.set_exception(Refused(ProblemType.broken))
            self._guarded(partial(self._kept.go_back, Refused(ProblemType.broken)))

    def _guarded(self, do: Callable[[], None]) -> None:
        try:
            do()
        except Refused as refused:
            drop_frames(refused)
        except BaseException as error:  # as above
            self._note_broken(error)

    def _note_broken(self, error: BaseException) -> None:
        log("failed", counter=self._name, level="error", **cause_of(error))
        drop_frames(error)
