"""Tables of disjoint users side by side; tables of the same users through the randomised merge."""

from fractions import Fraction
from itertools import product
from math import sqrt

import numpy as np
import pytest
from crowds import KEY, SURE, crowd, seeded, visit
from scipy import stats

import panprivacy as pp
from checks import ALARM, assert_binomial, assert_variance
from exact_counts import counts_of
from panprivacy.estimators.merge import Kernel, kernel, merge_tables, merged_epsilon, merged_pair
from panprivacy.privacy.coins import ONE
from panprivacy.privacy.pairs import Pair, symmetric
from panprivacy.table import Table
from panprivacy.testing import SeededCoins, ledger_of, refused, table_of

PAIRS = [(symmetric(a), symmetric(b)) for a, b in [(0.1, 0.1), (0.3, 2.0), (1.0, 1.0), (1.0, 4.0), (6.0, 6.0)]]


def copied(parts: list[pp.DistinctCount]) -> list[pp.DistinctCount]:
    """The same tables once more."""
    return [pp.DistinctCount.from_bytes(part.to_bytes(insecure=True)) for part in parts]


# --- the kernel, by enumeration ---------------------------------------------------------------------------------


def merged_laws(one: Pair, other: Pair, thresholds: Kernel) -> dict[tuple[int, ...], Fraction]:
    """Probability of a merged 1 for each occupation of the two cells, over all bits that they could hold."""
    laws: dict[tuple[int, ...], Fraction] = {}
    for occupied in product((0, 1), repeat=2):
        ones = [pair.p1 if here else pair.p0 for pair, here in zip((one, other), occupied, strict=True)]
        laws[occupied] = sum(
            (
                (ones[0] if a else 1 - ones[0]) * (ones[1] if b else 1 - ones[1]) * Fraction(thresholds[a][b], ONE)
                for a, b in product((0, 1), repeat=2)
            ),
            Fraction(0),
        )
    return laws


def assert_merges(one: Pair, other: Pair, thresholds: Kernel) -> None:
    """Assert that merged bits follow the claimed pair up to 32 bits, and lose no more than it."""
    claimed = merged_pair(one, other)
    laws = merged_laws(one, other, thresholds)
    for occupied, law in laws.items():
        assert abs(law - (claimed.p1 if any(occupied) else claimed.p0)) <= Fraction(2, ONE), occupied
        assert claimed.p0 <= law <= claimed.p1


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_a_merged_bit_looks_as_if_one_table_had_seen_everybody(one: Pair, other: Pair) -> None:
    thresholds = kernel(one, other)
    assert all(0 <= thresholds[a][b] < ONE for a, b in product((0, 1), repeat=2))
    assert_merges(one, other, thresholds)


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_or_instead_of_the_kernel_would_be_noticed(one: Pair, other: Pair) -> None:
    with pytest.raises(AssertionError):
        assert_merges(one, other, ((0, ONE), (ONE, ONE)))


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_a_merge_leaves_the_epsilon_that_was_stated_beforehand(one: Pair, other: Pair) -> None:
    stated = merged_epsilon(one.loss, other.loss)
    assert merged_pair(one, other).loss == pytest.approx(stated, rel=1e-6)
    assert merged_pair(one, other).loss <= stated
    assert 1 - np.exp(-stated) == pytest.approx((1 - np.exp(-one.loss)) * (1 - np.exp(-other.loss)))


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_no_valid_kernel_keeps_more(one: Pair, other: Pair) -> None:
    """The four equations of a slightly larger symmetric pair have one solution, and it is no probability."""
    larger = merged_pair(one, other).p1 + Fraction(4, ONE)
    rows = [[[1 - p, p] for p in (pair.p0, pair.p1)] for pair in (one, other)]
    wanted = np.array([[float(1 - larger), float(larger)], [float(larger), float(larger)]])
    inverse = [np.linalg.inv(np.array(row, dtype=float)) for row in rows]
    assert (inverse[0] @ wanted @ inverse[1].T)[0, 0] < 0


