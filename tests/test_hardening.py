"""`pp.harden()`: what it says is what is."""

import ctypes
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from panprivacy.memory import hardening

linux = pytest.mark.skipif(sys.platform != "linux", reason="what can be done depends on the system")


def _python(code: str, **environment: str) -> str:
    """What a Python of its own prints: hardening cannot be taken back."""
    clean = {name: value for name, value in os.environ.items() if name not in hardening.AT_START}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=clean | environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
@linux
def test_in_a_running_process_it_does_what_can_be_done_and_says_what_cannot() -> None:
    code = """
import resource, panprivacy as pp
done = pp.harden()
print([measure.in_force for measure in done], done.complete)
print(resource.getrlimit(resource.RLIMIT_CORE))
print(done)
"""
    first, cores, *lines = _python(code).splitlines()
    assert first.startswith("[False, False, True, True, True, ")
    assert first.endswith(" False")
    assert cores == "(0, 0)"
    assert lines[0].startswith("NO  the C library overwrites what is freed: pieces of up to 1 KiB")
    assert lines[1].startswith("NO  Python frees its small objects to the C library: ")
    assert lines[3] == "yes no core dumps"
    assert lines[-1].startswith("what has to be said before Python starts: env MALLOC_PERTURB_=165 PYTHONMALLOC=malloc")


@pytest.mark.slow
@linux
def test_a_process_that_was_started_as_it_says_has_all_of_it() -> None:
    printed = _python("import panprivacy as pp; print(pp.harden())", **hardening.AT_START)
    assert [line[:4] for line in printed.splitlines()[:5]] == ["yes "] * 5
    assert "env " not in printed


@pytest.mark.slow
@linux
def test_polars_that_is_loaded_already_cannot_be_told() -> None:
    code = "import polars, panprivacy as pp; print([m for m in pp.harden() if 'Polars' in m.name][0])"
    assert _python(code).startswith("NO  Polars overwrites what it frees: it is loaded already")
    code = (
        "import panprivacy as pp; pp.harden(); import polars; print([m for m in pp.harden() if 'Polars' in m.name][0])"
    )
    assert _python(code) == "yes Polars overwrites what it frees\n"


@pytest.mark.slow
@linux
def test_what_is_freed_is_overwritten_and_this_test_could_tell() -> None:
    code = """
import ctypes, panprivacy as pp
from panprivacy.memory import hardening
libc = ctypes.CDLL(None)
print(hardening._is_overwritten(libc, 1000), hardening._is_overwritten(libc, 5000))
pp.harden()
print(hardening._is_overwritten(libc, 1000), hardening._is_overwritten(libc, 5000))
"""
    assert _python(code).split() == ["False", "False", "False", "True"]
    assert _python(code, **hardening.AT_START).split() == ["True"] * 4


def test_it_is_readable_on_a_terminal_too() -> None:
    from rich.console import Console

    done = hardening.Hardening((hardening.Measure("x", True), hardening.Measure("y", False, "why", at_start=True)))
    console = Console(width=300)
    with console.capture() as captured:
        console.print(done)
    shown = captured.get()
    assert "why" in shown
    assert "before Python starts" in shown
    assert done.missing == (done.measures[1],)


def test_a_process_that_is_not_the_program_is_never_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "execve", lambda *_: pytest.fail("started again"))
    assert hardening.start_hardened() is None


def test_the_program_starts_itself_once(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[str, list[str], dict[str, str]]] = []
    monkeypatch.setattr(os, "execve", lambda *call: started.append(call))
    monkeypatch.setattr(hardening, "_is_program", True)
    monkeypatch.setattr(hardening, "harden", lambda: hardening.Hardening(()))
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=1")
    hardening.start_hardened()
    ((program, words, environment),) = started
    assert [program, *words[1:]] == [sys.executable, *sys.orig_argv[1:]]
    assert environment["GLIBC_TUNABLES"] == "glibc.malloc.arena_max=1:glibc.malloc.tcache_count=0"
    assert environment["PYTHONMALLOC"] == "malloc"
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    hardening.start_hardened()
    assert len(started) == 1


@pytest.mark.parametrize(
    ("freed", "overwritten"),
    [
        (b"", False),  # as it was
        (b"\xa5" * 1000, True),
        (b"\xa5" * 300 + bytes(200) + b"\xa5" * 500, True),  # somebody got a part of it meanwhile
        (b"theirs, " * 125, True),  # somebody got all of it
        (b"\xa5" * 500, False),  # half of it is as it was
    ],
)
def test_whether_freed_memory_is_overwritten_is_told_whoever_gets_it_meanwhile(freed: bytes, overwritten: bool) -> None:
    memory = ctypes.create_string_buffer(1000)
    libc: Any = SimpleNamespace(
        malloc=lambda _size: ctypes.addressof(memory), free=lambda place: ctypes.memmove(place, freed, len(freed))
    )
    assert hardening._is_overwritten(libc, 1000) is overwritten
