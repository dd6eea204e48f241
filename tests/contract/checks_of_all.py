"""What every exported estimator has to pass, as river's `yield_checks` has it for its own."""

import copy
import io
import pickle
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from contracted import DAY, USERS, Subject
from rich.console import Console

import panprivacy as pp
from forking import in_child
from panprivacy.privacy import noisy_counts
from panprivacy.testing import SeededCoins, refused
from sources import Always
from together import run_together

SOME = list(range(0, USERS, 3))

CONTAINERS: dict[str, Callable[[], object]] = {
    "list": lambda: SOME,
    "tuple": lambda: tuple(SOME),
    "range": lambda: range(0, USERS, 3),
    "deque": lambda: deque(SOME),
    "set": lambda: set(SOME),
    "int64": lambda: np.array(SOME),
    "uint16": lambda: np.array(SOME, dtype=np.uint16),
    "every other": lambda: np.repeat(np.array(SOME, dtype=np.int32), 2)[::2],
    "Polars": lambda: pl.Series(SOME),
    "Arrow": lambda: pa.chunked_array([SOME[:100], SOME[100:]]),
    "pandas": lambda: pd.Series(SOME, index=reversed(range(len(SOME)))),
    "nullable pandas": lambda: pd.Series(SOME, dtype="Int64"),
    "iterator": lambda: iter(SOME),
    "generator": lambda: (user for user in SOME),
}

FRAMES: dict[str, Callable[[pl.DataFrame], Any]] = {
    "Polars": lambda frame: frame,
    "lazy": lambda frame: frame.lazy(),
    "pandas": lambda frame: frame.to_pandas(),
    "Arrow": lambda frame: frame.to_arrow(),
    "reader": lambda frame: frame.to_arrow().to_reader(),
}

Check = Callable[[Subject], None]


def check_counts_of_a_release_are_wiped(subject: Subject) -> None:
    est, counted = subject.make(None), []
    add = noisy_counts.add_from_system

    def noted(counts: Any, noise: Any) -> None:
        add(counts, noise)
        counted.append(counts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noisy_counts, "add_from_system", noted)
        subject.feed(est, SOME)
        subject.released(est)
    kept = [counts for counts in counted if counts.any()]
    watch = getattr(getattr(est, "_observed", None), "drift_test", None)
    allowed = [] if watch is None else [watch.walk]  # which is part of the state
    assert counted, "a release adds no noise to counts in scratch"
    assert all(any(counts is known for known in allowed) for counts in kept), "exact or noisy counts are left"


def zeros(subject: Subject) -> tuple[Any, Always]:
    """An estimator all of whose bits are 0, and the coins that say what they are drawn as from now on."""
    coins = Always(False)
    est = subject.make(coins)
    coins.outcome = True
    return est, coins


def check_every_container_means_the_same(subject: Subject) -> None:
    expected = None
    for name, container in CONTAINERS.items():
        est, _ = zeros(subject)
        subject.feed(est, container())
        state = subject.state(est)
        assert state != subject.state(zeros(subject)[0]), f"a {name} counts nobody"
        assert state == (expected or state), f"a {name} counts others"
        expected = state


def check_a_batch_that_comes_twice_counts_once_or_twice(subject: Subject) -> None:
    once, again, at_once = (zeros(subject)[0] for _ in range(3))
    subject.feed(once, SOME)
    subject.feed(again, SOME)
    subject.feed(again, SOME)
    subject.feed(at_once, SOME + SOME)
    assert subject.state(again) == subject.state(at_once)
    assert (subject.state(again) == subject.state(once)) is subject.repeatable
    assert getattr(subject.bits(once), "REPEATABLE", True) is subject.repeatable


def check_one_by_one_is_many_at_once(subject: Subject) -> None:
    single, _ = zeros(subject)
    for user in SOME:
        single.update(user, *subject.category, **subject.time)
    many, _ = zeros(subject)
    subject.feed(many, SOME)
    assert subject.state(single) == subject.state(many)


