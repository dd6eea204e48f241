"""A command on a terminal, and what a person sees there when it has ended."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from pathlib import Path

from commands import start

_TOLD = re.compile(r"\x1b\[(?P<by>[0-9;?]*)(?P<what>[A-Za-z])|(?P<text>[^\x1b])")


def screen(output: str) -> list[str]:
    r"""The lines that are left of an output whose cursor went back and forth.

    >>> screen("50 %\r\x1b[2Kan answer\n\x1b[1mbold\x1b[0m\n100 %\n\x1b[1A\x1b[2K")
    ['an answer', 'bold']
    """
    lines, row, column = [""], 0, 0
    for told in _TOLD.finditer(output):
        if told["what"] == "A":
            row = max(row - int(told["by"] or 1), 0)
        elif told["what"] == "K":
            lines[row] = ""
        elif told["text"] == "\r":
            column = 0
        elif told["text"] == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif told["text"]:
            lines[row] = lines[row][:column].ljust(column) + told["text"] + lines[row][column + 1 :]
            column += 1
    return [line for line in lines if line]


def watched(*arguments: str | int | float | Path, typed: str = "") -> list[str]:
    """Run a command on a terminal of 200 columns, and type; what is on the screen at the end."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    environment["TERM"] = "xterm"
    os.write(ours, typed.encode())
    keyboard = theirs if typed else subprocess.DEVNULL
    process = start(*arguments, stdin=keyboard, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    output = b""
    while piece := _read(ours):
        output += piece
    assert process.wait() == 0, output
    os.close(ours)
    return screen(output.decode())


def _read(handle: int) -> bytes:
    try:
        return os.read(handle, 2**16)
    except OSError:  # Linux's word for the end of a terminal
        return b""
