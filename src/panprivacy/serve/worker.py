"""The thread of a counter: takes what waits, does it in order, and lets the disk confirm it all at once."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from panprivacy.privacy.stack import wipe_stack
from panprivacy.serve.keeping import Kept
from panprivacy.serve.refusals import Refused, Why, without_frames


@dataclass(frozen=True)
class Job:
    """Something to be done with the estimator, and who waits until it is on disk."""

    do: Callable[[], Any]
    done: "Future[Any]"


class Worker:
    """Group commit: while one group of jobs is written, the next one gathers.

    A job is told that it is done when a state with its changes is on disk. One that is refused changes nothing, and the
    others of its group go on. `tick` is called before each group, and after as many seconds as `due` says, None for
    never.
    """

    def __init__(
        self,
        name: str,
        kept: Kept,
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
        """Have something done; the result is there when it is on disk."""
        job = Job(do, Future())
        job.done.set_running_or_notify_cancel()  # nobody calls it off: a body is wiped by its job
        with self._ready:
            if self._closing:
                raise Refused(Why.closing)
            self._jobs.append(job)
            self._ready.notify()
        return job.done

    def close(self) -> None:
        """Do what waits, and end."""
        with self._ready:
            self._closing = True
            self._ready.notify()
        self._thread.join()

    def _run(self) -> None:
        while (group := self._next()) is not None:
            self._guarded(self._tick)  # before the jobs: what came after the end of a period belongs to the next
            for job in group:
                self._work(job)
            self._guarded(self._kept.save_if_changed)
            self._confirm()
            wipe_stack()

    def _next(self) -> list[Job] | None:
        """All that waits; nothing, if it is time to look at the clock; None at the end."""
        with self._ready:
            if not self._jobs and not self._closing:
                self._ready.wait(self._due())
            if not self._jobs and self._closing:
                return None
            group = list(self._jobs)
            self._jobs.clear()
            return group

    def _work(self, job: Job) -> None:
        try:
            result = job.do()  # which may write, and so confirm those before it
            self._waiting.append((job, result))
        except Refused as refused:
            without_frames(refused)
            job.done.set_exception(refused)
        except BaseException as error:  # a job that fails must not end the thread, nor say what it had in hand
            without_frames(error)
            self._broken()
            job.done.set_exception(Refused(Why.broken))
            self._guarded(self._kept.go_back)

    def _guarded(self, do: Callable[[], None]) -> None:
        try:
            do()
        except Refused as refused:
            without_frames(refused)
        except BaseException as error:  # as above
            without_frames(error)
            self._broken()

    def _confirm(self) -> None:
        waiting, self._waiting = self._waiting, []
        for job, result in waiting:
            job.done.set_result(result)

    def _refuse(self, refused: Refused) -> None:
        waiting, self._waiting = self._waiting, []
        for job, _ in waiting:
            job.done.set_exception(refused)