def check_who_is_removed_was_never_there(subject: Subject) -> None:
    est, coins = zeros(subject)
    before = subject.state(est)
    if not subject.removes:
        with pytest.raises((pp.PanPrivacyError, AttributeError)):
            est.remove_many(SOME)
        with pytest.raises((pp.PanPrivacyError, AttributeError)):
            est.remove(1)
        assert subject.state(est) == before
        return
    subject.feed(est, SOME)
    coins.outcome = False
    est.remove_many(SOME[1:], *subject.category, **subject.time)
    est.remove(SOME[0], *subject.category, **subject.time)
    assert subject.state(est) == before


def check_a_bad_batch_changes_nothing(subject: Subject) -> None:
    est, _ = zeros(subject)
    before = subject.state(est)
    bad: list[object] = [
        [1, 2, subject.stranger],
        [*SOME * 100, subject.stranger],  # more than one chunk
        [1, None],
        "12",
        7,
        None,
        pl.Series([1, None]),
        pd.DataFrame({"user": [1, 2], "other": [3, 4]}),
        pl.DataFrame({"user": [1, 2], "other": [3, 4]}),
        np.array([[1, 2], [3, 4]]),
        np.array([0.5]),
    ]
    for ids in bad:
        with pytest.raises((pp.PanPrivacyError, TypeError, ValueError)):
            subject.feed(est, ids)
        assert subject.state(est) == before, f"{str(ids)[:50]} was refused, and changed something"
    with pytest.raises((pp.PanPrivacyError, TypeError, ValueError)):
        est.update(subject.stranger, *subject.category, **subject.time)
    assert subject.state(est) == before


def check_strangers_are_left_out_if_asked(subject: Subject) -> None:
    est, _ = zeros(subject)
    if subject.stranger is None:
        with pytest.raises(pp.InvalidValue) as error:
            subject.feed(est, SOME, skip_outside=True)
        assert error.value.code == "none-outside"
        assert subject.state(est) == subject.state(zeros(subject)[0])
        return
    subject.feed(est, SOME)
    expected, mixed = subject.state(est), [USERS, *SOME, USERS + 7, 2**40]
    for made in (list, tuple, np.array, pl.Series, pa.array, pd.Series, iter):
        some, coins = zeros(subject)
        subject.feed(some, made(mixed), skip_outside=True)
        assert subject.state(some) == expected, f"of a {made.__name__}, others are counted"
        if subject.removes:
            coins.outcome = False
            some.remove_many(made(mixed), *subject.category, skip_outside=True)
            assert subject.state(some) == subject.state(zeros(subject)[0])


def check_a_listed_user_is_not_left_out_for_the_spelling(subject: Subject) -> None:
    if subject.listing is None:
        return
    listed, coins = [f"{number:05}" for number in range(USERS)], Always(False)
    users = pp.Users(listed)
    est, alone = subject.listing(users, coins), subject.listing(users, coins)
    before, coins.outcome = subject.state(est), True
    for ids in (["00001", "nobody", "2"], iter(["00001", " 00002"]), pl.Series(["00001", "2.0"])):
        with pytest.raises(pp.OutsideUniverse) as error:
            subject.feed(est, ids, skip_outside=True)
        assert error.value.code == "lookalike"
        assert subject.state(est) == before, "it was refused, and changed something"
    subject.feed(est, ["nobody", *listed[::3], "no body"], skip_outside=True)
    subject.feed(alone, listed[::3])
    assert subject.state(est) == subject.state(alone) != before


