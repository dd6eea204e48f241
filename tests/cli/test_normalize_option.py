"""`--normalize`: a list says 00001, a file that went through a spreadsheet says 1."""

from pathlib import Path

import pytest
from commands import answer, refused

USERS = 3000


def files(folder: Path) -> tuple[Path, Path]:
    (folder / "users.csv").write_text("id;region\n" + "".join(f"{user:05};north\n" for user in range(USERS)))
    (folder / "visits.csv").write_text("user\n" + "".join(f"{user}\n" for user in range(USERS)))
    return folder / "users.csv", folder / "visits.csv"


def test_strangers_whom_the_list_spells_otherwise_are_refused_with_the_option_that_helps(tmp_path: Path) -> None:
    users, visits = files(tmp_path)
    asked = ("density", visits, "-c", "user", "--universe-file", f"{users}:id", "-e", 20)
    assert "row 1: user '0' is outside the listed users, where it is spelled '00000'; --normalize zeros" in refused(
        *asked
    )
    for more in (("--skip-outside",), ("--skip-outside", "--skip-missing")):
        line = refused(*asked, *more)
        assert "rows of a listed user would be left out; --normalize zeros reads both as one" in line
    assert answer(*asked, "--normalize", "zeros")["density"] == pytest.approx(1, abs=0.05)
    assert answer(*asked, "--normalize", "all", "--skip-outside")["density"] == pytest.approx(1, abs=0.05)


def test_normalize_is_for_a_list_and_says_what_it_takes(tmp_path: Path) -> None:
    users, visits = files(tmp_path)
    asked = ("density", visits, "-c", "user", "-e", 20)
    assert "--normalize is for listed users" in refused(*asked, "--universe", USERS, "--normalize", "zeros")
    line = refused(*asked, "--universe-file", f"{users}:id", "--normalize", "lower")
    assert "normalize takes strip, nfc, case, zeros, all or none, got 'lower'" in line
