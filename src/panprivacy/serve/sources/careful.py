"""Counting messages that were refused once: slowly, in order, and without those that can never be counted."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from panprivacy.errors import PanPrivacyError
from panprivacy.serve.refusals import Refused
from panprivacy.serve.sources.messages import Messages

_PAUSE = 1.0  # seconds before the same is tried once more, if nobody says another time
_TELLING = 100  # bad messages before a good one that are enough to tell that something else is wrong


class Stopped(PanPrivacyError):
    """No more messages are taken, for a reason that quotes none of them."""


class Careful:
    """Hands over a batch, and where it is refused its two halves, until it is one message that is to blame.

    What is refused for now, because the disk is full or the service is busy, is handed over again until it is taken or
    `over` is set. Whether a message that can never be counted is passed over, or ends it all, is `skip`.
    """

    def __init__(
        self, hand_over: Callable[[Messages, int, int], "list[Future[Any]]"], over: threading.Event, *, skip: bool
    ) -> None:
        self._hand_over = hand_over
        self._over = over
        self._skip = skip
        self._seen_good = False
        self._bad: list[str] = []

    def note_good(self) -> None:
        """Note that messages of this kind can be counted."""
        self._seen_good = True

    def count(self, messages: Messages) -> list[str] | None:
        """Count a batch; what is to be said of the messages that were passed over, None if there was no time left."""
        self._bad = []
        return self._bad if self._counted(messages, 0, len(messages.payloads)) else None

    def _counted(self, messages: Messages, start: int, end: int) -> bool:
        refused = self._refusal(messages, start, end)
        if refused is None:
            self._seen_good = True
            return True
        if refused.why.value.status >= 500:
            return False
        if end - start == 1:
            self._blame(f"{messages.place(start)}: {refused}")
            return True
        middle = (start + end) // 2
        return self._counted(messages, start, middle) and self._counted(messages, middle, end)

    def _refusal(self, messages: Messages, start: int, end: int) -> Refused | None:
        """Hand over some messages until they are counted, or refused for good; in the latter case, why."""
        while True:
            refused = first_refusal(self._hand_over(messages, start, end))
            if refused is None or refused.why.value.status < 500 or self._over.wait(refused.retry or _PAUSE):
                return refused

    def _blame(self, cause: str) -> None:
        self._bad.append(cause)
        if not self._skip:
            raise Stopped(cause)
        if not self._seen_good and len(self._bad) >= _TELLING:
            raise Stopped(f"none of the first {_TELLING} messages can be counted; the first is {self._bad[0]}")


def first_refusal(futures: "list[Future[Any]]") -> Refused | None:
    """Wait for all, and say what was wrong first, if something was."""
    refusals = [future.exception() for future in futures]
    for refusal in refusals:
        if isinstance(refusal, Refused):
            return refusal
        if refusal is not None:
            raise refusal
    return None
