"""Commands in this process: what they print, and their exit status."""

import io
import os
from collections.abc import Iterable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from panprivacy.cli import app


@dataclass(frozen=True)
class Result:
    """What a command printed, and its exit status."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        """All that was printed, errors last."""
        return self.stdout + self.stderr


def invoke(words: Iterable[str | int | float | Path], env: Mapping[str, str] | None = None) -> Result:
    """Run a command in this process; an error that is no refusal of a command is raised."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
    status = 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
        for name, value in {**os.environ, **(env or {})}.items():
            patch.setenv(name, value)
        try:
            app([str(word) for word in words])
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
    out, err = (stream.buffer.getvalue().decode() for stream in streams)
    return Result(status, out, err)
