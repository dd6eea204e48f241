"""The thread between a broker and a counter: hands messages over, and acknowledges them when they are on disk."""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from panprivacy.brokers import NOT_YET, Broker, Hopeless, Messages, Unreachable
from panprivacy.brokers.payloads import Payload, bodies_of
from panprivacy.display import magnitude
from panprivacy.errors import PanPrivacyError
from panprivacy.ingest import Columns
from panprivacy.ingest.batch import Refused, drop_frames
from panprivacy.ingest.bodies import Body

Take = Callable[[Body], "Future[int]"]
"""Hands a body to a counter, which wipes it; the result is there when the rows are on disk.

It raises `Refused`, or the result does. A lasting problem (`ProblemType.is_lasting`) means that this body can never be
counted, any other that it may be handed over again after `retry` seconds. Counting rows twice is as good as counting
them once, except by counters that are not `repeatable`.
"""


class Source(Protocol):
    """Hands bodies to a counter, and acknowledges them when they are on disk."""

    @property
    def stopped(self) -> str | None:
        """Why it takes no more messages; None while it reads, or waits for a broker."""

    @property
    def trouble(self) -> str | None:
        """Why it gets no messages now; None while the broker answers."""

    @property
    def lag(self) -> int | None:
        """How many messages wait at the broker, in powers of ten and 0 below 1,000; None if that is not known."""

    def start(self, take: Take) -> None:
        """Begin to read."""

    def close(self) -> None:
        """Stop reading, wait until what was handed over is acknowledged, and disconnect."""


_AHEAD = 64  # batches that are with the counter at once: while some are written, the next are parsed
_MOST = 16 * 2**20  # bytes of these batches; two may have more, so that one is fetched while another is counted
_WAIT = 0.5  # seconds to wait for messages
_GLANCE = 0.05  # seconds to wait for messages while something waits to be acknowledged
_PAUSE = 0.5  # seconds before a broker that does not answer is asked again
_RETRY = 1.0  # seconds before refused messages are handed over again, unless the refusal says otherwise
_LOOK = 60.0  # seconds between looks at how many messages wait
_FEW = 1000  # waiting messages below which nothing is told: small numbers would tell when single ones came
_TELLING = 100  # bad messages, with no good one before, that show that something else is wrong


class Stopped(PanPrivacyError):
    """No more messages are taken, for a reason that quotes none of them."""

    CODE = "source-stopped"


