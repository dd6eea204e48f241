"""When is a release due? At a signal, or when a period is over."""

import select
import signal
import socket
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")


class Bell:
    """Rings for each SIGUSR1 and at the end of each period; SIGINT, SIGTERM and SIGHUP end the input.

    Python runs a signal's handler and goes back to waiting. So that it does not, every signal also writes to a
    socket that `wait` watches beside the input.
    """

    def __init__(self, every: float | None = None) -> None:
        self._every = every
        self._next = time.monotonic() + every if every else None
        self._asked = 0
        self.over = False
        """Whether the input is to end here."""
        self.wake_at: float | None = None
        """When to stop waiting because there is something else to do, by `time.monotonic`."""

    def __enter__(self) -> Self:
        self._woken, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self._woken.setblocking(False)
        self._old_waker = signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        self._old: dict[int, Any] = {
            number: signal.signal(number, handler)
            for number, handler in (
                (signal.SIGUSR1, self._ask),
                (signal.SIGINT, self._end),
                (signal.SIGTERM, self._end),
                (signal.SIGHUP, self._end),
            )
            if signal.getsignal(number) != signal.SIG_IGN or number == signal.SIGUSR1  # nohup ignores SIGHUP
        }
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_waker)
        self._woken.close()
        self._waker.close()

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self._asked += 1

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        self.over = True

    def wait(self, handle: int, *, at_most: float | None = None) -> bool:
        """Wait until there is input, the bell rings, or a time is over; tell whether there is input."""
        moments = [max(moment - time.monotonic(), 0.0) for moment in (self._next, self.wake_at) if moment is not None]
        times = [*moments, at_most] if at_most is not None else moments
        ready, _, _ = select.select([handle, self._woken.fileno()], [], [], min(times, default=None))
        if self._woken.fileno() in ready:
            self._woken.recv(4096)
        return handle in ready

    def undisturbed(self, call: Callable[[], T]) -> T:
        """Run a call that Ctrl-C may break off, and then once more: it ends the input, not what has come before it.

        Polars takes SIGINT for itself while it works, whatever the handler, and raises.
        """
        try:
            return call()
        except KeyboardInterrupt:
            self.over = True
            return call()

    def rings(self) -> bool:
        """Whether a release is due; each is told once."""
        if self._next is not None and time.monotonic() >= self._next:
            assert self._every is not None
            # Periods missed while something else took long are not made up for: their releases would be alike.
            self._next += self._every * ((time.monotonic() - self._next) // self._every + 1)
            return True
        if self._asked:
            self._asked -= 1
            return True
        return False
