"""A broker as the source of a command: a thread reads it, and the main thread counts, which signals can reach."""

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np

from panprivacy.brokers.consumer import BrokerConsumer
from panprivacy.cli.output import Meter
from panprivacy.cli.schedule import Events, Schedule
from panprivacy.errors import PanPrivacyError
from panprivacy.ingest import BadInput, Batch, Columns, SignalTimer
from panprivacy.ingest.batch import ProblemType, Refused
from panprivacy.ingest.bodies import NAME, Body, plain_ids, problem_type_of, rows_of_body
from panprivacy.memory.scratch import Scratch


class MainThreadQueue:
    """Where the thread of a consumer leaves bodies, and what it has to say, for the main thread to take."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Body, Future[int]]] = deque()
        self._news: deque[str] = deque()
        self._closed = False
        self.octets = 0
        """Bytes of all bodies that were taken."""

    def __enter__(self) -> Self:
        self.handle, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        os.set_blocking(self.handle, False)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.handle)
        os.close(self._waker)

    def close(self) -> None:
        """Refuse what waits, and all that comes."""
        self._closed = True
        for body, future in self.waiting():
            body.wipe()
            future.set_exception(Refused(ProblemType.closing))

    def take(self, body: Body) -> "Future[int]":
        if self._closed:
            raise Refused(ProblemType.closing)
        future: Future[int] = Future()
        self._waiting.append((body, future))
        self._wake()
        return future

    def tell(self, word: str, cause: str) -> None:
        """Leave a note; why it stopped is said once, when the command ends."""
        if word != "stopped":
            self._news.append(f"{word}: {cause}")
        self._wake()

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # it has been woken so often that it is awake
            os.write(self._waker, b"!")

    def waiting(self) -> "Iterator[tuple[Body, Future[int]]]":
        while self._waiting:
            body, future = self._waiting.popleft()
            self.octets += len(body.octets)
            yield body, future

    def news(self) -> Iterator[str]:
        while self._news:
            yield self._news.popleft()

    def sleep(self, timer: SignalTimer) -> None:
        """Wait until something is left here, or the timer rings."""
        if timer.wait(self.handle):
            os.read(self.handle, 4096)


_WORDS = {
    ProblemType.missing: "no field {fields}, or nothing in it; --skip-missing leaves such messages out",
    ProblemType.outside: "its user is not in the universe; --skip-outside leaves such messages out",
    ProblemType.category: "its category is none of those listed; --unlisted skip leaves such messages out",
    ProblemType.action: "its action is neither insert nor delete",
    ProblemType.unreadable: "it is no JSON object, bare id or Arrow stream with ids that are {kind}",
}


def _in_words(error: BadInput | Refused, columns: Columns) -> Refused:
    """The refusal of a message, in the words of a command: they name its fields, and never their values."""
    if not isinstance(error, Refused):
        why, said = problem_type_of(error), ""
        if why is ProblemType.no_column:
            said = str(error).removeprefix(f"{NAME}: ").replace("no column", "no field", 1)
        error = Refused(why, said, row=error.row)
    fields = " or ".join(map(repr, columns.needed))
    said = error.detail or _WORDS.get(error.type, "").format(kind=columns.kind, fields=fields)
    return Refused(error.type, said, row=error.row, retry=error.retry)


@contextmanager
def _batch(body: Body, columns: Columns, timer: SignalTimer) -> Iterator[Batch]:
    """The rows of a body; those that are nothing but integers are read where they lie."""
    import polars as pl

    with Scratch() as scratch:
        pieces = timer.undisturbed(partial(plain_ids, body, columns, scratch))
        if pieces is None:
            yield timer.undisturbed(partial(rows_of_body, body, columns, _in_words))
            return
        ids = pieces[0] if len(pieces) == 1 else scratch.own(np.concatenate(pieces))
        yield Batch("", pl.DataFrame({columns.ids[0]: ids}), 0, 0)


@dataclass(frozen=True)
class Topic(Events):
    """The messages of a broker."""

    consumer: BrokerConsumer
    queue: MainThreadQueue

    @property
    def name(self) -> str:
        """The address of the broker, without credentials."""
        return self.consumer.name

    def feed(self, schedule: Schedule) -> None:
        """Count what arrives, and have it acknowledged when it is on disk, until a signal ends the input."""
        run, timer, consumer = schedule.run, schedule.timer, self.consumer
        assert timer is not None
        with self.queue as queue, Meter([], run.output) as meter:
            consumer.start(queue.take)
            try:
                while not timer.over and consumer.stopped is None:
                    queue.sleep(timer)
                    self._count_waiting(schedule, timer, meter)
                    for note in queue.news():
                        run.output.note(f"{self.name}: {note}")
                    if timer.rings():
                        schedule.ring()
            finally:
                queue.close()
                consumer.close()
        if consumer.stopped is not None:
            before = "; what came before is counted and saved" if run.used else ""
            raise PanPrivacyError(
                f"{self.name}: {consumer.stopped.rstrip('.')}{before}; --skip-bad would leave out messages that "
                "cannot be counted",
                code="bad-message",
            )

    def _count_waiting(self, schedule: Schedule, timer: SignalTimer, meter: Meter) -> None:
        """Count the bodies that wait, and write the state once for all of them."""
        done: list[tuple[Future[int], int]] = []
        for body, future in self.queue.waiting():
            try:
                done.append((future, self._count(body, schedule, timer, meter)))
            except (Refused, BadInput) as error:
                future.set_exception(_in_words(error, self.columns))
            finally:
                body.wipe()
        schedule.run.write_what_is_left()
        for future, rows in done:
            future.set_result(rows)

    def _count(self, body: Body, schedule: Schedule, timer: SignalTimer, meter: Meter) -> int:
        """Count a body, whose rows are gone when this returns; how many there were."""
        with _batch(body, self.columns, timer) as found:
            batch = replace(found, file=self.name, position=self.queue.octets)
            schedule.take(batch)
            meter.advance(batch)
            schedule.run.counted()
            return len(batch.rows)