def check_a_column_of_a_frame_is_a_column(subject: Subject) -> None:
    kind = subject.category[0] if subject.category else "none"
    frame = pl.DataFrame({"other": "x", "at": DAY, "user": SOME, "kind": kind})
    expected = zeros(subject)[0]
    subject.feed(expected, SOME)
    for made in FRAMES.values():
        est, _ = zeros(subject)
        subject.feed_columns(est, made(frame))
        assert subject.state(est) == subject.state(expected)
        for wrong, code in (("User", "no-such-column"), (("user", "other"), "column-name")):
            with pytest.raises(pp.PanPrivacyError) as error:
                est.update_many(made(frame), *subject.category, **subject.time, column=wrong)
            assert (error.value.code, subject.state(est)) == (code, subject.state(expected))
    with pytest.raises(pp.InvalidType) as refused:
        est.update_many(SOME, *subject.category, **subject.time, column="user")
    assert refused.value.code == "not-a-frame"


def check_nobody_is_a_batch_too(subject: Subject) -> None:
    est, _ = zeros(subject)
    before = subject.state(est)
    batches: tuple[Any, ...] = ([], (), np.array([], dtype=np.int64), pl.Series([], dtype=pl.Int64))
    for nobody in batches:
        subject.feed(est, nobody)
    assert subject.state(est) == before


def check_bytes_and_files_bring_it_back(subject: Subject) -> None:
    est = subject.make(None)
    if not subject.saves:
        assert not hasattr(est, "to_bytes")
        assert not hasattr(est, "save")
        return
    subject.feed(est, SOME)
    subject.released(est)
    blob, shown = est.to_bytes(), repr(est)
    with tempfile.TemporaryDirectory() as folder:
        est.save(Path(folder) / "state.pp")
        backs = [pp.load(blob), type(est).from_bytes(blob), pp.load(Path(folder) / "state.pp")]
    for back in backs:
        assert type(back) is type(est)
        assert back.to_bytes() == blob
        assert back.budget == est.budget
        assert repr(back) == shown
    for spoiled in (blob[:-1], blob + b"x", blob[:40] + bytes([blob[40] ^ 1]) + blob[41:], b""):
        with pytest.raises(pp.CorruptState):
            pp.load(spoiled)


def check_a_saved_one_is_moved_or_kept(subject: Subject) -> None:
    """Two that hold the same bits would be two versions of them once one is fed, and could spend one epsilon twice."""
    est = subject.make(None)
    if subject.elsewhere:
        return
    with refused("copied"):
        copy.copy(est)
    if not subject.saves:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.pp"
        est.save(path)
        with refused("emptied", "state.pp", "save()"):
            subject.feed(est, SOME)
        with pp.StateFile(path).locked() as file:
            again = file.load(subject.make(None).universe)
            for _ in range(2):
                subject.feed(again, SOME)
                again.save(file)
            kept = path.read_bytes()
        with refused("emptied", "state.pp", "given back"):
            subject.feed(again, SOME)
        assert path.read_bytes() == kept


def check_seeded_coins_are_not_saved_by_mistake(subject: Subject) -> None:
    est = subject.make(SeededCoins(1))
    assert not subject.released(est).secure
    if subject.saves:
        with pytest.raises(pp.NotPrivate):
            est.to_bytes()
        with pytest.raises(pp.NotPrivate):
            pickle.dumps(est)
        assert not pp.load(est.to_bytes(insecure=True)).secure


def check_copies_are_whole_or_refused(subject: Subject) -> None:
    est = subject.make(None)
    subject.feed(est, SOME)
    ways: list[Callable[[Any], Any]] = [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))]
    for copied in ways:
        if subject.saves:
            again = copied(est)
            assert (type(again), again.to_bytes(), again.budget) == (type(est), est.to_bytes(), est.budget)
        elif subject.elsewhere:  # a copy opens what is there, and holds no bits of its own
            assert subject.state(copied(est)) == subject.state(est)
        else:
            with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
                copied(est)


