"""A bar for somebody who is looking, and silence in a pipe."""

import io
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from terminal import screen, watched

from panprivacy.cli.output import Meter, Output
from panprivacy.ingest import Batch


class Terminal(io.StringIO):
    """A place to write that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def _shown(files: list[str], batches: list[Batch], monkeypatch: pytest.MonkeyPatch) -> str:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with Meter(files, Output(as_json=False, quiet=False)) as meter:
        time.sleep(0.15)
        for batch in batches:
            meter.advance(batch)
    return terminal.getvalue()


@pytest.mark.slow
def test_the_bar_tells_bytes_events_a_second_and_the_time_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pl.DataFrame({"user": range(1000)})
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_bytes(bytes(1000))
    a, b = str(tmp_path / "a.csv"), str(tmp_path / "b.csv")
    shown = _shown([a, b], [Batch(a, rows, 0, 600), Batch(b, rows, 0, 500)], monkeypatch)
    assert "b.csv" in shown
    assert "1.5/2.0 kB" in shown
    assert "events/s" in shown
    assert ":" in shown


@pytest.mark.slow
def test_a_pipe_has_no_end_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = _shown([], [Batch("standard input", pl.DataFrame({"user": [1]}), 0, 2000)], monkeypatch)
    assert "2.0" in shown
    assert "events/s" in shown


def test_nobody_looking_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for out, quiet in ((io.StringIO(), False), (Terminal(), True)):
        monkeypatch.setattr(sys, "stderr", out)
        with Meter([], Output(as_json=False, quiet=quiet)) as meter:
            meter.advance(Batch("f", pl.DataFrame({"user": [1]}), 0, 1))
        assert out.getvalue() == ""


def test_a_person_sees_a_table_and_a_program_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import panprivacy as pp

    release = pp.Density(1000, epsilon=1.0).release()
    Output(as_json=False, quiet=False).answer(release)
    assert capsys.readouterr().out == f"{release}\n"
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    Output(as_json=False, quiet=False).answer(release)
    assert "Release 1" in terminal.getvalue()


def test_the_bar_makes_way_for_answers_and_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(sys, stream, terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    speaker = Output(as_json=False, quiet=False)
    with Meter([], speaker) as meter:
        for text in ("one", "two"):
            meter.advance(Batch("f", pl.DataFrame({"user": [1]}), 0, 1))
            speaker.note(text)
            speaker.answer(f"answer {text}")
    speaker.answer("the end")
    assert "events" in terminal.getvalue() or "bytes" in terminal.getvalue(), "there was a bar"
    assert screen(terminal.getvalue()) == ["panprivacy: one", "answer one", "panprivacy: two", "answer two", "the end"]


@pytest.mark.slow
def test_a_series_on_a_terminal_is_a_row_for_each_release_and_a_table_of_its_curve(tmp_path: Path) -> None:
    when = [datetime(2026, 1, 5) + i * timedelta(days=28) / 200_000 for i in range(200_000)]
    pl.DataFrame({"user": [i % 100 for i in range(200_000)], "when": when}).write_csv(tmp_path / "visits.csv")
    series = ("--releases", 4, "--release-every", "7d", "--time", "when", "--start", "2026-01-05")
    shown = watched("density", tmp_path / "visits.csv", "-c", "user", "-n", 100, "-e", 9, *series)
    until = [f"until 2026-{day}" for day in ("01-12", "01-19", "01-26")]
    until.append("until the events end, in the period to 2026-02-02")
    header, *rows = shown[:5]
    title, edge, *table, other_edge = shown[5:]
    assert header.split()[:2] == ["until", "density"]
    assert [line[:10] for line in rows] == ["2026-01-12", "2026-01-19", "2026-01-26", "2026-02-02"]
    assert "(open)" in rows[-1]
    assert (title.strip(), edge[0], other_edge[0]) == ("monotone curve through 4 releases", "┌", "└")
    assert [line.split("│")[1].strip() for line in table] == until


@pytest.mark.slow
def test_advise_asks_on_a_terminal_for_what_is_left_out() -> None:
    shown = "\n".join(watched("advise", typed="retention\n5000\n\n0.08\n"))
    assert "How many users could come" in shown
    assert "pp.Retention(5000, epsilon=" in shown
