"""Help, mistakes and plans come at once: they load neither kernels nor readers of files."""

import json
import subprocess
import sys

import pytest

from panprivacy.__main__ import main
from panprivacy.cli import COMMANDS

HEAVY = ("numba", "polars", "pyarrow", "matplotlib", "panprivacy.estimators.base")
NAMES = [name for panel in COMMANDS.values() for name in panel]
LOOKED = """
import contextlib, io, json, sys
from panprivacy.cli import app

found = {}
for words in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        with contextlib.suppress(SystemExit):
            app(words)
    found[" ".join(words)] = sorted(sys.modules)
json.dump(found, sys.stdout)
"""
"""Runs commands one after the other, and prints the modules that are loaded after each."""


def loaded_by(*commands: list[str]) -> dict[str, set[str]]:
    """The modules that are loaded after each command of one process."""
    program = [sys.executable, "-c", LOOKED]
    done = subprocess.run(program, input=json.dumps(commands), capture_output=True, text=True, check=True)
    return {words: set(modules) for words, modules in json.loads(done.stdout).items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "commands",
    [
        pytest.param([["--version"], ["--help"], *([name, "--help"] for name in NAMES)], id="help"),
        pytest.param([[], ["nothing"], *([name, "--no-such-option"] for name in NAMES)], id="mistakes"),
    ],
)
def test_help_and_mistakes_load_nothing_heavy(commands: list[list[str]]) -> None:
    for words, modules in loaded_by(*commands).items():
        assert not modules & {*HEAVY, "scipy", "cryptography"}, words


@pytest.mark.slow
def test_a_plan_loads_no_kernels() -> None:
    plan = ["plan", "-n", "100000", "-e", "1"]
    more = [["--alpha", "0.1"], ["--up-to", "4"], ["--density", "0.01"], ["--delta", "1e-9", "--releases", "99"]]
    periods = [["--estimator", name] for name in ("Retention", "ActiveUsers")]
    open_universe = ["plan", "-e", "1", "--count", "100000", "--json"]

    for words, modules in loaded_by(*([*plan, *each] for each in (*more, *periods)), open_universe).items():
        assert not modules & set(HEAVY), words


@pytest.mark.slow
def test_the_check_sees_what_a_command_loads() -> None:
    (modules,) = loaded_by(["demo", "--visits", "10"]).values()

    assert {"numba", "panprivacy.estimators.base"} <= modules


class _Interrupting:
    """Finds modules as Python does, but that somebody presses Ctrl-C when the command line is asked for."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "panprivacy.cli":
            raise KeyboardInterrupt


def test_ctrl_c_while_it_loads_ends_it_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "panprivacy.cli", raising=False)
    monkeypatch.setattr(sys, "meta_path", [_Interrupting(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "panprivacy: interrupted\n"
