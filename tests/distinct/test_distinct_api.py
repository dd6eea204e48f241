"""The verbs of a `DistinctCount`, its words about itself, and its bytes."""

import pickle
import struct
from math import ceil, inf

import numpy as np
import pytest
from crowds import KEY, SURE, crowd, seeded, visit
from rich.console import Console

import panprivacy as pp
from exact_counts import counts_of
from panprivacy import state
from panprivacy.privacy.coins import Coins
from panprivacy.testing import SeededCoins, ledger_of, refused, slots_of, table_of


def shown(thing: object) -> str:
    """What a terminal shows of it."""
    console = Console(width=120)
    with console.capture() as capture:
        console.print(thing)
    return capture.get()


def test_a_crowd_is_counted_whoever_they_are() -> None:
    est = seeded(1)
    est.update_many(f"visitor-{i}" for i in range(30_000))
    est.update_many(np.arange(30_000))
    est.update("one more")
    r = est.release(SURE)
    assert r.count_interval[0] < 60_001 < r.count_interval[1]
    assert r.count_interval[1] - r.count_interval[0] < 0.5 * 60_001


def test_users_who_come_back_count_once() -> None:
    once, often = seeded(1, epsilon=9.0), seeded(1, epsilon=9.0)
    once.update_many(np.arange(20_000))
    for _ in range(5):
        often.update_many(np.arange(20_000))
    assert once.release().count == pytest.approx(often.release().count, rel=0.05)


def test_a_known_universe_turns_the_count_into_a_density() -> None:
    est = seeded(1)
    est.update_many(range(50_000))
    r = est.release(SURE, universe=200_000)
    assert r.density == pytest.approx(0.25, abs=0.05)
    assert r.density_interval[0] < 0.25 < r.density_interval[1]
    assert est.last is not None
    assert est.last.within(200_000) == r
    assert "of 200,000" in str(r)


def test_a_count_never_exceeds_the_universe() -> None:
    est = seeded(1)
    est.update_many(range(50_000))
    r = est.release(universe=1000)
    assert (r.count, r.count_interval[1], r.density) == (1000, 1000, 1.0)
    assert 0 < r.count_interval[0] < 1000
    assert r.raw_count > 40_000


def test_the_interval_of_a_count_beyond_the_universe_begins_where_that_of_one_at_its_end_does() -> None:
    est = seeded(1)
    est.update_many(range(50_000))
    r = est.release()
    low, high = r.count_interval
    assert r.within(ceil(high)).count_interval == (low, high)
    assert r.within(int(r.count)).count_interval[0] == pytest.approx(low, abs=1)


def test_a_density_without_a_universe_is_refused() -> None:
    r = seeded(1).release()
    with refused("no-estimate", "universe=N"):
        _ = r.density


def test_a_bad_universe_or_level_spends_nothing() -> None:
    est = seeded(1)
    with refused("universe-range"):
        est.release(universe=0)
    with refused("level-range"):
        est.release(level=1.0)
    assert est.budget.releases_made == 0


def test_a_plan_of_releases_is_kept() -> None:
    est = seeded(1, releases=2)
    assert est.release().number == 1
    second = est.release()
    assert second.epsilon_spent <= 1.0
    assert second.epsilon_remaining == 0
    with pytest.raises(pp.BudgetExhausted):
        est.release()
    assert est.last == second


def test_a_higher_level_is_a_wider_interval() -> None:
    widths = []
    for level in (0.5, 0.95, 0.999):
        est = seeded(1)
        est.update_many(range(10_000))
        low, high = est.release(level=level).count_interval
        widths.append(high - low)
    assert widths == sorted(widths)


def test_announced_readings_leave_the_estimate_unbiased_and_the_error_stated() -> None:
    est = seeded(1, epsilon=4.0, intrusions=1)
    before = est.count_stderr_at(1e5)
    est.update_many(range(100_000))
    est.rerandomize()
    assert est.count_stderr_at(1e5) > before
    r = est.release(SURE)
    assert r.count_interval[0] < 100_000 < r.count_interval[1]


def test_more_users_than_the_levels_have_room_for_are_reported_without_an_upper_end() -> None:
    est = seeded(1, epsilon=5.0, buckets=64, levels=3)
    visit(est, crowd(10**6, 3, 64, np.random.default_rng(1)))
    r = est.release(SURE)
    assert r.count_interval[1] == inf
    assert r.count_interval[0] > 100
    assert r.within(10**6).count_interval[1] == 10**6


@pytest.mark.parametrize(("levels", "buckets"), [(1, 2), (2, 2), (3, 5), (32, 2)])
def test_the_smallest_tables_work(levels: int, buckets: int) -> None:
    est = seeded(1, levels=levels, buckets=buckets)
    est.update_many(range(100))
    est.update("ada")
    r = est.release()
    assert 0 <= r.count_interval[0] <= r.count <= r.count_interval[1]
    assert len(counts_of(est)) == levels
    assert sum(counts_of(est)) == table_of(est).ones()


def test_nobody_can_be_removed() -> None:
    est = seeded(1)
    with refused("no-deletions"):
        est.remove(5)
    with refused("no-deletions"):
        est.remove_many([5])


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"buckets": 1}, "buckets-range"),
        ({"buckets": 2**25}, "buckets-range"),
        ({"levels": 0}, "levels-range"),
        ({"levels": 33}, "levels-range"),
        ({"buckets": 64, "error": 0.1}, "buckets-and-error"),
        ({"error": 0.0}, "error-range"),
        ({"error": 1e-7}, "error-too-small"),
        ({"key": b"short"}, "key-length"),
        ({"epsilon": 0.0}, "epsilon-range"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, object], code: str) -> None:
    with refused(code):
        pp.DistinctCount(**{"epsilon": 1.0, **options})  # type: ignore[arg-type]


