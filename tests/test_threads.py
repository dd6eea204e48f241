"""Several threads work on a long batch: nobody is lost, a bad batch changes nothing, and nothing is left behind."""

from threading import Lock, get_ident
from time import sleep
from typing import Any

import numpy as np
import pytest

import panprivacy as pp
from panprivacy import memory, threads
from panprivacy.memory import Scratch
from panprivacy.testing import CertainCoins

MANY = 600_000


class Certain(CertainCoins):
    """Coins that pass for the system's, with which threads may be used."""

    secure = True


def present(est: pp.Density) -> np.ndarray[Any, Any]:
    """Who came."""
    return np.flatnonzero(est._table.bits(0, est._table.size))


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The threads that redrew bits."""
    seen: set[int] = set()
    redraw = pp.Density._redraw_slots

    def noted(*arguments: Any) -> None:
        seen.add(get_ident())
        sleep(0.05)  # so that the others get their share
        redraw(*arguments)

    monkeypatch.setattr(pp.Density, "_redraw_slots", noted)
    return seen


@pytest.mark.parametrize("number", [1, 2, 5])
def test_every_user_of_a_long_batch_is_counted(number: int, busy: set[int]) -> None:
    est = pp.Density(MANY, 1.0, coins=Certain())
    est.threads = number
    ids = np.random.default_rng(1).permutation(np.arange(0, MANY, 3).repeat(4))
    est.update_many(ids)
    assert np.array_equal(present(est), np.arange(0, MANY, 3))
    assert min(number, 2) <= len(busy) <= number


def test_a_short_batch_stays_with_the_thread_that_brings_it(busy: set[int]) -> None:
    est = pp.Density(MANY, 1.0, coins=Certain())
    est.threads = 8
    est.update_many(np.arange(1000))
    assert busy == {get_ident()}


def test_seeded_coins_are_drawn_in_one_order(busy: set[int]) -> None:
    est = pp.Density(MANY, 1.0, coins=CertainCoins())
    est.threads = 8
    est.update_many(np.arange(MANY))
    assert busy == {get_ident()}


def test_every_event_of_a_counter_is_counted() -> None:
    est = pp.Counts(1000, 1.0, up_to=16, coins=Certain())
    est.threads = 4
    before = [counter for counter, _ in est._table.fields()]
    est.update_many(np.tile(np.arange(1000), 703))
    assert [counter for counter, _ in est._table.fields()] == [(counter + 703) % 16 for counter in before]


@pytest.mark.parametrize("at", [0, 300_000, MANY - 1])
def test_a_stranger_in_a_long_batch_is_named_and_changes_nothing(at: int) -> None:
    est = pp.Density(MANY, 1.0, coins=Certain())
    est.threads = 3
    ids = np.arange(MANY)
    ids[at] = MANY + 7
    with pytest.raises(pp.OutsideUniverse, match=str(MANY + 7)):
        est.update_many(ids)
    assert not len(present(est))


def test_ctrl_c_in_any_thread_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    est = pp.Density(MANY, 1.0, coins=Certain())
    est.threads = 3
    redraw, calls = pp.Density._redraw_slots, []

    def interrupted(*arguments: Any) -> None:
        calls.append(get_ident())
        redraw(*arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(pp.Density, "_redraw_slots", interrupted)
    with pytest.raises(KeyboardInterrupt):
        est.update_many(np.arange(MANY))
    assert not len(present(est))


def test_scratch_of_every_thread_is_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays: list[np.ndarray[Any, Any]] = []
    empty = Scratch.empty

    def noted(scratch: Scratch, name: str, n: int, dtype: Any) -> Any:
        array = empty(scratch, name, n, dtype)
        arrays.append(array)
        return array

    monkeypatch.setattr(Scratch, "empty", noted)
    est = pp.Density(MANY, 1.0)
    est.threads = 3
    est.update_many(np.arange(MANY))
    assert len(arrays) >= 3
    assert not any(any(array.tobytes()) for array in arrays)


def test_bits_have_their_law_whoever_drew_them() -> None:
    est = pp.Density(MANY, 1.0)
    est.threads = 4
    est.update_many(np.arange(MANY))
    p1 = float(est._ledger.pair.p1)
    assert abs(est._table.ones() - MANY * p1) < 5 * (MANY * p1 * (1 - p1)) ** 0.5  # 6e-7


@pytest.mark.parametrize("number", [0, -1, 257])
def test_a_silly_number_of_threads_is_refused(number: int) -> None:
    est = pp.Density(MANY, 1.0)
    est.threads = number
    with pytest.raises(ValueError, match="threads must be between 1 and 256"):
        est.update_many(np.arange(MANY))


# --- bugs that have to be found -------------------------------------------------------------------------------------


def test_a_table_without_turns_would_lose_users() -> None:
    """Two threads that read, change and write one word: planted by letting go of the turn in between."""
    words = memory.bits(1)
    turn = Lock()

    def careless(bit: int, scratch: Scratch) -> None:  # noqa: ARG001
        before = int(words[0])
        _ = turn.acquire(timeout=0.001)  # somebody else's turn comes here
        words[0] = before | 1 << bit

    def careful(bit: int, scratch: Scratch) -> None:
        with scratch.turn:
            careless(bit, scratch)

    threads.each(iter(range(64)), careful, 4)
    assert int(words[0]).bit_count() == 64
    words[0] = 0
    threads.each(iter(range(64)), careless, 4)
    assert int(words[0]).bit_count() < 64
