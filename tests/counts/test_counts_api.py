"""What `Counts` takes, refuses, says and keeps."""

import copy
from typing import Any

import numpy as np
import pytest

import panprivacy as pp
from panprivacy.memory.threads import CHUNK
from panprivacy.table import Counters
from panprivacy.testing import SeededCoins, gaussian_noise, refused, table_of
from sources import Always


def fields(est: pp.Counts) -> list[tuple[int, int]]:
    return list(table_of(est).fields())


def test_the_answer_is_near_the_truth() -> None:
    """Within eight standard errors."""
    est = pp.Counts(pp.Users([f"user {i}" for i in range(50_000)]), 2.0, up_to=4, coins=SeededCoins(1))
    for share in (50_000, 30_000, 10_000):
        est.update_many([f"user {i}" for i in range(share)])
    r = est.release()
    for found, truth, stderr in zip(r.at_least, (1.0, 0.6, 0.2, 0.0), r.at_least_stderr, strict=True):
        assert abs(found - truth) < 8 * stderr
    for found, truth, stderr in zip(r.exactly, (0.0, 0.4, 0.4, 0.2, 0.0), r.exactly_stderr, strict=True):
        assert abs(found - truth) < 8 * stderr
    assert abs(r.mean - 1.8) < 8 * r.mean_stderr
    assert sum(r.raw_exactly) == pytest.approx(1.0)
    assert sum(r.raw_at_least) == pytest.approx(r.raw_mean)
    smoothed = r.smoothed
    assert list(smoothed.at_least) == sorted(smoothed.at_least, reverse=True)
    assert min(smoothed.exactly) >= 0
    assert sum(smoothed.exactly) == pytest.approx(1.0)
    assert smoothed.mean == pytest.approx(sum(smoothed.at_least))
    assert (r.universe, r.up_to, r.number, r.secure) == (50_000, 4, 1, False)


@pytest.mark.slow
def test_estimates_are_within_their_intervals_and_ranges() -> None:
    for seed in range(20):
        r = pp.Counts(30, 0.5, up_to=6, coins=SeededCoins(seed)).release()
        for values, intervals in ((r.at_least, r.at_least_interval), (r.exactly, r.exactly_interval)):
            for value, (low, high) in zip(values, intervals, strict=True):
                assert 0 <= low <= value <= high <= 1
                assert low < high
        assert 0 <= r.mean_interval[0] <= r.mean <= r.mean_interval[1] <= 6


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"up_to": 1}, "up-to-range"),
        ({"up_to": 257}, "up-to-range"),
        ({"only": "shares"}, "only-choice"),
        ({"releases": 0}, "releases-range"),
        ({"shard": (2, 2)}, "shard-range"),
        ({"delta": 0.5}, "delta-range"),
    ],
)
def test_what_is_no_plan_is_refused(more: dict[str, Any], code: str) -> None:
    with refused(code):
        pp.Counts(100, 1.0, **more)


def test_what_cannot_be_done_is_refused_with_the_reason() -> None:
    est = pp.Counts(100, 1.0)
    with refused("no-rerandomize"):
        est.rerandomize()
    with pytest.raises(TypeError):
        pp.Counts(100, 1.0, intrusions=1)  # type: ignore[call-arg]
    with refused("overlapping-shards"):
        pp.merge([est, pp.Counts(100, 1.0)], overlapping=True)
    with refused("shards-apart", "overlap"):
        pp.merge([est, pp.Counts(100, 1.0)])
    with refused("different-plans", "up_to"):
        pp.merge([pp.Counts(100, 1.0, 4, shard=(0, 2)), pp.Counts(100, 1.0, 5, shard=(1, 2), only="mean")])
    with refused("different-plans", "budgets"):
        pp.merge([pp.Counts(100, 1.0, 4, shard=(0, 2)), pp.Counts(100, 1.0, 4, shard=(1, 2), only="mean")])


def test_shards_that_are_fed_everything_count_their_own() -> None:
    whole = pp.Counts(101, 1.0, 5, coins=Always(False))
    parts = [pp.Counts(101, 1.0, 5, shard=(i, 3), coins=Always(False)) for i in range(3)]
    ids = np.random.default_rng(1).integers(0, 101, 1000)
    for est in (whole, *parts):
        est.update_many(ids)
        est.update(50)
    merged = pp.merge(parts)
    assert fields(merged) == fields(whole)
    assert merged.users == 101


