"""What a process does to the files of a folder: every call with its name, place and length, noted outside the folder.

`start` is called in the process that is watched, whose folder is given by the variable `FOLDER` of its environment.
What is noted has neither times nor content, and no process numbers.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER, NOTES = "PANPRIVACY_AUDIT_FOLDER", "PANPRIVACY_AUDIT_NOTES"
"""Variables of the environment: which folder is watched, and the file that calls are noted in."""

_EVENTS = ("open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.utime", "os.chmod")
_WRITES = ("pwrite", "write", "posix_fallocate", "fsync", "fdatasync")


def start() -> None:
    """Note from now on what this process does to the folder."""
    folder = os.environ[FOLDER]
    notes = os.open(os.environ[NOTES], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    write = os.write

    def note(call: str, *about: Any) -> None:
        named = [_named(each, folder) for each in about]
        if any(isinstance(each, str) and each.startswith("/") for each in named):
            write(notes, f"{call} {' '.join(map(str, named))}\n".encode())

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _EVENTS:
            path, *rest = arguments
            note(event.removeprefix("os."), *([path, rest[-1]] if event == "open" else arguments))

    sys.addaudithook(heard)
    for name in _WRITES:
        setattr(os, name, _noted(name, getattr(os, name), note))


def _noted(name: str, call: Callable[..., Any], note: Callable[..., None]) -> Callable[..., Any]:
    def noted(handle: int, *arguments: Any) -> Any:
        note(name, Path(f"/proc/self/fd/{handle}"), *(_length(each) for each in arguments))
        return call(handle, *arguments)

    return noted


def _length(argument: Any) -> int:
    """Of content how long it is, of a number the number."""
    return argument if isinstance(argument, int) else len(argument)


def _named(about: Any, folder: str) -> Any:
    """A file by its name in the folder, which then begins with a slash; anything else as it is."""
    if isinstance(about, Path):
        try:
            about = os.readlink(about)  # noqa: PTH115 - an open file, by its number
        except OSError:
            return ""
    if isinstance(about, bytes):
        about = os.fsdecode(about)
    if isinstance(about, str):
        return about.removeprefix(folder) if about.startswith(folder + "/") else ""
    return "" if about is None else about
