"""Whose the bits are: emptied estimators, forked processes, and those that are handed over."""

import copy
import errno
import multiprocessing
import os
import pickle
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from hashlib import sha256
from multiprocessing.connection import Connection
from threading import Event, Thread, Timer
from time import monotonic
from typing import Any

import pytest
from rich.console import Console

import panprivacy as pp
from forking import fork, in_child, said
from panprivacy.estimators import base
from panprivacy.memory import ownership
from panprivacy.paper import FixedLevelPPDS
from panprivacy.testing import SeededCoins, estimator_of, lock_of, refused, table_of

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

KEY = bytes(range(16))


def loaded() -> pp.Density:
    est = pp.load(pp.Density(2000, 2.0, intrusions=1).to_bytes())
    assert isinstance(est, pp.Density)
    return est


ESTIMATORS: dict[str, Callable[[], Any]] = {
    "density": lambda: pp.Density(2000, 2.0, intrusions=1),
    "sampled": lambda: pp.Density(2000, 2.0, sample=500, intrusions=1),
    "unplanned readings": lambda: pp.Density(2000, 2.0),
    "listed": lambda: pp.Density(pp.Users(range(2000)), 2.0),
    "edges": lambda: pp.Density(pp.Edges(64), 2.0),
    "counts": lambda: pp.Counts(2000, 2.0),
    "distinct": lambda: pp.DistinctCount(2.0, 64, intrusions=1),
    "fixed level": lambda: FixedLevelPPDS(2000, 2.0, 200),
    "loaded": loaded,
    "merged": lambda: pp.merge([pp.Density(2000, 2.0, shard=(i, 2)) for i in range(2)]),
    "union": lambda: pp.merge([pp.DistinctCount(2.0, 64, key=KEY) for _ in range(2)], overlapping=True),
}

VERBS: dict[str, Callable[[Any], object]] = {
    "update": lambda est: est.update((1, 2) if isinstance(est.universe, pp.Edges) else 1),
    "update everyone": lambda est: [est.update(user) for user in range(50)],
    "update many": lambda est: est.update_many([(1, 2)] if isinstance(est.universe, pp.Edges) else [1, 2, 3]),
    "update many, long": lambda est: est.update_many(range(300_000)),
    "update nobody": lambda est: est.update_many([]),
    "remove": lambda est: est.remove((1, 2) if isinstance(est.universe, pp.Edges) else 1),
    "remove many": lambda est: est.remove_many([(1, 2)] if isinstance(est.universe, pp.Edges) else [1, 2, 3]),
    "release": lambda est: est.release(),
    "rerandomize": lambda est: est.rerandomize(),
    "save": lambda est: est.to_bytes(),
    "pickle": pickle.dumps,
    "copy": copy.deepcopy,
    "merge": lambda est: pp.merge([est]),
    "take over": pp.Continual,
    "hand over": lambda est: est.hand_over().__enter__(),
}
NOT_OF = {  # what these refuse for another reason, or for the same one by another name
    "update everyone": ("edges",),
    "update many, long": ("edges",),
    "remove": ("distinct", "union"),
    "remove many": ("distinct", "union"),
    "merge": ("fixed level",),
    "take over": ("distinct", "union", "fixed level", "counts"),
}
USES = [(name, verb) for verb in VERBS for name in ESTIMATORS if name not in NOT_OF.get(verb, ())]


def shown(thing: object) -> str:
    """What a terminal shows of it."""
    console = Console(width=1000)
    with console.capture() as capture:
        console.print(thing)
    return capture.get()


# --- emptied estimators ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "verb"), USES)
def test_what_was_ended_refuses_every_use_and_says_why(name: str, verb: str) -> None:
    est = ESTIMATORS[name]()
    est.end("the study is over")
    before = est.budget
    with refused("emptied", "the study is over"):
        VERBS[verb](est)
    assert est.budget == before, "what is refused spends nothing"


@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_was_ended_holds_no_bits_and_can_be_shown(name: str) -> None:
    est = ESTIMATORS[name]()
    words = table_of(est).words
    released = est.release()
    assert est.emptied is None
    est.end("the study is over")
    assert not words.any()
    assert est.emptied == "the study is over"
    assert repr(est) == str(est) == f"<{type(est).__name__}, emptied: the study is over>"
    assert "the study is over" in shown(est)
    assert est.memory == 0
    assert est.last == released, "what was published stays public"


