"""Recipes of docs/how-to/scale.md that are no doctests: they run as they are printed.

Flink and Beam pin other versions of PyArrow, and have environments of their own: ``uv venv``, then ``pip install
apache-flink pytest -e .`` (or apache-beam), and this file is run there. Elsewhere Flink's function runs without Flink.
"""

import re
import sys
import textwrap
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
import pytest
from fed_folders import made, present

import panprivacy as pp
from http_servers import serving
from panprivacy.folder.batches import Combiner
from panprivacy.testing import CertainCoins, table_of

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "scale.md"


def recipe(engine: str) -> str:
    """The first block of text after the name of an engine."""
    _, _, after = PAGE.read_text(encoding="utf-8").partition(f"**{engine}**")
    found = re.search(r"```text\n(.*?)```", after, flags=re.DOTALL)
    assert found is not None
    return found[1]


def users_of(est: Any) -> list[int]:
    """Who came, of an estimator without chance."""
    table = table_of(est)
    return list(np.flatnonzero(table.bits(0, table.size)))


@pytest.fixture
def counter() -> Iterator[tuple[str, Any]]:
    """A service of one counter: where it is, and its estimator."""
    est, combiner, one = pp.Density(universe=1000, epsilon=2.0, coins=CertainCoins()), Combiner(), Lock()

    class Service(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(est.layout())

        def do_POST(self) -> None:
            body = np.frombuffer(self.rfile.read(int(self.headers["content-length"])), dtype=np.uint8)
            assert self.headers["content-type"] == "application/vnd.panprivacy.slots"
            with one:
                combiner.take(body, est)
                combiner.redraw(est)
            self._answer(b"")

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with serving(Service) as address:
        yield address, est


def test_the_recipe_for_duckdb_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    duckdb = pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    Path("visits").mkdir()
    pl.DataFrame({"patient": range(100), "country": ["SE", "NO"] * 50}).write_parquet("visits/one.parquet")
    est = pp.Density(universe=1000, epsilon=2.0, coins=CertainCoins())
    exec(recipe("DuckDB"), {"duckdb": duckdb, "est": est})
    assert users_of(est) == list(range(0, 100, 2))


@pytest.mark.slow
def test_the_function_for_flink_sends_its_rows_and_keeps_none(
    counter: tuple[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, est = counter
    flink = {name: ModuleType(name) for name in ("pyflink", "pyflink.table", "pyflink.table.udf")}
    flink["pyflink.table"].DataTypes = type("DataTypes", (), {"BIGINT": staticmethod(str)})  # type: ignore[attr-defined]
    flink["pyflink.table.udf"].udf = lambda **_: lambda function: function  # type: ignore[attr-defined]
    for name, module in flink.items():
        monkeypatch.setitem(sys.modules, name, module)
    names: dict[str, Any] = {"COUNTER": url, "TOKEN": "token"}
    exec(recipe("Flink"), names)
    pandas = pytest.importorskip("pandas")
    for rows in ([1, 2, 3], [3, 900]):
        assert list(names["counted"](pandas.Series(rows))) == rows
    assert users_of(est) == [1, 2, 3, 900]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_recipe_for_flink_counts_on_a_cluster(counter: tuple[str, Any]) -> None:
    table = pytest.importorskip("pyflink.table", reason="apache-flink has an environment of its own")
    url, est = counter
    names: dict[str, Any] = {"COUNTER": url, "TOKEN": "token", "__name__": "__main__"}
    exec(recipe("Flink"), names)
    flink = table.TableEnvironment.create(table.EnvironmentSettings.in_streaming_mode())
    for key, value in {"python.executable": sys.executable, "python.client.executable": sys.executable}.items():
        flink.get_config().set(key, value)
    flink.execute_sql("create table nowhere (user_ bigint) with ('connector' = 'blackhole')")
    events = flink.from_elements([(user,) for user in range(0, 1000, 7)], ["user"])
    events.select(names["counted"](events.user)).execute_insert("nowhere").wait()
    assert users_of(est) == list(range(0, 1000, 7))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_recipe_for_beam_counts(tmp_path: Path) -> None:
    beam = pytest.importorskip("apache_beam", reason="apache-beam has an environment of its own")
    folder = made(tmp_path)
    events = tmp_path / "events.parquet"
    pl.DataFrame({"user": range(0, 1000, 3)}).write_parquet(events)
    code = recipe("Apache Beam").replace('"/events"', repr(str(events)))
    exec(textwrap.dedent(code), {"beam": beam, "folder": folder})
    assert present(folder) == list(range(0, 1000, 3))
