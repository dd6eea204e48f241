"""Crowds of any size, without their ids: which cells they occupy, drawn from the exact law."""

import numpy as np
from numpy.typing import NDArray

import panprivacy as pp
from panprivacy.memory.scratch import Scratch
from panprivacy.testing import SeededCoins, coins_of, ledger_of, table_of

Rng = np.random.Generator

KEY = bytes(range(16))

SURE = 1 - 1e-9
"""A level at which an interval misses the truth less than once in a million runs, if only nearly of this level."""


def seeded(seed: int, epsilon: float = 1.0, buckets: int = 4096, **options: object) -> pp.DistinctCount:
    """An estimator on seeded coins, with the same key as all others."""
    return pp.DistinctCount(epsilon, buckets, key=KEY, coins=SeededCoins(seed), **options)  # type: ignore[arg-type]


def crowd(users: int, levels: int, buckets: int, rng: Rng) -> NDArray[np.int64]:
    """The cells that so many users occupy: first how many are in each level, then in which buckets."""
    shares = np.ldexp(1.0, -np.minimum(np.arange(1, levels + 1), levels - 1))
    cells = [np.empty(0, dtype=np.int64)]
    for level, inside in enumerate(rng.multinomial(users, shares)):
        if inside > 100 * buckets:  # a bucket stays empty once in e^100
            occupied = np.arange(buckets)
        elif inside > 4 * buckets:
            occupied = np.flatnonzero(rng.multinomial(inside, np.full(buckets, 1 / buckets)))
        else:
            full = np.zeros(buckets, dtype=np.bool_)
            full[rng.integers(0, buckets, inside)] = True
            occupied = np.flatnonzero(full)
        cells.append(level * buckets + occupied)
    return np.concatenate(cells)


def visit(est: pp.DistinctCount, cells: NDArray[np.int64]) -> None:
    """Let a crowd appear."""
    table_of(est).redraw(cells.astype(np.uint64), ledger_of(est).pair.present, coins_of(est), Scratch())
