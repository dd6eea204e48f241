"""Several estimators as one."""

import numpy as np
import pytest

import panprivacy as pp
from panprivacy.testing import refused, set_coins, table_of
from sources import Always

KEY = bytes(range(16))


def shards(n: int, **options: object) -> list[pp.Density]:
    """All parts of one design."""
    return [pp.Density(1001, 1.0, shard=(i, n), **options) for i in range(n)]  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{}, {"sample": 333, "key": KEY}], ids=["all", "sampled"])
def test_merged_shards_hold_every_bit_of_the_whole(options: dict[str, object]) -> None:
    parts = shards(3, **options, coins=Always(False))
    whole = pp.Density(1001, 1.0, **options, coins=Always(False))  # type: ignore[arg-type]
    for est in (*parts, whole):
        set_coins(est, Always(True))
        est.update_many(range(0, 1001, 7))
    merged = pp.merge([parts[2], parts[0], parts[1]])
    assert merged.users == whole.users
    assert np.array_equal(table_of(merged).words, table_of(whole).words)
    assert merged.release().raw_density == whole.release().raw_density


def test_neighbouring_shards_merge_in_steps() -> None:
    a, b, c, d = shards(4)
    merged = pp.merge([pp.merge([a, b]), pp.merge([c, d])])
    assert merged.users == 1001
    assert merged.secure


def test_a_merged_estimator_can_be_fed_saved_and_released() -> None:
    merged = pp.merge(shards(2))
    merged.update_many(range(500))
    again = pp.load(merged.to_bytes())
    assert again.to_bytes() == merged.to_bytes()
    assert again.release().universe == 1001


def test_the_ledger_is_that_of_the_part_that_spent_most() -> None:
    a, b = shards(2, releases=2)
    a.release()
    merged = pp.merge([a, b])
    assert merged.budget.releases_made == 1
    merged.release()
    with pytest.raises(pp.BudgetExhausted):
        merged.release()


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        (lambda: [], ("nothing-to-merge",)),
        (lambda: [shards(2)[0], shards(2)[0]], ("shards-apart", "overlap")),
        (lambda: [shards(3)[0], shards(3)[2]], ("shards-apart", "gap")),
        (lambda: [shards(2)[0], pp.Density(1001, 1.0)], ("shards-apart", "overlap")),
        (lambda: [shards(2)[0], pp.Density(1000, 1.0, shard=(1, 2))], ("different-plans", "universes")),
        (lambda: [shards(2)[0], pp.Density(1001, 1.1, shard=(1, 2))], ("different-plans", "budgets")),
        (
            lambda: [shards(2, sample=100, key=KEY)[0], shards(2, sample=100, key=bytes(16))[1]],
            ("different-plans", "keys"),
        ),
        (
            lambda: [shards(2)[0], pp.Density(pp.Edges(1001), 1.0, sample=1001, key=KEY, shard=(1, 2))],
            ("different-plans", "universes"),
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(parts, why: tuple[str, ...]) -> None:  # type: ignore[no-untyped-def]
    with refused(*why):
        pp.merge(parts())


def test_parts_that_were_rerandomised_differently_are_refused() -> None:
    a, b = shards(2, intrusions=1)
    a.rerandomize()
    with refused("different-plans", "rerandomisations"):
        pp.merge([a, b])
    b.rerandomize()
    pp.merge([a, b])