def test_the_first_reason_stays() -> None:
    est = pp.Density(100, 1.0)
    est.end("first")
    est.end("second")
    assert est.emptied == "first"


def test_what_was_taken_over_names_who_holds_the_bits() -> None:
    density, (one, other) = pp.Density(2000, 9.0), (pp.DistinctCount(1.0, 64, key=KEY) for _ in range(2))
    watch = pp.Continual(density)
    pp.merge([one, other])
    assert "taken over by a Continual" in repr(density)
    assert "merged into another" in repr(one)
    assert "emptied" not in repr(watch)


def test_an_observer_of_nothing_says_so() -> None:
    watch = pp.Continual(2000, 9.0)
    estimator_of(watch).end("the study is over")
    assert repr(watch) == "<Continual, emptied: the study is over>"
    assert "the study is over" in shown(watch)
    assert watch.memory == 0
    for use in (watch.observe, watch.to_bytes, lambda: watch.update(1), lambda: watch.update_many([1])):
        with refused("emptied", "the study is over"):
            use()


# --- forked processes -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@forks
@pytest.mark.parametrize(("name", "verb"), USES)
def test_a_forked_child_can_do_nothing_with_its_copy(name: str, verb: str) -> None:
    est = ESTIMATORS[name]()
    assert in_child(lambda: VERBS[verb](est)).startswith("PanPrivacyError: this is a forked process")


@pytest.mark.slow
@forks
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_forked_child_has_zeros_and_its_parent_goes_on(name: str) -> None:
    est = ESTIMATORS[name]()
    words = table_of(est).words
    before = words.tolist()
    assert in_child(words.any) == "False"
    assert in_child(lambda: est).startswith(f"<{type(est).__name__}, emptied: this is a forked process")
    assert words.tolist() == before
    assert est.release().secure


@pytest.mark.slow
@forks
def test_without_the_hook_a_child_could_spend_the_budget_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: nobody tells the child's estimators of the fork."""
    est = pp.Density(100, 1.0)
    monkeypatch.setattr(ownership, "_owners", set())
    assert in_child(est.release).startswith("density")


@pytest.mark.slow
@forks
def test_a_fork_amid_a_batch_of_another_thread_leaves_no_lock_behind() -> None:
    est, watch = pp.Density(100, 1.0), pp.Continual(100, 9.0)
    with lock_of(est), lock_of(estimator_of(watch)):
        assert in_child(lambda: est.update(3)).startswith("PanPrivacyError: this is a forked process")
        assert in_child(lambda: watch.update(3)).startswith("PanPrivacyError: this is a forked process")


@pytest.mark.slow
@forks
def test_an_observer_and_windows_of_a_child_are_refused_too() -> None:
    watch, days = pp.Continual(100, 9.0), pp.Windows(lambda: pp.Density(100, 1.0), every="1d", start=0)
    for use in (watch.observe, watch.to_bytes, lambda: days.update(3, time=0.0), lambda: days.advance(86_400)):
        assert in_child(use).startswith("PanPrivacyError: this is a forked process")
    days.update(3, time=0.0)
    assert len(days.advance(86_400)) == 1


def answer(task: Callable[[], object], to: Connection) -> None:
    to.send(said(task))


