"""The thread of a counter and the estimator it changes: jobs are done in order, and the disk confirms many at once.

Memory and disk differ only while a group of jobs is on its way to the disk.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from panprivacy.errors import PanPrivacyError
from panprivacy.ingest.problems import ProblemType, Refused, drop_frames
from panprivacy.memory.stack import wipe_stack
from panprivacy.serve.logs import log
from panprivacy.state import StateFile
from panprivacy.universe import Universe

_PAUSE = 1.0  # seconds after a failed write in which nothing is tried


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


class Worker:
    """Group commit: while one group of jobs is written, the next one gathers.

    The future of a job is done when a state with its changes is on disk. A job that is refused changes nothing, and the
    others of its group go on. `tick` is called before each group, and after as many seconds as `due` says, None for
    never.
    """

    def __init__(
        self,
        name: str,
        kept: KeptEstimator,
        tick: Callable[[], None],
        due: Callable[[], float | None],
        broken: Callable[[], None],
    ) -> None:
        self._kept = kept
        self._tick, self._due, self._broken = tick, due, broken
        self._jobs: deque[Job] = deque()
        self._ready = threading.Condition()
        self._closing = False
        self._waiting: list[tuple[Job, Any]] = []  # done, and not on disk yet
        kept.saved, kept.lost = self._confirm, self._refuse
        self._thread = threading.Thread(target=self._run, name=f"counter {name}", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    @property
    def queue(self) -> int:
        """How many jobs wait."""
        return len(self._jobs)

    def submit(self, do: Callable[[], Any]) -> "Future[Any]":
        """Do something in the thread; the result is there when it is on disk."""
        job = Job(do, Future())
        job.done.set_running_or_notify_cancel()  # it cannot be cancelled: a body is wiped by its job
        with self._ready:
            if self._closing:
                raise Refused(ProblemType.closing)
            self._jobs.append(job)
            self._ready.notify()
        return job.done

    def close(self) -> None:
        """Do the jobs that wait, and end."""
        with self._ready:
            self._closing = True
            self._ready.notify()
        self._thread.join()

    def _run(self) -> None:
        while (group := self._next()) is not None:
            self._guarded(self._tick)  # before the jobs: what came after the end of a period belongs to the next
            while group:
                self._work(group.popleft())  # no name keeps a job: it knows what its request said
            self._guarded(self._kept.save_if_changed)
            self._confirm()
            wipe_stack()

    def _next(self) -> deque[Job] | None:
        """All jobs that wait; none, if it is time to look at the clock; None at the end."""
        with self._ready:
            if not self._jobs and not self._closing:
                self._ready.wait(self._due())
            if not self._jobs and self._closing:
                return None
            group, self._jobs = self._jobs, deque()
            return group

    def _work(self, job: Job) -> None:
        try:
            result = job.do()  # which may write, and so confirm the jobs before it
            self._waiting.append((job, result))
        except Refused as refused:
            drop_frames(refused)
            job.done.set_exception(refused)
        except BaseException as error:  # a job that fails must not end the thread, and its error may quote rows
            drop_frames(error)
            self._broken()
            job.done.set_exception(Refused(ProblemType.broken))
            self._guarded(self._kept.go_back)

    def _guarded(self, do: Callable[[], None]) -> None:
        try:
            do()
        except Refused as refused:
            drop_frames(refused)
        except BaseException as error:  # as above
            drop_frames(error)
            self._broken()

    def _confirm(self) -> None:
        waiting, self._waiting = self._waiting, []
        for job, result in waiting:
            job.done.set_result(result)

    def _refuse(self, refused: Refused) -> None:
        waiting, self._waiting = self._waiting, []
        for job, _ in waiting:
            job.done.set_exception(refused)
