"""The whole reproduction, in small: what is written, and that it neither depends on who computes it nor is lost."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest
from mini_scale import MINI
from polars.testing import assert_frame_equal

from panprivacy.experiments.cells import Cell
from panprivacy.experiments.figures import STUDIES
from panprivacy.experiments.reproduce import Reproduction, Store
from panprivacy.testing import refused

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    """All figures, by two processes."""
    task = Reproduction(tmp_path_factory.mktemp("finished"), MINI, seed=5)
    task.compute(jobs=2)
    task.write()
    return task


def test_every_figure_is_drawn_and_its_data_are_kept(finished: Reproduction) -> None:
    for study in STUDIES.values():
        picture = finished.out / "figures" / study.name
        assert picture.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
        assert ElementTree.parse(picture.with_suffix(".svg")).getroot().tag.endswith("svg")
        data = finished.out / "data" / study.name
        kept = pl.read_parquet(data.with_suffix(".parquet"))
        assert len(kept) == len(pl.read_csv(data.with_suffix(".csv"))) > 0


def test_figure_8_shows_its_factor_with_an_interval(finished: Reproduction) -> None:
    drawn = (finished.out / "figures" / "figure-08.svg").read_text(encoding="utf-8")
    assert len(re.findall(r"\(95 % interval: \d+ to \d+\)", drawn)) == 2


def test_the_report_needs_no_other_file_and_has_every_figure_claim_seed_and_version(finished: Reproduction) -> None:
    page = (finished.out / "report.html").read_text(encoding="utf-8")
    sources = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert len(sources) == len(STUDIES)
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)
    assert "http://" not in page
    for claim in pl.read_csv(finished.out / "claims.csv").iter_rows(named=True):
        assert claim["verdict"] in page
        assert claim["where"] in page
    assert "<th>seed</th><td>5</td>" in page
    assert re.search(r"<th>numpy</th><td>\d", page)


def test_one_process_computes_the_same_numbers_as_two(finished: Reproduction, tmp_path: Path) -> None:
    alone = replace(finished, out=tmp_path, numbers=(2, 4, 6, 9))
    alone.compute(jobs=1)
    together = finished.tables()
    for number, table in alone.tables().items():
        assert_frame_equal(table, together[number], check_exact=True)


def test_another_seed_gives_other_numbers(finished: Reproduction, tmp_path: Path) -> None:
    other = replace(finished, out=tmp_path, numbers=(5,), seed=6)
    other.compute()
    assert (other.tables()[5]["mse"] != finished.tables()[5]["mse"]).all()


def test_an_interrupted_reproduction_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = Reproduction(tmp_path, MINI, numbers=(7,))
    computed: Counter[Cell] = Counter()
    finish = Store.finish

    def counted(store: Store, cell: Cell) -> None:
        if sum(computed.values()) == 2:
            raise KeyboardInterrupt
        computed[cell] += 1
        finish(store, cell)

    monkeypatch.setattr(Store, "finish", counted)
    with pytest.raises(KeyboardInterrupt):
        task.compute()
    kept = computed.copy()
    monkeypatch.setattr(Store, "finish", lambda store, cell: (computed.update([cell]), finish(store, cell)))
    task.compute()
    assert kept.total() == 2
    assert computed == Counter(task.cells)


def test_a_deleted_cell_is_computed_again_and_comes_out_the_same(finished: Reproduction) -> None:
    before = finished.tables()
    victim = sorted((finished.out / "cells").glob("runs-*.parquet"))[0]
    untouched = {file: file.stat().st_mtime_ns for file in victim.parent.iterdir() if file != victim}
    victim.unlink()
    finished.compute()
    assert {file: file.stat().st_mtime_ns for file in victim.parent.iterdir() if file != victim} == untouched
    for number, table in finished.tables().items():
        assert_frame_equal(table, before[number], check_exact=True)


def test_every_cell_is_heard_of_once_whether_it_was_there_or_not(finished: Reproduction) -> None:
    heard: list[Cell] = []
    finished.compute(done=heard.append)
    assert Counter(heard) == Counter(finished.cells)


def test_a_damaged_cell_is_named(tmp_path: Path) -> None:
    task = Reproduction(tmp_path, MINI, numbers=(1,))
    task.compute()
    victim = next((tmp_path / "cells").iterdir())
    victim.write_bytes(victim.read_bytes()[:100])
    with refused("damaged-results", victim.name):
        task.tables()


def test_cells_of_other_code_are_not_taken_for_these(finished: Reproduction) -> None:
    store, cell = Store(finished.out / "cells", finished.seed), finished.cells[0]
    assert store.path(cell).exists()
    assert not replace(store, code="other").path(cell).exists()


def test_a_cell_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = Reproduction(tmp_path, MINI, numbers=(1,))

    def full_disk(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full_disk)
    with pytest.raises(OSError, match="no space"):
        task.compute()
    assert not list((tmp_path / "cells").iterdir())
