"""Ctrl-C while the program is loading."""

import sys

import pytest

from panprivacy.__main__ import main


class _Interrupting:
    """Finds modules as Python does, but that somebody presses Ctrl-C when the command line is asked for."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "panprivacy.cli":
            raise KeyboardInterrupt


def test_it_ends_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delitem(sys.modules, "panprivacy.cli", raising=False)
    monkeypatch.setattr(sys, "meta_path", [_Interrupting(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "panprivacy: interrupted\n"
