"""Several threads on one estimator."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

import panprivacy as pp
from panprivacy import testing
from panprivacy.memory.threads import CHUNK
from panprivacy.privacy.coins import Flips
from panprivacy.testing import ledger_of, lock_of, set_coins, table_of
from sources import Always, Scripted
from together import run_together


def feed_often(est: pp.Density, ids: NDArray[np.int64]) -> None:
    for _ in range(10):
        est.update_many(ids)


def feed_singly(est: pp.Density, users: range) -> None:
    for user in users:
        est.update(user)


@pytest.mark.parametrize("options", [{}, {"sample": 30_000}], ids=["all", "sampled"])
def test_threads_with_disjoint_users_lose_no_bit(options: dict[str, int]) -> None:
    est = pp.Density(50_000, 1.0, coins=Always(False), **options)  # type: ignore[arg-type]
    set_coins(est, Always(True))
    quarters = [np.arange(i, 50_000, 4) for i in range(4)]  # neighbours share words
    singles = range(0, 50_000, 97)
    tasks = [partial(feed_often, est, ids) for ids in quarters]
    assert run_together(*tasks, partial(feed_singly, est, singles)) == []
    assert table_of(est).ones() == est.users


def test_as_many_releases_are_made_as_planned_however_many_threads_ask() -> None:
    est = pp.Density(1000, 1.0, releases=5)
    raised = run_together(*(est.release for _ in range(12)))
    assert len(raised) == 7
    assert all(isinstance(error, pp.BudgetExhausted) for error in raised)
    assert est.budget.releases_made == 5


@pytest.mark.slow
def test_either_a_release_or_an_observer_has_the_budget_whoever_comes_first() -> None:
    """Both at once would spend it twice; neither would lose it."""
    for _ in range(60):
        est = pp.Density(1000, 9.0)
        raised = run_together(est.release, partial(pp.Continual, est))
        assert len(raised) == 1
        released = est.emptied is None
        assert isinstance(raised[0], ValueError if released else pp.PanPrivacyError), raised[0]
        assert est.budget.releases_made == int(released)


@pytest.mark.parametrize("first", ["release", "observer"])
def test_whoever_waits_for_the_lock_finds_that_the_other_had_it(first: str) -> None:
    """The same with the order fixed: the second one asked before the first was done."""
    est = pp.Density(1000, 9.0)
    tasks: dict[str, Callable[[], object]] = {"release": est.release, "observer": partial(pp.Continual, est)}
    lock = lock_of(est)

    class Overtaken:
        """A lock that the other one gets just before whoever asks for it."""

        def __enter__(self) -> None:
            est._lock = lock
            tasks[first]()
            lock.acquire()

        def __exit__(self, *_: object) -> None:
            lock.release()

    est._lock = Overtaken()
    second = next(task for name, task in tasks.items() if name != first)
    with pytest.raises(pp.PanPrivacyError) as caught:
        second()
    assert caught.value.code in {"already-released", "emptied"}
    assert est.budget.releases_made == int(first == "release")


def test_a_batch_that_is_refused_takes_no_other_threads_events_with_it() -> None:
    """The bits are put back under the lock: what others drew meanwhile is drawn before or after."""
    est = pp.Density(20_000, 1.0, coins=Always(False))
    set_coins(est, Always(True))
    bad = np.append(np.zeros(CHUNK, dtype=np.int64), -1)  # too long to be looked up as a whole

    def refused() -> None:
        for _ in range(20):
            with pytest.raises(pp.OutsideUniverse):
                est.update_many(bad)

    assert run_together(refused, partial(feed_singly, est, range(1, 20_000))) == []
    assert table_of(est).ones() == 19_999


def test_ids_that_another_thread_changes_meanwhile_are_never_written_beyond_the_table() -> None:
    ids = np.arange(100)

    def meddle(threshold: int, n: int) -> Flips:  # noqa: ARG001 - after the ids were checked
        ids[50] = 2**40
        return np.ones(n, dtype=bool)

    est = pp.Density(100, 1.0, coins=Always(False))
    set_coins(est, Scripted(meddle))
    with testing.refused("ids-changed"):
        est.update_many(ids)
    assert table_of(est).ones() == 50


@pytest.mark.parametrize("many", [False, True])
def test_an_event_that_waits_for_a_redraw_is_drawn_from_the_pair_behind_it(many: bool) -> None:
    """A bit drawn from the older, surer pair after the redraw would give its user away."""
    asked: list[int] = []

    def note(threshold: int, n: int) -> Flips:
        asked.append(threshold)
        return np.zeros(n, dtype=bool)

    est = pp.Density(100, 2.0, intrusions=1, coins=Scripted(note))
    sure = ledger_of(est).pair.present
    lock = lock_of(est)

    class Overtaken:
        """A lock that `rerandomize` gets just before whoever asks for it."""

        def __enter__(self) -> None:
            est._lock = lock
            est.rerandomize()
            lock.acquire()

        def __exit__(self, *_: object) -> None:
            lock.release()

    est._lock = Overtaken()
    if many:
        est.update_many([7])
    else:
        est.update(7)
    assert asked[-1] == ledger_of(est).pair.present < sure
