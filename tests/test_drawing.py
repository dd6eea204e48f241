"""Pictures: what is asked for without matplotlib, or where none can be written, is refused before anything is done."""

import sys
from pathlib import Path

import pytest

from command_line import invoke
from panprivacy.estimates import plots as drawing
from panprivacy.testing import refused

TO_INSTALL = "pictures need matplotlib: pip install 'panprivacy[plot]', or pip install '.[plot]' in a checkout"
SERIES = ("--releases", "2", "--release-every", "7d", "--time", "when", "--plot", "series.png")


@pytest.fixture
def _without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.mark.usefixtures("_without_matplotlib")
@pytest.mark.parametrize(
    "command",
    [
        ("plan", "-n", "1000", "-e", "1", "--plot", "plan.png"),
        ("density", "visits.csv", "-c", "user", "-n", "1000", "-e", "1", "--state", "flu.pp", *SERIES),
        ("reproduce", "--quick", "--figure", "1"),
    ],
    ids=lambda command: str(command[0]),
)
def test_without_matplotlib_one_line_says_what_to_install_and_nothing_is_done(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.csv").write_text("user,when\n1,2026-01-05\n")
    result = invoke(command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"panprivacy: {TO_INSTALL}\n"
    assert [file.name for file in tmp_path.iterdir()] == ["visits.csv"]


@pytest.mark.usefixtures("_without_matplotlib")
def test_a_plan_without_a_picture_needs_no_matplotlib() -> None:
    assert invoke(["plan", "-n", "1000", "-e", "1"]).exit_code == 0


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("a.txt", ("picture-format", ".pdf")),
        ("a", ("picture-format",)),
        ("/nowhere/at/all.png", ("picture-folder", "/nowhere/at")),
    ],
)
def test_a_file_that_could_not_be_written_is_refused(path: str, named: tuple[str, ...]) -> None:
    with refused(*named, path):
        drawing.check_picture(path)


def test_the_ending_of_a_picture_may_be_in_capitals(tmp_path: Path) -> None:
    drawing.check_picture(tmp_path / "PLAN.PNG")


@pytest.mark.slow
@pytest.mark.parametrize("suffix", drawing.FORMATS)
def test_a_picture_drawn_twice_is_the_same_file(suffix: str, tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    for name in ("one", "other"):
        with drawing.look():
            figure = Figure()
            figure.subplots().plot([1, 2], [3, 4])
            drawing.save(figure, tmp_path / f"{name}{suffix}")
    assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"other{suffix}").read_bytes()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
def test_a_full_disk_is_named_with_the_file(tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    (tmp_path / "full.png").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as error:
        drawing.save(Figure(), tmp_path / "full.png")
    assert error.value.filename == str(tmp_path / "full.png")