def in_process(task: Callable[[], object]) -> str:
    """What a task returns in a process that `multiprocessing` forks, as text, or the error that it raises there."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=answer, args=(task, theirs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    found = ours.recv()
    process.join()
    return str(found)


@pytest.mark.slow
@forks
def test_processes_of_multiprocessing_are_forked_processes() -> None:
    est = pp.Density(100, 1.0)
    for use in (est.release, lambda: est.update(3), est.to_bytes):
        assert in_process(use).startswith("PanPrivacyError: this is a forked process")
    with est.hand_over():
        assert in_process(est.release).startswith("density")
    with refused("emptied", "handed over"):
        est.release()


# --- handed over ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@forks
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_first_child_has_what_is_handed_over_and_nobody_else(name: str) -> None:
    est = ESTIMATORS[name]()
    words = table_of(est).words
    before = sha256(words).hexdigest()
    with est.hand_over():
        assert in_child(lambda: sha256(table_of(est).words).hexdigest()) == before
        assert in_child(est.release).startswith("PanPrivacyError: this estimator was handed over")
    assert not words.any()
    with refused("emptied", "handed over"):
        est.release()
    assert in_child(est.release).startswith("PanPrivacyError: this estimator was handed over")


@pytest.mark.slow
@forks
def test_a_child_goes_on_with_what_it_was_given() -> None:
    est = pp.Density(2000, 9.0, releases=2, coins=SeededCoins(1))
    est.update_many(range(1000))

    def go_on() -> object:
        est.update_many(range(1000, 2000))
        return round(est.release().density, 1), len(est.to_bytes(insecure=True)), in_child(est.release)

    length = len(est.to_bytes(insecure=True))
    with est.hand_over():
        found = in_child(go_on)
    assert found.startswith(f"(1.0, {length}, 'PanPrivacyError: this is a forked process"), found


@pytest.mark.slow
@forks
def test_a_child_that_leaves_the_block_itself_goes_on_too() -> None:
    est = pp.Density(2000, 9.0)
    theirs, ours = os.pipe()
    with est.hand_over():
        child = fork()
    if not child:
        try:
            os.write(ours, said(lambda: (est.release(), in_child(table_of(est).words.any))[1]).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(ours)
    with os.fdopen(theirs) as found:
        assert found.read() == "False", "the child's pages are wiped in its own children again"
    assert est.emptied


@pytest.mark.slow
@forks
def test_bits_that_are_not_kept_for_the_child_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    est = pp.Density(2000, 1.0)
    monkeypatch.setattr(base, "kept_on_fork", lambda _: nullcontext())
    with est.hand_over():
        assert in_child(table_of(est).ones) == "0"


@forks
def test_a_parent_that_kept_its_bits_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pp.Density, "_empty", lambda self, why: None)  # noqa: ARG005
    est = pp.Density(2000, 1.0)
    with est.hand_over():
        assert in_child(est.release).startswith("density")
    assert est.release().number == 1, "both have released: the loss is twice what was planned"


@pytest.mark.slow
@forks
def test_inside_the_block_too_the_parent_holds_nothing_once_there_is_a_child() -> None:
    est = pp.Density(2000, 1.0)
    with est.hand_over():
        assert in_child(est.release).startswith("density")
        with refused("emptied", "handed over"):
            est.release()


@pytest.mark.slow
@forks
@pytest.mark.parametrize(
    "error",
    [BlockingIOError(errno.EAGAIN, "it looks like a failed fork"), FileNotFoundError(errno.ENOENT, "something else")],
)
def test_an_error_after_the_fork_leaves_the_estimator_with_the_child(error: OSError) -> None:
    est = pp.Density(2000, 1.0)

    def forked_and_failed() -> None:
        with est.hand_over():
            assert in_child(est.release).startswith("density")
            raise error

    with pytest.raises(type(error)):
        forked_and_failed()
    assert est.emptied


@pytest.mark.slow
@forks
def test_a_fork_waits_for_the_batch_of_another_thread() -> None:
    """A child would have the scratch of that batch for ever."""
    est = pp.Density(100_000, 1.0)
    with lock_of(est):
        started = Thread(target=lambda: est.update_many(range(1000)))
        started.start()  # waits for the lock, and has drawn nothing
    started.join()
    inside, leave = Event(), Event()

    def hold() -> None:
        with lock_of(est):
            inside.set()
            leave.wait(60)

    holder = Thread(target=hold)
    holder.start()
    inside.wait(60)
    before = monotonic()
    Timer(0.3, leave.set).start()
    assert in_child(lambda: 1) == "1"
    assert monotonic() - before >= 0.3
    holder.join()


def test_where_nothing_is_forked_nothing_is_handed_over() -> None:
    est = pp.Density(2000, 1.0)
    with est.hand_over():
        pass
    assert est.release().number == 1


@pytest.mark.slow
@pytest.mark.parametrize("reason", [errno.EAGAIN, errno.ENOMEM])
def test_a_fork_that_fails_leaves_the_estimator_where_it_is(reason: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python runs the hooks of a parent although there is no child."""

    def failing() -> int:
        ownership._fork.before()
        ownership._fork.in_parent()
        raise OSError(reason, "no child")

    est = pp.Density(2000, 1.0)
    before = est.to_bytes()
    monkeypatch.setattr(os, "fork", failing)
    with pytest.raises(OSError, match="no child"), est.hand_over():
        os.fork()
    monkeypatch.undo()
    assert est.to_bytes() == before
    assert in_child(est.release).startswith("PanPrivacyError: this is a forked process")
