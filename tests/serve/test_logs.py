"""Logs are lines of JSON, and what libraries say is not quoted in them."""

import ctypes
import json
import logging
import os
import sys

import pytest

from panprivacy.serve.logs import libraries_unquoted, log, warnings_only


def _say_things(panic: bytes) -> None:
    with libraries_unquoted():
        log("released", counter="flu")
        logging.getLogger("uvicorn.error").warning("cannot read 7654321")
        sys.excepthook(ValueError, ValueError("7654321"), None)
        ctypes.CDLL(None).write(2, panic, len(panic))  # as a runtime of another language does


def test_what_libraries_say_is_not_quoted_however_they_say_it(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    panic = b"thread panicked at crates/polars: cannot read 7654321\n"
    with os.fdopen(os.dup(2), "w") as error, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", error)  # pytest has one of its own in its place
        _say_things(panic)
    os.write(2, b"afterwards\n")
    lines = capfd.readouterr().err.splitlines()
    assert lines.pop() == "afterwards"
    said = [json.loads(line) for line in lines]
    assert [(each["event"], each.get("library")) for each in said] == [
        ("released", None),
        ("note of a library", "uvicorn.error"),
        ("failed", None),
        ("note of a library", "standard error"),
    ]
    assert not any("7654321" in line for line in lines)


def test_where_somebody_reads_the_terminal_warnings_only_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings_only():
        log("released", counter="demo")
        log("a measure is not in force", level="warning")
    log("released", counter="flu")
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [each["level"] for each in said] == ["warning", "info"]