def check_it_merges_or_says_why_not(subject: Subject) -> None:
    parts = [subject.make(None) for _ in range(2)] if subject.parts is None else subject.parts()
    if subject.parts is None:
        before = [subject.state(part) for part in parts]
        with pytest.raises(pp.CannotMerge):
            pp.merge(parts)
        assert [subject.state(part) for part in parts] == before, "the refusal took the parts"
        return
    merged = pp.merge(parts)
    assert type(merged) is type(parts[0])
    assert merged.budget.total <= merged.epsilon
    subject.released(merged)
    for part in parts:
        with refused("emptied", "merged"):
            subject.feed(part, SOME)


def check_threads_lose_nothing(subject: Subject) -> None:
    est, _ = zeros(subject)
    quarters = [np.arange(i, USERS, 4) for i in range(4)]
    assert run_together(*(lambda ids=ids: subject.feed(est, ids) for ids in quarters)) == []
    alone, _ = zeros(subject)
    subject.feed(alone, range(USERS))
    assert subject.state(est) == subject.state(alone)


def check_the_budget_is_kept(subject: Subject) -> None:
    est = subject.make(None)
    bits = subject.bits(est)
    assert 0 < bits.budget.spent < bits.budget.total <= bits.epsilon == bits.budget.epsilon
    said = [subject.released(est) for _ in range(2)]
    assert bits.budget.spent <= bits.budget.total
    assert bits.budget.remaining == bits.budget.total - bits.budget.spent
    assert [each.number for each in said] == [1, 2]
    if subject.spends:
        assert said[-1].epsilon_spent == bits.budget.spent == bits.budget.total
        with pytest.raises(pp.BudgetExhausted):
            subject.released(est)
        assert bits.last == said[-1]
        assert bits.budget.spent == bits.budget.total


def check_what_is_free_tells_nothing(subject: Subject) -> None:
    told = set()
    for ids in ([], [5], SOME, range(USERS), SOME * 50):
        est = subject.make(SeededCoins(1))
        subject.feed(est, ids)
        shown = (repr(est), str(est), str(est.card()), est._repr_html_(), subject.bits(est).memory)
        told.add((len(subject.state(est)), str(subject.bits(est).budget), *shown))
    assert len(told) == 1, "what can be read for free depends on who came"


def check_it_shows_itself(subject: Subject) -> None:
    est = subject.make(None)
    said = subject.released(est)
    for thing in (est, said, subject.bits(est).budget):
        name = type(thing).__name__
        assert repr(thing).lstrip("<").startswith(name)
        assert " at 0x" not in repr(thing)
        console = Console(width=200, file=io.StringIO(), record=True)
        console.print(thing)
        title = thing.card().title
        assert title in console.export_text()
        assert thing._repr_html_().startswith("<table")
        assert title in thing._repr_html_()
    assert "\n" not in str(said)
    assert set(said.to_dict()) >= {"level", "number", "epsilon_spent", "secure"}


def check_what_is_ended_refuses_all_use(subject: Subject) -> None:
    if subject.elsewhere:
        return
    est = subject.make(None)
    if subject.ends:
        est.end("the study is over")
    else:
        getattr(subject.bits(est), "_density", subject.bits(est)).end("the study is over")
    uses: list[Callable[[], object]] = [
        lambda: subject.feed(est, SOME),
        lambda: est.update(1, *subject.category, **subject.time),
        lambda: subject.released(est),
        lambda: subject.state(est),
    ]
    for use in uses:
        with refused("emptied", "the study is over"):
            use()
    assert "emptied: the study is over" in repr(est)
    assert "the study is over" in est._repr_html_()


def check_a_forked_child_has_nothing(subject: Subject) -> None:
    if subject.elsewhere:
        return
    est = subject.make(None)
    subject.feed(est, SOME)
    before = subject.state(est)
    for use in (lambda: subject.feed(est, [1]), lambda: subject.released(est), lambda: subject.state(est)):
        assert in_child(use).startswith("PanPrivacyError: this is a forked process")
    assert subject.state(est) == before
    assert subject.bits(est).budget.spent < subject.bits(est).budget.total


CHECKS: list[Check] = [thing for name, thing in globals().items() if name.startswith("check_")]