def test_a_long_batch_that_breaks_off_leaves_everything_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where looking all ids up first would be less work: part of a batch cannot be fed again."""
    est = pp.Counts(10 * CHUNK, 1.0, 8, coins=SeededCoins(2))
    before = est.to_bytes(insecure=True)
    ids = np.arange(2 * CHUNK)
    ids[-1] = 10 * CHUNK
    with pytest.raises(pp.OutsideUniverse):
        est.update_many(ids)
    assert est.to_bytes(insecure=True) == before
    chunks = iter(range(2))

    def interrupted(*args: Any, **named: Any) -> None:
        if next(chunks):
            raise KeyboardInterrupt
        real(*args, **named)

    real = Counters.redraw
    monkeypatch.setattr(Counters, "redraw", interrupted)
    with pytest.raises(KeyboardInterrupt):
        est.update_many(ids[:-1])
    assert est.to_bytes(insecure=True) == before


@pytest.mark.slow
def test_looking_ids_up_first_would_leave_a_batch_half_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counters, "repeatable", True)
    with pytest.raises(AssertionError):
        test_a_long_batch_that_breaks_off_leaves_everything_as_it_was(monkeypatch)


@pytest.mark.parametrize("only", [None, "mean"])
@pytest.mark.parametrize("delta", [None, 1e-9])
@pytest.mark.parametrize("up_to", [2, 5, 256])
@gaussian_noise()
def test_saved_states_come_back_with_their_plan_and_their_last_release(
    up_to: int, delta: float | None, only: Any
) -> None:
    est = pp.Counts(pp.Users(["a", "b", "c"]), 3.0, up_to, releases=2, delta=delta, only=only)
    est.update_many(["a", "a", "b"])
    r = est.release(level=0.8)
    back = pp.load(est.to_bytes())
    assert (back.last, back.up_to, back.only, back.budget) == (r, up_to, only, est.budget)
    assert fields(back) == fields(est)
    with refused("users-not-loaded"):
        back.update("a")
    again = pp.load(est.to_bytes(), pp.Users(["a", "b", "c"]))
    again.update("c")
    assert fields(again)[2][0] == (fields(est)[2][0] + 1) % up_to
    assert fields(copy.deepcopy(est)) == fields(est)


def test_a_state_that_contradicts_itself_is_refused() -> None:
    from panprivacy import state

    est = pp.Counts(10, 1.0, 5)
    parts = state.unseal(est.to_bytes())
    words = parts.words.copy()
    words[0] |= np.uint64(15)
    with refused("state-contradictory", "counter", "4"):
        pp.load(state.seal(parts._replace(words=words)))
    with refused("state-contradictory", "counters up to 1"):
        pp.load(state.seal(parts._replace(parameters=parts.parameters[:-1] + b"\0")))
    with pytest.raises(pp.CorruptState):
        pp.load(state.seal(parts._replace(parameters=parts.parameters[:-1] + b"\x20")))


def test_the_mean_alone_spends_more_on_its_bits() -> None:
    alone, all_ = pp.Counts(5000, 1.0, only="mean"), pp.Counts(5000, 1.0)
    assert alone.mean_stderr < all_.mean_stderr
    assert alone.share_stderr is None
    assert "mean only" in repr(alone)
    assert alone.release().at_least == ()


def test_windows_and_lists_take_it_like_any_other() -> None:
    weeks = pp.Windows(lambda: pp.Counts(1000, 2.0, 3), every="7d", start="2026-01-05")
    weeks.update_many(list(range(1000)) * 2, time="2026-01-06")
    weeks.advance("2026-01-14")
    assert weeks.closed[0].release.at_least[1] > 0.5


def test_only_who_counts_to_one_is_sent_to_density() -> None:
    for up_to, sent in ((1, True), (1000, False)):
        with pytest.raises(pp.InvalidValue) as error:
            pp.Counts(1000, 1.0, up_to)
        assert ("pp.Density" in str(error.value)) is sent
