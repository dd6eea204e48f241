"""A file that is read in parts: its batches come in order, and the next part is begun in good time."""

from typing import Any

import polars as pl

from panprivacy.ingest import columnar


def test_batches_of_all_parts_come_in_order(monkeypatch: Any) -> None:
    monkeypatch.setattr(columnar, "_BATCH", 100)
    whole = pl.LazyFrame({"user": range(2_500)})
    parts = (whole.slice(start, 1_000) for start in range(0, 2_500, 1_000))
    found = list(columnar._batches(parts))
    assert pl.concat(found)["user"].to_list() == list(range(2_500))


def test_a_part_is_begun_before_the_last_batch_of_the_one_before_is_worked_on() -> None:
    begun: list[int] = []

    class Part:
        def __init__(self, number: int) -> None:
            self.number = number

        def collect_batches(self, **_: Any) -> Any:
            begun.append(self.number)
            return iter([pl.DataFrame({"user": [10 * self.number + i]}) for i in range(3)])

    parts: Any = map(Part, range(2))
    seen = [(batch["user"][0], len(begun)) for batch in columnar._batches(parts)]
    assert seen == [(0, 1), (1, 1), (2, 2), (10, 2), (11, 2), (12, 2)]


def test_no_parts_are_no_batches() -> None:
    assert not list(columnar._batches(iter(())))
