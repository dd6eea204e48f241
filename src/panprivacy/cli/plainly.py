"""How commands speak: errors in one line, answers for people or for programs."""

import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType
from typing import Any

import typer

from panprivacy.checks import LargeDelta
from panprivacy.display import finite, line_of
from panprivacy.errors import PanPrivacyError
from panprivacy.release import CategoryRelease, FrequencyRelease, Release


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn what a user can mend into one line on standard error and exit status 2."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LargeDelta)  # commands say it in a note of theirs
            yield
    except BrokenPipeError:
        raise
    except (PanPrivacyError, ValueError, OSError) as error:
        typer.echo(f"panprivacy: {' '.join(_cause(error).split())}", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt as interrupt:
        number = interrupt.number if isinstance(interrupt, Ended) else signal.SIGINT
        how = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
        typer.echo(f"panprivacy: {how}; a state file is as it was last saved", err=True)
        raise typer.Exit(128 + number) from None


class Ended(KeyboardInterrupt):
    """A signal asks this process to end."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Have SIGTERM and SIGHUP end a command as Ctrl-C does: locks are given back, and files mended."""

    def end(number: int, _frame: FrameType | None) -> None:
        raise Ended(number)

    ours = threading.current_thread() is threading.main_thread()  # Python gives signals to this thread alone
    before = {
        number: signal.signal(number, end)
        for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))  # only POSIX has SIGHUP
        if ours and signal.getsignal(number) not in (signal.SIG_IGN, end)  # nohup has SIGHUP ignored
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let signals that end a command wait until something is done that should not be done by halves."""
    caught: list[int] = []
    ours = threading.current_thread() is threading.main_thread()
    before = {
        number: signal.signal(number, lambda number, _: caught.append(number))
        for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))
        if ours and signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if caught:
        signal.raise_signal(caught[0])


def _cause(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {(error.strerror or str(error)).lower()}"
    return str(error)


class CannotShow(PanPrivacyError):
    """The answer could not be written to standard output; the release that it shows is spent all the same."""


class Speaker:
    """Shows answers on standard output, and everything else on standard error."""

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        self.as_json = as_json
        """Whether answers are for programs."""
        self._quiet = quiet
        self.clear: Callable[[], AbstractContextManager[object]] = nullcontext
        """Takes the progress bar off the terminal while a line is written there."""

    @property
    def shows_progress(self) -> bool:
        """Whether a person watches standard error on a terminal."""
        return not self._quiet and sys.stderr.isatty()

    def answer(self, thing: Any, at: str | None = None) -> None:
        """Show a result, and its time if that matters: a table on a terminal, else one line, of JSON if asked."""
        if sys.stdout is None:  # Python's word for a descriptor that was closed from the start
            raise CannotShow("standard output is closed")
        try:
            with self.clear():
                self._write(thing, at)
        except BrokenPipeError:
            raise
        except OSError as error:
            # What is still in the buffer would fail once more when Python ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise CannotShow(f"standard output cannot be written: {(error.strerror or str(error)).lower()}") from None

    def _write(self, thing: Any, at: str | None) -> None:
        if self.as_json:
            typer.echo(json.dumps(finite(({"at": at} if at else {}) | as_fields(thing))))
        elif sys.stdout.isatty():
            from rich.console import Console

            Console().print(*([at] if at else []), thing, sep="\n")
        else:
            for line in lines_of(thing):
                typer.echo(f"{at}: {line}" if at else line)
        sys.stdout.flush()  # a pipe may be read long before this process ends

    def close(self, thing: Any) -> None:
        """Show what ends a series: for people under it, for programs on standard error, since it has another shape."""
        if self.as_json:
            self.note(as_line(thing))
        else:
            self.answer(thing)

    def note(self, text: str) -> None:
        """Say something that is not the answer."""
        if not self._quiet:
            with self.clear():
                typer.echo(f"panprivacy: {text}", err=True)


def lines_of(thing: Any) -> list[str]:
    """What a thing says of itself; a release, with a line for each of its groups."""
    if isinstance(thing, Release | FrequencyRelease | CategoryRelease):
        return [line_of(thing), *(row.told(f"{100 * thing.level:g}% interval") for row in thing.groups)]
    return [as_line(thing)]


def as_line(thing: Any) -> str:
    """What a thing says of itself, without the brackets that tell Python's programmers that it is no code."""
    text = str(thing)
    return text[1:-1] if text.startswith("<") and text.endswith(">") else text


def as_fields(release: Any) -> dict[str, Any]:
    """The fields of a release, by their names in the library."""
    fields: dict[str, Any] = release if isinstance(release, dict) else release.to_dict()
    return fields
