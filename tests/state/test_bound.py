"""An estimator that is loaded from a path stays bound to its file."""

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import panprivacy as pp
from panprivacy.state import StateFile
from panprivacy.state.journal import Journal
from panprivacy.testing import refused


def saved(tmp_path: Path, est: Any = None) -> Path:
    path = tmp_path / "flu.pp"
    (est or pp.Density(1000, 1.0)).save(path)
    return path


def test_a_planned_release_is_spent_once_however_often_the_file_is_loaded(tmp_path: Path) -> None:
    path = saved(tmp_path)
    released = pp.load(path).release()
    for _ in range(2):
        with refused("budget-exhausted"):
            pp.load(path).release()
    assert pp.load(path).last == released
    assert [file.name for file in tmp_path.iterdir()] == ["flu.pp"]


def test_a_release_is_in_the_file_before_it_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path)
    est = pp.load(path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "commit", full)
        with refused("state-unwritable"):
            est.release()
    with refused("emptied"):
        est.release()
    assert pp.load(path).releases_left == 1, "nothing was shown, and nothing is spent"


CHANGES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "update": (lambda: pp.Density(1000, 1.0), lambda est: [est.update(user) for user in range(20)]),
    "update_many": (lambda: pp.Density(1000, 1.0), lambda est: est.update_many(range(500))),
    "an iterator": (lambda: pp.Density(1000, 1.0), lambda est: est.update_many(iter(range(500)))),
    "remove_many": (lambda: pp.Density(1000, 1.0), lambda est: est.remove_many(range(500))),
    "rerandomize": (lambda: pp.Density(1000, 1.0, intrusions=1), lambda est: est.rerandomize()),
    "grow": (lambda: pp.Density(1000, 1.0), lambda est: est.grow(2000)),
    "counts": (lambda: pp.Counts(1000, 1.0), lambda est: est.update_many(range(500))),
    "close": (lambda: pp.Retention(1000, 1.0), lambda est: est.close()),
    "declare_ids": (lambda: pp.DistinctCount(1.0, 64), lambda est: est.declare_ids("text")),
    "advance": (
        lambda: pp.ActiveUsers(1000, 1.0, start="2026-01-05", span="7d"),
        lambda est: est.advance("2026-01-07"),
    ),
    "a batch with times": (
        lambda: pp.ActiveUsers(1000, 1.0, start="2026-01-05", span="7d"),
        lambda est: est.update_many(range(500), time="2026-01-06"),
    ),
    "observe": (lambda: pp.Continual(1000, 4.0), lambda est: est.observe()),
    "an observer is fed": (lambda: pp.Continual(1000, 4.0), lambda est: est.update_many(range(500))),
    "fixed level": (lambda: pp.paper.FixedLevelPPDS(1000, 1.0, 100), lambda est: est.update_many(range(500))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_in_the_file_when_the_call_returns(change: str, tmp_path: Path) -> None:
    make, call = CHANGES[change]
    path = saved(tmp_path, make())
    est, before = pp.load(path), path.read_bytes()
    call(est)
    assert path.read_bytes() != before
    assert path.read_bytes() == est.to_bytes()


def test_a_refused_batch_leaves_file_and_estimator_as_they_were(tmp_path: Path) -> None:
    path = saved(tmp_path)
    est, before = pp.load(path), path.read_bytes()
    with pytest.raises(pp.OutsideUniverse):
        est.update_many([1, 5000])
    assert path.read_bytes() == before == est.to_bytes()


def test_a_file_that_another_object_has_changed_is_loaded_again_first(tmp_path: Path) -> None:
    path = saved(tmp_path)
    one, other = pp.load(path), pp.load(path)
    one.update_many(range(500))
    for call in (lambda: other.update(5), other.release, lambda: other.save(path)):
        with refused("state-changed"):
            call()
    assert path.read_bytes() == one.to_bytes()
    pp.load(path).update(5)


def test_a_file_that_a_process_holds_is_not_changed_by_others(tmp_path: Path) -> None:
    path = saved(tmp_path)
    est = pp.load(path)
    with StateFile(path).locked() as file:
        with refused("state-in-use"):
            est.release()
        est.save(file)  # this process holds it: from now on it is kept there
        est.update_many(range(500))
        est.save(file)
    with refused("emptied"):
        est.release()


def test_a_bound_state_has_no_second_version(tmp_path: Path) -> None:
    path = saved(tmp_path, pp.Density(1000, 1.0, shard=(0, 2)))
    est = pp.load(path)
    for call in (
        lambda: est.save(tmp_path / "other.pp"),
        lambda: pp.merge([est, pp.Density(1000, 1.0, shard=(1, 2))]),
        lambda: pp.Continual(est),
        lambda: pp.StateFolder.holding(est, tmp_path / "folder"),
    ):
        with refused("bound-to-file"):
            call()
    assert path.read_bytes() == est.to_bytes()
    assert not (tmp_path / "other.pp").exists()
    assert not (tmp_path / "folder").exists()


def test_a_detached_estimator_leaves_its_file_alone(tmp_path: Path) -> None:
    path = saved(tmp_path)
    before = path.read_bytes()
    est = pp.load(path, detached=True)
    est.update_many(range(500))
    est.release()
    assert path.read_bytes() == before
    est.save(tmp_path / "other.pp")


def test_a_saved_estimator_is_looked_at_while_another_process_holds_its_file(tmp_path: Path) -> None:
    path = saved(tmp_path)
    with StateFile(path).locked():
        est = pp.load(path)
        assert est.last is None
        assert est.budget.releases == 1
        assert est.to_bytes() == path.read_bytes()


def test_the_bits_of_a_bound_estimator_go_with_its_last_name(tmp_path: Path) -> None:
    gc.disable()
    try:
        est = pp.load(saved(tmp_path))
        est.update(5)
        words = est._table.words
        table = type(est._table)
        del est
        assert not [one for one in gc.get_objects() if type(one) is table and one.words is words]
    finally:
        gc.enable()


def test_a_bound_estimator_that_is_handed_over_stays_bound(tmp_path: Path) -> None:
    path = saved(tmp_path)
    est = pp.load(path)
    with est.hand_over():
        child = os.fork()
        if not child:
            try:
                est.release()
            finally:
                os._exit(0)
    os.waitpid(child, 0)
    with refused("emptied"):
        est.release()
    assert pp.load(path).releases_left == 0


@pytest.mark.parametrize("source", [5, None, ["flu.pp"]])
def test_only_paths_and_bytes_are_loaded(source: Any) -> None:
    with refused("load-type"):
        pp.load(source)