def test_tables_are_merged_bit_by_bit_with_the_chances_of_the_kernel() -> None:
    one, other = symmetric(0.7), symmetric(1.5)
    size, rng = 400_003, np.random.default_rng(1)
    tables = [Table.drawn(size, symmetric(0.01), SeededCoins(seed)) for seed in (1, 2)]
    before = [table.words.copy() for table in tables]
    merged = merge_tables(tables[0], tables[1], kernel(one, other), SeededCoins(int(rng.integers(99))))
    bits = [table.bits(0, size) for table in (*tables, merged)]
    for a, b in product((False, True), repeat=2):
        drawn = bits[2][(bits[0] == a) & (bits[1] == b)]
        assert_binomial(int(drawn.sum()), len(drawn), kernel(one, other)[a][b] / ONE)
    assert all((table.words == words).all() for table, words in zip(tables, before, strict=True))


def test_states_too_noisy_to_merge_are_refused() -> None:
    with refused("too-noisy-to-merge"):
        merged_pair(symmetric(1e-4), symmetric(1e-5))


# --- overlapping users ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_merges_of_overlapping_users_are_unbiased_with_the_stated_error() -> None:
    # State epsilon 1; the two tables share 100,000 of 300,000 users. Bounds at 1e-6 for 150 runs: 0.4 standard errors
    # in the mean, 29 % in the standard error.
    quotients = []
    rng = np.random.default_rng(2)
    for seed in range(150):
        parts = [seeded(10 * seed + i, epsilon=1.108) for i in range(2)]
        everywhere, rest = (crowd(n, parts[0].levels, 4096, rng) for n in (100_000, 200_000))
        for i, part in enumerate(parts):
            visit(part, everywhere)
            visit(part, rest[i::2])
        merged = pp.merge(parts, overlapping=True)
        quotients.append((merged.release().raw_count - 300_000) / merged.count_stderr_at(300_000))
    assert parts[0].budget.state == pytest.approx(1.0, abs=0.01)
    assert ledger_of(merged).pair.loss == pytest.approx(merged_epsilon(1.0, 1.0), abs=0.01)
    assert abs(sum(quotients)) / sqrt(150) < stats.norm.isf(ALARM / 2)
    assert_variance(quotients, 1.0)


def test_a_merge_as_if_nobody_overlapped_counts_the_common_users_twice() -> None:
    parts = [seeded(i) for i in range(2)]
    cells = crowd(100_000, parts[0].levels, 4096, np.random.default_rng(3))
    for part in parts:
        visit(part, cells)
    copies = copied(parts)
    assert pp.merge(parts).release().count_interval[0] > 150_000
    low, high = pp.merge(copies, overlapping=True).release(SURE).count_interval
    assert low < 100_000 < high


def test_a_merge_of_overlapping_users_goes_on_counting() -> None:
    parts = [seeded(i, epsilon=5.0, releases=2) for i in range(3)]
    for i, part in enumerate(parts):
        part.update_many(range(10_000 * i, 10_000 * i + 20_000))
    merged = pp.merge(parts, overlapping=True)
    first = merged.release(SURE)
    merged.update_many(range(35_000, 80_000))
    second = merged.release(SURE)
    assert first.count_interval[0] < 40_000 < first.count_interval[1]
    assert second.count_interval[0] < 80_000 < second.count_interval[1]
    again = pp.load(merged.to_bytes(insecure=True))
    assert isinstance(again, pp.DistinctCount)
    assert again.last == merged.last
    assert again.budget == merged.budget
    assert again.count_stderr_at(1e5) == merged.count_stderr_at(1e5)


