"""Running commands in this process, and as processes of their own."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from command_line import Result, invoke
from warm import WarmCommand, warm_commands


def run(*arguments: str | int | float | Path) -> Result:
    """Run a command here."""
    return invoke(arguments)


def answer(*arguments: str | int | float | Path) -> dict[str, Any]:
    """Run a command with --json; its last answer."""
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


def refused(*arguments: str | int | float | Path) -> str:
    """Run a command that must fail: exit status 2, one line on standard error, and nothing else."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line


PROGRAM = [sys.executable, "-m", "panprivacy"]
"""The program, from nothing; it starts itself anew where memory has to be wiped."""
APP = [sys.executable, "-c", "from panprivacy.cli import app; app()"]
"""The same from nothing, as a function that a user's own program calls: it never starts itself anew."""


def start(*arguments: str | int | float | Path, command: Sequence[str] = (), **options: Any) -> subprocess.Popen[bytes]:
    """Start a command as a process with pipes: `APP`, with all loaded that it needs, unless told otherwise."""
    words = [*(command or [str(warm_commands() / "app")]), *(str(word) for word in arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return (subprocess.Popen if command else WarmCommand)(words, **{**pipes, **options})


def wait_until_written(file: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait for a process to write a file; if it ends without, what it said."""
    while process.poll() is None and not file.exists():
        time.sleep(0.005)
    assert file.exists(), process.communicate()
