"""A first run compiles: a person at a terminal is told, a pipe is not, and `panprivacy compile` does it beforehand."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import panprivacy
from panprivacy.kernels import ALWAYS, READERS, SIGNATURES, SOME, load_kernels

pytestmark = pytest.mark.slow

COMPILES = """
import io, sys
class Stream(io.StringIO):
    isatty = lambda self: {terminal}
sys.stderr = Stream()
from panprivacy.kernels import load_kernels
load_kernels(())
import numba
for _ in range(2):
    numba.njit("int64(int64)")(lambda n: n + 1)
print(sys.stderr.getvalue())
"""


@pytest.mark.parametrize("terminal", [True, False])
def test_compiling_is_told_once_to_a_terminal_and_not_to_a_pipe(terminal: bool) -> None:
    script = COMPILES.format(terminal=terminal)
    run = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert run.stdout.count("the first run compiles, once") == terminal
    assert (f"2 of {SIGNATURES}" in run.stdout) == terminal


def test_the_bar_knows_how_many_kernels_a_first_estimator_needs() -> None:
    from numba.core.caching import NullCache
    from numba.core.dispatcher import Dispatcher

    load_kernels()
    kernels = {
        thing
        for name in ALWAYS
        for thing in vars(import_module(f"panprivacy.{name}")).values()
        if isinstance(thing, Dispatcher) and not isinstance(getattr(thing, "_cache", None), NullCache)
    }
    own = [each for each in kernels if each.py_func.__name__ != "add_gaussian"]
    assert sum(len(each.signatures) for each in own) == SIGNATURES


def test_every_module_of_kernels_is_one_that_compile_loads() -> None:
    root = Path(panprivacy.__path__[0])
    paths = (path.relative_to(root).with_suffix("") for path in root.rglob("*kernels.py"))
    found = {".".join(path.parts) for path in paths}
    elsewhere = {"kernels", "paper.kernels", "audit.memory.kernels"}  # few programs need these
    assert found - elsewhere == {name for name in (*ALWAYS, *SOME, *READERS) if name.endswith("kernels")}
