"""What a batch does to the bits, and that a refused one does nothing."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import panprivacy as pp
from panprivacy.testing import set_coins, table_of
from sources import Always


def touched(universe: int | pp.Users | pp.Edges, feed: Callable[[pp.Density], None]) -> list[int]:
    """Which bits an all-zero estimator has set after being fed with coins that always come out true."""
    est = pp.Density(universe, 1.0, coins=Always(False))
    set_coins(est, Always(True))
    feed(est)
    return np.flatnonzero(table_of(est).bits(0, table_of(est).size)).tolist()


def refused(universe: int | pp.Users | pp.Edges, ids: Any, kind: type[Exception], words: str) -> None:
    """Assert that a batch is refused by every verb and sample, and that no byte of the state changes."""
    for options in ({}, {"sample": 5}):
        est = pp.Density(universe, 1.0, **options)  # type: ignore[arg-type]
        before = est.to_bytes()
        for verb in (est.update_many, est.remove_many):
            with pytest.raises(kind, match=words):
                verb(ids)
        assert est.to_bytes() == before
