"""Logs are lines of JSON, and what libraries say is not quoted in them."""

import ctypes
import json
import logging
import os
import sys
from pathlib import Path

import pytest
from service_for_tests import client_of, settings_for

from panprivacy.serve.logs import cause_of, libraries_unquoted, log, warnings_only


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
    assert said[1]["place"].startswith("test_logs:")


def test_a_warning_that_is_repeated_is_counted(capfd: pytest.CaptureFixture[str]) -> None:
    with os.fdopen(os.dup(2), "w") as error, pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stderr", error)
        with libraries_unquoted():
            for _ in range(5):
                log("the disk is full", level="error", counter="flu")
                log("released", release=1)
    said = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [each.get("repeated") for each in said if each["level"] == "error"] == [None, 4]
    assert sum(each["event"] == "released" for each in said) == 5


def test_a_token_that_is_not_known_is_logged_without_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with client_of(settings_for(tmp_path)) as client:
        assert client.get("/counters", headers={"authorization": "Bearer pp_7654321"}).status_code == 401
    lines = capsys.readouterr().err.splitlines()
    (said,) = (each for each in map(json.loads, lines) if each["event"] == "a token is not known")
    assert said["level"] == "warning"
    assert set(said) == {"at", "level", "event"}


def test_an_error_is_logged_with_its_place_and_without_its_words() -> None:
    try:
        int("7654321x")
    except ValueError as error:
        cause = cause_of(error)
    assert cause["sort"] == "ValueError"
    assert cause["place"].startswith("test_logs:")


def test_where_somebody_reads_the_terminal_warnings_only_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings_only():
        log("released", counter="demo")
        log("a measure is not in force", level="warning")
    log("released", counter="flu")
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [each["level"] for each in said] == ["warning", "info"]
