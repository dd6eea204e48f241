"""Where the system lacks what a part needs, a sentence says so."""

import subprocess
import sys
from pathlib import Path

import pytest

import panprivacy as pp
from panprivacy.testing import refused


def test_without_locks_of_posix_states_are_bytes_and_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    est = pp.Density(100, epsilon=1.0)
    assert pp.load(est.to_bytes()).to_bytes() == est.to_bytes()
    with refused("needs-posix"):
        est.save(tmp_path / "flu.pp")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_hardening_says_what_windows_lacks() -> None:
    """In a process of its own: hardening cannot be taken back."""
    program = (
        "import numba, sys, panprivacy as pp\n"
        "sys.platform = 'win32'\n"
        "print(*(measure.name for measure in pp.harden().missing), sep='\\n')"
    )
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert {"the C library overwrites what is freed", "other processes of this user cannot read its memory"} <= {
        *printed.stdout.splitlines()
    }
