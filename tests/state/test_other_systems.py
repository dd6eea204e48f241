"""Where the system lacks what a part needs, a sentence says so."""

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


def test_hardening_says_what_windows_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    hardened = pp.harden()
    assert {"the C library overwrites what is freed", "other processes of this user cannot read its memory"} <= {
        measure.name for measure in hardened.missing
    }
