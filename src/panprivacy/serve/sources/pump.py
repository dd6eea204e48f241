"""The thread between a broker and a counter: fetches, hands over, and acknowledges what is on disk, in order."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from panprivacy.events import Columns
from panprivacy.serve.refusals import Refused, without_frames
from panprivacy.serve.sources.careful import Careful, Stopped, first_refusal
from panprivacy.serve.sources.messages import Broker, Hopeless, Messages, Unreachable
from panprivacy.serve.sources.payloads import Payload, bodies_of

_AHEAD = 64  # batches that are with the counter at once: while some are written, the next are parsed
_MOST = 16 * 2**20  # bytes that they have together: two may have more, so that one is fetched while another is counted
_WAIT = 0.5  # seconds to wait for messages
_GLANCE = 0.05  # seconds to wait for them while something waits to be acknowledged
_PAUSE = 0.5  # seconds before a broker that does not answer is asked again


class Pump:
    """Reads a broker until it is closed. It is a `Source`.

    Nothing is acknowledged before it is on disk, so whatever breaks off in between, the broker gives it out again; and
    counting a message twice is as good as counting it once. What is refused is counted again in order, together with
    all that was handed over after it: of a user's insertion and deletion, the later one stays the last.

    `tell` is called with a word (``unreachable``, ``reached``, ``made``, ``skipped``, ``stopped``) and a cause that
    quotes no message, by the thread of the pump.
    """

    def __init__(
        self,
        broker: Broker,
        columns: Columns,
        *,
        batch: int,
        form: Payload | None = None,
        skip_bad: bool = False,
        tell: Callable[[str, str], None] = lambda _word, _cause: None,
    ) -> None:
        self._broker = broker
        self._columns, self._batch, self._form = columns, batch, form
        self._tell = tell
        self._over = threading.Event()
        self._careful = Careful(self._hand_over, self._over, skip=skip_bad)
        self._flying: deque[tuple[Messages, list[Future[Any]]]] = deque()
        self._trouble: str | None = None
        self._thread = threading.Thread(target=self._run, name=broker.name, daemon=True)
        self.name = broker.name
        self.stopped: str | None = None
        """Why no more messages are taken, if they are not."""

    def start(self, take: "Callable[[Any], Future[int]]") -> None:
        """Begin to read."""
        self._take = take
        self._thread.start()

    def close(self) -> None:
        """Stop reading, acknowledge what is on disk, and let go of the broker."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                self._read()
                self._settle()
        except (Stopped, Hopeless) as stop:
            self._stop(str(stop))
        except BaseException as error:  # what it says could quote a message
            without_frames(error)
            self._stop(f"failed: {type(error).__name__}")
        self._end()

    def _read(self) -> None:
        try:
            messages = self._broker.fetch(self._batch, _GLANCE if self._flying else _WAIT)
        except Unreachable as error:
            without_frames(error)
            self._note_trouble(str(error))
            self._over.wait(_PAUSE)
            return
        if messages is not None:
            self._note_trouble(None)
            self._flying.append((messages, self._hand_over(messages, 0, len(messages.payloads))))

    def _hand_over(self, messages: Messages, start: int, end: int) -> "list[Future[Any]]":
        try:
            part = messages.payloads.part(start, end)
            return [self._taken(body) for body in bodies_of(part, self._columns, self._form)]
        except Refused as refused:
            return [_failed(refused)]

    def _taken(self, body: Any) -> "Future[Any]":
        try:
            return self._take(body)
        except Refused as refused:
            body.wipe()
            return _failed(refused)

    def _settle(self) -> None:
        """Acknowledge what is on disk; wait for it if so much is with the counter that nothing more is to be read."""
        while self._flying and (self._is_full or all(each.done() for each in self._flying[0][1])):
            messages, futures = self._flying[0]
            if first_refusal(futures) is not None:
                self._count_again()
                return
            self._careful.note_good()
            self._flying.popleft()
            self._acknowledge(messages)

    @property
    def _is_full(self) -> bool:
        bytes_ = sum(len(each.payloads.octets) for each, _ in self._flying)
        return len(self._flying) >= _AHEAD or (bytes_ >= _MOST and len(self._flying) > 1)

    def _count_again(self) -> None:
        """Count all that is with the counter once more, one batch after the other."""
        for _, futures in self._flying:
            first_refusal(futures)
        while self._flying:
            messages = self._flying[0][0]
            passed_over = self._careful.count(messages)
            if passed_over is None:  # no time left
                return
            self._flying.popleft()
            self._acknowledge(messages)
            if passed_over:
                more = f", and {len(passed_over) - 1} more" if len(passed_over) > 1 else ""
                self._tell("skipped", f"{passed_over[0]}{more}")

    def _acknowledge(self, messages: Messages) -> None:
        messages.payloads.wipe()  # nobody will have to count them again
        try:
            self._broker.acknowledge(messages)
        except Unreachable as error:
            without_frames(error)
            self._note_trouble(str(error))  # then it gives them out again, which does no harm

    def _note_trouble(self, cause: str | None) -> None:
        if cause != self._trouble:
            self._trouble = cause
            self._tell("reached" if cause is None else "unreachable", cause or "messages come again")

    def _stop(self, cause: str) -> None:
        self.stopped = cause
        self._tell("stopped", cause)

    def _end(self) -> None:
        """Acknowledge what is on disk by now, as far as nothing was refused before it, and let go."""
        try:
            while self._flying and not self.stopped and first_refusal(self._flying[0][1]) is None:
                self._acknowledge(self._flying.popleft()[0])
        finally:
            for messages, _ in self._flying:
                messages.payloads.wipe()
            self._broker.close()


def _failed(refused: Refused) -> "Future[Any]":
    without_frames(refused)
    future: Future[Any] = Future()
    future.set_exception(refused)
    return future