def test_releases_of_all_overlapping_parts_come_off_the_plan() -> None:
    parts = [seeded(i, releases=4) for i in range(3)]
    parts[0].release()
    parts[2].release()
    merged = pp.merge(parts, overlapping=True)
    assert merged.budget.releases_made == 2
    merged.release()
    other = seeded(3, releases=4)
    other.release()
    other.release()
    before = merged.to_bytes(insecure=True), other.to_bytes(insecure=True)
    with refused("merged-releases", "5", "4"):
        pp.merge([merged, other], overlapping=True)
    assert (merged.to_bytes(insecure=True), other.to_bytes(insecure=True)) == before, "a refused merge takes nothing"


def test_the_budget_of_a_merge_is_that_of_a_part_that_may_have_been_read() -> None:
    parts = [seeded(i) for i in range(2)]
    merged = pp.merge(parts, overlapping=True)
    assert merged.budget == parts[0].budget
    assert merged.release().epsilon_spent == parts[0].budget.total


def test_merges_of_merges_and_merges_of_all_at_once_are_alike() -> None:
    parts = [seeded(i, epsilon=4.0) for i in range(4)]
    at_once = pp.merge(copied(parts), overlapping=True)
    halves = [pp.merge(parts[i : i + 2], overlapping=True) for i in (0, 2)]
    by_halves = pp.merge(halves, overlapping=True)
    assert (
        at_once.count_stderr_at(1e5)
        == by_halves.count_stderr_at(1e5)
        > halves[0].count_stderr_at(1e5)
        > parts[0].count_stderr_at(1e5)
    )
    assert ledger_of(at_once).pair.loss == pytest.approx(merged_epsilon(*[parts[0].budget.state] * 4), rel=1e-6)
    assert "union" in repr(by_halves)


@pytest.mark.parametrize("overlapping", [False, True])
def test_a_merge_of_one_has_its_bits_and_its_budget(overlapping: bool) -> None:
    part = seeded(1)
    before = part.to_bytes(insecure=True)
    merged = pp.merge([part], overlapping=overlapping)
    assert merged.to_bytes(insecure=True) == before


# --- disjoint users ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_disjoint_tables_add_up_with_the_error_of_a_sum() -> None:
    quotients, covered = [], 0
    rng = np.random.default_rng(4)
    for seed in range(60):
        parts = [seeded(10 * seed + i) for i in range(3)]
        for part, users in zip(parts, (0, 2_000, 300_000), strict=True):
            visit(part, crowd(users, part.levels, 4096, rng))
        merged = pp.merge(parts)
        r = merged.release()
        stderr = sqrt(sum(part.count_stderr_at(n) ** 2 for part, n in zip(parts, (0, 2_000, 300_000), strict=True)))
        quotients.append((r.raw_count - 302_000) / stderr)
        covered += r.count_interval[0] <= 302_000 <= r.count_interval[1]
    assert_variance(quotients, 1.0)
    assert abs(sum(quotients)) / sqrt(60) < stats.norm.isf(ALARM / 2)
    assert stats.binom.cdf(covered, 60, 0.95) > ALARM


@pytest.mark.slow
def test_many_empty_tables_add_up_to_about_nothing() -> None:
    """False alarm: below 1e-6, the sum of 40 estimates being about normal."""
    r = pp.merge([seeded(i, buckets=256) for i in range(40)]).release(SURE)
    assert abs(r.raw_count) < 5.5 * r.count_stderr
    assert r.count_interval[0] <= 0 <= r.count_interval[1]


def test_disjoint_tables_keep_their_counts_apart_and_their_plan() -> None:
    parts = [seeded(i, releases=3) for i in range(2)]
    parts[0].release()
    counts = [count for part in (*parts, seeded(9, releases=3)) for count in counts_of(part)]
    merged = pp.merge([pp.merge(parts), seeded(9, releases=3)])
    assert counts_of(merged) == counts
    assert merged.budget.releases_made == 1
    assert merged.budget.total == parts[0].budget.total
    again = pp.load(merged.to_bytes(insecure=True))
    assert again.to_bytes(insecure=True) == merged.to_bytes(insecure=True)


