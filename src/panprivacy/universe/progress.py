"""How far a long iterator or reader has been counted, for a person who watches.

Shown are the number of events and their pace. Anyone who watches the process can see both anyway.
"""

import sys
from contextlib import suppress
from operator import length_hint
from time import monotonic
from typing import Any, Protocol, Self

from panprivacy.checks import shown as described
from panprivacy.errors import InvalidType

PATIENCE = 2.0
"""Seconds after which progress is shown; shorter waits need no display."""


_PAUSE = 10.0  # seconds between two lines of a log
_wanted: bool | None = None


def use_progress(shown: bool | None) -> None:
    """Show how far long iterators, lazy frames and readers have been counted, or do not.

    None, the default, shows a bar after two seconds if standard error is a terminal, or a line in a notebook, and is
    quiet elsewhere. False is always quiet. True writes lines also where there is no terminal, as into a log. Shown are
    the number of events and their pace, as in a shell.

    >>> import panprivacy as pp
    >>> pp.use_progress(False)
    >>> pp.use_progress(None)
    """
    global _wanted  # noqa: PLW0603 - a switch of the whole process
    if shown is not None and not isinstance(shown, bool):
        raise InvalidType(
            f"progress is True, False, or None for terminals only; got {described(shown)}", code="progress-type"
        )
    _wanted = shown


class Face(Protocol):
    """Where progress is shown."""

    def show(self, events: int, seconds: float) -> None:
        """Show how many events were counted in how many seconds."""
        ...

    def close(self) -> None:
        """Take the display away, or leave its last number."""
        ...


class Counter:
    """Counts events as they are taken, and shows how many once that has lasted; nothing if there is no terminal.

    An iterator that shows its own progress (tqdm) is left to do so.
    """

    def __init__(self, ids: object) -> None:
        watched = (_on_terminal() or _in_notebook()) if _wanted is None else _wanted
        self._watched = watched and type(ids).__module__.partition(".")[0] != "tqdm"
        # Most iterators do not know; one that fails when asked is not to fail here.
        self._expected = 0
        with suppress(Exception):
            self._expected = length_hint(ids) if self._watched else 0
        self._start = monotonic()
        self._events = 0
        self._face: Face | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._face is not None:
            self._face.close()

    def advance(self, events: int) -> None:
        """Add to the number of events taken."""
        self._events += events
        seconds = monotonic() - self._start
        if not self._watched or seconds < PATIENCE:
            return
        if self._face is None:
            self._face = Line(self._expected) if _on_terminal() else Cell() if _in_notebook() else Log()
        self._face.show(self._events, seconds)


class Line:
    """A bar on the last line of a terminal, taken away in the end."""

    def __init__(self, expected: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (BarColumn(), TextColumn("{task.fields[said]}"), TimeElapsedColumn())
        # Without a thread of its own: a bar that nobody closes does not go on drawing.
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
        self._task = self._progress.add_task("", total=expected or None, said="")
        self._progress.start()

    def show(self, events: int, seconds: float) -> None:
        """Draw the bar anew."""
        self._progress.update(self._task, completed=events, said=_said(events, seconds), refresh=True)

    def close(self) -> None:
        """Wipe the line."""
        self._progress.stop()


class Cell:
    """A line under the cell of a notebook, which stays there with the last number."""

    def __init__(self) -> None:
        from IPython.display import display

        self._handle: Any = display({"text/plain": ""}, raw=True, display_id=True)

    def show(self, events: int, seconds: float) -> None:
        """Write the line anew."""
        self._handle.update({"text/plain": _said(events, seconds)}, raw=True)

    def close(self) -> None:
        """Leave the line with its last number."""


class Log:
    """A line on standard error from time to time."""

    def __init__(self) -> None:
        self._next = 0.0

    def show(self, events: int, seconds: float) -> None:
        """Write a line, if the last one is some time ago."""
        if seconds >= self._next and sys.stderr is not None:
            print(_said(events, seconds), file=sys.stderr, flush=True)
            self._next = seconds + _PAUSE

    def close(self) -> None:
        """Leave the lines."""


def _said(events: int, seconds: float) -> str:
    return f"{events:,} events, {events / seconds:,.0f} a second"


def _on_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _in_notebook() -> bool:
    """Whether this is the kernel of a notebook, without importing IPython to find out."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"
