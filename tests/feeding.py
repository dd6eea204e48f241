"""What a batch does to the bits, and that a refused one does nothing."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import panprivacy as pp
from sources import Always


def touched(universe: int | pp.Users | pp.Edges, feed: Callable[[pp.Density], None]) -> list[int]:
    """Which bits an all-zero estimator has set after being fed with coins that always come out true."""
    est = pp.Density(universe, 1.0, coins=Always(False))
    est._coins = Always(True)
    feed(est)
    return np.flatnonzero(est._table.bits(0, est._table.size)).tolist()


def refused(universe: int | pp.Users | pp.Edges, ids: Any, kind: type[Exception], words: str) -> None:
    """Assert that a batch is refused by every verb and sample, and that no byte of the state changes."""
    for options in ({}, {"sample": 5}):
        est = pp.Density(universe, 1.0, **options)  # type: ignore[arg-type]
        before = est.to_bytes()
        for verb in (est.update_many, est.remove_many):
            with pytest.raises(kind, match=words):
                verb(ids)
        assert est.to_bytes() == before