def test_asked_for_an_error_it_states_one_within() -> None:
    est = pp.DistinctCount(epsilon=1.0, error=0.02)
    assert 0.0198 < est.relative_error <= 0.02


def test_the_default_table_has_room_for_a_trillion() -> None:
    est = pp.DistinctCount(epsilon=1.0)
    assert est.count_stderr_at(1e12) / 1e12 < 0.04
    assert (est.levels, est.buckets, est.memory) == (29, 4096, 14_848)


def test_it_says_what_it_is() -> None:
    est = seeded(1)
    assert "within 3.2%" in repr(est)
    assert "NOT SECURE" in repr(est)
    assert "NOT SECURE" not in repr(pp.DistinctCount(epsilon=1.0))
    assert "29 levels x 4,096 buckets" in shown(est)
    r = est.release(universe=100)
    assert "not private" in shown(r)
    assert "NOT PRIVATE" in str(r)


def test_the_key_decides_who_owns_which_bit() -> None:
    same = [seeded(1), seeded(1)]
    other = pp.DistinctCount(1.0, 4096, key=bytes(16), coins=SeededCoins(1))
    for est in (*same, other):
        est.update_many(range(1000))
    assert counts_of(same[0]) == counts_of(same[1]) != counts_of(other)


def test_a_drawn_key_comes_from_the_coins() -> None:
    first, second = (pp.DistinctCount(1.0, coins=SeededCoins(seed)) for seed in (1, 2))
    assert first.universe != second.universe
    assert pp.DistinctCount(1.0).universe != pp.DistinctCount(1.0).universe


# --- bytes ------------------------------------------------------------------------------------------------------


def test_bytes_come_back_to_life_and_go_on() -> None:
    est = pp.DistinctCount(5.0, 512, releases=2)
    est.update_many(range(5000))
    est.release()
    again = pp.load(est.to_bytes())
    assert isinstance(again, pp.DistinctCount)
    assert again.to_bytes() == est.to_bytes()
    assert again.last == est.last
    again.update_many(range(4000, 9000))
    low, high = again.release(SURE).count_interval
    assert low < 9000 < high


def test_bytes_are_as_long_whatever_the_stream() -> None:
    quiet, busy = (pp.DistinctCount(1.0, key=KEY) for _ in range(2))
    busy.update_many(range(100_000))
    busy.release()
    assert len(quiet.to_bytes()) == len(busy.to_bytes())


def test_pickles_are_copies() -> None:
    est = pp.DistinctCount(1.0, 128)
    assert pickle.loads(pickle.dumps(est)).to_bytes() == est.to_bytes()


def test_bytes_of_one_estimator_are_not_another() -> None:
    with refused("other-estimator", "DistinctCount"):
        pp.DistinctCount.from_bytes(pp.Density(100, 1.0).to_bytes())
    with refused("other-estimator", "Density"):
        pp.Density.from_bytes(pp.DistinctCount(1.0).to_bytes())


def test_a_universe_that_is_not_its_own_is_refused() -> None:
    blob = pp.DistinctCount(1.0, 64).to_bytes()
    with refused("state-contradictory"):
        pp.load(blob, universe=pp.Users(["ada"]))


@pytest.mark.parametrize(
    "sizes", [(0, 64, 1, 1), (33, 64, 1, 1), (3, 1, 1, 1), (3, 64, 0, 1), (3, 64, 2, 1), (3, 64, 1, 9999)]
)
def test_bytes_that_contradict_themselves_are_refused(sizes: tuple[int, ...]) -> None:
    parts = state.unseal(pp.DistinctCount(1.0, 64, levels=3).to_bytes())
    forged = parts.parameters[:-32] + struct.pack("<IIII", *sizes) + parts.parameters[-16:]
    with pytest.raises(pp.CorruptState):
        pp.load(state.seal(parts._replace(parameters=forged)))


def test_seeded_states_are_not_saved_as_if_they_were_safe() -> None:
    with pytest.raises(pp.NotPrivate):
        seeded(1).to_bytes()
    assert not pp.load(seeded(1).to_bytes(insecure=True)).secure


def test_nothing_is_remembered_but_the_bits() -> None:
    """After any stream the same attributes hold the same things, but for the words of the table."""

    def memory(est: pp.DistinctCount) -> dict[str, object]:
        held = {**vars(est), **vars(est.universe), **vars(slots_of(est)), **vars(ledger_of(est))}
        return {name: value for name, value in held.items() if name not in ("_table", "_lock", "_coins", "coins")}

    class Zeros(SeededCoins):
        def below(self, threshold: int, n: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
            return np.zeros(n, dtype=np.bool_) & (threshold > 0)

    source: Coins = Zeros(1)
    quiet, busy = (pp.DistinctCount(1.0, 64, key=KEY, coins=source) for _ in range(2))
    busy.update_many(["ada", "grace"])
    busy.update_many(range(5000))
    busy.update(7)
    assert repr(memory(quiet)) == repr(memory(busy))
    assert (table_of(quiet).words == table_of(busy).words).all()