class BrokerConsumer:
    """A source that reads a broker until it is closed.

    Nothing is acknowledged before it is on disk. Whatever breaks off in between, the broker gives it out again, and
    counting a message twice is as good as counting it once. Refused messages are counted again in order, together with
    all that was handed over after it: of a user's insertion and deletion, the later one stays the last.

    `tell` is called, by the thread of the consumer, with a word (``unreachable``, ``reached``, ``skipped`` or
    ``stopped``) and a cause that quotes no message.
    """

    def __init__(
        self,
        broker: Broker,
        columns: Columns,
        *,
        batch: int,
        payload: Payload | None = None,
        skip_bad: bool = False,
        tell: Callable[[str, str], None] = lambda _word, _cause: None,
    ) -> None:
        self._broker = broker
        self._columns, self._batch, self._payload = columns, batch, payload
        self._tell = tell
        self._closing = threading.Event()
        self._retry = BisectingRetry(self._hand_over, self._closing, skip=skip_bad)
        self._in_flight: deque[tuple[Messages, list[Future[int]]]] = deque()
        self._thread = threading.Thread(target=self._run, name=broker.name, daemon=True)
        self.name = broker.name
        self.stopped: str | None = None
        """Why no more messages are taken; None while the broker is read."""
        self.lag: int | None = None
        """How many messages wait at the broker: 0, 1,000, 10,000 and so on; None while that is not known."""
        self._look_at = 0.0
        self.trouble: str | None = NOT_YET
        """Why the broker gives no messages now; None while it answers."""

    def start(self, take: Take) -> None:
        """Begin to read."""
        self._take = take
        self._thread.start()

    def close(self) -> None:
        """Stop reading, acknowledge the messages on disk, and disconnect."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                self._read()
                self._look()
                self._settle()
        except (Stopped, Hopeless) as stop:
            self._stop(str(stop))
        except BaseException as error:  # its text could quote a message
            drop_frames(error)
            self._stop(f"failed: {type(error).__name__}")
        self._end()

    def _read(self) -> None:
        try:
            messages = self._broker.fetch(self._batch, _GLANCE if self._in_flight else _WAIT)
        except Unreachable as error:
            drop_frames(error)
            self._note_trouble(str(error))
            self._closing.wait(_PAUSE)
            return
        self._note_trouble(None)
        if messages is not None:
            self._in_flight.append((messages, self._hand_over(messages, 0, len(messages.payloads))))

    def _look(self) -> None:
        """Look once a minute how many messages wait at the broker."""
        if self.trouble is None and time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _LOOK
            waiting = self._broker.waiting()
            self.lag = None if waiting is None else magnitude(waiting, _FEW)

    def _hand_over(self, messages: Messages, start: int, end: int) -> "list[Future[int]]":
        try:
            part = messages.payloads.part(start, end)
            return [self._taken(body) for body in bodies_of(part, self._columns, self._payload)]
        except Refused as refused:
            return [_failed(refused)]

    def _taken(self, body: Body) -> "Future[int]":
        try:
            return self._take(body)
        except Refused as refused:
            body.wipe()
            return _failed(refused)

    def _settle(self) -> None:
        """Acknowledge the messages on disk; wait for them if the counter is too full for more."""
        while self._in_flight and (self._is_full or all(each.done() for each in self._in_flight[0][1])):
            messages, futures = self._in_flight[0]
            if first_refusal(futures) is not None:
                self._count_again()
                return
            self._retry.note_good()
            self._in_flight.popleft()
            self._acknowledge(messages)

    @property
    def _is_full(self) -> bool:
        bytes_ = sum(len(each.payloads.octets) for each, _ in self._in_flight)
        return len(self._in_flight) >= _AHEAD or (bytes_ >= _MOST and len(self._in_flight) > 1)

    def _count_again(self) -> None:
        """Count all that is with the counter once more, one batch after the other."""
        for _, futures in self._in_flight:
            first_refusal(futures)
        while self._in_flight:
            messages = self._in_flight[0][0]
            skipped = self._retry.count(messages)
            if skipped is None:  # the consumer is closing
                return
            self._in_flight.popleft()
            self._acknowledge(messages)
            if skipped:
                more = f", and {len(skipped) - 1} more" if len(skipped) > 1 else ""
                self._tell("skipped", f"{skipped[0]}{more}")

    def _acknowledge(self, messages: Messages) -> None:
        messages.payloads.wipe()  # they will not have to be counted again
        try:
            self._broker.acknowledge(messages)
        except Unreachable as error:
            drop_frames(error)
            self._note_trouble(str(error))  # then the broker gives them out again, which does no harm

    def _note_trouble(self, cause: str | None) -> None:
        if cause != self.trouble:
            before, self.trouble, self.lag, self._look_at = self.trouble, cause, None, 0.0
            if cause is not None:
                self._tell("unreachable", cause)
            elif before != NOT_YET:
                self._tell("reached", "it answers again")

    def _stop(self, cause: str) -> None:
        self.stopped = cause
        self._tell("stopped", cause)

    def _end(self) -> None:
        """Acknowledge the messages on disk, up to the first refusal, and disconnect."""
        try:
            while self._in_flight and not self.stopped and first_refusal(self._in_flight[0][1]) is None:
                self._acknowledge(self._in_flight.popleft()[0])
        finally:
            for messages, _ in self._in_flight:
                messages.payloads.wipe()
            self._broker.close()


class BisectingRetry:
    """Counts messages that were refused once, in order: a batch, or else its two halves, down to the bad message.

    A message that is refused for now, because the disk is full or the service is busy, is handed over again until it is
    taken or `closing` is set. A message that can never be counted is skipped, or, without `skip`, raises `Stopped`.
    """

    def __init__(
        self, hand_over: Callable[[Messages, int, int], "list[Future[int]]"], closing: threading.Event, *, skip: bool
    ) -> None:
        self._hand_over = hand_over
        self._closing = closing
        self._skip = skip
        self._seen_good = False
        self._bad: list[str] = []

    def note_good(self) -> None:
        """Note that messages of this source can be counted."""
        self._seen_good = True

    def count(self, messages: Messages) -> list[str] | None:
        """Count a batch; returns a line for each message that was skipped, None if `closing` was set before."""
        self._bad = []
        return self._bad if self._counted(messages, 0, len(messages.payloads)) else None

    def _counted(self, messages: Messages, start: int, end: int) -> bool:
        refused = self._refusal(messages, start, end)
        if refused is None:
            self._seen_good = True
            return True
        if not refused.type.is_lasting:
            return False
        if end - start == 1:
            self._blame(f"{messages.place(start)}: {refused}")
            return True
        middle = (start + end) // 2
        return self._counted(messages, start, middle) and self._counted(messages, middle, end)

    def _refusal(self, messages: Messages, start: int, end: int) -> Refused | None:
        """Hand over some messages until they are counted, or refused for good; in the latter case, the refusal."""
        while True:
            refused = first_refusal(self._hand_over(messages, start, end))
            if refused is None or refused.type.is_lasting or self._closing.wait(refused.retry or _RETRY):
                return refused

    def _blame(self, cause: str) -> None:
        self._bad.append(cause)
        if not self._skip:
            raise Stopped(cause)
        if not self._seen_good and len(self._bad) >= _TELLING:
            raise Stopped(f"none of the first {_TELLING} messages can be counted; the first is {self._bad[0]}")


def first_refusal(futures: "list[Future[int]]") -> Refused | None:
    """Wait for all, and return the first refusal, if there is one."""
    refusals = [future.exception() for future in futures]
    for refusal in refusals:
        if isinstance(refusal, Refused):
            return refusal
        if refusal is not None:
            raise refusal
    return None


def _failed(refused: Refused) -> "Future[Any]":
    drop_frames(refused)
    future: Future[Any] = Future()
    future.set_exception(refused)
    return future
