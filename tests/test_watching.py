"""A long iterator shows how far it is to somebody who looks, and nothing to anybody else."""

import io
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import panprivacy as pp
from panprivacy import display
from panprivacy.testing import refused
from panprivacy.universe.columns import ITERATOR_BATCH

EVENTS = 2 * ITERATOR_BATCH + 10


class Terminal(io.StringIO):
    """A place to write that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def watched(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Have somebody look, and every iterator be slow."""
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(display, "PATIENCE", 0.0)
    return shown


def ids() -> Iterator[int]:
    return (i % 1000 for i in range(EVENTS))


@pytest.mark.slow
def test_a_slow_iterator_shows_its_events_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    pp.Density(1000, 1.0).update_many(ids())
    assert f"{EVENTS:,} events, " in terminal.getvalue()
    assert "a second" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K"), "the line is wiped in the end"


@pytest.mark.slow
def test_an_iterator_that_knows_its_length_fills_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    pp.Density(1000, 1.0).update_many(iter([1] * EVENTS))
    assert "━" * 40 in terminal.getvalue()


@pytest.mark.slow
def test_what_ends_early_takes_its_bar_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    est = pp.Density(1000, 1.0)
    with pytest.raises(pp.OutsideUniverse):
        est.update_many(1000 if i == EVENTS - 1 else i % 1000 for i in range(EVENTS))
    assert terminal.getvalue().endswith("\x1b[2K")


@pytest.mark.parametrize("batch", [list(range(1000)) * 600, range(1000)], ids=["list", "range"])
def test_what_is_no_iterator_shows_nothing(monkeypatch: pytest.MonkeyPatch, batch: Any) -> None:
    terminal = watched(monkeypatch)
    pp.Density(1000, 1.0).update_many(batch)
    assert terminal.getvalue() == ""


@pytest.mark.slow
def test_a_quick_iterator_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    monkeypatch.setattr(display, "PATIENCE", 60.0)
    pp.Density(1000, 1.0).update_many(ids())
    assert terminal.getvalue() == ""


@pytest.mark.slow
def test_where_nobody_looks_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    watched(monkeypatch)
    pipe = io.StringIO()
    monkeypatch.setenv("FORCE_COLOR", "1")  # by which Rich takes a pipe for a terminal
    monkeypatch.setattr(sys, "stderr", pipe)
    pp.Density(1000, 1.0).update_many(ids())
    assert pipe.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", None)  # as under pythonw
    pp.Density(1000, 1.0).update_many(ids())


@pytest.mark.slow
def test_an_iterator_with_a_bar_of_its_own_gets_no_second_one(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    own = type("tqdm", (), {"__module__": "tqdm.std", "__iter__": lambda _: ids()})
    pp.Density(1000, 1.0).update_many(own())
    assert terminal.getvalue() == ""


@pytest.mark.slow
def test_a_notebook_shows_a_line_under_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    updates: list[str] = []
    handle = SimpleNamespace(update=lambda shown, raw: updates.append(shown["text/plain"]) if raw else None)
    ipython, shown = ModuleType("IPython"), ModuleType("IPython.display")
    vars(ipython)["get_ipython"] = type("ZMQInteractiveShell", (), {})
    vars(shown)["display"] = lambda *_, **__: handle
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(display, "PATIENCE", 0.0)
    pp.Density(1000, 1.0).update_many(ids())
    assert len(updates) == 3
    assert updates[-1].startswith(f"{EVENTS:,} events, ")


def streams() -> dict[str, Any]:
    """A frame of 1,000 rows in several batches, as programs have it."""
    import polars as pl
    import pyarrow as pa

    batch = pa.record_batch({"user": range(500)})
    duckdb = pytest.importorskip("duckdb")
    return {
        "relation": duckdb.from_arrow(pa.Table.from_batches([batch, batch])),
        "reader": pa.RecordBatchReader.from_batches(batch.schema, [batch, batch]),
        "lazy frame": pl.LazyFrame({"user": [*range(500), *range(500)]}),
    }


@pytest.mark.parametrize("column", [None, "user"])
@pytest.mark.parametrize("kind", ["reader", "lazy frame", "relation"])
def test_what_comes_in_batches_shows_its_events_too(
    kind: str, column: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = watched(monkeypatch)
    pp.Density(1000, 1.0).update_many(streams()[kind], column=column)
    assert "1,000 events, " in terminal.getvalue()


def test_progress_can_be_turned_off_and_on(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    try:
        pp.use_progress(False)
        pp.Density(1000, 1.0).update_many(streams()["reader"])
        assert terminal.getvalue() == ""
        log = io.StringIO()
        monkeypatch.setattr(sys, "stderr", log)
        pp.use_progress(True)
        pp.Density(1000, 1.0).update_many(streams()["reader"])
        (line,) = log.getvalue().splitlines()  # and no second one within ten seconds
        assert line.startswith("500 events, ")
    finally:
        pp.use_progress(None)
    with refused("progress-type"):
        pp.use_progress("no")  # type: ignore[arg-type]
