"""The thread between a broker and a counter: hands messages over, and acknowledges them when they are on disk."""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Protocol

from panprivacy.brokers import NOT_YET, Broker, Hopeless, Messages, Unreachable
from panprivacy.brokers.payloads import Payload, bodies_of
from panprivacy.display import magnitude
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

    stopped: str | None
    """Why it takes no more messages; None while it reads, or waits for a broker."""
    trouble: str | None
    """Why it gets no messages now; None while the broker answers."""
    lag: int | None
    """How many messages wait at the broker: 0, 1,000, 10,000 and so on; None if that is not known."""

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


class BrokerConsumer:
    """A source that reads a broker until it is closed.

    Nothing is acknowledged before it is on disk. Whatever breaks off in between, the broker gives it out again, and
    counting a message twice is as good as counting it once. Refused messages are counted again in order, together with
    all that was handed over after it: of a user's insertion and deletion, the later one stays the last. A message that
    can never be counted stops the source, or with `skip_bad` is left out.

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
        self._tell, self._skip_bad = tell, skip_bad
        self._closing = threading.Event()
        self._seen_good = False  # whether messages of this source can be counted
        self._in_flight: deque[tuple[Messages, list[Future[int]]]] = deque()
        self._thread = threading.Thread(target=self._run, name=broker.name, daemon=True)
        self.name = broker.name
        self.stopped: str | None = None
        self.lag: int | None = None
        self._look_at = 0.0
        self.trouble: str | None = NOT_YET

    def start(self, take: Take) -> None:
        self._take = take
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                self._read()
                self._look()
                self._settle()
        except Hopeless as stop:
            self.stopped = str(stop)
        except BaseException as error:  # its text could quote a message
            drop_frames(error)
            self.stopped = f"failed: {type(error).__name__}"
        if self.stopped is not None:
            self._tell("stopped", self.stopped)
        try:  # acknowledge the messages on disk, up to the first refusal, and disconnect
            while self._in_flight and not self.stopped and first_refusal(self._in_flight[0][1]) is None:
                self._acknowledge(self._in_flight.popleft()[0])
        finally:
            for messages, _ in self._in_flight:
                messages.payloads.wipe()
            self._broker.close()

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
            self._look_at, waiting = time.monotonic() + _LOOK, None
            with suppress(Unreachable):  # or this user may not ask
                waiting = self._broker.waiting()
            self.lag = None if waiting is None else magnitude(waiting, _FEW)

    def _hand_over(self, messages: Messages, start: int, end: int) -> "list[Future[int]]":
        """Hand messages to the counter, up to the first refusal."""
        futures: list[Future[int]] = []
        try:
            for body in bodies_of(messages.payloads.part(start, end), self._columns, self._payload):
                try:
                    futures.append(self._take(body))
                except Refused:
                    body.wipe()
                    raise
        except Refused as refused:
            drop_frames(refused)
            futures.append(Future())
            futures[-1].set_exception(refused)
        return futures

    def _settle(self) -> None:
        """Acknowledge the messages on disk; wait for them if the counter is too full for more."""
        while self._in_flight:
            messages, futures = self._in_flight[0]
            bytes_ = sum(len(each.payloads.octets) for each, _ in self._in_flight)
            is_full = len(self._in_flight) >= _AHEAD or (bytes_ >= _MOST and len(self._in_flight) > 1)
            if not (is_full or all(each.done() for each in futures)):
                return
            if first_refusal(futures) is not None:
                self._count_again()
                return
            self._seen_good = True
            self._in_flight.popleft()
            self._acknowledge(messages)

    def _count_again(self) -> None:
        """Count all that is with the counter once more, one batch after the other."""
        for _, futures in self._in_flight:
            first_refusal(futures)
        while self._in_flight:
            messages, skipped = self._in_flight[0][0], list[str]()
            if not self._counted(messages, 0, len(messages.payloads), skipped):  # the consumer is closing
                return
            self._in_flight.popleft()
            self._acknowledge(messages)
            if skipped:
                more = f", and {len(skipped) - 1} more" if len(skipped) > 1 else ""
                self._tell("skipped", f"{skipped[0]}{more}")

    def _counted(self, messages: Messages, start: int, end: int, skipped: list[str]) -> bool:
        """Count some messages, or else the one half and then the other, down to the bad message.

        What is refused for now, because the disk is full or the service is busy, is handed over again until it is
        taken, or the consumer is closing: then this is False.
        """
        while (refused := first_refusal(self._hand_over(messages, start, end))) is not None:
            if refused.type.is_lasting:
                break
            if self._closing.wait(refused.retry or _RETRY):
                return False
        if refused is None:
            self._seen_good = True
        elif end - start > 1:
            middle = (start + end) // 2
            return self._counted(messages, start, middle, skipped) and self._counted(messages, middle, end, skipped)
        else:
            skipped.append(f"{messages.place(start)}: {refused}")
            if not self._skip_bad:
                raise Hopeless(skipped[0])
            if not self._seen_good and len(skipped) >= _TELLING:
                raise Hopeless(f"none of the first {_TELLING} messages can be counted; the first is {skipped[0]}")
        return True

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


def first_refusal(futures: "list[Future[int]]") -> Refused | None:
    """Wait for all, and return the first refusal, if there is one."""
    refusal = next(filter(None, [future.exception() for future in futures]), None)
    if refusal is None or isinstance(refusal, Refused):
        return refusal
    raise refusal