def test_tables_side_by_side_cannot_be_fed() -> None:
    merged = pp.merge([seeded(1), seeded(2)])
    with refused("merged-not-fed"):
        merged.update(5)
    with refused("merged-not-fed"):
        merged.update_many([5])


# --- refusals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlapping", [False, True])
@pytest.mark.parametrize(
    ("other", "what"),
    [
        (lambda: pp.DistinctCount(1.0, 4096, coins=SeededCoins(1)), ("different-plans", "keys")),
        (lambda: seeded(1, buckets=2048), ("different-plans", "sizes")),
        (lambda: seeded(1, levels=20), ("different-plans", "sizes")),
        (lambda: seeded(1, epsilon=2.0), ("different-plans", "budgets")),
        (lambda: seeded(1, releases=2), ("different-plans", "budgets")),
        (lambda: pp.Density(100, 1.0, coins=SeededCoins(1)), ("different-classes",)),
    ],
)
def test_tables_that_do_not_fit_are_refused(other: object, what: tuple[str, ...], overlapping: bool) -> None:
    with refused(*what):
        pp.merge([seeded(1), other()], overlapping=overlapping)  # type: ignore[operator]


def test_what_an_overlapping_merge_cannot_account_for_is_refused() -> None:
    with refused("merge-with-readings"):
        pp.merge([seeded(1, intrusions=1), seeded(2, intrusions=1)], overlapping=True)
    with refused("side-by-side"):
        pp.merge([pp.merge([seeded(1), seeded(2)]), seeded(3)], overlapping=True)
    with refused("different-unions"):
        pp.merge([pp.merge([seeded(1), seeded(2)], overlapping=True), seeded(3)])
    with refused("overlapping-shards"):
        pp.merge([pp.Density(100, 1.0, shard=(i, 2)) for i in range(2)], overlapping=True)
    with refused("nothing-to-merge"):
        pp.merge([], overlapping=True)


def test_a_merge_is_as_secure_as_its_least_secure_part() -> None:
    for overlapping in (False, True):
        one, two, three = (pp.DistinctCount(1.0, key=KEY) for _ in range(3))
        assert pp.merge([one, two], overlapping=overlapping).secure
        assert not pp.merge([three, seeded(1)], overlapping=overlapping).secure


# --- the merge takes over ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlapping", [False, True])
def test_the_parts_of_a_merge_hold_nothing_and_refuse_all_use(overlapping: bool) -> None:
    parts = [seeded(i) for i in range(2)]
    tables = [table_of(part) for part in parts]
    pp.merge(parts, overlapping=overlapping)
    assert not any(table.words.any() for table in tables)
    for part in parts:
        with refused("emptied", "merged"):
            part.update(1)
        with refused("emptied", "merged"):
            pp.merge([part, seeded(9)], overlapping=overlapping)


@pytest.mark.parametrize("overlapping", [False, True])
def test_the_same_state_twice_is_refused_and_nothing_is_taken(overlapping: bool) -> None:
    part, other = seeded(1), seeded(2)
    before = part.to_bytes(insecure=True)
    with refused("same-part-twice"):
        pp.merge([part, other, part], overlapping=overlapping)
    with refused("copies"):
        pp.merge([part, other, *copied([part])], overlapping=overlapping)
    assert part.to_bytes(insecure=True) == before


def test_tables_so_certain_that_nobody_came_may_be_equal_by_chance() -> None:
    """At epsilon 20 a coin of an empty cell hardly ever comes out 1: two stations that nobody visited look alike."""
    parts = [seeded(i, epsilon=20.0, buckets=64) for i in range(2)]
    assert np.array_equal(table_of(parts[0]).words, table_of(parts[1]).words)
    assert pp.merge(parts).release().count_interval[0] == 0
